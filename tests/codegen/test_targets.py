"""CPU variants and the compiler: what is chosen, and what is said when there is none."""

from __future__ import annotations

import os

import pytest

from kdsl.codegen import targets
from kdsl.errors import BuildError


@pytest.fixture
def machine(monkeypatch):
    def pretend(architecture, features):
        monkeypatch.setattr(targets.platform, "machine", lambda: architecture)
        monkeypatch.setattr(targets, "cpu_features", lambda: frozenset(features))
        monkeypatch.delenv("KDSL_VARIANT", raising=False)

    return pretend


AVX2 = "avx avx2 fma f16c bmi1 bmi2 abm movbe".split()
AVX512 = "avx512f avx512dq avx512cd avx512bw avx512vl".split()


@pytest.mark.parametrize(
    ("architecture", "features", "name"),
    [
        ("x86_64", [], "sse2"),
        ("x86_64", AVX2[:-1], "sse2"),
        ("x86_64", AVX2, "avx2"),
        ("x86_64", AVX512, "sse2"),
        ("x86_64", AVX2 + AVX512, "avx512"),
        ("aarch64", [], "neon"),
    ],
)
def test_the_best_variant_is_the_most_demanding_that_the_cpu_has(
    machine, architecture, features, name
):
    machine(architecture, features)
    assert targets.best_variant().name == name


def test_the_environment_chooses_a_variant(machine, monkeypatch):
    machine("x86_64", AVX2)
    monkeypatch.setenv("KDSL_VARIANT", "sse2")
    assert targets.best_variant().name == "sse2"
    monkeypatch.setenv("KDSL_VARIANT", "neon")
    with pytest.raises(BuildError) as error:
        targets.best_variant()
    assert str(error.value) == "KDSL_VARIANT=neon: this architecture has avx512, avx2, sse2"


def test_an_architecture_without_code_is_an_error():
    with pytest.raises(
        BuildError, match="kdsl has no CPU code for riscv64; it has x86_64, aarch64"
    ):
        targets.variants_of("riscv64")


def test_a_modules_own_choice_agrees_with_pythons(unit, machine):
    names = [v.name for v in targets.variants_of("x86_64")]
    assert names[unit.unit_variant()] == targets.best_variant().name


def test_the_environment_lowers_a_modules_choice(unit, monkeypatch):
    best = unit.unit_variant()
    for i, variant in enumerate(targets.variants_of("x86_64")):
        monkeypatch.setenv("KDSL_VARIANT", variant.name)
        # What the CPU cannot run is not chosen, whoever asks for it.
        assert unit.unit_variant() == max(best, i)


@pytest.fixture
def path(monkeypatch, tmp_path):
    """An empty PATH; `path(name)` puts a program there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    def add(name):
        file = tmp_path / name
        file.write_text("")
        file.chmod(0o755)
        return str(file)

    return add


def test_compilers_are_tried_in_order(path):
    clang = path("clang++")
    assert targets.find_compiler().command == (clang,)


def test_cxx_may_have_arguments(path, monkeypatch):
    wrapper = path("ccache")
    monkeypatch.setenv("CXX", "ccache g++ -m64")
    compiler = targets.find_compiler()
    assert compiler.command == (wrapper, "g++", "-m64")
    assert compiler.identity.startswith("g++ -m64 /")


def test_a_changed_compiler_has_another_identity(path, monkeypatch):
    program = path("g++")
    before = targets.find_compiler().identity
    targets._find_compiler.cache_clear()
    os.utime(program, ns=(1, 1))
    assert targets.find_compiler().identity != before


REMEDY = (
    "Install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; Alpine: apk add "
    "g++ musl-dev; conda: conda install gxx) or set CXX. A library that `kernel.export` wrote "
    "needs no compiler"
)


def test_no_compiler_is_an_error_that_lists_what_was_tried(path, monkeypatch, tmp_path):
    with pytest.raises(BuildError) as error:
        targets.find_compiler()
    assert str(error.value) == (
        f"no C++ compiler: CXX is not set, and none of g++, c++, clang++ is on PATH ({tmp_path}). "
        + REMEDY
    )
    monkeypatch.setenv("CXX", "icpx")
    with pytest.raises(BuildError) as error:
        targets.find_compiler()
    assert str(error.value) == (
        f"no C++ compiler: CXX is 'icpx', which is not on PATH ({tmp_path}). " + REMEDY
    )
