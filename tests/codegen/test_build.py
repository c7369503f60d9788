"""From texts to a library: what comes out, and what is said when nothing does."""

from __future__ import annotations

import pytest

from kdsl import paths
from kdsl.codegen import targets
from kdsl.codegen.build import build, failure, flags_text, ninja_text
from kdsl.codegen.module import host_sources
from kdsl.errors import BuildError
from tests.codegen import samples

ONE = targets.variants_of()[-1:]


def sources(kernel_text):
    return {
        **host_sources("axpy", [samples.axpy()], ONE),
        "axpy_cpu.cc": f'#include "axpy.h"\n// axpy at kernels.py:5\n{kernel_text}',
    }


def test_a_broken_kernel_is_an_error_with_the_first_error_the_users_line_and_the_log(tmp_path):
    log = tmp_path / "failed" / "build.log"
    text = samples.AXPY.replace("kdsl::i64 n = 0", "kdsl::i64 n = zero")
    with pytest.raises(BuildError) as error:
        build(sources(text), tmp_path / "axpy.so", ONE, log)
    first, origin, where = str(error.value).splitlines()
    assert first.startswith("axpy.so: the C++ compiler failed: axpy_cpu.cc:13:")
    assert "zero" in first
    assert origin == "That code was generated for kernels.py:5."
    assert where == f"The full log is {log}."
    assert first.partition("failed: ")[2] in log.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["failed"]


def test_a_missing_kernel_is_found_by_the_linker(tmp_path):
    with pytest.raises(BuildError, match=f"axpy_{ONE[0].name}"):
        build(sources(""), tmp_path / "axpy.so", ONE)
    assert list(tmp_path.iterdir()) == []


def test_folders_may_have_spaces_and_signs(tmp_path):
    out = tmp_path / "my $folder: new" / "axpy.so"
    build(sources(samples.AXPY), out, ONE)
    assert [p.name for p in out.parent.iterdir()] == ["axpy.so"]


def test_a_failure_without_an_error_line_says_so():
    assert failure("m.so", "ninja: stopped\n", {}, None) == (
        "m.so: the C++ compiler failed: it gave no error text"
    )


def test_kernels_are_compiled_once_a_variant_and_the_host_once():
    variants = targets.variants_of("x86_64")
    compiler = targets.Compiler(("g++",), "")
    text = ninja_text({"a.cc": "", "a.h": "", "a_cpu.cc": ""}, variants, compiler)
    built = [line.split()[1] for line in text.splitlines() if line.startswith("build ")]
    assert built == [
        "a.cc.o:", "a_cpu.cc.avx512.o:", "a_cpu.cc.avx2.o:", "a_cpu.cc.sse2.o:", "module.so:",
    ]  # fmt: skip
    assert f"-I{paths.include_dir()}" in text


def test_flags_for_cache_keys_name_the_variant():
    both = {flags_text(targets.variants_of("x86_64")[i : i + 1]) for i in range(2)}
    assert len(both) == 2
