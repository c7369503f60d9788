"""What `tune` may set beside tile sizes: knobs of a CUDA schedule."""

from __future__ import annotations

from collections.abc import Mapping


def checked_knobs(kernel: str, knobs: Mapping[str, object]) -> dict[str, object]:
    """Knobs of a CUDA schedule as it takes them. Raises ValueError."""
    found: dict[str, object] = {}
    for name, value in knobs.items():
        if value is None:
            continue
        if name == "early":
            if not isinstance(value, bool):
                raise ValueError(f"{kernel}: early is True or False, got {value!r}")
            found[name] = value
            continue
        pair = value if name == "warps" and isinstance(value, tuple) else (value, 1)
        if not all(type(n) is int and n >= 1 for n in pair) or len(pair) != 2:
            raise ValueError(f"{kernel}: {name} must be an integer above 0, got {value!r}")
        found[name] = pair if name == "warps" else value
    return found
