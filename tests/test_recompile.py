"""What makes a kernel compile again, and what does not."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kdsl
from kdsl import driver

TEXT = """
import kdsl
from kdsl import Out, f32

(N,) = kdsl.dims("N")
SCALE = 2.0

def shifted(x):
    return x + 1.0

helper = kdsl.inline(shifted)

def make(offset):
    @kdsl.kernel
    def scaled(x: f32[N], o: Out[f32[N]]):
        '''Some text.'''
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = helper(x[n]) * SCALE + offset
    return scaled

scaled = make(0.5)
"""

X = np.arange(5, dtype=np.float32)

Load = Callable[[str], kdsl.Kernel]
numbers = itertools.count()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load(text)`: the kernel `scaled` of a module with this text, as a new process has it."""
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))

    def make(text: str, attribute: str = "scaled") -> kdsl.Kernel:
        # Another path each time, or Python would remember the lines of the older text.
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        (folder / "module.py").write_text(textwrap.dedent(text), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("module", folder / "module.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, attribute)

    return make


class Compiled(Exception):
    """Raised in place of a compilation."""


@pytest.fixture
def compiles(load: Load, monkeypatch: pytest.MonkeyPatch) -> Callable[[kdsl.Kernel], bool]:
    """Whether a call of a kernel compiles, now that TEXT has been compiled once."""
    np.testing.assert_array_equal(load(TEXT)(X), (X + 1) * 2 + 0.5)

    def build(*args: object) -> None:
        raise Compiled

    monkeypatch.setattr(driver, "build", build)

    def look(kernel: kdsl.Kernel) -> bool:
        try:
            np.testing.assert_array_equal(kernel(X), (X + 1) * 2 + 0.5)
        except Compiled:
            return True
        return False

    return look


CHANGED = {
    "a global": ("SCALE = 2.0", "SCALE = 3.0"),
    "a type of a global": ("SCALE = 2.0", "SCALE = 2"),
    "a closure's value": ("make(0.5)", "make(0.25)"),
    "a helper": ("x + 1.0", "x + 2.0"),
    "the body": ("* SCALE", "/ SCALE"),
    "a literal in the body": ("helper(x[n])", "helper(x[n + 0])"),
    "the signature": ("o: Out", "out: Out"),
    "the name": ("scaled", "scale"),
    "the option strict": ("@kdsl.kernel", "@kdsl.kernel(strict=True)"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_kernel_compiles_again_after_a_change_of(what, load, compiles):
    old, new = CHANGED[what]
    text = TEXT.replace(old, new)
    assert text != TEXT
    text = text.replace("o[n]", "out[n]") if what == "the signature" else text
    assert compiles(load(text, "scale" if what == "the name" else "scaled"))


def test_a_kernel_compiles_again_after_a_change_around_it(load, compiles, monkeypatch):
    tuned = load(TEXT)
    tuned.tune("cpu", tiles={"n": 16})
    assert compiles(tuned)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", "g++ -DX=1")
        assert compiles(load(TEXT))
    with monkeypatch.context() as patch:
        patch.setattr(driver.stamp, "own_files", lambda: "another kdsl")
        assert compiles(load(TEXT))
    with monkeypatch.context() as patch:
        patch.setenv("KDSL_VARIANT", driver.targets.variants_of()[-1].name)
        assert compiles(load(TEXT)) == (driver.targets.variants_of()[-1].name != "neon")
    assert not compiles(load(TEXT))


LAYOUT = """(
                helper(
                    x[n]
                ) * SCALE)"""

SAME = {
    "comments": TEXT.replace("+ offset", "+ offset  # why").replace("def make", "# what\ndef make"),
    "blank lines": TEXT.replace("        for n", "\n\n        for n"),
    "a place further down": "\n\nOTHER = 1\n" + TEXT,
    "another layout": TEXT.replace("helper(x[n]) * SCALE", LAYOUT),
    "another quoting": TEXT.replace("'''Some text.'''", '"Some text."'),
    "a comment in a helper": TEXT.replace("return x", "# one more\n    return x"),
    "a function beside it": TEXT + "\n\ndef unused(x):\n    return x\n",
}


@pytest.mark.parametrize("what", SAME)
def test_a_kernel_does_not_compile_again_for(what, load, compiles):
    assert SAME[what] != TEXT
    assert not compiles(load(SAME[what]))


GATHER = """
import kdsl
from kdsl import Out, f32, i64

M, N = kdsl.dims("M N")

@kdsl.kernel
def scaled(x: f32[M], i: i64[N], o: Out[f32[N]]):
    for n in kdsl.parallel(N):
        o[n] = x[i[n]]
"""


def test_an_index_error_names_the_line_as_it_is_after_the_file_was_edited(load):
    index = np.array([0, 7])
    assert line_of(load(GATHER), index) == 10
    assert line_of(load("\n\n" + GATHER), index) == 12
    assert line_of(load(GATHER), index) == 10


def line_of(kernel: kdsl.Kernel, index: np.ndarray) -> int:
    with pytest.raises(IndexError, match=r"module\.py:\d+") as caught:
        kernel(X, index)
    return int(str(caught.value).split("module.py:")[1].split(":")[0].split(")")[0].split(",")[0])
