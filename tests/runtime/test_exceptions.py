"""An exception keeps its identity through native code; a native error finds its class."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from tvm_ffi import libinfo

import kdsl.runtime
from kdsl.runtime import Module, _core
from kdsl.runtime.functions import register_error


class CustomError(Exception):
    """Cannot be made from one text."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class StopAll(BaseException):
    """Not an Exception."""


def raiser(error: BaseException, cause: BaseException | None = None) -> Callable[..., None]:
    def fail(*args: object) -> None:
        raise error from cause

    return fail


ERRORS: list[BaseException] = [
    ValueError("text"),
    KeyError("key"),
    CustomError(3, detail="all of it"),
    UnprintableError(),
    KeyboardInterrupt(),
    SystemExit(3),
    StopAll("stop"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "reason"),
    ValueError("lone \ud800 surrogate"),
    ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("way", ["apply", "elsewhere"])
def test_the_same_exception_comes_back(functions: Module, way: str, error: BaseException) -> None:
    error.__notes__ = ["a note"]  # type: ignore[attr-defined]
    cause = OSError(2, "the cause")
    with pytest.raises(type(error)) as caught:
        functions[way](raiser(error, cause))
    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__notes__ == ["a note"]  # type: ignore[attr-defined]
    assert _core.get_global("nothing") is None  # nothing is pending


def test_the_traceback_leads_to_the_line_that_raised(functions: Module) -> None:
    def inner() -> None:
        raise ValueError("deep")

    def outer() -> None:
        functions.apply(inner)

    with pytest.raises(ValueError, match="deep") as caught:
        functions.apply(outer)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == [
        "test_the_traceback_leads_to_the_line_that_raised",
        "outer",
        "inner",
    ]


def test_the_context_is_that_of_the_raise(functions: Module) -> None:
    def fail() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904

    contexts: list[bool] = []
    try:
        raise OSError("unrelated")
    except OSError as unrelated:
        with pytest.raises(ValueError, match="second") as caught:
            functions.apply(fail)
        assert isinstance(caught.value.__context__, KeyError)
        contexts.append(caught.value.__context__.__context__ is unrelated)
    assert contexts == [True]


def test_native_code_may_handle_or_replace_an_error(functions: Module) -> None:
    assert functions.caught(raiser(CustomError(1, detail=""))) == "CustomError"
    assert functions.caught(raiser(KeyboardInterrupt())) == "KeyboardInterrupt"
    with pytest.raises(IndexError, match="another error") as caught:
        functions.translated(raiser(ValueError("first")))
    assert caught.value.__cause__ is None
    assert functions.apply(lambda: "after") == "after"


def test_an_error_goes_through_many_levels(functions: Module) -> None:
    error = CustomError(7, detail="deep down")
    fail = raiser(error)
    for level in range(10):
        fail = (lambda f, way: lambda: functions[way](f))(fail, ("apply", "elsewhere")[level % 2])
    with pytest.raises(CustomError) as caught:
        fail()
    assert caught.value is error


@pytest.fixture
def registered() -> Iterator[None]:
    classes, kinds = dict(_core.error_classes), dict(_core.error_kinds)
    yield
    for table, before in ((_core.error_classes, classes), (_core.error_kinds, kinds)):
        table.clear()
        table.update(before)


@pytest.mark.usefixtures("registered")
def test_a_registered_kind_is_its_class(hand: Module, functions: Module) -> None:
    @register_error
    class QuotaError(RuntimeError):
        pass

    @register_error("Pipe.Broken")
    class BrokenError(OSError):
        pass

    assert register_error("Taken", QuotaError) is QuotaError
    for kind, cls in (("QuotaError", QuotaError), ("Pipe.Broken", BrokenError)):
        with pytest.raises(cls, match="why") as caught:
            hand.fail(kind, "why")
        assert type(caught.value) is cls
    assert functions.caught(raiser(BrokenError("x"))) == "Pipe.Broken"
    with pytest.raises(QuotaError):
        hand.fail("Taken", "")


@pytest.mark.usefixtures("registered")
def test_an_unknown_kind_is_a_runtime_error_that_names_it(hand: Module) -> None:
    register_error("Custom", CustomError)  # a text alone does not make one
    for kind in ("SomeError", "Custom", "print", "ExceptionGroup", "SystemExit"):
        with pytest.raises(RuntimeError, match=r"^why") as caught:
            hand.fail(kind, "why")
        assert caught.value.__notes__ == [f"its kind is `{kind}`"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((3,), "register_error: expected a kind, got 3"),
        (("Kind", 3), "register_error: expected an exception class for `Kind`, got 3"),
        ((int,), "register_error: expected an exception class for `int`, got <class 'int'>"),
    ],
)
def test_only_exceptions_are_registered(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        register_error(*args)
    assert str(caught.value) == text


def test_an_error_of_a_foreign_module_says_where_it_was_raised(build: Callable[..., Path]) -> None:
    library = Path(libinfo.find_libtvm_ffi()).parent
    include = f"-I{libinfo.find_include_path()}"
    dlpack = f"-I{libinfo.find_dlpack_include_path()}"
    path = build("throwing.cc", "-std=c++17", include, dlpack, f"-L{library}", "-ltvm_ffi")
    throws = kdsl.runtime.load_module(path).throws
    with pytest.raises(IndexError, match="number 3") as caught:
        throws(3)
    (note,) = caught.value.__notes__
    assert note.startswith("raised at ")
    assert "throwing.cc:7 in " in note
    with pytest.raises(TypeError, match="Mismatched type on argument #0"):
        throws("three")


def test_errors_cross_to_apache_tvm_ffi_and_back(functions: Module) -> None:
    theirs = tvm_ffi.load_module(functions.path)
    error = CustomError(1, detail="through both")
    with pytest.raises(CustomError) as caught:
        functions.apply(lambda: functions.apply(raiser(error)))
    assert caught.value is error
    with pytest.raises(ValueError, match="theirs"):
        functions.apply(lambda: theirs.apply(raiser(ValueError("theirs"))))
    with pytest.raises(ValueError, match="ours"):
        theirs.apply(lambda: functions.apply(raiser(ValueError("ours"))))
    assert functions.apply(lambda: 1) == theirs.apply(lambda: 1) == 1
