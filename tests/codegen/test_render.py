"""Filters of templates, and their strictness."""

from __future__ import annotations

import ast

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdsl.codegen.render import c_raw, c_string, render, wrap


def test_a_name_that_the_context_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'m' is undefined"):
        render("host/module.h.j2")


def test_a_short_string_is_one_literal():
    assert c_string('say "hi"\n') == r'"say \"hi\"\n"'


def test_a_long_string_is_split_behind_spaces_outside_brackets():
    text = "f(" + ", ".join(f"x{i}: f32[B, H, M, D{i}]" for i in range(8)) + ")"
    pieces = c_string(text).split("\n    ")
    assert len(pieces) == 2
    assert all(p.startswith('"') and p.endswith('"') for p in pieces)
    assert all(p.endswith(' "') and p.count("[") == p.count("]") for p in pieces[:-1])
    assert all(len(p) + 4 <= 100 for p in pieces)


@given(st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=300))
def test_the_pieces_of_a_string_are_the_string(text):
    # Python reads such literals as C++ does, the broken trigraph aside.
    assert ast.literal_eval(f"({c_string(text)})") == text


@pytest.mark.parametrize("text", ["", 'plain "text"', ')"', ')json")json"', ')x")xx"'])
def test_a_raw_string_ends_where_the_text_does(text):
    literal = c_raw(text, "json")
    tag = literal[2 : literal.index("(")]
    assert literal == f'R"{tag}({text}){tag}"'
    assert f'){tag}"' not in text


def test_items_are_wrapped_where_a_line_is_full():
    items = [f"item_{i:02}" for i in range(20)]
    text = wrap(items, first=10, indent=4)
    lines = (" " * 10 + text).split("\n")
    assert [len(line) <= 100 for line in lines] == [True, True]
    assert text.replace("\n   ", "").split(", ") == items
    assert wrap([], 10, 4) == ""
