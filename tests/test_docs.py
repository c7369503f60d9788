"""The Python blocks of README and docs run as they stand, in order."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.house import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    program = ""
    for block in BLOCK.finditer(text):
        # Blank lines keep the line numbers of the page.
        program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n"))
        program += block.group(1)
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="page")
