"""The errors kdsl raises, and where in the user's text they point.

A user's mistake in a kernel is a `KernelSyntaxError` or `KernelTypeError`; a mistake at a call is
a plain `TypeError`, `ValueError` or `IndexError`; a compiler that fails is a `BuildError`; our own
mistake is an `InternalError` that says what to report.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one source line: `column` and `end` count characters from 0.

    `text` is that whole line, kept so that a message never has to read a file again.
    """

    file: str
    line: int
    column: int
    end: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


NOWHERE = Span("<unknown>", 0, 0, 0)


class KernelError(Exception):
    """Base of the errors in a kernel's text: a message, a place in the source, a remedy.

    Args:
        message: what is wrong, one sentence.
        span: where; `NOWHERE` when there is no source.
        label: the fact at the caret ("bf16[64, D], but `q` is f16[64, D]").
        help: what to do about it.
    """

    def __init__(
        self, message: str, span: Span = NOWHERE, *, label: str = "", help: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.span, self.label, self.help = message, span, label, help

    def __str__(self) -> str:
        return "\n".join([self.message, *_excerpt(self.span, self.label), *_help(self.help)])


class KernelSyntaxError(KernelError):
    """The kernel uses Python that the language does not have."""


class KernelTypeError(KernelError, TypeError):
    """The kernel combines values whose dtypes or shapes do not fit."""


class BuildError(RuntimeError):
    """The C++ compiler failed; the message has its first error and the path of the full log."""


class InternalError(RuntimeError):
    """A mistake of kdsl itself; the text says what to report."""

    def __init__(self, message: str, detail: str = "") -> None:
        text = f"{message}\nThis is a bug in kdsl; please report it with the text of the kernel."
        super().__init__(f"{text}\n{detail}" if detail else text)


def _excerpt(span: Span, label: str) -> list[str]:
    if span.line <= 0:
        return [label] if label else []
    gutter = " " * len(str(span.line))
    caret = " " * span.column + "^" * max(span.end - span.column, 1)
    lines = [f"{gutter}--> {span}", f"{gutter} |"]
    if span.text:
        lines.append(f"{span.line} | {span.text}")
        lines.append(f"{gutter} | {caret} {label}".rstrip())
    elif label:
        lines.append(f"{gutter} | {label}")
    return lines


def _help(text: str) -> list[str]:
    return [f"help: {text}"] if text else []
