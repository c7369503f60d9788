"""Our mirror of the TVM FFI and DLPack structs is theirs, and lives beside their headers."""

from __future__ import annotations

import subprocess

import pytest
import tvm_ffi.libinfo

from kdsl import paths

OURS = [f"-I{paths.include_dir()}"]
THEIRS = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]

PROGRAM = r"""
#include <stdio.h>
#include <stddef.h>
#define FIELD(S, F) printf(#S "." #F " %zu %zu\n", offsetof(S, F), sizeof(((S*)0)->F))
#define SIZE(S) printf(#S " %zu\n", sizeof(S))
int main(void) {
  SIZE(TVMFFIAny); SIZE(TVMFFIObject); SIZE(TVMFFIByteArray); SIZE(TVMFFIShapeCell);
  SIZE(TVMFFISeqCell); SIZE(TVMFFIErrorCell); SIZE(TVMFFIFunctionCell);
  SIZE(TVMFFIOpaqueObjectCell); SIZE(DLTensor); SIZE(DLManagedTensor);
  SIZE(DLManagedTensorVersioned); SIZE(DLPackExchangeAPI); SIZE(DLDataType); SIZE(DLDevice);
  FIELD(TVMFFIAny, type_index); FIELD(TVMFFIAny, zero_padding); FIELD(TVMFFIAny, v_int64);
  FIELD(TVMFFIObject, combined_ref_count); FIELD(TVMFFIObject, type_index);
  FIELD(TVMFFIObject, deleter); FIELD(TVMFFISeqCell, data); FIELD(TVMFFISeqCell, size);
  FIELD(TVMFFISeqCell, capacity); FIELD(TVMFFISeqCell, data_deleter);
  FIELD(TVMFFIErrorCell, kind); FIELD(TVMFFIErrorCell, message);
  FIELD(TVMFFIErrorCell, backtrace); FIELD(TVMFFIErrorCell, update_backtrace);
  FIELD(TVMFFIErrorCell, cause_chain); FIELD(TVMFFIErrorCell, extra_context);
  FIELD(TVMFFIFunctionCell, safe_call); FIELD(TVMFFIFunctionCell, cpp_call);
  FIELD(DLTensor, data); FIELD(DLTensor, device); FIELD(DLTensor, ndim); FIELD(DLTensor, dtype);
  FIELD(DLTensor, shape); FIELD(DLTensor, strides); FIELD(DLTensor, byte_offset);
  FIELD(DLManagedTensorVersioned, version); FIELD(DLManagedTensorVersioned, manager_ctx);
  FIELD(DLManagedTensorVersioned, deleter); FIELD(DLManagedTensorVersioned, flags);
  FIELD(DLManagedTensorVersioned, dl_tensor);
  FIELD(DLPackExchangeAPI, header); FIELD(DLPackExchangeAPI, managed_tensor_allocator);
  FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
  FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
  FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync);
  FIELD(DLPackExchangeAPI, current_work_stream);
  printf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n", kTVMFFINone, kTVMFFIInt, kTVMFFIBool,
         kTVMFFIFloat, kTVMFFIOpaquePtr, kTVMFFIDataType, kTVMFFIDevice, kTVMFFIDLTensorPtr,
         kTVMFFIRawStr, kTVMFFIObjectRValueRef, kTVMFFISmallStr, kTVMFFIStr, kTVMFFIError,
         kTVMFFIFunction, kTVMFFITensor, kTVMFFIArray);
  printf("%d %d %d %d %d %d\n", kDLCUDA, kDLROCMHost, kDLCUDAManaged, kDLBfloat, kDLFloat8_e4m3fn,
         kDLFloat8_e5m2);
  return 0;
}
"""


def output(tmp_path, name, include, flags):
    source, program = tmp_path / f"{name}.c", tmp_path / name
    source.write_text(f"#include <{include}>\n{PROGRAM}")
    subprocess.run(["gcc", *flags, str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def test_layouts_and_numbers_are_those_of_the_official_header(tmp_path):
    ours = output(tmp_path, "ours", "kdsl/ffi/c_abi.h", OURS)
    theirs = output(tmp_path, "theirs", "tvm/ffi/c_api.h", THEIRS)
    assert ours == theirs


@pytest.mark.parametrize("header", ["c_abi.h", "dlpack.h", "runtime.h"])
def test_the_headers_for_c_are_strict_c11(tmp_path, header):
    source = tmp_path / "alone.c"
    source.write_text(f"#include <kdsl/ffi/{header}>\nint unused;\n")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    run = subprocess.run(["gcc", *flags, *OURS, str(source)], capture_output=True, text=True)
    assert run.stderr == ""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_ours_may_follow_the_official_header(tmp_path, language):
    source = tmp_path / "both"
    source.write_text(
        "#include <tvm/ffi/c_api.h>\n#include <kdsl/ffi/runtime.h>\n#include <dlpack/dlpack.h>\n"
    )
    command = ["g++", "-x", language, "-fsyntax-only", *THEIRS, *OURS, str(source)]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
