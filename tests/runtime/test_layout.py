"""The structs we mirror are the structs of the published headers, field by field."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import numpy
import torch
from tvm_ffi import libinfo

ROOT = Path(__file__).parent.parent.parent
FIELDS = {
    "DLDevice": "device_type device_id",
    "DLDataType": "code bits lanes",
    "DLTensor": "data device ndim dtype shape strides byte_offset",
    "DLManagedTensor": "dl_tensor manager_ctx deleter",
    "DLPackVersion": "major minor",
    "DLManagedTensorVersioned": "version manager_ctx deleter flags dl_tensor",
    "DLPackExchangeAPIHeader": "version prev_api",
    "DLPackExchangeAPI": "header managed_tensor_allocator managed_tensor_from_py_object_no_sync "
    "managed_tensor_to_py_object_no_sync dltensor_from_py_object_no_sync current_work_stream",
    "TVMFFIAny": "type_index zero_padding small_str_len v_int64 v_float64 v_ptr v_c_str v_obj "
    "v_dtype v_device v_bytes v_uint64",
    "TVMFFIObject": "combined_ref_count type_index deleter",
    "TVMFFIByteArray": "data size",
    "TVMFFIShapeCell": "data size",
    "TVMFFISeqCell": "data size capacity data_deleter",
    "TVMFFIErrorCell": "kind message backtrace update_backtrace cause_chain extra_context",
    "TVMFFIFunctionCell": "safe_call cpp_call",
}
ENUMS = ["DLDeviceType", "DLDataTypeCode", "TVMFFITypeIndex", "TVMFFIObjectDeleterFlagBitMask"]
OURS = [ROOT / "include/kdsl/ffi/dlpack.h", ROOT / "include/kdsl/ffi/c_abi.h"]


def report(folder: Path, name: str, headers: list[str], flags: list[str], names: list[str]) -> str:
    """What a C program says of sizes, offsets and enumerators under these headers."""
    lines = [f"#include <{header}>" for header in headers]
    lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for struct, fields in FIELDS.items():
        lines.append(f'  printf("{struct} %zu\\n", sizeof({struct}));')
        for field in fields.split():
            size = f"sizeof((({struct}*)0)->{field})"
            offset = f"offsetof({struct}, {field})"
            lines.append(f'  printf("{struct}.{field} %zu %zu\\n", {offset}, {size});')
    lines += [f'  printf("{constant} %d\\n", (int){constant});' for constant in names]
    source = folder / f"{name}.c"
    source.write_text("\n".join([*lines, "}"]))
    program = folder / name
    subprocess.run(["gcc", "-std=c11", *flags, str(source), "-o", str(program)], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def enumerators() -> list[str]:
    text = "".join(header.read_text() for header in OURS)
    return sorted(set(re.findall(r"^  (k(?:DL|TVMFFI)\w+)", text, re.MULTILINE)))


def test_layouts_and_numbers_are_the_published_ones(tmp_path: Path) -> None:
    names = enumerators()
    assert len(names) > 50
    ours = report(
        tmp_path, "ours", ["kdsl/ffi/c_abi.h"], [f"-I{ROOT / 'include'}"], names
    ).splitlines()
    include = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    published = report(
        tmp_path, "published", ["dlpack/dlpack.h", "tvm/ffi/c_api.h"], include, names
    ).splitlines()
    assert ours == published


CORE = ROOT / "kdsl" / "runtime" / "csrc"
PYTHON = f"-I{sysconfig.get_paths()['include']}"


def run(folder: Path, name: str, text: str, flags: list[str]) -> list[str]:
    """The lines that a program of this text prints."""
    source = folder / name
    source.write_text(text)
    program = folder / name.replace(".", "_")
    compiler = ["g++", "-std=c++17"] if name.endswith(".cc") else ["gcc", "-std=gnu11"]
    subprocess.run([*compiler, *flags, str(source), "-o", str(program)], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_dlpack_is_torchs(tmp_path: Path) -> None:
    names = [name for name in enumerators() if name.startswith("kDL")]
    fields = {struct: names for struct, names in FIELDS.items() if struct.startswith("DL")}
    lines = ["#include <stdio.h>", "#include <stddef.h>", "int main() {"]
    for struct, members in fields.items():
        lines.append(f'  printf("{struct} %zu\\n", sizeof({struct}));')
        lines += [
            f'  printf("{struct}.{member} %zu\\n", offsetof({struct}, {member}));'
            for member in members.split()
        ]
    lines += [f'  printf("{name} %d\\n", (int){name});' for name in names]
    body = "\n".join([*lines, "}"])
    ours = run(tmp_path, "a.cc", f"#include <kdsl/ffi/dlpack.h>\n{body}", [f"-I{ROOT / 'include'}"])
    include = Path(torch.__file__).parent / "include"
    theirs = run(tmp_path, "b.cc", f"#include <ATen/dlpack.h>\n{body}", [f"-I{include}"])
    assert ours == theirs
    assert len(ours) > 60


#: our field of NumpyArray or NumpyDtype: NumPy's.
NUMPY = {
    "NumpyArray": (
        "PyArrayObject_fields",
        "data data,ndim nd,shape dimensions,strides strides,base base,dtype descr,flags flags",
    ),
    "NumpyDtype": (
        "PyArray_Descr",
        "scalar typeobj,kind kind,letter type,byteorder byteorder,number type_num",
    ),
}
NUMPY_NUMBERS = {
    "NUMPY_ALIGNED": "NPY_ARRAY_ALIGNED",
    "NUMPY_WRITEABLE": "NPY_ARRAY_WRITEABLE",
    "NUMPY_DESCR_FROM_TYPE": "PyArray_DescrFromType",
    "NUMPY_NEW_FROM_DESCR": "PyArray_NewFromDescr",
    "NUMPY_SET_BASE_OBJECT": "PyArray_SetBaseObject",
}


def test_what_is_mirrored_of_numpy_is_numpys(tmp_path: Path) -> None:
    include = numpy.get_include()
    table = (Path(include) / "numpy" / "__multiarray_api.h").read_text()
    lines = ["#include <numpy_abi.h>", "#include <numpy/ndarraytypes.h>", "#include <stdio.h>"]
    lines += ["int main(void) {"]
    for ours, (theirs, fields) in NUMPY.items():
        for pair in fields.split(","):
            mine, other = pair.split()
            lines.append(
                f'  printf("{ours}.{mine} %zu %zu %zu %zu\\n", offsetof({ours}, {mine}), '
                f"offsetof({theirs}, {other}), sizeof((({ours}*)0)->{mine}), "
                f"sizeof((({theirs}*)0)->{other}));"
            )
    for ours, theirs in NUMPY_NUMBERS.items():
        place = re.search(rf"#define {theirs} \\\n.*\n\s*PyArray_API\[(\d+)\]", table)
        number = place[1] if place else theirs
        lines.append(f'  printf("{ours} %d %d 0 0\\n", {ours}, {number});')
    flags = [f"-I{CORE}", f"-I{include}", PYTHON, "-DNPY_NO_DEPRECATED_API=0"]
    printed = run(tmp_path, "numpy.c", "\n".join([*lines, "}"]), flags)
    assert len(printed) == 17
    for line in printed:
        name, offset, their_offset, size, their_size = line.split()
        assert (offset, size) == (their_offset, their_size), name


def test_a_map_is_laid_out_as_the_published_one(tmp_path: Path) -> None:
    """Its fields are no part of a C header: a subclass can see them."""
    theirs = """
