"""Streams, allocators and kinds of results for arrays on a device.

The device is one of a small framework in modules/device.c, which says what it was asked for; its
memory is the host's, so that results can be read.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.machinery
import importlib.util
import subprocess
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kdsl.runtime import Device, List, Module, Tensor, current_stream, load_module, use_stream

CUDA, ROCM = 2, 10


@pytest.fixture(scope="session")
def device_path(build: Callable[..., Path]) -> Path:
    include = f"-I{sysconfig.get_paths()['include']}"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
    return build("device.c", *flags, include)


@pytest.fixture(scope="session")
def module(device_path: Path) -> Module:
    return load_module(device_path)


@pytest.fixture
def device(device_path: Path, module: Module) -> Iterator[Any]:
    """The framework; all its arrays are gone after the test."""
    loader = importlib.machinery.ExtensionFileLoader("device", str(device_path))
    spec = importlib.util.spec_from_loader("device", loader)
    assert spec is not None
    found = sys.modules.get("device") or importlib.util.module_from_spec(spec)
    sys.modules["device"] = found
    found.set_state(0, False)
    yield found
    gc.collect()
    assert found.counts()[0] == 0


@pytest.mark.parametrize("name", ["doubled", "known"])
def test_memory_and_results_are_the_callers(device: Any, module: Module, name: str) -> None:
    x = device.array(CUDA, 1, 1.0, 2.0)
    y = module[name](x)
    assert type(y) is device.Array
    assert y.tolist() == [2.0, 4.0]
    live, allocated, imported, _ = device.counts()
    assert (live, allocated, imported) == (2, 1, 1)


def test_the_stream_is_the_frameworks(device: Any, module: Module) -> None:
    device.set_state(0x77, False)
    x = device.array(CUDA, 1, 1.0)
    assert module.stream_of_last(x) == 0x77
    assert module.stream_of_last(1, "two", x) == 0x77
    assert module.stream_of_last([x], {"k": x}, x) == 0x77
    assert device.counts()[3] == 3  # asked once a call
    assert module.stream(CUDA, 1) == 0  # no tensor, no stream
    assert module.stream_of_last(np.ones(1), x) == 0x77
    assert module.stream_of_last(x, np.ones(1)) == 0


def test_the_first_device_of_a_call_has_the_stream(device: Any, module: Module) -> None:
    device.set_state(0x77, False)
    one, two = device.array(CUDA, 1, 1.0), device.array(CUDA, 2, 1.0)
    assert module.stream_of_last(one, two) == 0
    assert module.stream_of_last(two, one, two) == 0x77


def test_use_stream_wins_over_the_framework(device: Any, module: Module) -> None:
    device.set_state(0x77, False)
    x = device.array(CUDA, 1, 1.0)
    with use_stream(0x11, "cuda:1"):
        assert module.stream_of_last(x) == 0x11
        assert current_stream("cuda:1") == 0x11
        assert module.stream(CUDA, 0) == 0
        with use_stream(0x22, Device("cuda", 1)), use_stream(0x33, torch.device("cuda", 0)):
            assert module.stream_of_last(x) == 0x22
            assert module.stream(CUDA, 0) == 0x33
        assert module.stream_of_last(x) == 0x11
        with use_stream(None, "cuda:1"):  # the default stream, said out loud
            assert module.stream_of_last(x) == 0
    assert module.stream_of_last(x) == 0x77
    assert current_stream("cuda:1") == 0


def test_every_kind_of_stream_is_taken(device: Any, module: Module) -> None:
    class Speaks:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0x44

    class Torchs:
        cuda_stream = 0x55
        device = torch.device("cuda", 1)

    for stream, handle in (
        (0x33, 0x33),
        (ctypes.c_void_p(0x66), 0x66),
        (ctypes.c_void_p(None), 0),
        (Speaks(), 0x44),
        (Torchs(), 0x55),
        (2**64 - 1, 2**64 - 1),
    ):
        with use_stream(stream, "cuda:1"):
            assert current_stream("cuda:1") == handle
    with use_stream(Torchs()):  # it knows its device
        assert current_stream("cuda:1") == 0x55
        assert current_stream() == 0
    with use_stream(Speaks()):
        assert current_stream() == 0x44


@pytest.mark.parametrize("wrong", ["stream", 1.5, True, object(), [1]])
def test_what_is_no_stream_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="use_stream: expected a stream of Torch or CuPy"):
        use_stream(wrong)


def test_wrong_handles_and_devices_are_errors() -> None:
    with pytest.raises(ValueError, match="no device 'moon:1'"):
        use_stream(1, "moon:1")
    with pytest.raises(OverflowError), use_stream(2**65, "cuda:3"):
        pass
    assert current_stream("cuda:3") == 0
    with contextlib.ExitStack() as stack:
        for n in range(16):
            stack.enter_context(use_stream(n + 1, f"cuda:{n}"))
        with pytest.raises(ValueError, match="at most 16 devices"):
            stack.enter_context(use_stream(1, "cuda:16"))
    assert current_stream("cuda:3") == 0


def test_a_stream_is_set_again_after_an_error(device: Any, module: Module) -> None:
    with pytest.raises(RuntimeError), use_stream(0x11, "cuda:1"):
        raise RuntimeError
    assert current_stream("cuda:1") == 0
    again = use_stream(0x11, "cuda:1")
    with again, again:
        assert current_stream("cuda:1") == 0x11
    assert current_stream("cuda:1") == 0


def test_streams_belong_to_a_thread(device: Any, module: Module) -> None:
    x = device.array(CUDA, 1, 1.0)
    seen: list[int] = []
    with use_stream(0x11, "cuda:1"):
        thread = threading.Thread(target=lambda: seen.append(module.stream_of_last(x)))
        thread.start()
        thread.join()
        assert seen == [0]
        assert module.stream_of_last(x) == 0x11


def test_callbacks_work_on_the_stream_of_the_call_around_them(device: Any, module: Module) -> None:
    device.set_state(0x77, False)
    x = device.array(CUDA, 1, 1.0)
    seen: list[Any] = []

    def inner(y: Any) -> int:
        seen.append((type(y), y.tolist(), current_stream("cuda:1"), module.stream(CUDA, 1)))
        with use_stream(0x88, "cuda:1"):
            seen.append(module.stream_of_last(y))
        return int(module.stream_of_last(y))

    assert module.call(inner, x) == 0x77
    assert seen == [(device.Array, [1.0], 0x77, 0x77), 0x88]


def test_modules_of_official_headers_see_the_same_stream(device: Any, containers: Module) -> None:
    device.set_state(0x77, False)
    x, place = device.array(CUDA, 1, 1.0), Device("cuda:1")
    assert containers.stream_now(place) == 0
    assert containers.stream_with(x, place) == 0x77
    with use_stream(0x11, place):
        assert containers.stream_now(place) == 0x11
        assert containers.stream_with(x, place) == 0x11
        with use_stream(0x22, place):
            assert containers.stream_now(place) == 0x22
        assert containers.stream_now(place) == 0x11
    assert containers.stream_now(place) == 0
    assert type(containers.same(x)) is device.Array


def test_a_full_device_is_a_memory_error(device: Any, module: Module) -> None:
    device.set_state(0, True)
    x = device.array(CUDA, 1, 1.0)
    for name in ("doubled", "known"):
        with pytest.raises(MemoryError, match="the device is full"):
            module[name](x)


def test_without_a_framework_on_the_device_nothing_is_allocated(
    device: Any, module: Module
) -> None:
    x = device.array(CUDA, 1, 1.0)
    with pytest.raises(ValueError, match="no framework offers memory on its device"):
        module.doubled(List([np.ones(1), x])[1])  # comes as a Tensor of no framework


def test_tensors_in_containers_keep_kind_and_stream(device: Any, module: Module) -> None:
    x = device.array(CUDA, 1, 1.0, 2.0)
    back = module.same({"a": [x], "b": List([x])})
    assert type(back["a"][0]) is device.Array
    assert type(back["b"][0]) is device.Array
    assert back["b"][0].tolist() == [1.0, 2.0]
    assert type(module.same([np.ones(1), x])[1]) is Tensor  # NumPy has nothing on a device
    del back


def test_a_tensor_on_a_device_says_so(device: Any, module: Module) -> None:
    x = device.array(CUDA, 1, 1.0, 2.0)
    held = List([np.ones(1), x])[1]
    assert type(held) is Tensor
    assert held.device == "cuda:1" or held.device == (CUDA, 1)
    assert repr(held) == "<kdsl.runtime.Tensor f32[2] on cuda:1>"
    assert held.__dlpack_device__() == (CUDA, 1)
    with pytest.raises(ValueError, match=r"numpy\(\): expected .* host memory, got one on cuda:1"):
        held.numpy()
    with pytest.raises(BufferError, match="has no form in the buffer protocol"):
        memoryview(held)
    with pytest.raises(BufferError, match=r"exported where it lies: on device \(2, 1\)"):
        held.__dlpack__(dl_device=(1, 0))
    with pytest.raises(ValueError, match="expected one of whole bytes in host memory"):
        held.__dlpack__(copy=True)


class Producer:
    """An array on a device by `__dlpack__` alone, as CuPy's are; it notes the stream it is told."""

    def __init__(self, array: Any, module: Module, place: tuple[int, int]) -> None:
        self.inner: Tensor = List([np.ones(1), array])[1]
        self.place = place
        self.told: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, *, stream: object = None, max_version: Any = None) -> object:
        self.told.append(stream)
        return self.inner.__dlpack__(stream=-1, max_version=max_version)


