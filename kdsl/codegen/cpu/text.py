"""Lines of C++ as text: nothing unused, nothing too long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: Columns of generated code.
WIDTH = 100

_CONSTANT = re.compile(r"\s*(?:const|constexpr) [\w<>*, ]+?[ *](\w+) = .*;$")
_WORD = re.compile(r"\w+")


def mentions(text: str, name: str) -> bool:
    """Whether a text names a variable (a member of that name is another thing)."""
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is not None


def capture(params: str, body: Iterable[str]) -> str:
    """Head of a lambda; parameters that its body does not read have no name."""
    text = "\n".join(body)
    kept = []
    for param in params.split(", "):
        kind, _, name = param.rpartition(" ")
        kept.append(param if re.search(rf"\b{name}\b", text) else kind)
    return f"[&]({', '.join(kept)}) KDSL_INLINE {{"


def without_unused(lines: list[str]) -> list[str]:
    """The same without definitions of constants that no other line reads."""
    kept = list(lines)
    while True:
        count = Counter(word for line in kept for word in set(_WORD.findall(line)))
        found = [
            line
            for line in kept
            if (match := _CONSTANT.match(line)) is None or count[match.group(1)] > 1
        ]
        if len(found) == len(kept):
            return kept
        kept = found


def wrapped(line: str) -> list[str]:
    """A line in parts of at most 100 columns, the later ones indented."""
    indent = line[: len(line) - len(line.lstrip())]
    parts = []
    rest, margin = line.lstrip(), indent
    while len(margin) + len(rest) > WIDTH and not rest.startswith("//"):
        at = _break(rest, WIDTH - len(margin))
        if at is None:
            break
        parts.append(margin + rest[:at].rstrip())
        rest, margin = rest[at:].lstrip(), f"{indent}    "
    return [*parts, margin + rest]


def _break(text: str, width: int) -> int | None:
    """Where to break a line so that its first part fits: behind a comma, else an operator."""
    for separator in (", ", " = ", " + ", " * "):
        at = text.rfind(separator, 20, width - 1)
        if at > 0:
            return at + len(separator)
    return None
