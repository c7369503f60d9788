"""The one door to jinja2: templates print a frozen context and decide nothing."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable

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
    environment.filters["comment"] = comment
    environment.filters["braced"] = braced
    environment.filters["prefix"] = lambda text, start: f"{start}{text}"
    environment.filters["suffixed"] = lambda text, end: f"{text}{end}"
    environment.filters["size_var"] = lambda size: f'{size.var}("{size.text}")'
    return environment


def c_string(text: str, indent: int = 4, width: int = 100) -> str:
    """A C++ string literal; a long one in pieces, one a line, split behind spaces."""
    pieces, line = [], ""
    for word in _words(text):
        if line and len(_quoted(line + word)) + indent > width - 2:
            pieces.append(line)
            line = ""
        line += word
    pieces.append(line)
    return f"\n{' ' * indent}".join(map(_quoted, pieces))


def _words(text: str) -> list[str]:
    """`text` in parts that end with a space; what is in brackets stays together."""
    words, depth = [""], 0
    for char in text:
        words[-1] += char
        depth += (char == "[") - (char == "]")
        if char == " " and depth == 0:
            words.append("")
    return words


def _quoted(text: str) -> str:
    # JSON's escapes are C++'s, but for characters beyond ASCII, which are written as themselves.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f").replace("??", '?""?')


def c_raw(text: str, tag: str = "") -> str:
    """A raw C++ string literal, whose lines stand in the file as they are."""
    while f'){tag}"' in text:
        tag += "x"
    return f'R"{tag}({text}){tag}"'


def comment(text: str) -> str:
    """A line of a `//` comment: one that ends in a backslash would take in the next line."""
    text = text.replace("??/", "? ?/").rstrip()
    return f"{text} ." if text.endswith("\\") else text


def wrap(items: Iterable[str], first: int, indent: int, last: int = 2) -> str:
    """Items separated by commas, in lines of at most 100 columns.

    Args:
        first: columns taken before the first item.
        indent: columns before the other lines.
        last: columns that follow the last item.
    """
    words = list(items)
    words[:-1] = [f"{word}," for word in words[:-1]]
    text, column = "", first
    for i, word in enumerate(words):
        room = 100 - (last if i + 1 == len(words) else 0)
        if i and column + 1 + len(word) > room:
            text, column = f"{text}\n{' ' * indent}", indent
        elif i:
            text, column = f"{text} ", column + 1
        text, column = text + word, column + len(word)
    return text


def braced(items: Iterable[str], start: str) -> str:
    """`start{items}` on one line, or the items on lines of their own."""
    words = list(items)
    line = f"{start}{{{', '.join(words)}}}"
    return line if len(line) < 100 else f"{start}{{\n    {wrap(words, 4, 4)}}}"