#include <tvm/ffi/tvm_ffi.h>
#include <cstdio>
using namespace tvm::ffi;
template <class B> struct Peek : B {
  static void show() {
    Peek* p = nullptr;
    auto at = [&](auto& field) { return reinterpret_cast<size_t>(&field); };
    std::printf("data %zu size %zu slots %zu data_deleter %zu\\n", at(p->data_), at(p->size_),
                at(p->slots_), at(p->data_deleter_));
    if constexpr (std::is_same_v<B, DenseMapBaseObj>) {
      std::printf("shift %zu first %zu last %zu size %zu\\n", at(p->fib_shift_),
                  at(p->iter_list_head_), at(p->iter_list_tail_), sizeof(B));
      for (int i = 0; i < 126; ++i) std::printf("%lu\\n", (long)B::NextProbeLocation(i));
    }
  }
};
int main() { Peek<MapBaseObj>::show(); Peek<DenseMapBaseObj>::show(); }
"""
    ours = """
#include <stdio.h>
#include "map.c"
#define AT(F) offsetof(RtMapObject, map.F)
int main(void) {
  for (int i = 0; i < 2; ++i)
    printf("data %zu size %zu slots %zu data_deleter %zu\\n", AT(data), AT(size), AT(slots),
           AT(data_deleter));
  printf("shift %zu first %zu last %zu size %zu\\n", AT(shift), AT(first), AT(last),
         sizeof(RtMapObject));
  for (int i = 0; i < 126; ++i) printf("%lu\\n", jump_distance(i));
}
void* rt_object_new(size_t n, int32_t t, void (*d)(void*, int)) { return 0; }
void rt_object_free(void* o) {}
void rt_value_release(TVMFFIAny* v) {}
TVMFFIByteArray rt_bytes_of(const TVMFFIAny* v) { return (TVMFFIByteArray){0, 0}; }
"""
    flags = [f"-I{CORE}", f"-I{ROOT / 'include'}", PYTHON, "-DPy_LIMITED_API=0x030A0000", "-w"]
    include = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    library = Path(libinfo.find_libtvm_ffi()).parent
    link = [f"-L{library}", f"-Wl,-rpath,{library}", "-w"]
    source = tmp_path / "theirs.cc"
    source.write_text(theirs)
    program = tmp_path / "theirs"
    subprocess.run(
        ["g++", "-std=c++17", *include, *link, str(source), "-o", str(program), "-ltvm_ffi"],
        check=True,
    )
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert run(tmp_path, "ours.c", ours, flags) == printed.splitlines()
    assert len(printed.splitlines()) == 129
