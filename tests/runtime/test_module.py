"""Loading: names, errors, replaced files, foreign modules, other Pythons."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kdsl.runtime import Function, Module, elf, load_module

ROOT = Path(__file__).parent.parent.parent
NAMES = "nop view scale pair echo fail silent wait increment update three plain many".split()


def test_a_module_lists_its_functions(hand: Module, hand_path: Path) -> None:
    assert list(hand) == NAMES
    assert len(hand) == len(NAMES)
    assert set(NAMES) <= set(dir(hand))
    assert "nop" in hand
    assert "nope" not in hand
    assert hand.path == str(hand_path)
    assert repr(hand) == f"<kdsl module {str(hand_path)!r}: {', '.join(NAMES)}>"


def test_a_function_is_an_attribute_and_an_item(hand: Module) -> None:
    assert isinstance(hand.nop, Function)
    assert hand.nop is hand.nop
    assert hand["nop"] is hand.nop
    assert hand.nop.__name__ == "nop"


def test_a_missing_function_is_an_error_with_a_guess(hand: Module) -> None:
    text = f"{hand.path}: no function `incremen`; did you mean `increment`?"
    with pytest.raises(AttributeError) as caught:
        hand.incremen  # noqa: B018
    assert str(caught.value) == text
    with pytest.raises(KeyError) as missing:
        hand["incremen"]
    assert missing.value.args == (text,)
    with pytest.raises(AttributeError, match="no function `xyz`; it has: nop, view, "):
        hand.xyz  # noqa: B018
    assert not hasattr(hand, "__nothing__")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.so"):
        load_module(tmp_path / "none.so")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it does not begin as an ELF file"),
        (b"#!/bin/sh\n" * 100, "it does not begin as an ELF file"),
        (b"\x7fELF" + b"\x01\x01" + b"\0" * 58, "it is not 64-bit little-endian"),
        (b"\x7fELF" + b"\x02\x01", "the file is damaged"),
    ],
)
def test_a_file_that_is_no_library_is_an_error(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "module.so"
    path.write_bytes(content)
    with pytest.raises(OSError) as caught:
        load_module(path)
    assert str(caught.value) == f"{path}: not a shared library: {why}"


def test_a_cut_or_foreign_file_is_an_error(tmp_path: Path, hand_path: Path) -> None:
    whole = hand_path.read_bytes()
    path = tmp_path / "module.so"
    for size in (20, 64, 100, 1000, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(OSError, match=r"not a shared library|cannot load"):
            load_module(path)
    path.write_bytes(whole[:18] + (243).to_bytes(2, "little") + whole[20:])
    with pytest.raises(OSError, match="it is for ELF machine 243, this is"):
        load_module(path)
    shutil.copy(sys.executable, path)
    with pytest.raises(OSError):
        load_module(path)


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    source = tmp_path / "m.c"
    source.write_text("extern int kdsl_absent(void); int f(void) { return kdsl_absent(); }")
    path = tmp_path / "m.so"
    link = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", str(source), "-o", str(path)]
    subprocess.run(link, check=True)
    with pytest.raises(OSError, match=r"cannot load .*m\.so: .*kdsl_absent"):
        load_module(path)


def test_a_replaced_file_is_loaded_anew(tmp_path: Path, hand_path: Path) -> None:
    path = tmp_path / "module.so"
    shutil.copy(hand_path, path)
    first = load_module(path)
    assert len(first) == len(NAMES)
    fresh = tmp_path / "fresh.c"
    fresh.write_text(
        '#include <kdsl/ffi/c_abi.h>\nconst char __kdsl_functions[] = "answer\\n";\n'
        "int __tvm_ffi_answer(void* s, const TVMFFIAny* a, int n, TVMFFIAny* r) {\n"
        "  (void)s, (void)a, (void)n; r->type_index = 1; r->v_int64 = 42; return 0; }\n"
    )
    other = tmp_path / "other.so"
    build = ["gcc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", str(fresh), "-o", str(other)]
    subprocess.run(build, check=True)
    os.replace(other, path)
    second = load_module(path)
    assert list(second) == ["answer"]
    assert second.answer() == 42
    assert first.many(1, 2) == 2
    assert list(load_module(path)) == ["answer"]


def test_symbols_are_read_without_loading(hand_path: Path) -> None:
    symbols = elf.read(str(hand_path))
    assert {f"__tvm_ffi_{name}" for name in NAMES} <= set(symbols.defined)
    assert "libc.so.6" in symbols.needed
    assert {"calloc", "snprintf"} <= set(symbols.undefined)


def test_modules_and_functions_can_be_pickled(hand: Module) -> None:
    x = np.ones(2, np.float32)
    assert pickle.loads(pickle.dumps(hand.scale))(x, 2.0).tolist() == [2.0, 2.0]
    assert list(pickle.loads(pickle.dumps(hand))) == NAMES


def pythons() -> list[Path]:
    """Each Python from 3.10 on that pyenv has here."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [p / "bin" / "python" for p in root.glob("3.*") if int(p.name.split(".")[1]) >= 10]
    return sorted(p for p in found if p.exists())