@pytest.mark.parametrize(
    ("place", "default", "other"), [((CUDA, 1), 1, 0x11), ((ROCM, 1), 0, 0x11)]
)
def test_a_producer_is_told_our_stream(
    device: Any, module: Module, place: tuple[int, int], default: int, other: int
) -> None:
    """The default stream of CUDA is spelt 1, that of ROCm 0."""
    x = Producer(device.array(*place, 1.0), module, place)
    module.stream_of_last(x)
    with use_stream(0x11, place):
        assert module.stream_of_last(x) == 0x11
    assert x.told == [default, other]


def test_a_producer_works_on_the_stream_of_the_first_array(device: Any, module: Module) -> None:
    device.set_state(0x77, False)
    first = device.array(CUDA, 1, 1.0)
    second = Producer(device.array(CUDA, 1, 1.0), module, (CUDA, 1))
    third = Producer(device.array(CUDA, 2, 1.0), module, (CUDA, 2))
    assert module.stream_of_last(first, second, third, first) == 0x77
    assert second.told == [0x77]
    assert third.told == [1]


def test_a_producer_on_the_cpu_is_told_of_no_stream(device: Any, module: Module) -> None:
    class Plain:
        def __dlpack__(self, **keywords: object) -> object:
            assert "stream" not in keywords
            return np.ones(3, np.float32).__dlpack__()

    assert isinstance(module.same(Plain()), Tensor)


