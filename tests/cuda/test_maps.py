"""Layouts against the fragments that the PTX ISA describes, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from kdsl.passes.cuda.maps import Cols, Rows


@pytest.mark.parametrize(("warps", "size"), [(1, 16), (4, 128), (2, 64), (4, 64)])
@pytest.mark.parametrize(("kind", "copies"), [(Rows, 4), (Cols, 8)])
def test_each_index_lies_in_as_many_lanes_as_share_it(kind, copies, warps, size):
    found = np.bincount([index for index, *_ in kind(warps, size).places()], minlength=size)
    assert found.tolist() == [copies] * size


def test_a_result_is_the_fragment_of_mma_m16n8k16():
    # PTX ISA, "Matrix Fragments for mma.m16n8k16": c0, c1 in row groupID, c2, c3 in groupID + 8;
    # columns 2 * threadID_in_group and that + 1.
    rows, cols = Rows(1, 16), Cols(1, 16)
    row = {(lane, h): i for i, _, lane, h in rows.places()}
    col = {(lane, r): i for i, _, lane, r in cols.places()}
    for lane in range(32):
        group, thread = divmod(lane, 4)
        fragment = [(row[lane, i // 2], col[lane, i % 2]) for i in range(4)]
        assert fragment == [
            (group, 2 * thread), (group, 2 * thread + 1),
            (group + 8, 2 * thread), (group + 8, 2 * thread + 1),
        ]  # fmt: skip


def test_a_result_has_the_elements_of_a_left_operand_in_their_lanes():
    # a0, a1: row groupID, columns 2 * thread + {0, 1}; a2, a3: row + 8; a4...: columns + 8.
    rows, cols = Rows(1, 16), Cols(1, 16)
    row = {(lane, h): i for i, _, lane, h in rows.places()}
    col = {(lane, r): i for i, _, lane, r in cols.places()}
    for lane in range(32):
        group, thread = divmod(lane, 4)
        for i in range(8):
            want = (group + 8 * (i // 2 % 2), 2 * thread + i % 2 + 8 * (i // 4))
            assert (row[lane, i // 2 % 2], col[lane, i % 2 + 2 * (i // 4)]) == want


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_warps_share_a_tile_in_whole_blocks(warps):
    rows = Rows(warps, 64 * warps)
    by_warp = {w: {i for i, v, *_ in rows.places() if v == w} for w in range(warps)}
    assert by_warp == {w: set(range(64 * w, 64 * w + 64)) for w in range(warps)}
