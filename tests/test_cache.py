"""The disk cache: what stands under a final name is complete, whoever races for it."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from kdsl import config, paths
from kdsl.cache import MODULE, Cache, digest


def _write_slowly(folder: Path) -> None:
    """A build that leaves a torn file visible for a while, and a trace that it ran."""
    (folder / "module.log").write_text("log")
    with open(folder / MODULE, "wb") as file:
        for _ in range(8):
            file.write(b"x" * 1000)
            file.flush()
            time.sleep(0.01)


def _race(root: str, start, results) -> None:
    cache = Cache(Path(root))
    builds = []

    def build(folder: Path) -> None:
        builds.append(os.getpid())
        _write_slowly(folder)

    start.wait()
    module = cache.publish("key", build)
    results.put((module.stat().st_size, len(builds)))


def test_eight_processes_publish_one_module_built_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    racers = [context.Process(target=_race, args=(str(tmp_path), start, results)) for _ in range(8)]
    for racer in racers:
        racer.start()
    start.set()
    seen = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert [size for size, _ in seen] == [8000] * 8
    assert sum(builds for _, builds in seen) == 1
    assert list((Cache(tmp_path).root / "tmp").iterdir()) == []


def test_a_published_module_is_found_and_its_size_guards_against_a_torn_one(tmp_path):
    cache = Cache(tmp_path)
    module = cache.publish("key", _write_slowly)
    assert cache.find("key") == module
    module.write_bytes(b"torn")
    assert cache.find("key") is None
    assert cache.publish("key", _write_slowly).stat().st_size == 8000
    assert cache.find("other") is None


def test_a_build_that_fails_leaves_nothing_in_the_store(tmp_path):
    cache = Cache(tmp_path)

    def build(folder: Path) -> None:
        (folder / MODULE).write_text("half")
        raise RuntimeError("compiler failed")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="compiler failed"):
            cache.publish("key", build)
    assert cache.find("key") is None
    assert list((cache.root / "tmp").iterdir()) == []


def test_a_lookup_record_comes_back_and_an_unreadable_one_is_a_miss(tmp_path):
    cache = Cache(tmp_path)
    assert cache.lookup("key") is None
    cache.remember("key", "abc")
    assert cache.lookup("key") == "abc"
    (cache.root / "lookup" / "key").write_bytes(b"\xff")
    assert cache.lookup("key") is None


def test_a_digest_tells_where_one_text_ends_and_the_next_begins():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab", "c"]) == digest(iter(["ab", "c"]))


def test_clear_empties_the_cache_and_counts_modules(tmp_path):
    cache = Cache(tmp_path)
    cache.publish("a", _write_slowly)
    cache.publish("b", _write_slowly)
    assert cache.size() == (2, 16014)
    assert cache.clear() == 2
    assert cache.size() == (0, 0)


def test_the_cache_folder_follows_the_environment(tmp_path):
    assert paths.user_cache_dir({"KDSL_CACHE_DIR": str(tmp_path)}) == tmp_path
    assert paths.user_cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "kdsl"


def test_a_folder_that_cannot_be_written_falls_back_to_a_private_one_with_one_warning(
    tmp_path, monkeypatch
):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("KDSL_CACHE_DIR", str(blocked / "cache"))
    with pytest.warns(UserWarning, match=f"kdsl cannot write to {blocked}"):
        private = config.cache_dir()
    assert private.is_dir()
    assert config.cache_dir() == private
