"""GPU architectures: the ones there is code for, and what PTX of each needs."""

from __future__ import annotations

import re

#: Every architecture, and the oldest PTX that knows it. A suffix makes code for it alone.
ARCHS = {
    "sm_75": (6, 3),
    "sm_80": (7, 0),
    "sm_86": (7, 1),
    "sm_87": (7, 4),
    "sm_88": (9, 0),
    "sm_89": (7, 8),
    "sm_90": (7, 8),
    "sm_90a": (8, 0),
    "sm_100": (8, 6),
    "sm_100a": (8, 6),
    "sm_103": (8, 8),
    "sm_103a": (8, 8),
    "sm_110": (9, 0),
    "sm_110a": (9, 0),
    "sm_120": (8, 7),
    "sm_120a": (8, 7),
    "sm_121": (8, 8),
    "sm_121a": (8, 8),
}

_PREFIX = "cuda:"


def is_cuda(target: str) -> bool:
    """Whether a target is one of CUDA, known or not."""
    return target == "cuda" or target.startswith(_PREFIX)


def arch_of(target: str, kind: str = "cuda") -> str:
    """The architecture of a target: "sm_80" for "cuda:sm_80".

    Args:
        kind: what stands before the colon; "ptx" where that is what is asked for.

    Raises:
        ValueError: there is none, or an unknown one; the text lists the known.
    """
    arch = target.removeprefix(f"{kind}:")
    if arch in ARCHS and target != arch:
        return arch
    known = ", ".join(ARCHS)
    raise ValueError(
        f"kdsl has no target {target!r}; for CUDA name an architecture as in "
        f'"{kind}:sm_80", one of {known}'
    )


def arch_for(capability: tuple[int, int]) -> str:
    """The newest architecture whose machine code a GPU of this compute capability runs; where there
    is none of its generation, the newest whose PTX it takes.

    Raises:
        ValueError: the GPU is older than all of them.
    """
    wanted = 10 * capability[0] + capability[1]
    plain = [int(a.removeprefix("sm_")) for a in ARCHS if a[-1].isdigit()]
    fitting = [n for n in plain if n <= wanted]
    if not fitting:
        raise ValueError(f"kdsl has no code for sm_{wanted}; the oldest it has is sm_{min(plain)}")
    return f"sm_{max(fitting)}"


def number(arch: str) -> int:
    """80 for "sm_80" and 90 for "sm_90a"."""
    return int(re.sub(r"\D", "", arch))
