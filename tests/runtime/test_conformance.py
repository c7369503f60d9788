"""{a module by hand, a module with apache-tvm-ffi's headers} x {kdsl's runtime, apache-tvm-ffi}."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import tvm_ffi
from tvm_ffi import libinfo

import kdsl.runtime
from kdsl.runtime import Tensor, _core

ROOT = Path(__file__).parent.parent.parent
RUNTIMES: dict[str, Callable[[str], Any]] = {
    "kdsl": kdsl.runtime.load_module,
    "tvm_ffi": tvm_ffi.load_module,
}


@pytest.fixture(scope="session")
def official_path(build: Callable[..., Path]) -> Path:
    library = Path(libinfo.find_libtvm_ffi()).parent
    include = f"-I{libinfo.find_include_path()}"
    dlpack = f"-I{libinfo.find_dlpack_include_path()}"
    return build("official.cc", "-std=c++17", include, dlpack, f"-L{library}", "-ltvm_ffi")


@pytest.fixture(params=RUNTIMES)
def hand(request: pytest.FixtureRequest, hand_path: Path) -> Any:
    return RUNTIMES[request.param](str(hand_path))


@pytest.fixture(params=RUNTIMES)
def official(request: pytest.FixtureRequest, official_path: Path) -> Any:
    return RUNTIMES[request.param](str(official_path))


def test_a_hand_made_module_works_under_both(hand: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert hand.nop(x, x) is None
    assert hand.view(x.T) == "dtype 2:32:1 shape 3 2 strides 1 3 first 0"
    scaled = hand.scale(x, 2.0)
    assert type(scaled) is torch.Tensor
    assert torch.equal(scaled, x * 2)
    double, triple = hand.pair(x)
    assert torch.equal(double, x * 2)
    assert torch.equal(triple, x * 3)
    assert [hand.echo(v) for v in (None, 3, True, 1.5, "short")] == [None, 3, True, 1.5, "short"]
    assert hand.increment(x, 1.0) is None
    assert x[0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", ["TypeError", "ValueError", "IndexError", "RuntimeError"])
def test_errors_of_a_hand_made_module_work_under_both(hand: Any, kind: str) -> None:
    for _ in range(2):
        with pytest.raises(Exception, match=r"^a reason$") as caught:
            hand.fail(kind, "a reason")
        assert type(caught.value).__name__ == kind


def test_an_official_module_works_under_both(official: Any) -> None:
    x, y = torch.arange(4.0), torch.zeros(8)
    assert official.scale_into(x, 2.5, y[::2]) is None
    assert y[::2].tolist() == [0.0, 2.5, 5.0, 7.5]
    doubled = official.doubled(x)
    assert type(doubled) is torch.Tensor
    assert doubled.tolist() == [0.0, 2.0, 4.0, 6.0]
    same, twice = official.both(x)
    assert same.data_ptr() == x.data_ptr()
    assert twice.tolist() == doubled.tolist()
    assert official.total([1, 2, 3]) == 6
    assert official.greet("bob", True) == "hello bob!"
    assert official.greet("a long name", False) == "hello a long name"
    assert [official.maybe(v) for v in (None, 2, 2.5)] == [None, 2.0, 2.5]
    assert list(official.shape_of(torch.ones(2, 3))) == [2, 3]
    assert official.adder(3)(4) == 7


@pytest.mark.parametrize("kind", ["TypeError", "ValueError", "IndexError", "RuntimeError"])
def test_errors_of_an_official_module_work_under_both(official: Any, kind: str) -> None:
    with pytest.raises(Exception, match="on purpose") as caught:
        official.fail(kind)
    assert type(caught.value).__name__ == kind
    with pytest.raises(TypeError, match=r"Mismatched type on argument #1"):
        official.scale_into(torch.ones(1), "two", torch.ones(1))
    with pytest.raises(ValueError, match="expected size 2, got 3"):
        official.scale_into(torch.ones(2), 1.0, torch.ones(3))


@pytest.mark.parametrize("make", [np.arange, torch.arange, jnp.arange])
def test_an_official_module_returns_the_kind_that_came_in(
    official_path: Path, make: Callable[..., Any]
) -> None:
    official = kdsl.runtime.load_module(official_path)
    x = make(4, dtype=torch.float32 if make is torch.arange else "float32")
    for result in (official.doubled(x), official.both(x)[1]):
        assert isinstance(result, jax.Array if make is jnp.arange else type(x))
        assert result.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_metadata_of_an_official_module_gives_the_types(build: Callable[..., Path]) -> None:
    library = Path(libinfo.find_libtvm_ffi()).parent
    include = f"-I{libinfo.find_include_path()}"
    flags = ["-std=c++17", include, f"-L{library}", "-ltvm_ffi"]
    path = build("described.cc", *flags)
    module = kdsl.runtime.load_module(path)
    assert repr(module.viewed) == "<kdsl function viewed(DLTensor*, Optional[float])>"
    assert repr(module.negated) == "<kdsl function negated(DLTensor*, int)>"
    x = np.ones(3, np.float32)
    assert module.negated(x, 1) is None
    assert x.tolist() == [1.0, -1.0, 1.0]


def test_a_module_may_keep_what_it_got(official_path: Path) -> None:
    ours, theirs = (load(str(official_path)) for load in RUNTIMES.values())
    ours.exchange(None)
    for make in (lambda: np.arange(3), lambda: torch.arange(3), lambda: jnp.arange(3)):
        ours.exchange(make())
        kept = ours.exchange(None)
        assert type(kept) is Tensor
        assert np.asarray(kept).tolist() == [0, 1, 2]
    theirs.exchange(torch.ones(2))
    assert np.asarray(ours.exchange("text that is long")).tolist() == [1.0, 1.0]
    assert theirs.exchange(None) == "text that is long"


def test_read_only_memory_comes_back_read_only(official_path: Path) -> None:
    official = kdsl.runtime.load_module(official_path)
    x = np.ones(3, np.float32)
    assert official.both(x)[0].flags.writeable
    x.flags.writeable = False
    assert not official.both(x)[0].flags.writeable
    official.exchange(jnp.ones(3))
    assert not np.asarray(official.exchange(None)).flags.writeable


def test_tensors_of_each_runtime_go_to_the_other(official_path: Path, hand_path: Path) -> None:
    ours, theirs = (load(str(official_path)) for load in RUNTIMES.values())
    theirs_tensor = tvm_ffi.from_dlpack(np.arange(3, dtype=np.float32))
    assert np.from_dlpack(ours.doubled(theirs_tensor)).tolist() == [0.0, 2.0, 4.0]
    hand = kdsl.runtime.load_module(hand_path)
    our_tensor = hand.scale(memoryview(np.arange(3, dtype=np.float32)))
    assert type(our_tensor) is Tensor
    assert np.from_dlpack(theirs.doubled(our_tensor)).tolist() == [0.0, 2.0, 4.0]


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ALTERNATE = """
import sys
sys.modules["torch"] = None  # it would be imported, and is of no use here
import {first}
import {second}
import kdsl.runtime, tvm_ffi
from kdsl.runtime import _core
ours, theirs = kdsl.runtime.load_module({hand!r}), tvm_ffi.load_module({hand!r})
for i in range(4):
    for module in (ours, theirs):
        for kind in (ValueError, IndexError):
            try:
                module.fail(kind.__name__, f"number {{i}}")
            except kind as err:
                assert str(err).startswith(f"number {{i}}"), err
