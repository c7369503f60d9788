"""Every example runs, and says what its file promises."""

from __future__ import annotations

import runpy
import sys

import pytest
from tests.house import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_its_own_check_holds(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.startswith(f"{example.stem}: ")


@pytest.fixture
def attention(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "attention"))
    yield sys.modules.get("attention") or __import__("attention")
    sys.modules.pop("attention", None)


def test_the_attention_of_readme_is_the_example(attention):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "attention" / "attention.py").read_text(encoding="utf-8")
    body = example[example.index("    kdsl.require") :]
    assert body in readme
