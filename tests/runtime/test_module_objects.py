"""Module objects: made, taken and returned by native code, on the official library and on ours."""

from __future__ import annotations

import gc
import pickle
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm_ffi import libinfo

import kdsl.runtime
from kdsl.runtime import Function, Module, ModuleObject, Object
from tests.runtime.environments import run


def _flags() -> list[str]:
    library = Path(libinfo.find_libtvm_ffi()).parent
    include = f"-I{libinfo.find_include_path()}"
    describe = "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1"
    link = ["-Wl,--no-as-needed", f"-L{library}", "-ltvm_ffi"]
    return ["-std=c++17", "-O0", describe, include, *link]


@pytest.fixture(scope="module")
def path(build: Callable[..., Path]) -> Path:
    return build("modules.cc", *_flags())


@pytest.fixture(scope="module")
def native(path: Path) -> Module:
    return kdsl.runtime.load_module(path)


@pytest.fixture(scope="module")
def own_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a module class of its own."""
    source = Path(__file__).parent / "modules" / "modules.cc"
    out = tmp_path_factory.mktemp("own") / "own.so"
    command = ["g++", "-shared", "-fPIC", "-DOWN_KIND", str(source), *_flags(), "-o", str(out)]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(scope="module")
def own(own_path: Path) -> Module:
    return kdsl.runtime.load_module(own_path)


# ---- on the official library ---------------------------------------------------------------------


def test_a_module_has_its_class_wherever_it_comes_from(native: Module, path: Path) -> None:
    module = native.load(str(path))
    assert type(module) is ModuleObject
    assert isinstance(module, Object)
    assert module.type_index == 73
    assert repr(module) == "<kdsl.runtime.ModuleObject of kind 'library'>"
    assert native.same(module) == module
    assert hash(native.same(module)) == hash(module)
    assert native.pair(module) == (module, 1)
    assert native.named(module) == {"m": module}
    assert native.same([{"deep": [module]}]) == ({"deep": (module,)},)
    assert module != native.load(str(path))


def test_functions_are_attributes_and_items_with_signature_and_doc(
    native: Module, path: Path
) -> None:
    module = native.load(str(path))
    assert module.add(1, 2) == module["add"](3, 0) == module.get_function("add")(2, 1) == 3
    assert isinstance(module.add, Function)
    assert module.add.__name__ == "add"
    assert module.add.__doc__ == "The sum of both."
    assert repr(module.add) == "<kdsl function add(int, int)>"
    assert module.implements_function("add")
    assert "add" in module
    assert module.get_function_doc("add") == "The sum of both."
    assert module.get_function_doc("text") is None
    assert "type_schema" in str(module.get_function_metadata("add"))
    with pytest.raises(TypeError, match="add"):
        module.add(1, "two")


def test_what_it_does_not_have_is_told(native: Module, path: Path) -> None:
    module = native.load(str(path))
    message = "no function `ad` in this module of kind 'library'"
    with pytest.raises(KeyError, match=message):
        module["ad"]
    with pytest.raises(AttributeError, match=message):
        _ = module.ad
    assert not module.implements_function("ad")
    assert module.get_function_doc("ad") is None
    assert module.get_function_metadata("ad") is None
    for wrong in (1, None, b"add"):
        with pytest.raises(
            TypeError, match=re.escape(f"expected a function's name, got {wrong!r}")
        ):
            module.get_function(wrong)
    with pytest.raises(TypeError, match=r"cannot pickle kdsl\.runtime\.ModuleObject"):
        pickle.dumps(module)
    with pytest.raises(TypeError, match="cannot pickle add: it belongs to no file"):
        pickle.dumps(module.add)
    with pytest.raises(TypeError, match="not iterable"):
        iter(module)
    with pytest.raises(TypeError):
        ModuleObject()


def test_functions_of_imports_are_found_when_asked_for(own: Module, path: Path) -> None:
    outer, inner = own.counted(), own.load(str(path))
    assert outer.imports == ()
    outer.import_module(inner)
    assert outer.imports == (inner,)
    assert not outer.implements_function("add")
    assert outer.implements_function("add", query_imports=True)
    assert outer.get_function("add", query_imports=True)(1, 2) == 3
    with pytest.raises(KeyError):
        outer["add"]
    with pytest.raises(TypeError, match="import_module: expected a module object, got 'add'"):
        outer.import_module("add")
    outer.clear_imports()
    assert outer.imports == ()


def test_a_module_of_its_own_kind_works(own: Module) -> None:
    module = own.counted()
    assert (module.kind, own.kind(module)) == ("counted", "counted")
    assert repr(module) == "<kdsl.runtime.ModuleObject of kind 'counted'>"
    assert module.two() == 2
    with pytest.raises(ValueError, match="on purpose"):
        module.fail()
    with pytest.raises(KeyError, match="no function `three` in this module of kind 'counted'"):
        module["three"]


def test_functions_keep_their_module_and_nothing_else_does(own: Module) -> None:
    before = own.count_alive()
    module = own.counted()
    two = module.two
    del module
    gc.collect()
    assert own.count_alive() == before + 1
    assert two() == 2
    del two
    for _ in range(100):
        own.same([own.counted().two, own.counted()])
    gc.collect()
    assert own.count_alive() == before


def test_what_a_library_returned_outlives_the_module(native: Module, path: Path) -> None:
    copy = path.with_name("copy.so")  # a library that nothing else has loaded
    copy.write_bytes(path.read_bytes())
    module = native.load(str(copy))
    kept = module.get(module, "add")  # a function that the library's own code frees
    del module
    gc.collect()
    assert kept(1, 2) == 3
    del kept
    gc.collect()


def test_modules_cross_to_their_package_and_back(native: Module, path: Path) -> None:
    theirs = tvm_ffi.load_module(str(path))
    ours = native.same(theirs)
    assert type(ours) is ModuleObject
    assert ours.add(1, 2) == 3
    assert theirs.same(ours).same_as(theirs)
    assert theirs.kind == ours.kind


def test_a_kernel_refuses_a_module(native: Module, hand: Module, path: Path) -> None:
    with pytest.raises(TypeError, match="argument 0"):
        hand.scale(native.load(str(path)), 2.0)


def test_where_nothing_knows_modules_that_is_said(tmp_path: Path) -> None:
    source = tmp_path / "bare.c"
    source.write_text(BARE)
    library = tmp_path / "bare.so"
    include = Path(__file__).parent.parent.parent / "include"
    command = ["gcc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    told = run(["-c", ASK, str(library)], str(Path(np.__file__).parents[1]), KDSL_RUNTIME="bundled")
    assert told.splitlines() == [
        "<kdsl.runtime.ModuleObject of kind 'unknown'>",
        *["nothing in this process knows module objects"] * 4,
    ]


BARE = """
#include <kdsl/ffi/c_abi.h>
#include <stdlib.h>
static void nothing(void* self, int flags) { (void)self, (void)flags; }
static struct { void* table; TVMFFIObject header; void* fields[4]; } made;
__attribute__((visibility("default")))
int __tvm_ffi_bare(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self, (void)args, (void)count;
  made.header.combined_ref_count = 0x100000001;
  made.header.type_index = kTVMFFIModule;
  made.header.deleter = nothing;
  *result = (TVMFFIAny){.type_index = kTVMFFIModule, .v_obj = &made.header};
  ++*(int*)&made.header.combined_ref_count;
  return 0;
}
"""

ASK = """
import sys
import kdsl.runtime
module = kdsl.runtime.load_module(sys.argv[1]).bare()
print(module)
for ask in (lambda: module.kind, lambda: module.imports, lambda: module.add, lambda: module["add"]):
    try:
        ask()
    except RuntimeError as err:
        print(str(err).partition(": ")[2].partition(";")[0])
