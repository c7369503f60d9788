"""From a call to compiled code and back: caches, captured values, schedules, what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import kdsl
from kdsl import Out, Static, driver, f32, f64
from kdsl.cache import MODULE
from kdsl.codegen import archs
from tests.house import ROOT

T = kdsl.dtypes("T", f32, f64)
M, N, D = kdsl.dims("M N D")

SCALE = 2.0


@kdsl.kernel
def scaled(x: f32[N], o: Out[f32[N]], *, negate: Static[bool] = False):
    """o = x times SCALE."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * (-SCALE if negate else SCALE)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the test's own; the value counts its modules."""
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: len(list(tmp_path.glob(f"cache/*/store/*/{MODULE}")))


def fresh(kernel: kdsl.Kernel) -> kdsl.Kernel:
    """The same kernel as a new process would have it: nothing compiled yet."""
    return kdsl.kernel(kernel.__wrapped__)


X = np.arange(5, dtype=np.float32)


def test_a_kernel_compiles_once_and_is_found_again(cache):
    np.testing.assert_array_equal(fresh(scaled)(X), X * 2)
    assert cache() == 1
    np.testing.assert_array_equal(fresh(scaled)(X), X * 2)
    assert cache() == 1


def test_each_static_is_a_specialisation_of_its_own(cache):
    kernel = fresh(scaled)
    np.testing.assert_array_equal(kernel(X, negate=True), X * -2)
    np.testing.assert_array_equal(kernel(X, None, False), X * 2)
    assert cache() == 2


def test_a_captured_value_that_changes_is_seen_by_the_next_call(cache, monkeypatch):
    kernel = fresh(scaled)
    kernel(X)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_array_equal(kernel(X), X * 3)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    np.testing.assert_array_equal(kernel(X), X * 2)
    assert cache() == 2


def test_a_lookup_miss_with_a_store_hit_compiles_nothing(cache, monkeypatch):
    fresh(scaled)(X)
    for record in driver.disk_cache().root.glob("lookup/*"):
        record.unlink()
    from kdsl.codegen import build

    monkeypatch.setattr(build, "_run", lambda *a, **k: pytest.fail("compiled again"))
    np.testing.assert_array_equal(fresh(scaled)(X), X * 2)


def test_a_changed_header_is_another_module_of_the_same_text(cache, monkeypatch):
    fresh(scaled)(X)
    for record in driver.disk_cache().root.glob("lookup/*"):
        record.unlink()
    monkeypatch.setattr(driver.stamp, "headers", lambda: "changed")
    fresh(scaled)(X)
    assert cache() == 2


def test_a_torn_module_in_the_store_is_built_again(cache):
    fresh(scaled)(X)
    (module,) = driver.disk_cache().root.glob(f"store/*/{MODULE}")
    torn = module.with_name("torn")
    torn.write_bytes(b"")
    os.replace(torn, module)
    np.testing.assert_array_equal(fresh(scaled)(X), X * 2)
    assert module.stat().st_size > 0