print(_core.provider())
"""


@pytest.mark.parametrize(
    ("first", "second"), [("kdsl.runtime", "tvm_ffi"), ("tvm_ffi", "kdsl.runtime")]
)
def test_both_runtimes_share_a_process_in_either_order(
    hand_path: Path, first: str, second: str
) -> None:
    script = ALTERNATE.format(first=first, second=second, hand=str(hand_path))
    assert run(script) == "tvm_ffi"
    assert run(script, KDSL_RUNTIME="bundled") == "bundled"


def test_a_module_of_ours_brings_no_other_runtime(hand_path: Path) -> None:
    script = (
        "import kdsl.runtime as r; from kdsl.runtime import _core; "
        f"r.load_module({str(hand_path)!r}).many(1); "
        "print(_core.provider(), 'libtvm_ffi' in open('/proc/self/maps').read())"
    )
    assert run(script) == "bundled False"
    assert run(script, KDSL_RUNTIME="tvm_ffi") == "tvm_ffi True"


def test_an_error_raised_under_one_runtime_is_not_seen_by_the_other(
    hand_path: Path, official_path: Path
) -> None:
    ours, theirs = (load(str(hand_path)) for load in RUNTIMES.values())
    with pytest.raises(KeyError, match="old"):
        theirs.fail("KeyError", "old")
    with pytest.raises(RuntimeError, match="silent: failed without saying why"):
        ours.silent()
    with pytest.raises(KeyError, match="old"):
        ours.fail("KeyError", "old")
    with pytest.raises(IndexError, match="on purpose"):
        kdsl.runtime.load_module(official_path).fail("IndexError")


def test_the_provider_is_the_loaded_library(official_path: Path) -> None:
    kdsl.runtime.load_module(official_path)
    assert _core.provider() == "tvm_ffi"