"""


# ---- on ours alone -------------------------------------------------------------------------------

BEHAVIOUR = """
import gc, sys
import kdsl.runtime
from kdsl.runtime import _core
native = kdsl.runtime.load_module(sys.argv[1])
module = native.load(sys.argv[1])
other = native.load(sys.argv[1])

def show(*values):
    print(*values)

def refused(what, *args):
    try:
        print(what(*args))
    except Exception as err:
        print(type(err).__name__, str(err).splitlines()[0])

show(module, module.kind, module.imports, module == native.same(module), module == other)
show(native.pair(module), native.named(module))
show(module.add(1, 2), module["add"](3, 4), repr(module.add), module.add.__doc__)
show(module.implements_function("add"), module.implements_function("ad"), "ad" in module)
show(module.get_function_doc("add"), module.get_function_doc("text"), module.text())
# The same by way of the C++ class.
show(native.kind(module), native.properties(module), native.has(module, "add"))
show(native.has(module, "ad"), native.get(module, "add")(5, 6), native.get(module, "ad"))
show(native.doc(module, "add"), native.doc(module, "ad"), native.metadata(module, "ad"))
show(native.metadata(module, "add") == module.get_function_metadata("add"))
show(repr(native.source(module)), native.formats(module))
module.import_module(other)
show(module.imports == (other,), native.imported(module), module.imports[0].add(1, 1))
refused(other.import_module, module)
refused(other.import_module, other)
refused(native.kind, "no module")
refused(lambda: module.ad)
native.part(module)
show(module.imports, native.imported(module))
native.join(module, other)
show(native.imported(module))
module.clear_imports()
add = module.add
for _ in range(200):
    native.same([native.load(sys.argv[1]), {"m": native.load(sys.argv[1])}])