def run_script(text: str, folder: Path, **env: str) -> str:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    environment = {**os.environ, "KDSL_CACHE_DIR": str(folder / "cache"), **env}
    command = [sys.executable, str(script)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


DOUBLE = """
    import sys
    import numpy as np
    import kdsl
    from kdsl import Out, f32

    (N,) = kdsl.dims("N")

    @kdsl.kernel
    def double(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + x[n]

    assert double(np.ones(3, np.float32)).tolist() == [2.0, 2.0, 2.0]
    heavy = {"jinja2", "lark", "ninja", "kdsl.ir.parser", "kdsl.passes.pipeline"}
    print(sorted(heavy & set(sys.modules)))
"""


def test_a_disk_cache_hit_imports_nothing_of_the_compiler(tmp_path):
    assert "jinja2" in run_script(DOUBLE, tmp_path)
    assert run_script(DOUBLE, tmp_path) == "[]\n"


def test_the_sources_stay_beside_the_module_when_asked_for(cache, monkeypatch):
    monkeypatch.setenv("KDSL_KEEP", "1")
    fresh(scaled)(X)
    (module,) = driver.disk_cache().root.glob(f"store/*/{MODULE}")
    names = {path.name for path in module.parent.iterdir()}
    assert names == {MODULE, "size", "scaled.cc", "scaled.h", "scaled_args.h", "scaled_cpu.cc"}


def test_a_compiler_that_fails_is_a_build_error_that_names_the_log(cache, monkeypatch):
    monkeypatch.setenv("CXX", "g++ -DX=( -fno-such-flag")
    with pytest.raises(kdsl.BuildError, match=r"The full log is .*build\.log\.") as caught:
        fresh(scaled)(X)
    log = Path(str(caught.value).split("The full log is ")[1].rstrip(".").strip())
    assert "no-such-flag" in log.read_text()
    assert (log.parent / "scaled_cpu.cc").exists()


def test_a_missing_compiler_is_a_build_error_that_says_what_was_tried(cache, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(kdsl.BuildError, match="CXX is 'no-such-compiler', which is not on PATH"):
        fresh(scaled)(X)


@kdsl.kernel
def product(a: T[M, D], b: T[D, N], o: Out[T[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        o[m, n] = kdsl.dot(a[m], b[:, n])


def test_the_size_of_a_fixed_dim_is_part_of_the_specialisation():
    source = product.compiler
    assert source.fixed_dims(source.default({}, {}, {})) == ("D",)
    assert "fixed D = 8" in product.show("ir", dims={"D": 8})
    assert "fixed" not in product.show("ir")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtypes": {"U": f32}}, "product: no dtype variable is called 'U'; there are: T"),
        ({"dtypes": {"T": kdsl.bf16}}, "product: T is one of f32, f64, got bf16"),
        ({"statics": {"x": 1}}, "product: no static is called 'x'; there are: none"),
        ({"dims": {"M": 4}}, "product: no fixed dim is called 'M'; there are: D"),
    ],
    ids=str,
)
def test_a_choice_that_is_none_is_told_with_those_there_are(options, message):
    with pytest.raises(ValueError) as caught:
        product.show("ir", **options)
    assert str(caught.value) == message


def test_show_knows_six_things():
    assert product.show().startswith("kernel product_f32(")
    assert "product_f32" in product.show("cpu")
    assert '#include "product.h"' in product.show("host")
    with pytest.raises(ValueError) as caught:
        product.show("x")
    assert str(caught.value) == (
        'show: expected "ir", "plan", "cpu", "host", "cuda:sm_80" or "ptx:sm_80" and such, '
        "got 'x'"
    )
    for what in ("cuda", "ptx", "ptx:", "cuda:sm_70", "ptx:sm_70"):
        kind = what.partition(":")[0]
        with pytest.raises(ValueError) as caught:
            product.show(what)
        assert str(caught.value) == (
            f"kdsl has no target {what!r}; for CUDA name an architecture as in "
            f'"{kind}:sm_80", one of {", ".join(archs.ARCHS)}'
        )


def test_tuning_changes_the_code_and_not_the_result(cache):
    kernel = fresh(product)
    a, b = np.ones((70, 8), np.float32), np.ones((8, 90), np.float32)
    before = kernel(a, b)
    kernel.tune("cpu", tiles={"m": 16, "n": 32})
    np.testing.assert_array_equal(kernel(a, b), before)
    assert cache() == 2


@kdsl.kernel
def twice(x: f32[M], y: f32[N], o: Out[f32[()]]):
    for _ in kdsl.parallel(1):
        total = kdsl.zeros()
        for n in kdsl.tiles(M):
            total = total + x[n].sum()
        for n in kdsl.tiles(N):
            total = total + y[n].sum()
        o[()] = total


def test_two_loops_with_one_variable_cannot_be_tuned():
    with pytest.raises(ValueError) as caught:
        twice.tune("cpu", tiles={"n": 64})
    assert str(caught.value) == (
        "twice: 2 loops over tiles have the variable `n`; give each its own to tune them, "
        "or name the second `n_2`"
    )


@pytest.mark.parametrize(
    ("target", "tiles", "message"),
    [
        ("tpu", {}, 'kdsl has no target \'tpu\'; it has "cpu" and, as "cuda:sm_80", CUDA'),
        ("cpu", {"m": 0}, "product: tile size of `m` must be an integer above 0, got 0"),
        ("cpu", {"k": 8}, "product: no loop over tiles has the variable `k`; there are `m`, `n`"),
    ],
)
def test_tuning_says_what_it_does_not_know(target, tiles, message):
    with pytest.raises(ValueError) as caught:
        fresh(product).tune(target, tiles=tiles)
    assert str(caught.value) == message


def test_eight_processes_compile_a_kernel_once_between_them(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(DOUBLE))
    env = {**os.environ, "KDSL_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.Popen([sys.executable, str(script)], env=env, cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    assert [run.communicate()[1] for run in runs] == [b""] * 8
    assert [run.returncode for run in runs] == [0] * 8
    assert len(list(tmp_path.glob(f"cache/*/store/*/{MODULE}"))) == 1
    assert list(tmp_path.glob("cache/*/tmp/*")) == []


def test_a_home_that_cannot_be_written_costs_a_warning_not_the_call(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    env = {**os.environ, "HOME": str(blocked), "XDG_CACHE_HOME": ""}
    env.pop("KDSL_CACHE_DIR")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(DOUBLE))
    run = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0
    assert "kdsl cannot write to" in run.stderr
