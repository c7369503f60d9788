"""The one door to jinja2: templates print a frozen context and decide nothing."""

from __future__ import annotations

import functools
import json

import jinja2

from kdsl import paths


def render(template: str, **context: object) -> str:
    """The text of `templates/<template>`. A name that the context lacks is an error."""
    return _environment().get_template(template).render(**context)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.template_dir()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["c_string"] = c_string
    environment.filters["c_raw"] = c_raw
    environment.filters["wrap"] = wrap
    return environment


def c_string(text: str, indent: int = 4, width: int = 100) -> str:
    """A C++ string literal; a long one in pieces, one a line, split behind spaces."""
    pieces, line = [], ""
    for word in _words(text):
        if line and len(_quoted(line + word)) + indent > width:
            pieces.append(line)
            line = ""
        line += word
        if line.endswith("\n"):
            pieces.append(line)
            line = ""
    if line or not pieces:
        pieces.append(line)
    return f"\n{' ' * indent}".join(map(_quoted, pieces))


def _words(text: str) -> list[str]:
    """`text` in parts that end with a space or a line end."""
    words = [""]
    for char in text:
        words[-1] += char
        if char in " \n":
            words.append("")
    return [w for w in words if w]


def _quoted(text: str) -> str:
    # JSON's escapes are C++'s, but for characters beyond ASCII, which are written as themselves.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f").replace("??", '?""?')


def c_raw(text: str, tag: str = "") -> str:
    """A raw C++ string literal, whose lines stand in the file as they are."""
    while f"){tag}\"" in text:
        tag += "x"
    return f'R"{tag}({text}){tag}"'


def wrap(items: list[str] | tuple[str, ...], first: int, indent: int, width: int = 100) -> str:
    """Items separated by commas, in lines of at most `width`.

    Args:
        first: columns already taken on the first line.
        indent: columns before the others.
    """
    lines, used = [""], first
    for i, item in enumerate(items):
        piece = item + ("," if i + 1 < len(items) else "")
        if lines[-1] and used + 1 + len(piece) > width - 2:
            lines.append("")
            used = indent
        lines[-1] += (" " if lines[-1] else "") + piece
        used += 1 + len(piece)
    return f"\n{' ' * indent}".join(lines)
