"""Every example runs, and says what its file promises."""

from __future__ import annotations

import ast
import runpy
import sys

import pytest
import tvm_ffi

from kdsl import bf16, f32
from tests.house import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_its_own_check_holds(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.startswith(f"{example.stem}: ")


def test_the_list_of_examples_has_each_with_its_own_first_line():
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        doc = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
        assert f"| [`{example.name}`]({example.name}) | {doc.splitlines()[0]} |\n" in listed


def test_the_attention_of_readme_is_the_example():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "attention" / "attention.py").read_text(encoding="utf-8")
    body = example[example.index("    kdsl.require") :]
    assert body in readme


@pytest.fixture(scope="module")
def demo():
    """demo.py with a problem of a size for tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "attention"))
        module = __import__("demo")
        patch.setattr(module, "LENGTH", 40)
        patch.setattr(module, "ROUNDS", 1)
        yield module
        for name in ("demo", "attention"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def library(demo, tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "attention.so"
    demo.attention.export(path, dtypes={"T": [f32, bf16]}, statics={"causal": [True]})
    return tvm_ffi.load_module(str(path))


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 2e-6), ("bf16", 2**-7)])
def test_the_demo_gets_the_same_answer_from_every_caller(demo, library, dtype, bound):
    case = demo.make_case("grouped", dtype, causal=True, groups=2)
    rows = demo.measure(case, library)
    assert [row[0] for row in rows] == ["numpy", "torch", "jax", "apache-tvm-ffi", "torch SDPA"]
    assert {row[3] <= bound for row in rows} == {True}


def test_the_table_of_the_demo_lines_up(demo, capsys):
    times = {"numpy": 0.015, "torch SDPA": 0.010}
    demo.print_table([(name, "f32", "full", 1e-7, time) for name, time in times.items()])
    assert capsys.readouterr().out.splitlines() == [
        "case                dtype  caller             error       ms   x SDPA",
        "---------------------------------------------------------------------",
        "full                f32    numpy            1.0e-07     15.0     1.50",
        "full                f32    torch SDPA       1.0e-07     10.0     1.00",
    ]
