"""The house rules: layers, file sizes, light import, headers that stand alone, one door each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import house
from tests.house import ROOT

MODULES = house.modules()
HEADERS = [
    h for h in house.tracked(".h", under=("include/",)) if "cuda" not in h.parts
]  # of those that nvcc reads, tests/cuda


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_only_its_own_part_and_lower_layers(module):
    wrong = []
    for name in house.imports(MODULES[module]):
        other = house.resolve(name, MODULES)
        if other is None or not name.startswith("kdsl") or house.part(other) == house.part(module):
            continue
        if other == "kdsl" or house.rank(other) >= house.rank(module):
            wrong.append(name)
    assert wrong == []


def test_the_runtime_imports_nothing_of_kdsl_but_itself():
    outside = {
        f"{module}: {name}"
        for module, file in MODULES.items()
        if house.part(module) == "runtime"
        for name in house.imports(file)
        if name.startswith("kdsl") and not name.startswith("kdsl.runtime")
    }
    assert outside == set()


def test_no_two_modules_import_each_other_through_any_chain():
    graph = {
        module: {
            other
            for name in house.imports(file)
            if name.startswith("kdsl") and (other := house.resolve(name, MODULES)) != module
        }
        for module, file in MODULES.items()
    }
    # The lazy names of `kdsl` point everywhere by design; nothing inside imports `kdsl` itself.
    graph.pop("kdsl")
    left = set(graph)
    # Peel off what imports nothing that is left, then what nothing left imports: cycles stay.
    while free := {m for m in left if not graph[m] & left}:
        left -= free
    while free := {m for m in left if not any(m in graph[other] for other in left)}:
        left -= free
    assert sorted(left) == []


def test_source_files_have_at_most_500_lines_and_templates_80():
    limits = {".py": 500, ".c": 500, ".cc": 500, ".h": 500, ".lark": 500, ".j2": 80}
    long = {}
    for file in house.tracked(*limits):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > limits[file.suffix] and "golden" not in file.parts:
            long[str(file.relative_to(ROOT))] = lines
    assert long == {}


def test_each_third_party_package_has_one_door():
    doors = {
        f"{file.relative_to(ROOT)}: {package}"
        for file in MODULES.values()
        for name in house.imports(file)
        if (package := name.partition(".")[0]) in house.DOORS
        and str(file.relative_to(ROOT)) != house.DOORS[package]
    }
    assert doors == set()


def test_environment_variables_are_read_in_config_alone():
    readers = {
        str(file.relative_to(ROOT))
        for module, file in MODULES.items()
        if house.part(module) not in ("config", "runtime")
        and re.search(r"\bos\.(environ|getenv)\b", file.read_text(encoding="utf-8"))
    }
    assert readers == set()


def test_importing_kdsl_loads_no_third_party_package():
    heavy = "{'numpy', 'torch', 'jax', 'jinja2', 'lark', 'ninja', 'ml_dtypes', 'filelock'}"
    code = f"import sys, kdsl; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_no_text_names_a_path_of_the_machine_it_was_written_on():
    # Spelled in pieces, or this file would name them itself.
    paths = re.compile(
        "|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + r"me/\w+/", "/tm" + r"p/\w"))
    )
    named = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in house.tracked(".py", ".md", ".h", ".c", ".cc", ".j2", ".toml", ".sh", ".kdsl")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if paths.search(line)
    ]
    assert named == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: str(h.relative_to(ROOT / "include")))
def test_a_public_header_compiles_alone(header, tmp_path):
    variants = [[]]
    if "cpu" in header.parts:
        # All of it is inlined, so that no vector is ever passed and no ABI of one matters.
        variants = [["-Wno-psabi", f"-march={m}"] for m in ("x86-64", "x86-64-v3")]
        variants = variants if _compiles_for_x86() else [["-Wno-psabi"]]
    source = tmp_path / "alone.cc"
    source.write_text(f"#include <{header.relative_to(ROOT / 'include')}>\n")
    for flags in variants:
        command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *flags]
        run = subprocess.run(
            [*command, f"-I{ROOT / 'include'}", str(source)], capture_output=True, text=True
        )
        assert run.stderr == ""


def test_a_wheel_carries_the_headers_the_templates_and_the_core(tmp_path):
    wheel = house.build_wheel(tmp_path)
    assert "-cp311-abi3-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    shared = house.tracked(".h", ".j2", under=("include/", "templates/"))
    wanted = {f"kdsl/share/{file.relative_to(ROOT)}" for file in shared}
    wanted |= {str(file.relative_to(ROOT)) for file in MODULES.values()}
    wanted |= {str(file.relative_to(ROOT)) for file in house.tracked(".lark", under=("kdsl/",))}
    assert wanted - names == set()
    assert any(Path(name).name.startswith("_core.") for name in names)

    # What was unpacked is all that this run has of kdsl: it compiles with its own headers.
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = f"""
import runpy, kdsl.paths
print(kdsl.paths.include_dir(), kdsl.paths.template_dir())
runpy.run_path({str(ROOT / "examples" / "add.py")!r}, run_name="__main__")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    share = tmp_path / "site" / "kdsl" / "share"
    assert run.stdout.splitlines() == [
        f"{share / 'include'} {share / 'templates'}",
        "add: equal to NumPy, bit for bit",
    ], run.stderr


def _compiles_for_x86() -> bool:
    run = subprocess.run(["g++", "-dumpmachine"], capture_output=True, text=True)
    return run.stdout.startswith("x86_64")