@pytest.mark.parametrize("python", pythons() or [Path(sys.executable)], ids=str)
def test_one_build_of_the_core_runs_on_each_python(python: Path, hand_path: Path) -> None:
    script = f"""
import array, sys
import kdsl.runtime as runtime
hand = runtime.load_module({str(hand_path)!r})
x = array.array("f", [1, 2])
assert memoryview(hand.scale(x, factor=2.0)).tolist() == [2.0, 4.0]
assert hand.view(x).startswith("dtype 2:32:1 shape 2 strides 1"), hand.view(x)
assert hand.plain(1, True, 2.0, None, "text", b"bytes") == "1 2 3 0 11 12"
for wrong in (lambda: hand.nop([]), lambda: hand.nop(z=1), lambda: hand.fail("KeyError", "k")):
    try:
        wrong()
    except (TypeError, KeyError):
        continue
    raise SystemExit("no error")
"""
    done = subprocess.run(
        [str(python), "-X", "faulthandler", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_private_layouts_calls_give_the_same(hand_path: Path) -> None:
    script = f"""
import numpy as np, torch
from kdsl.runtime import _core, load_module
_core.use_mirrors(False)
hand = load_module({str(hand_path)!r})
x, t = np.arange(6, dtype=np.float32).reshape(2, 3), torch.ones(2, 3)
print(hand.view(x[:, ::-1]))
print(hand.view(t.T))
print(hand.scale(x, 2.0).tolist(), hand.scale(t).tolist())
x.flags.writeable = False
lazy = torch.ones(2, dtype=torch.complex64).conj()
for call in (
    lambda: hand.nop(x, x, x),
    lambda: hand.view(t.requires_grad_()),
    lambda: hand.view(t[:1]),
    lambda: hand.view(lazy),
    lambda: hand.view(lazy.imag),
    lambda: hand.view(np.array(["a"])),
):
    try:
        print(call())
    except (TypeError, ValueError) as err:
        print(str(err).partition(", got ")[2].partition(";")[0])
print(_core.mirrors())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "dtype 2:32:1 shape 2 3 strides 3 -1 first 64",
        "dtype 2:32:1 shape 3 2 strides 1 3 first 63",
        "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]",
        "read-only f32[2, 3]",
        "f32[2, 3] with requires_grad=True",
        "f32[1, 3] with requires_grad=True",
        "complex64[2] that is conjugated lazily",
        "f32[2] that is negated lazily",
        "str32[1]",
        "{'numpy': 0, 'torch': 0}",
    ], done.stderr


def test_the_runtime_imports_no_framework() -> None:
    script = (
        "import sys, kdsl.runtime; "
        "heavy = {'numpy', 'torch', 'jax', 'json', 'inspect', 'importlib.metadata', 'tvm_ffi'}; "
        "print(sorted(heavy & set(sys.modules) - {'inspect'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
