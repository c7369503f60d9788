"""Programs in C and C++ wait for a module's work on a GPU by the headers beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kdsl
import kdsl.sim
from kdsl import Out, f32, i64
from tests.hosts.conftest import run

M, N = kdsl.dims("M N")

C_HOST = """
#include <dlfcn.h>
#include <stdio.h>

#include "rows.h"

static void* driver;
static void check(int result, const char* what) {
  if (result) printf("%s: %d\\n", what, result);
}
#define DRIVER(name, ...) (*(int (**)(__VA_ARGS__))&(void*){dlsym(driver, name)})
#define UPLOAD DRIVER("cuMemcpyHtoD_v2", unsigned long long, void*, size_t)

int main(int count, char** words) {
  if (count != 2 || !(driver = dlopen(words[1], RTLD_NOW))) return 2;
  printf("before: %d\\n", rows_synchronize());
  void* context;
  check(DRIVER("cuInit", unsigned)(0), "cuInit");
  check(DRIVER("cuDevicePrimaryCtxRetain", void**, int)(&context, 0), "retain");
  check(DRIVER("cuCtxSetCurrent", void*)(context), "use");
  unsigned long long at[3];
  float x[4] = {1, 2, 3, 4}, o[3] = {0, 0, 0};
  int64_t ids[3] = {3, 0, 1}, four[] = {4}, three[] = {3};
  void* host[] = {x, ids, o};
  size_t sizes[] = {sizeof x, sizeof ids, sizeof o};
  for (int i = 0; i < 3; ++i) {
    check(DRIVER("cuMemAlloc_v2", unsigned long long*, size_t)(&at[i], sizes[i]), "alloc");
    check(UPLOAD(at[i], host[i], sizes[i]), "up");
  }
  DLTensor xs = kdsl_view((void*)at[0], KDSL_F32, 1, four);
  DLTensor is = kdsl_view((void*)at[1], KDSL_I64, 1, three);
  DLTensor os = kdsl_view((void*)at[2], KDSL_F32, 1, three);
  xs.device.device_type = is.device.device_type = os.device.device_type = kDLCUDA;
  check(rows(&xs, &is, &os), "rows");
  printf("after: %d\\n", rows_synchronize());
  check(DRIVER("cuMemcpyDtoH_v2", void*, unsigned long long, size_t)(o, at[2], sizeof o), "down");
  printf("%g %g %g\\n", o[0], o[1], o[2]);
  ids[1] = 4;
  check(UPLOAD(at[1], ids, sizeof ids), "up");
  check(rows(&xs, &is, &os), "rows");
  if (rows_synchronize()) puts(__kdsl_last_error());
  printf("again: %d\\n", rows_synchronize());
  return 0;
}
"""

CPP_HOST = """
#include "rows.hpp"

#include <cstdio>
#include <vector>

int main() {
  std::vector<float> x{1, 2, 3, 4};
  std::vector<int64_t> ids{3, 0};
  const rows_module::Module module("./rows.so");
  const auto o = module.rows({x.data(), {4}}, {ids.data(), {2}});
  module.synchronize();
  std::printf("%g %g\\n", o.data<float>()[0], o.data<float>()[1]);
}
"""


@kdsl.kernel
def rows(x: f32[M], ids: i64[N], o: Out[f32[N]]):
    """Elements by number."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[ids[n]]


@pytest.fixture(scope="module")
def folder(cuda_compiler, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    rows.export(folder / "rows.so", targets=["cpu", "cuda:sm_80"])
    return folder


def test_a_c_program_waits_and_reads_what_kernels_found(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "host.c").write_text(C_HOST)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    built = run(["gcc", *flags, "host.c", "./rows.so", "-o", "host", "-ldl"], tmp_path)
    assert built.stderr == ""
    driver = str(kdsl.sim.driver_path())
    done = run(["env", f"KDSL_CUDA_DRIVER={driver}", "./host", driver], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    before, after, values, fault, again = done.stdout.splitlines()
    assert (before, after, again) == ("before: 0", "after: 0", "again: 0")
    assert values == "4 1 2"
    assert fault.startswith("IndexError: ")
    assert "index 4 is out of range" in fault


def test_a_cpp_program_waits(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "host.cc").write_text(CPP_HOST)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    built = run(["g++", *flags, "host.cc", "-o", "host", "-ldl"], tmp_path)
    assert built.stderr == ""
    done = run(["./host"], tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "4 1\n")


def test_headers_without_gpu_code_say_nothing_of_it(tmp_path):
    rows.export(tmp_path / "rows.so")
    for name in ("rows.h", "rows.hpp"):
        assert "synchronize" not in (tmp_path / name).read_text()
