"""Compiling where something goes wrong: killed, no space, no rights, odd names."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import kdsl
from kdsl import Out, config, driver, f32
from kdsl.cache import LEFT_BEHIND, MODULE, Cache
from tests.house import ROOT

(N,) = kdsl.dims("N")


@kdsl.kernel
def double(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + x[n]


X = np.arange(5, dtype=np.float32)

SCRIPT = """
    import sys
    import numpy as np
    import kdsl
    from kdsl import Out, f32

    (N,) = kdsl.dims("N")

    @kdsl.kernel
    def double(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + x[n]

    print(double(np.ones(3, np.float32)).tolist())
"""


def fresh() -> kdsl.Kernel:
    """`double` as a new process would have it: nothing compiled yet."""
    return kdsl.kernel(double.__wrapped__)


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """SCRIPT as a process of its own, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, "script.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def modules(folder: Path) -> int:
    return len(list(folder.glob(f"*/store/*/{MODULE}")))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the test's own."""
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_eight_threads_compile_a_kernel_once_and_all_get_the_result(cache):
    kernel, ready, results = fresh(), threading.Barrier(8), []

    def call(size: int) -> None:
        ready.wait()
        results.append((size, kernel(X[:size]).tolist()))

    threads = [threading.Thread(target=call, args=(i % 5,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(got == (X[:size] * 2).tolist() for size, got in results)
    assert modules(cache) == 1


def test_a_process_killed_while_it_compiles_leaves_the_next_run_right(cache, tmp_path):
    pid = tmp_path / "pid"
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\necho $$ > "{pid}"\nexec sleep 60\n')
    compiler.chmod(0o755)
    run = start(tmp_path / "killed", CXX=str(compiler))
    while not (pid.exists() and pid.read_text().endswith("\n")) and run.poll() is None:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert modules(cache) == 0
    np.testing.assert_array_equal(fresh()(X), X * 2)
    assert modules(cache) == 1


def test_what_a_killed_build_left_is_swept_a_day_later(tmp_path):
    cache = Cache(tmp_path)
    old, new = (cache.root / "tmp" / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / MODULE).write_text("half")
    then = time.time() - LEFT_BEHIND - 60
    os.utime(old, (then, then))
    cache.publish("key", lambda folder: (folder / MODULE).write_text("x") and None)
    assert [path.name for path in (cache.root / "tmp").iterdir()] == ["new"]


LIMITED = """
    import resource
    {limit}
    try:
        print(double(np.ones(3, np.float32)).tolist())
    except (OSError, kdsl.BuildError) as err:
        print(type(err).__name__, err)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(double(np.ones(3, np.float32)).tolist())
"""


@pytest.mark.parametrize("size", [100, 20_000])
def test_no_space_is_an_error_that_says_so_and_leaves_nothing(size, cache, tmp_path):
    # Files past a size cannot be written, like those on a full disk: texts of 100 bytes, or what
    # the compiler makes of them.
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    head, _, _ = textwrap.dedent(SCRIPT).partition("print(")
    script = tmp_path / "limited.py"
    script.write_text(head + textwrap.dedent(LIMITED).format(limit=limit))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    first, *_, last = run.stdout.splitlines()
    assert first.startswith(("OSError [Errno 27] File too large", "BuildError ")), run.stderr
    assert last == "[2.0, 2.0, 2.0]"
    assert modules(cache) == 1
    assert list(cache.glob("*/tmp/*")) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_cache_that_cannot_store_costs_a_warning_not_the_call(code, cache, monkeypatch):
    config.private_cache_dir.cache_clear()
    publish = Cache.publish

    def full(self, key, build):
        if self.root.parent == cache:
            raise OSError(code, os.strerror(code))
        return publish(self, key, build)

    monkeypatch.setattr(Cache, "publish", full)
    with pytest.warns(UserWarning, match=f"kdsl cannot write to {cache}; compiled kernels go to"):
        np.testing.assert_array_equal(fresh()(X), X * 2)


@pytest.mark.parametrize(
    "environment",
    [
        {"KDSL_CACHE_DIR": "/proc/kdsl"},  # nobody can make a folder there
        {"KDSL_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/proc/nobody"},
    ],
    ids=["read-only", "no home"],
)
def test_a_folder_that_cannot_be_made_costs_a_warning_not_the_call(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config.private_cache_dir.cache_clear()
    with pytest.warns(UserWarning, match=r"kdsl cannot write to /proc/"):
        np.testing.assert_array_equal(fresh()(X), X * 2)


def test_a_folder_of_another_user_costs_a_warning_not_the_call(cache, monkeypatch):
    cache.mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != cache and allowed(path, mode))
    config.private_cache_dir.cache_clear()
    with pytest.warns(UserWarning, match=f"kdsl cannot write to {cache}"):
        np.testing.assert_array_equal(fresh()(X), X * 2)
    assert list(cache.iterdir()) == []


AS_ANOTHER = """
    import os, sys, warnings
    folder, owner, mode, user = sys.argv[1], *map(int, sys.argv[2:])
    # As root: the compiler's Python files may lie where the other user cannot read them.
    os.environ["KDSL_CACHE_DIR"] = folder + "/of root"
    print(double(np.ones(3, np.float32)).tolist())
    place = folder + "/shared"
    for path in (place, place + "/v1"):
        os.mkdir(path)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
    os.chmod(folder, 0o755)
    os.setgid(user)
    os.setuid(user)
    os.environ["KDSL_CACHE_DIR"] = place
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(kdsl.kernel(double.__wrapped__)(np.ones(3, np.float32)).tolist())
    print(*(str(w.message).partition(";")[0].replace(place, "PLACE") for w in caught))
"""
NOBODY = 65534


@pytest.mark.skipif(os.getuid() != 0, reason="needs a machine where the tests run as root")
@pytest.mark.parametrize(
    ("owner", "mode", "warning"),
    [
        (0, 0o755, "kdsl cannot write to PLACE"),
        (1, 0o755, "kdsl cannot write to PLACE"),
        (1, 0o777, "kdsl does not trust PLACE, another user's folder that everyone may write to"),
        (0, 0o1777, ""),
        (NOBODY, 0o700, ""),
    ],
)
def test_a_folder_of_a_real_other_user_is_left_alone(owner, mode, warning, tmp_path):
    head, _, _ = textwrap.dedent(SCRIPT).partition("print(")
    # Not in pytest's own folder, which others may not enter.
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(head + textwrap.dedent(AS_ANOTHER))
        run = subprocess.run(
            [sys.executable, str(script), folder, *map(str, (owner, mode, NOBODY))],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
    assert run.stdout.splitlines() == ["[2.0, 2.0, 2.0]"] * 2 + [warning], run.stderr


@pytest.fixture
def full(tmp_path):
    """A file system with room for some texts and no module."""
    folder = tmp_path / "full"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("needs a machine where the tests may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full_costs_a_warning_not_the_call(full, monkeypatch):
    config.private_cache_dir.cache_clear()
    monkeypatch.setenv("KDSL_CACHE_DIR", str(full))
    with pytest.warns(UserWarning, match=f"kdsl cannot write to {full}; compiled kernels go to"):
        np.testing.assert_array_equal(fresh()(X), X * 2)
    assert modules(full) == 0
    assert list(full.glob("*/tmp/*")) == []


def test_paths_may_have_spaces_and_letters_of_any_language(tmp_path):
    place = tmp_path / "mit Leerstellen é 学 $x 'q'"
    run = start(place, KDSL_CACHE_DIR=str(place / "der cache"), LC_ALL="C")
    output, errors = run.communicate()
    assert (output, errors) == ("[2.0, 2.0, 2.0]\n", "")
    assert modules(place / "der cache") == 1


def test_a_compiler_that_is_missing_is_told_with_what_was_tried_and_how_to_get_one(
    cache, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(kdsl.BuildError) as caught:
        fresh()(X)
    text = str(caught.value)
    assert text.startswith(
        "no C++ compiler: CXX is not set, and none of g++, c++, clang++ is on PATH "
        f"({tmp_path}). Install one (Debian, Ubuntu: apt install g++; "
    )
    assert text.endswith("A library that `kernel.export` wrote needs no compiler")
    assert driver.disk_cache().modules() == []