def test_a_library_of_its_own_gets_its_arrays_back(device: Any, module: Module) -> None:
    """What has `from_dlpack` in the module of its class, as CuPy, is given results by it."""
    source = """
import numpy
class Array:
    def __init__(self, inner):
        self.inner = inner
    def __dlpack__(self, **keywords):
        return self.inner.__dlpack__(**keywords)
    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()
def from_dlpack(x):
    return Array(numpy.from_dlpack(x))
"""
    library: Any = types.ModuleType("arrays_of_mine")
    sys.modules["arrays_of_mine"] = library
    exec(source, library.__dict__)
    x = library.Array(np.arange(3, dtype=np.float32))
    y = module.doubled(x)
    assert type(y) is library.Array
    assert y.inner.tolist() == [0, 2, 4]
    assert type(module.same([{"k": [x]}])[0]["k"][0]) is library.Array


def test_consumers_wait_for_the_stream_that_writes(device: Any, device_path: Path) -> None:
    """In a process of its own, where the framework's driver stands in for CUDA's."""
    script = f"""
import ctypes, importlib.machinery, importlib.util, sys
ctypes.CDLL({str(device_path)!r}, mode=ctypes.RTLD_GLOBAL)
loader = importlib.machinery.ExtensionFileLoader("device", {str(device_path)!r})
device = importlib.util.module_from_spec(importlib.util.spec_from_loader("device", loader))
from kdsl.runtime import List, load_module, use_stream
module = load_module({str(device_path)!r})
x = device.array(2, 0, 1.0)
with use_stream(0x11):
    tensor = List([memoryview(b"x"), x])[1]   # of no framework
    result = module.same([memoryview(b"x"), x])[1]
for stream in (None, 1, 2, 0x11, -1, 0x99):
    result.__dlpack__(stream=stream, max_version=(1, 0))
waits = [(module.waited(n, 0), module.waited(n, 1)) for n in range(5)]
assert waits == [(0, 0x11), (0, 0x11), (2, 0x11), (0x99, 0x11), (-1, -1)], waits
assert module.leaked_events() == 0
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_driver_a_consumer_on_another_stream_is_refused(
    device: Any, module: Module
) -> None:
    x = device.array(CUDA, 0, 1.0)
    with use_stream(0x11):
        tensor = module.same([memoryview(b"x"), x])[1]
    assert tensor.__dlpack__(stream=0x11) is not None
    with pytest.raises(BufferError, match="cannot make the consumer's stream wait"):
        tensor.__dlpack__(stream=0x22)
    with pytest.raises(TypeError):
        tensor.__dlpack__(stream="x")