del module, other
gc.collect()
show(add(20, 22))
"""


def test_a_library_module_is_the_same_on_ours_alone(
    path: Path, numpy_only: str, official_site: str
) -> None:
    script = ["-c", BEHAVIOUR, str(path)]
    official = run(script, numpy_only, official_site)
    assert run(script, numpy_only) == official
    assert len(official.splitlines()) == 18


LATE = """
import sys
import kdsl.runtime
from kdsl.runtime import _core
native = kdsl.runtime.load_module(sys.argv[1])
module, other = native.load(sys.argv[1]), native.load(sys.argv[1])
before = _core.provider()
sys.path.append(sys.argv[2])
import tvm_ffi
print(before, _core.provider())
print(module, module.add(1, 2), native.kind(module), native.get(module, "add")(3, 4))
theirs = module.__tvm_ffi_object__()
print(type(theirs).__name__, theirs.kind, theirs.add(1, 2), theirs.implements_function("ad"))
module.import_module(other)
print(module.imports == (other,), theirs.get_function("add", True)(2, 2))
"""


def test_our_own_modules_stay_good_when_the_official_library_comes(
    path: Path, numpy_only: str, official_site: str
) -> None:
    told = run(["-c", LATE, str(path), official_site], numpy_only)
    assert told.splitlines() == [
        "bundled tvm_ffi",
        "<kdsl.runtime.ModuleObject of kind 'library'> 3 library 7",
        "Module library 3 False",
        "True 4",
    ]


def test_a_class_that_only_the_official_library_can_hold_is_refused(
    own_path: Path, numpy_only: str
) -> None:
    told = run(["-c", REFUSED, str(own_path)], numpy_only)
    assert told.startswith(f"{own_path}: needs _ZN3tvm3ffi9ModuleObj")
    assert told.endswith(", which only apache-tvm-ffi has; install it to load this module")


REFUSED = """
import sys
import kdsl.runtime
try:
    kdsl.runtime.load_module(sys.argv[1])
except OSError as err:
    print(err)
"""


def test_where_imports_are_is_what_reflection_says(path: Path) -> None:
    info: Any = tvm_ffi.core._lookup_or_register_type_info_from_type_key("ffi.Module")
    assert [(f.name, f.offset) for f in info.fields] == [("imports_", 24)]
