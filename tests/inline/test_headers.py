"""The headers for hand-written kernels: the same source does the same with them and the official.

Results and whole texts of errors are compared, through the official runtime and through kdsl's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import paths
from tests.inline.conftest import Compile

torch = pytest.importorskip("torch")
tvm_ffi = pytest.importorskip("tvm_ffi")

X = torch.arange(6, dtype=torch.float32)
Y = torch.zeros(6)
M = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def boom(*arguments: object) -> None:
    raise ValueError(f"boom {arguments}")


def raise_inner() -> None:
    raise KeyError("inner")


VALUES: dict[str, list[tuple[object, ...]]] = {
    "add_ints": [(1, 2), (True, 2), (1.5, 2), ("a", 2), (1,), (1, 2, 3), (1, None)],
    "small_int": [(5,), (-128,)],
    "natural": [(5,), (2**63 - 1,), (2**70,)],
    "half": [(3,), (3.5,), (True,), ("x",), (None,)],
    "single": [(0.1,)],
    "negate": [(True,), (0,), (1.0,)],
    "nothing": [(), (1,)],
    "pointer": [(None,), (3,)],
    "greet": [("bob", True), ("a much longer name", False), (b"bytes", True), (3, True)],
    "joined": [("a", "b"), ("aaaaaaaaaa", "bbbbbbbbbbbbb")],
    "standard": [("ab",), ("abcdefghijk",), (b"x",), (1,)],
    "text_facts": [("kernel",), ("module",), ("",), ("reader",)],
    "bytes": [(b"ab",), (b"a" * 20,), ("s",)],
    "literal": [()],
    "maybe": [(None,), (2.5,), (2,), ("x",)],
    "or_seven": [(None,), (3,), ("s",)],
    "is_given": [(None,), ("s",), (1,)],
    "total": [([1, 2, 3],), ([],), ([1, "a"],), (3,), ((1, True),)],
    "reversed": [(["a", "bb", "ccccccccccc"],), ([1],)],
    "changed": [([1, 2, 3],)],
    "item": [([4, 5], 1), ([4, 5], 2), ([4, 5], -1), ([], 0), ({"a": 1}, 0)],
    "ends": [([4, 5],), ([],)],
    "popped": [([4, 5],), ([],)],
    "deep": [([[[1]]],), ([[["x"]]],), ([[1]],), ([[]],), ([],), ([[[None]]],)],
    "from_vector": [(5,), (0,)],
    "nested": [([[1.5], [2, 3]],), ([[1.5], ["x"]],), ([1],)],
    "swapped": [(("a", 1),), ((1, "a"),), (("a",),), (["abcdefgh", True],), ("x",)],
    "either": [(3,), ("s",), (1.5,), (True,)],
    "same": [(1,), (None,), ("abc",), ([1, 2],), (X,), (1.5,)],
    "second": [(1, "x"), (1, 2)],
    "kind_of": [(None,), (3,), ("abc",), (1.5,), (True,), (X,), ([1],), (boom,)],
    "to_int": [(3,), ("s",), (True,), (None,)],
    "dtype": [("float32",), ("int8x4",), ("bool",), ("nonsense",), (torch.float16,), (3,)],
    "dtype_text": [
        (name,)
        for name in "float32 int8x4 bool bfloat16 float8_e4m3fn float8_e5m2 uint8 float16 int64 "
        "handle float4_e2m1fn float4_e2m1fnx2".split()
    ],
    "device": [("cpu",), ("cuda:1",), ("cuda:1x",), ("nowhere",), (3,), ("mps:0",)],
    "shape": [((1, 2, 3),), ([4],), (["a"],), (3,)],
    "product": [((2, 3),)],
}
TENSORS: dict[str, list[tuple[object, ...]]] = {
    "scale_into": [
        (X, 2.0, Y),
        (X, 2, Y[:3]),
        (X.double(), 1, Y),
        (M, 1.0, Y),
        (X, 1.0, M),
        (X, "s", Y),
        (None, 1.0, Y),
    ],
    "doubled": [(X,), (1,)],
    "both": [(X,)],
    "ones": [((2, 3),), ((),)],
    "transposed": [(M,), (X,)],
    "shape_of": [(M,)],
    "dtype_of": [(M,), (X.bfloat16(),)],
    "device_of": [(M,)],
    "contiguous": [(M,), (M.T,)],
    "size_of": [(M, 0), (M, -1), (M, 2), (M, -3)],
    "rank": [(M,), (3,)],
    "count": [([X, M],), ([],), ([X, 1],)],
    "is_defined": [(None,), (X,), (1,)],
    "stream_of": [(X,)],
    "exchange": [("a long enough string",), (X,), (3,)],
    "fail": [("ValueError",), ("MyError",), ("KeyError",)],
    "fail_standard": [()],
    "fail_check": [(3,), (4,)],
    "fail_less": [(3, 2), (1, 2)],
    "fail_text": [(True, 0.1), (False, 1e20)],
    "caught": [(boom,), (lambda *a: None,), (lambda a: a,)],
    "adder": [(3,)],
    "packed_count": [()],
    "apply": [(lambda v: v * 2, 7), (lambda v: "s", 7), (boom, 1), (3, 1)],
    "apply_typed": [(lambda a, b: a + len(b),), (lambda a, b: b,)],
    "call_global": [("nowhere.x", 3)],
}
CALLS = [("values", name) for name in VALUES] + [("tensors", name) for name in TENSORS]


def facts(value: object) -> object:
    """A value, comparable."""
    if isinstance(value, (torch.Tensor, tvm_ffi.Tensor)):
        return ("tensor", str(value.dtype), torch.from_dlpack(value).tolist())
    if isinstance(value, (tvm_ffi.Array, list, tuple)) and not isinstance(value, tvm_ffi.Shape):
        return [facts(item) for item in value]
    if callable(value):
        return "a function"
    return ("str" if isinstance(value, str) else type(value).__name__, str(value))


def outcome(function: Callable[..., Any], arguments: tuple[object, ...]) -> object:
    try:
        return facts(function(*arguments))
    except Exception as error:
        return (type(error).__name__, str(error))


@pytest.mark.parametrize(("source", "name"), CALLS)
def test_a_function_does_the_same_with_both_headers(source, name, compiled: Compile):
    ours = tvm_ffi.load_module(str(compiled(source, "ours")))[name]
    theirs = tvm_ffi.load_module(str(compiled(source, "theirs")))[name]
    for arguments in (VALUES if source == "values" else TENSORS)[name]:
        assert outcome(ours, arguments) == outcome(theirs, arguments), arguments


def test_static_blocks_register_global_functions(compiled: Compile):
    for headers in ("ours", "theirs"):
        module = tvm_ffi.load_module(str(compiled("tensors", headers)))
        assert tvm_ffi.get_global_func(f"{headers}.triple")(5) == 15
        assert tvm_ffi.get_global_func(f"{headers}.count")(1, 2, 3) == 3
        assert module.call_global(f"{headers}.triple", 4) == 12
        with pytest.raises(TypeError, match=rf"calling: `{headers}.triple\(0: int\) -> int`"):
            tvm_ffi.get_global_func(f"{headers}.triple")("x")


def test_functions_made_in_a_module_can_be_called(compiled: Compile):
    module = tvm_ffi.load_module(str(compiled("tensors", "ours")))
    add_four = module.adder(4)
    assert add_four(5) == 9
    with pytest.raises(TypeError, match=r"`\(0: int\) -> int`. Expected `int` but got `ffi.Small"):
        add_four("x")
    assert module.packed_count()(1, "a", None) == 3


def test_what_the_official_headers_get_wrong_is_an_error(compiled: Compile):
    # There, 200 arrives as -56, and a Tensor that is None is read through a null pointer.
    values = tvm_ffi.load_module(str(compiled("values", "ours")))
    with pytest.raises(ValueError, match=r"^Expected an integer of 8 bits but got 200"):
        values.small_int(200)
    tensors = tvm_ffi.load_module(str(compiled("tensors", "ours")))
    with pytest.raises(ValueError, match=r"^the Tensor is undefined: it stands for None and has"):
        tensors.doubled(None)
    # There, these end the process or call through a null pointer.
    with pytest.raises(RuntimeError, match=r"^an exception that is no std::exception"):
        tensors.fail_with_number()
    with pytest.raises(ValueError, match=r"^the Function is undefined"):
        tensors.apply(None, 1)
    # An error on the way to an error: the inner one is told.
    with pytest.raises(KeyError, match="inner"):
        tensors.fail_within(raise_inner)
    with pytest.raises(ValueError, match=r"^it gave 7"):
        tensors.fail_within(lambda: 7)
    # No negative number comes of a large one. There it is a RuntimeError.
    with pytest.raises(
        ValueError, match=r"^Integer value 18446744073709551615 is too large to fit"
    ):
        values.natural(-1)


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("scale_into", (np.ones(3, np.float32), 2.0, np.zeros(3, np.float32)), None),
        ("size_of", (np.ones((2, 3), np.float32), -1), 3),
        ("is_defined", (None,), False),
    ],
)
def test_kdsl_calls_such_a_module(name, arguments, want, compiled: Compile):
    module = kdsl.load_module(compiled("tensors", "ours"))
    assert module[name](*arguments) == want
    if name == "scale_into":
        assert arguments[2].tolist() == [2, 2, 2]


def test_kdsl_raises_what_such_a_module_throws(compiled: Compile):
    module = kdsl.load_module(compiled("tensors", "ours"))
    with pytest.raises(ValueError, match=r"^expected size 3, got 2\nraised at .*tensors.cc:17 in "):
        module.scale_into(np.ones(3, np.float32), 1.0, np.zeros(2, np.float32))
    with pytest.raises(TypeError, match="Mismatched type on argument #1 when calling: `scale_into"):
        module.scale_into(np.ones(3, np.float32), "s", np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="on purpose"):
        module.fail("ValueError")


def test_such_a_module_needs_no_runtime_and_shows_only_its_functions(compiled: Compile):
    path = str(compiled("tensors", "ours"))
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    assert "tvm_ffi" not in needed.stdout
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1].partition("@")[0] for line in symbols.stdout.splitlines()]
    # What the C++ library has as templates may be seen; nothing of these headers is.
    assert [n for n in names if "3ffi" in n or "4kdsl" in n] == []
    assert {"__kdsl_rt", "__kdsl_last_error", "__kdsl_globals"} <= set(names)


def test_a_plain_process_calls_it_and_reads_the_error(compiled: Compile):
    # No runtime at all: ctypes passes two integers, then one.
    code = f"""
