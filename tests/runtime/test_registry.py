"""Functions by name belong to the process: Python, native code and apache-tvm-ffi share them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

from kdsl.runtime import Function, Module
from kdsl.runtime.functions import (
    get_global_func,
    list_global_func_names,
    register_global_func,
    remove_global_func,
)

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    for name in list_global_func_names():
        if name.startswith("test."):
            remove_global_func(name)


def test_a_function_is_found_by_its_name(functions: Module) -> None:
    def double(x: int) -> int:
        return 2 * x

    assert register_global_func("test.double", double) is double
    found = get_global_func("test.double")
    assert isinstance(found, Function)
    assert found(4) == found(x=4) == 8
    assert functions.by_name("test.double", 4) == 8
    assert "test.double" in list_global_func_names()
    assert found == get_global_func("test.double")


def test_it_is_a_decorator_too(functions: Module) -> None:
    @register_global_func("test.one")
    def one() -> int:
        return 1

    @register_global_func
    def test_named_by_itself() -> int:
        return 2

    assert one() == 1
    assert functions.by_name("test.one") == 1
    assert get_global_func("test_named_by_itself")() == 2
    remove_global_func("test_named_by_itself")


def test_a_packed_function_can_be_registered(functions: Module) -> None:
    register_global_func("test.apply", functions.apply)
    assert functions.by_name("test.apply", lambda x: x + 1, 3) == 4
    assert get_global_func("test.apply") == functions.apply
    add = functions.adder(5)
    register_global_func("test.add", add)
    before = functions.living()
    del add
    assert functions.by_name("test.add", 2) == 7
    assert functions.living() == before
    remove_global_func("test.add")
    assert functions.living() == before - 1


def test_a_name_is_taken_once_unless_overridden() -> None:
    register_global_func("test.taken", lambda: 1)
    with pytest.raises(RuntimeError) as caught:
        register_global_func("test.taken", lambda: 2)
    assert str(caught.value) == (
        "register_global_func: a function `test.taken` is registered already; "
        "pass override=True to replace it"
    )
    assert get_global_func("test.taken")() == 1
    register_global_func("test.taken", lambda: 2, override=True)
    assert get_global_func("test.taken")() == 2


def test_a_missing_name_is_an_error_or_none(functions: Module) -> None:
    assert get_global_func("test.none", allow_missing=True) is None
    for call in (get_global_func, remove_global_func):
        with pytest.raises(ValueError, match=r"no function `test\.none` is registered"):
            call("test.none")
    with pytest.raises(ValueError, match="no function of that name"):
        functions.by_name("test.none")


@pytest.mark.parametrize("name", [3, None, b"bytes", ["list"]])
def test_a_name_is_a_text(name: Any) -> None:
    for call in (lambda: register_global_func(name, print), lambda: get_global_func(name)):
        with pytest.raises(TypeError, match="expected a name, got "):
            call()


def test_a_registered_thing_is_callable() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="expected a callable, got 3"):
        register_global_func("test.wrong", wrong)


@pytest.mark.parametrize("name", ["test.", "test.ü", "test." + "long" * 500, "test.a b"])
def test_any_text_is_a_name(name: str) -> None:
    register_global_func(name, lambda: 1)
    assert name in list_global_func_names()
    assert get_global_func(name)() == 1


def test_a_removed_function_goes_on_for_who_has_it() -> None:
    register_global_func("test.short", lambda: 1)
    found = get_global_func("test.short")
    remove_global_func("test.short")
    assert found() == 1
    assert "test.short" not in list_global_func_names()


def test_apache_tvm_ffi_has_the_same_functions() -> None:
    register_global_func("test.ours", lambda x: x + 1)
    theirs = tvm_ffi.get_global_func("test.ours")
    assert theirs(1) == 2
    tvm_ffi.register_global_func("test.theirs", lambda x: x + 2)
    try:
        assert get_global_func("test.theirs")(1) == 3
        assert {"test.ours", "test.theirs"} <= set(list_global_func_names())
    finally:
        tvm_ffi.registry.remove_global_func("test.theirs")


LATE = """
import os, sys
sys.path.insert(0, {root!r})
from kdsl.runtime import _core
from kdsl.runtime.functions import *
os.environ["KDSL_RUNTIME"] = "bundled"
register_global_func("late.one", lambda: 1)
names = list_global_func_names()
print(names, _core.provider())
del os.environ["KDSL_RUNTIME"]
import tvm_ffi
register_global_func("late.two", lambda: 2)
print(tvm_ffi.get_global_func("late.one")(), tvm_ffi.get_global_func("late.two")())
print(_core.provider(), sorted(set(list_global_func_names()) & {{"late.one", "late.two"}}))
remove_global_func("late.one")
print(tvm_ffi.get_global_func("late.one", allow_missing=True))
"""


def test_functions_move_to_a_library_that_comes_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE.format(root=str(ROOT))],
        env={k: v for k, v in os.environ.items() if k != "KDSL_RUNTIME"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "['late.one'] bundled",
        "1 2",
        "tvm_ffi ['late.one', 'late.two']",
        "None",
    ], done.stderr
