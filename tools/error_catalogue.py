"""Write docs/errors.md: the texts of errors, from the tests and from wrong calls made here.

    python -m tools.error_catalogue

Errors in a kernel's text come from tests/frontend/refused/*.txt, where tests hold each whole text.
Errors of calls come from `tools/wrong_calls.py`: each is made, and what it raises is the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.error_notes import NOTES
from tools.wrong_calls import GROUPS, KERNELS, made

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
REFUSED = ROOT / "tests" / "frontend" / "refused"

INTRODUCTION = """\
# Errors

Every kind of error that kdsl's own checks raise, with its whole text. Most texts end with a remedy;
where one does not, the line below it says what to do. The page is written by
`python -m tools.error_catalogue` from the texts that tests hold and from wrong calls; a test says
when it is out of date.

- `KernelSyntaxError` and `KernelTypeError` are about a kernel's text. They show the place, and the
  fact at the caret.
- `TypeError`, `ValueError` and `IndexError` are about a call: count, kind, dtype and number of axes
  are a `TypeError`; sizes, strides, overlap, ranges and conditions a `ValueError`; an index that a
  kernel computes an `IndexError`.
- `BuildError` is about the C++ compiler: none on this machine, or one that fails. It names what was
  tried, or the first error and the path of the whole log.
- `InternalError` is a mistake of kdsl. Please report it with the text of the kernel.
"""

#: What files of refused kernels are about, in the order of the page; others follow.
SECTIONS = {"signatures": "Signatures", "statements": "Statements", "values": "Values"}


@dataclass(frozen=True)
class Entry:
    """One error in a kernel's text; `section` is the file of tests that has it."""

    section: str
    text: str

    @property
    def title(self) -> str:
        """The first line, without the class."""
        return self.text.splitlines()[0].partition(": ")[2]

    @property
    def kind(self) -> str:
        """The title without what is the user's: entries of one kind are one entry."""
        return kind_of(self.title)

    @property
    def help(self) -> str:
        return self.text.partition("\nhelp: ")[2]


def kind_of(text: str) -> str:
    """A message or a remedy without what is the user's own."""
    return re.sub(r"`[^`]*`|\d+", "_", text)


def main() -> None:
    PAGE.write_text(render(), encoding="utf-8")


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    section = ""
    for entry in sorted_entries():
        if entry.section != section:
            section = entry.section
            parts.append(f"## {SECTIONS.get(section, section.capitalize())}\n")
        parts.append(f"### {entry.title}\n{fenced('text', entry.text)}")
        if note := NOTES.get(entry.kind):
            parts.append(f"{note}\n")
    parts.append(f"## Calls\nThe calls below are of these kernels:\n\n{fenced('py', KERNELS)}")
    for title, calls in GROUPS.items():
        parts.append(f"### {title}\n{calls.about}\n")
        for call in calls.calls:
            parts.append(f"{fenced('py', call)}{fenced('text', made(call))}")
    return "\n".join(parts)


def without_remedy() -> list[str]:
    """Kinds of errors in a kernel's text that say nothing to do, here or there."""
    return [e.title for e in entries() if not e.help and e.kind not in NOTES]


def sorted_entries() -> list[Entry]:
    order = [*SECTIONS, *(e.section for e in entries())]
    return sorted(entries(), key=lambda e: (order.index(e.section), e.kind.strip("_ '").lower()))


def entries() -> Iterator[Entry]:
    """The errors in a kernel's text, the first of each message and remedy."""
    seen: set[tuple[str, str]] = set()
    for file in sorted(REFUSED.glob("*.txt")):
        for case in file.read_text(encoding="utf-8").split("\n======\n"):
            entry = Entry(file.stem, case.partition("\n---\n")[2].rstrip("\n"))
            if not entry.text:
                continue  # a case whose message is not accepted yet; its own test says so
            key = entry.kind, kind_of(entry.help)
            if key not in seen:
                seen.add(key)
                yield entry


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    main()
