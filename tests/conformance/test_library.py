"""What a module needs, and what it shows: readable from the file alone."""

from __future__ import annotations

import re
import subprocess


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_libc_is_the_only_library_it_needs(samples_path):
    dynamic = run("readelf", "-d", str(samples_path))
    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libc.so.6"]
    assert "NODELETE" in dynamic
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_no_symbol_is_newer_than_glibc_2_17(samples_path):
    symbols = run("nm", "-D", "--undefined-only", str(samples_path))
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", symbols)}
    assert versions
    assert max(versions) <= (2, 17)
    strong = [line.split()[-1] for line in symbols.splitlines() if line.split()[0] == "U"]
    assert [name for name in strong if "@GLIBC" not in name] == []


def test_it_shows_what_hosts_look_for_and_nothing_else(samples_path):
    symbols = run("nm", "-D", "--defined-only", str(samples_path))
    functions = ("axpy", "attention", "pick", "drop", "take")
    prefixes = ("__tvm_ffi_", "__tvm_ffi__metadata_", "__tvm_ffi__doc_")
    wanted = {prefix + name for prefix in prefixes for name in functions}
    wanted |= {"__kdsl_functions", "__kdsl_rt", "__kdsl_last_error"}
    assert {line.split()[-1] for line in symbols.splitlines()} == wanted


def test_it_takes_no_room_in_thread_local_storage(samples_path):
    assert " TLS " not in run("readelf", "-lW", str(samples_path))
