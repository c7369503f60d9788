"""Authors may call things as they like: words of C++, of our headers, of generated code."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import kdsl
from kdsl.codegen import targets

WORDS = """
    args a call packed count result begin end task arena main double int new delete operator
    register this true asm size_t static_cast linux unix NULL EOF errno i64 W inf nan min max Vec
    All Some ld st dot Zero M N scratch fault shape data bytes real flush alone _x x_s0
    x_at M_len fma tiles
""".split()

TEXT = '''
def {name}({x}: f32[{M}, {N}], {by}: f32, out: Out[f32[{M}, {N}]]):
    """Doc "quoted" \\\\ back */ ??/ %s {{{{}}}} é."""
    for {i} in kdsl.parallel({M}):
        out[{i}] = {x}[{i}] * {by} + {N}
'''


def kernel(words: tuple[str, ...]) -> kdsl.Kernel:
    """A kernel whose name, parameters, dims and loop variable are these words."""
    roles = dict(zip(("x", "by", "M", "N", "i", "name"), words, strict=True))
    text = TEXT.format(**roles)
    names = {"f32": kdsl.f32, "Out": kdsl.Out, "kdsl": kdsl}
    names |= {roles[dim]: kdsl.dims(roles[dim])[0] for dim in "MN"}
    exec(text, names)
    return kdsl.kernel(source=text)(names[roles["name"]])


def test_any_word_names_anything(tmp_path, monkeypatch):
    turns = [WORDS[i * 9 :] + WORDS[: i * 9] for i in range(6)]
    kernels = [kernel(words) for words in list(zip(*turns, strict=True))[::4]]
    export = importlib.import_module("kdsl.export")
    monkeypatch.setattr(export, "variants_of", lambda: (targets.best_variant(),))
    kdsl.export(tmp_path / "words.so", kernels)
    module = kdsl.load_module(tmp_path / "words.so")
    assert len(module) == len(kernels)
    for function in (module[name] for name in module):
        np.testing.assert_array_equal(function(np.ones((2, 3), np.float32), 4.0), [[7] * 3] * 2)
        assert function.__doc__ == 'Doc "quoted" \\ back */ ??/ %s {{}} é.'


@pytest.mark.parametrize("word", ["i64", "W", "args", "Vec", "task"])
def test_the_words_of_generated_code_may_be_any_of_a_kernels_names(word):
    for role in range(6):
        words = ["x", "by", "M", "N", "i", "kernel"]
        words[role] = word
        kernel(tuple(words)).show("cpu")
