"""Modules without a file of their own, and files that are more than a module."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdsl.runtime import load_module, system_lib

ROOT = Path(__file__).parent.parent.parent

LINKED = """
import sys
sys.path.insert(0, {root!r})
from kdsl.runtime import load_module, system_lib
module = load_module({path!r})
assert list(module) == []
linked = system_lib("kdsl_test_")
print(linked.add(2, 3), linked["add"](4, 5), repr(linked))
for get in (lambda: linked.sub, lambda: linked["sub"]):
    try:
        get()
    except (AttributeError, KeyError) as err:
        print(type(err).__name__, err.args[0])
"""


@pytest.mark.parametrize("runtime", ["tvm_ffi", "bundled"])
def test_symbols_of_linked_modules_are_found(build: Callable[..., Path], runtime: str) -> None:
    library = ROOT / "kdsl" / "runtime" / "compat"
    path = build("linked.c", "-std=c11", "-Wl,--no-as-needed", f"-L{library}", "-ltvm_ffi")
    done = subprocess.run(
        [sys.executable, "-c", LINKED.format(root=str(ROOT), path=str(path))],
        env={**os.environ, "KDSL_RUNTIME": runtime},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "5 9 <kdsl module of linked symbols 'kdsl_test_'>",
        "AttributeError no function `kdsl_test_sub` is linked in",
        "KeyError no function `kdsl_test_sub` is linked in",
    ], done.stderr


def test_a_prefix_is_a_text() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="system_lib: expected a prefix, got 3"):
        system_lib(wrong)


def test_embedded_modules_are_refused_by_name(tmp_path: Path) -> None:
    source = tmp_path / "m.c"
    source.write_text("const char __tvm_ffi__library_bin[8] = {0};")
    path = tmp_path / "m.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    with pytest.raises(OSError) as caught:
        load_module(path)
    assert str(caught.value) == (
        f"{path}: embeds other modules (__tvm_ffi__library_bin), which kdsl does not read; "
        "load it with apache-tvm-ffi"
    )
