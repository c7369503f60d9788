"""The structs we mirror are the structs of the published headers, field by field."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

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
