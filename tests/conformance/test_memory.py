"""Memory of a call that cannot be had: scratch, temporary values, outputs, copies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm_ffi

from kdsl.codegen import targets
from kdsl.codegen.build import build
from kdsl.codegen.module import host_sources
from kdsl.runtime import load_module
from tests.codegen import samples

SIGNATURE = samples.room().signature.text
X = np.zeros((3, 4), np.float32)


@pytest.fixture(scope="module", params=[load_module, tvm_ffi.load_module], ids=["kdsl", "tvm_ffi"])
def room(request, room_path):
    return request.param(str(room_path)).room


@pytest.fixture(scope="module")
def room_path(tmp_path_factory):
    variants = targets.variants_of()[-1:]
    sources = host_sources("rooms", [samples.room()], variants)
    sources["rooms_cpu.cc"] = f'#include "rooms.h"\n{samples.ROOM}'
    path = tmp_path_factory.mktemp("rooms") / "rooms.so"
    build(sources, path, variants, path.with_suffix(".log"))
    return path


def refused(kind, text, call):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == f"{SIGNATURE}: {text}"


def test_scratch_and_temporary_values_of_a_size_are_there(room):
    assert np.from_dlpack(room(torch.zeros(3, 4), 1000, 1000)).sum() == 12


@pytest.mark.parametrize("size", [-1, -(2**63)])
def test_a_scratch_size_that_is_none_is_an_error(room, size):
    text = "scratch memory has a negative size, or one that does not fit in 64 bits"
    refused(ValueError, text, lambda: room(X, size, 0))


def test_a_size_of_temporary_values_that_is_none_is_an_error(room):
    text = "temporary values have a size that does not fit in 64 bits"
    refused(ValueError, text, lambda: room(X, 0, -1))


@pytest.mark.parametrize("sizes", [(2**62, 0), (2**63 - 1, 0), (0, 2**62), (0, 2**63 - 1)])
def test_more_memory_than_there_is_is_an_error(room, sizes):
    refused(MemoryError, "no memory for temporary values", lambda: room(X, *sizes))


def test_an_output_too_large_for_the_machine_is_an_error_with_its_name(room):
    text = "argument 3 `o`: no memory for f32[3, 4, 1099511627776000]"
    refused(MemoryError, text, lambda: room(X, 0, 0, None, 1000 << 40))


def test_an_output_whose_bytes_nobody_can_count_is_an_error_with_its_name(room):
    text = "argument 3 `o`: a size in bytes that does not fit in 64 bits: f32[3, 4, {}]"
    refused(ValueError, text.format(2**62), lambda: room(X, 0, 0, None, 2**62))


@pytest.mark.parametrize("shape", [(2**60, 0), (0, 2**60), (2**62, 0)])
def test_sizes_beside_a_zero_may_be_huge_and_nothing_runs(room, shape):
    x = torch.zeros(0).as_strided(shape, (0, 0))
    assert tuple(room(x, 0, 0).shape) == (*shape, 1)
    assert room(x, 0, 0, torch.zeros(0).as_strided((*shape, 1), (0, 0, 0))) is None
    # Nothing is asked of memory either; a size that is wrong stays wrong.
    assert tuple(room(x, 2**62, 2**62).shape) == (*shape, 1)