import ctypes
class Any(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("pad", ctypes.c_uint), ("value", ctypes.c_int64)]
library = ctypes.CDLL({str(compiled("values", "ours"))!r})
library.__kdsl_last_error.restype = ctypes.c_char_p
result, args = Any(), (Any * 2)(Any(1, 0, 20), Any(1, 0, 22))
print(library.__tvm_ffi_add_ints(None, args, 2, ctypes.byref(result)), result.index, result.value)
print(library.__tvm_ffi_add_ints(None, args, 1, ctypes.byref(result)))
print(library.__kdsl_last_error().decode())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "0 1 42",
        "-1",
        "TypeError: Mismatched number of arguments when calling: "
        "`add_ints(0: int, 1: int) -> int`. Expected 2 but got 1 arguments",
    ]


def test_the_older_registration_macro_works(tmp_path):
    source = tmp_path / "old.cc"
    source.write_text(
        """#include <tvm/ffi/function.h>
static int64_t triple(int64_t x) { return 3 * x; }
TVM_FFI_REGISTER_GLOBAL("kdsl_test.old_triple").set_body_typed(triple);
TVM_FFI_REGISTER_GLOBAL("kdsl_test.old_count")
    .set_body([](tvm::ffi::PackedArgs args, tvm::ffi::Any* rv) { *rv = args.size(); });
"""
    )
    command = ["g++", "-std=c++17", "-fPIC", "-shared", f"-I{paths.include_dir()}", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "old.so")], check=True)
    tvm_ffi.load_module(str(tmp_path / "old.so"))
    assert tvm_ffi.get_global_func("kdsl_test.old_triple")(4) == 12
    assert tvm_ffi.get_global_func("kdsl_test.old_count")(1, 2) == 2


def test_kdsl_takes_over_what_a_module_registered_while_it_was_loaded(tmp_path):
    source = tmp_path / "registers.cc"
    source.write_text(
        """#include <tvm/ffi/tvm_ffi.h>
TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("kdsl_test.four", [](int64_t x) { return 4 * x; });
}
static int64_t call(tvm::ffi::String name, int64_t x) {
  return tvm::ffi::Function::GetGlobalRequired(name)(x).cast<int64_t>();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call, call);
"""
    )
    command = ["g++", "-std=c++17", "-fPIC", "-shared", f"-I{paths.include_dir()}", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "registers.so")], check=True)
    # A process of its own, in which no other runtime is.
    code = f"""
import kdsl
from kdsl.runtime import get_global_func
module = kdsl.load_module({str(tmp_path / "registers.so")!r})
print(get_global_func("kdsl_test.four")(3), module.call("kdsl_test.four", 5))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("12 20\n", "")
