"""Pages say what is true: their blocks run as they stand, in order, and print what they show.

A `python` block runs; a `text` block right after it is what it prints, `...` standing for anything.
A `c`, `cpp` or `rust` block is a file that its first line names. `sh` blocks of the tutorials run
too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import kdsl.sim
import pytest

from tests.house import ROOT
from tools import error_catalogue, language_reference

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `output` is the text block that follows it, if one does."""

    language: str
    text: str
    line: int
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    for block, after in zip_longest(found, found[1:]):
        joined = after is not None and not text[block.end() : after.start()].strip()
        output = after[2] if joined and after[1] == "text" else None
        yield Block(block[1], block[2], text.count("\n", 0, block.start(2)), output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A page may choose the simulated GPU; the tests after it have what they had.
    monkeypatch.setenv("KDSL_CUDA_DRIVER", os.environ.get("KDSL_CUDA_DRIVER", ""))
    if "kdsl.sim" in page.read_text(encoding="utf-8"):  # a reader's process starts with none
        kdsl.sim.runs()
        kdsl.sim.reports()
    script = tmp_path / f"{page.stem}.py"
    names = {"__name__": "page", "__file__": str(script)}
    program = ""
    for block in blocks(page):
        match block.language:
            case "python":
                # A kernel's text is read from the file; blank lines keep the page's line numbers.
                program += "\n" * (block.line - program.count("\n"))
                script.write_text(program + block.text, encoding="utf-8")
                code = compile("\n" * block.line + block.text, str(script), "exec")
                program += block.text
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(code, names)
                expect(block, printed.getvalue())
            case "c" | "cpp" | "rust":
                Path(block.text.split()[1].rstrip(":")).write_text(block.text, encoding="utf-8")
            case "sh" if "tutorial" in (page.stem, page.parent.name):
                if "cargo" not in block.text or shutil.which("cargo"):
                    expect(block, shell(block.text))


def shell(commands: str) -> str:
    """What commands print, `python` being the one that runs this."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["sh", "-e", "-c", commands],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def expect(block: Block, printed: str) -> None:
    if block.output is None:
        return
    pattern = re.escape(block.output.rstrip("\n")).replace(r"\.\.\.", ".*")
    if not re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL):
        # A plain comparison, so that pytest shows the difference line by line.
        assert printed.rstrip("\n") == block.output.rstrip("\n"), f"block at line {block.line}"


def test_the_tables_of_the_language_reference_are_up_to_date():
    text = language_reference.PAGE.read_text(encoding="utf-8")
    assert language_reference.render(text) == text, "run: python -m tools.language_reference"


def test_every_public_name_is_in_the_language_reference():
    import kdsl

    text = language_reference.PAGE.read_text(encoding="utf-8")
    missing = [n for n in kdsl.__all__ if not re.search(rf"\b{n}\b", text)]
    assert missing == []


def test_the_catalogue_of_errors_is_up_to_date():
    text = error_catalogue.PAGE.read_text(encoding="utf-8")
    assert error_catalogue.render() == text, "run: python -m tools.error_catalogue"


def test_every_error_says_what_to_do_in_its_text_or_in_the_catalogue():
    assert error_catalogue.without_remedy() == [], "say it in tools/error_notes.py"


def test_the_gallery_lists_each_example_with_one_line():
    examples = {
        str(file.relative_to(ROOT / "examples"))
        for file in (ROOT / "examples").rglob("*.py")
        if "__pycache__" not in file.parts
    }
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`([^`]+)`\]\(\.\./examples/\1\) \| .+ \|$", text, re.MULTILINE)
    assert sorted(listed) == sorted(examples)


def test_pages_name_files_that_exist():
    # What a page writes as code, with a folder of the repository and a suffix, is a path in it.
    folders = "kdsl|include|templates|tests|examples|benchmarks|docs|tools"
    path = re.compile(rf"`((?:{folders})/[\w./-]+\.\w+)`")
    missing = {
        f"{page.name}: {name}"
        for page in PAGES
        for name in path.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    }
    assert missing == set()
