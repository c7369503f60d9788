"""Who holds the state of the process: each way in which libtvm_ffi can be there, or not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tvm_ffi

import kdsl.runtime
from tests.runtime.environments import run

CALLS = Path(__file__).parent.parent / "conformance" / "foreign" / "calls.py"


def test_a_foreign_module_runs_where_apache_tvm_ffi_is_not(foreign, hand_path, numpy_only):
    calls = [str(CALLS), "kdsl", str(foreign), str(hand_path)]
    assert run(calls, numpy_only) == "bundled ok"


@pytest.mark.parametrize("order", ["tvm_ffi", "kdsl,tvm_ffi", "tvm_ffi,kdsl"])
def test_an_installed_library_is_the_provider_in_either_order(
    foreign, hand_path, numpy_only, official_site, order
):
    calls = [str(CALLS), order, str(foreign), str(hand_path)]
    wanted = "tvm_ffi ok" if "kdsl" in order else "- ok"
    assert run(calls, numpy_only, official_site) == wanted


def test_a_library_that_comes_late_takes_over(foreign, hand_path, numpy_only, official_site):
    calls = [str(CALLS), "late", str(foreign), str(hand_path), official_site]
    assert run(calls, numpy_only) == "tvm_ffi ok"


def test_our_own_library_can_be_asked_for(foreign, hand_path, numpy_only, official_site):
    calls = [str(CALLS), "kdsl", str(foreign), str(hand_path)]
    assert run(calls, numpy_only, official_site, KDSL_RUNTIME="bundled") == "bundled ok"
    assert run(calls, numpy_only, official_site, KDSL_RUNTIME="tvm_ffi") == "tvm_ffi ok"


VENDORED = """
import ctypes, sys
import kdsl.runtime
from kdsl.runtime import _core

foreign, vendored, hand = sys.argv[1:]
module = kdsl.runtime.load_module(foreign)
kdsl.runtime.register_global_func("kept", lambda v: v + 1)
pair = module.make_pair(1, 2)
print(_core.provider(), module.pair_sum(pair))
ctypes.CDLL(vendored)  # private, under a name of its own, as a wheel carries it
for _ in range(2):
    try:
        module["raise"]("KeyError", "on purpose")
    except KeyError as err:
        print(err, module.call_global("kept", 1), module.call_global("foreign.triple", 1))
    print(module.pair_sum(pair), module.pair_sum(module.make_pair(3, 4)))
    kdsl.runtime.load_module(hand)
    print(_core.provider())
"""


def test_a_private_copy_that_comes_late_is_noticed(foreign, hand_path, tmp_path):
    vendored = tmp_path / "libtvm_ffi-1a2b3c.so"
    vendored.write_bytes((Path(tvm_ffi.__file__).parent / "lib" / "libtvm_ffi.so").read_bytes())
    output = run(["-c", VENDORED, str(foreign), str(vendored), str(hand_path)])
    again = ["'on purpose' 2 3", "3 7", "tvm_ffi"]
    assert output.splitlines() == ["bundled 3", *again, *again]


# ---- what is refused


def _needing(symbol: str, folder: Path, *others: str) -> Path:
    """A module that calls functions which it does not have."""
    source, library = folder / "needing.c", folder / "needing.so"
    names = (symbol, *others)
    declared = "".join(f"void {name}(void);\n" for name in names)
    called = "".join(f"{name}();" for name in names)
    source.write_text(f"{declared}int __tvm_ffirun(void) {{ {called} return 0; }}\n")
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,lazy", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


LOAD = "import sys, kdsl.runtime\ntry: kdsl.runtime.load_module(sys.argv[1])\n\
except OSError as err: print(err)"


@pytest.mark.parametrize(
    "symbol", ["TVMFFINeverHeardOf", "_ZN3tvm3ffi6Module12LoadFromFileERKNS0_6StringE"]
)
def test_functions_that_only_the_official_library_has_are_named(tmp_path, symbol):
    library = _needing(symbol, tmp_path, "TVMFFIGetVersion")
    assert run(["-c", LOAD, str(library)]) == (
        f"{library}: needs {symbol}, which only apache-tvm-ffi has; install it to load this module"
    )


def test_any_other_missing_function_is_an_error_as_the_module_loads(tmp_path):
    library = _needing("nobody_has_this", tmp_path)
    said = run(["-c", LOAD, str(library)])
    assert said.startswith(f"cannot load {library}: ")
    assert said.endswith("undefined symbol: nobody_has_this")


def test_a_provider_that_is_none_is_an_error(hand_path):
    assert run(["-c", LOAD, str(hand_path)], KDSL_RUNTIME="other") == (
        "KDSL_RUNTIME: expected 'bundled' or 'tvm_ffi', got 'other'"
    )
    assert run(["-c", LOAD, str(hand_path)], KDSL_RUNTIME="tvm_ffi") == (
        "KDSL_RUNTIME=tvm_ffi: libtvm_ffi.so was not found; install apache-tvm-ffi"
    )


def test_results_outlive_everything_but_the_process(foreign, numpy_only):
    script = (
        "import gc, sys, kdsl.runtime as r\n"
        "m = r.load_module(sys.argv[1])\n"
        "add, text, words = m.adder(2), m.pack('a text of some length', [1]), m.lengths(['one'])\n"
        "tensor = m.fresh(3)\n"
        "del m; gc.collect()\n"
        "print(add(1), text[0], dict(words), memoryview(tensor).tolist())"
    )
    wanted = "3 a text of some length {'one': 3} [0.0, 1.0, 2.0]"
    assert run(["-c", script, str(foreign)], numpy_only) == wanted


def test_a_module_of_ours_loads_no_library(hand_path):
    script = (
        "import sys, kdsl.runtime as r; r.load_module(sys.argv[1]).many(1)\n"
        "print('libtvm_ffi' in open('/proc/self/maps').read())"
    )
    assert run(["-c", script, str(hand_path)]) == "False"
    assert kdsl.runtime.load_module(hand_path).many(1)
