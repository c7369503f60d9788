"""Mistakes planted into kernels that are right: each is found, at its line, once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from kdsl import sim
from tests.sim import fixtures

M, N, K = 72, 136, 104
SEEDS = (0, 1, 7)


def without(ptx: str, op: str, line: int | None = None, put: str = "") -> str:
    """PTX with the first instruction that begins with `op`, of a source line, replaced by `put`."""
    out, here, seen = [], 0, 0
    for row in ptx.splitlines():
        if place := re.match(r"\s*\.loc\s+\d+\s+(\d+)", row):
            here = int(place[1])
        body = re.sub(r"^@!?%\w+ ", "", " ".join(row.split()))
        if body.startswith(op) and line in (None, here) and not seen:
            seen += 1
            out.append(put)
        else:
            out.append(row)
    assert seen, f"no {op} at line {line}"
    return "\n".join(out)


def matmul(text: str, seed: int, m: int = M, rows: int = M, shift: int = 0) -> sim.Run:
    """A product of m rows; the result has `rows`; `shift` elements stand before the first one."""
    rng = np.random.default_rng(0)
    a = sim.array(rng.standard_normal(shift + M * K).astype(np.float16))
    b, c = rng.standard_normal((K, N)).astype(np.float16), np.zeros((rows, N), np.float16)
    grid = (-(-N // 64), -(-m // 64))
    return sim.run(text, "matmul", grid, 128, [a.address + 2 * shift, b, c, m, N, K], seed=seed)


def softmax(text: str, seed: int) -> sim.Run:
    x = np.random.default_rng(0).standard_normal((6, 300)).astype(np.float32)
    return sim.run(text, "softmax", 6, 128, [x, np.zeros_like(x), 300], seed=seed)


def histogram(text: str, seed: int, smem: int = 68) -> sim.Run:
    x = np.random.default_rng(0).integers(0, 17, 1000, np.int32)
    counts = np.zeros(17, np.int32)
    return sim.run(text, "histogram", 3, 64, [x, counts, 1000, 17], smem=smem, seed=seed)


def at(name: str, text: str, nth: int = 0) -> int:
    return fixtures.line(name, text, nth)


@dataclass
class Bug:
    """What is planted where; the report's line and the other line may come in either order."""

    name: str
    kernel: str
    plant: Callable[[str], str]
    run: Callable[[str, int], sim.Run]
    kinds: set[str]
    line: int
    other: int | None = None


SYNC = "__syncthreads"
ISSUE = at("matmul", "cp.async.cg.shared")
# nvcc gives an asm statement the line that it ends on.
LOAD_A = at("matmul", ': "r"(tile_a +')
STORE_C = at("matmul", "st.shared.u32")
READ_C = at("matmul", ': "r"(base + at(row, column, kN)));')
WRITE_C = at("matmul", '"r"(v[3]));')
READ_SHARED = at("rows", "v = f(f(shared")
WRITE_SHARED = at("rows", "shared[threadIdx.x / 32] = v")

RACES = {"race-read-after-write", "race-write-after-read"}

BUGS = [
    Bug("no wait before the first tile is read", "matmul",
        lambda t: without(t, "cp.async.wait_group"), matmul, {"read-inflight"}, LOAD_A, ISSUE),
    Bug("a wait for one group too few", "matmul",
        lambda t: without(t, "cp.async.wait_group", put="cp.async.wait_group 2;"), matmul,
        {"read-inflight"}, LOAD_A, ISSUE),
    Bug("a group that is never closed", "matmul",
        lambda t: without(t, "cp.async.commit_group"), matmul, {"read-inflight"}, LOAD_A, ISSUE),
    Bug("no barrier after the wait", "matmul",
        lambda t: without(t, "bar.sync", at("matmul", SYNC, 0)), matmul,
        RACES | {"read-inflight"}, LOAD_A, ISSUE),
    Bug("no barrier before a slot is filled again", "matmul",
        lambda t: without(t, "bar.sync", at("matmul", SYNC, 1)), matmul,
        RACES | {"read-inflight"}, LOAD_A, ISSUE),
    Bug("no barrier before the copies of others are overwritten", "matmul",
        lambda t: without(t, "bar.sync", at("matmul", SYNC, 2)), matmul,
        {"write-inflight", "race-write-write"}, STORE_C, ISSUE),
    Bug("no barrier before the result is read back", "matmul",
        lambda t: without(t, "bar.sync", at("matmul", SYNC, 3)), matmul, RACES, READ_C, STORE_C),
    Bug("rows past the end are read", "matmul", str,
        lambda t, seed: matmul(t, seed, m=M + 8, rows=M + 8), {"oob-global"}, ISSUE),
    Bug("rows past the end are written", "matmul", str,
        lambda t, seed: matmul(t, seed, rows=M - 1), {"oob-global"}, WRITE_C),
    Bug("rows of 16 bytes begin where none may", "matmul", str,
        lambda t, seed: matmul(t, seed, shift=1), {"misaligned"}, ISSUE),
    Bug("no barrier before the sums of other warps are read", "rows",
        lambda t: without(t, "bar.sync", at("rows", SYNC, 0)), softmax, RACES, READ_SHARED,
        WRITE_SHARED),
    Bug("no barrier before sums are written again", "rows",
        lambda t: without(t, "bar.sync", at("rows", SYNC, 1)), softmax, RACES, WRITE_SHARED,
        READ_SHARED),
    Bug("sums that nobody wrote", "rows",
        lambda t: without(t, "st.shared"), softmax, {"uninit-shared"}, READ_SHARED),
    Bug("counts that are not set to zero first", "rows",
        lambda t: without(t, "st.shared", at("rows", "local[j] = 0")), histogram,
        {"uninit-shared"}, at("rows", "atomicAdd(&local")),
    Bug("no barrier between zeros and counts", "rows",
        lambda t: without(t, "bar.sync", at("rows", SYNC, 2)), histogram,
        {"race-read-after-write", "race-write-write"}, at("rows", "atomicAdd(&local"),
        at("rows", "local[j] = 0")),
    Bug("no barrier between counts and their sum", "rows",
        lambda t: without(t, "bar.sync", at("rows", SYNC, 3)), histogram,
        RACES, at("rows", "if (local[j])"), at("rows", "atomicAdd(&local")),
    Bug("a barrier for more threads than there are", "rows",
        lambda t: without(t, "bar.sync", at("rows", SYNC, 2), put="bar.sync 0, 96;"), histogram,
        {"deadlock"}, at("rows", SYNC, 2)),
    Bug("two blocks with one row", "rows",
        lambda t: t.replace("%ctaid.x", "0"), softmax,
        {"race-write-write"}, at("rows", "y[j] = "), at("rows", "y[j] = ")),
]  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_mistake_is_reported_at_its_line_once(bug):
    text = bug.plant(fixtures.ptx(bug.kernel))
    for seed in SEEDS:
        (report,) = bug.run(text, seed).reports
        assert report.kind in bug.kinds, report
        assert report.file == f"{bug.kernel}.cu"
        found = {report.line, *([report.other.line] if report.other else [])}
        assert found == {bug.line, bug.other} - {None}, report


@pytest.mark.parametrize("run", [matmul, softmax, histogram])
def test_the_kernels_without_mistakes_give_no_report(run):
    name = "matmul" if run is matmul else "rows"
    for seed in range(8):
        assert run(fixtures.ptx(name), seed).reports == ()
