"""Loads, stores and atomic operations in every space, and what is wrong with an access."""

from __future__ import annotations

import numpy as np
import pytest

from kdsl import sim
from tests.sim.harness import kernel, lanes
from tests.sim.test_integers import TYPES, exact, values


@pytest.mark.parametrize(("kind", "dtype"), [
    ("u8", np.uint8), ("s8", np.int8), ("u16", np.uint16), ("s16", np.int16), ("u32", np.uint32),
    ("s32", np.int32), ("u64", np.uint64), ("s64", np.int64), ("b8", np.uint8), ("b16", np.uint16),
])  # fmt: skip
def test_a_narrow_load_fills_a_wider_register(kind, dtype):
    a = values(dtype)
    got = lanes(f"ld.global.{kind} %rd10, [%rd1]; st.global.u64 [%rd0], %rd10;", a)
    want = [x & 0xFFFFFFFFFFFFFFFF for x in exact(a)]
    assert exact(got) == want


def test_vectors_move_as_one():
    a = np.arange(64, dtype=np.uint32)
    body = """
      ld.param.u64 %rd10, [p1]; cvta.to.global.u64 %rd10, %rd10; mul.wide.u32 %rd11, %r79, 16;
      add.s64 %rd10, %rd10, %rd11; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd10];
      ld.param.u64 %rd12, [p0]; cvta.to.global.u64 %rd12, %rd12; add.s64 %rd12, %rd12, %rd11;
      st.global.v2.u32 [%rd12], {%r4, %r3}; st.global.v2.u32 [%rd12+8], {%r2, %r1};
    """
    source, result = a.view(np.uint64), np.zeros(32, np.uint64)
    run = sim.run(kernel(body, 2), "k", 1, 16, [result, source])
    assert not run.reports
    assert result.view(np.uint32).reshape(16, 4)[:, ::-1].ravel().tolist() == a.tolist()
    assert run.counters.read_bytes == run.counters.write_bytes == 256


def test_local_and_shared_memory_by_generic_address():
    body = """
      .local .align 8 .b8 own[16]; .shared .align 8 .b8 all[256];
      ld.global.u64 %rd10, [%rd1];
      mov.u64 %rd11, own; cvta.local.u64 %rd11, %rd11; st.u64 [%rd11+8], %rd10;
      mov.u64 %rd12, all; cvta.shared.u64 %rd12, %rd12; add.s64 %rd12, %rd12, %rd79;
      ld.local.u64 %rd13, [own+8]; st.u64 [%rd12], %rd13;
      bar.sync 0;
      isspacep.shared %p1, %rd12; isspacep.local %p2, %rd12; isspacep.global %p3, %rd1;
      ld.u64 %rd14, [%rd12];
      selp.u64 %rd15, %rd14, 0, %p1; selp.u64 %rd15, 0, %rd15, %p2; selp.u64 %rd15, %rd15, 0, %p3;
      st.global.u64 [%rd0], %rd15;
    """
    a = values(np.uint64)
    assert exact(lanes(body, a)) == exact(a)


def test_variables_of_the_module_and_constants_have_their_values():
    outside = """
.global .align 4 .u32 table[4] = {10, 20, 30, 40};
.const .align 8 .f64 pi = 0d400921FB54442D18;
.global .align 8 .u64 where = generic(table);
"""
    body = """
      and.b32 %r1, %r79, 3; mul.wide.u32 %rd10, %r1, 4;
      ld.global.u64 %rd11, [where]; add.s64 %rd11, %rd11, %rd10; ld.u32 %r2, [%rd11];
      ld.const.f64 %d1, [pi]; cvt.rzi.u32.f64 %r3, %d1; add.u32 %r2, %r2, %r3;
      st.global.u32 [%rd0], %r2;
    """
    got = lanes(body, outside=outside).view(np.uint32)[::2]
    assert list(got[:4]) == [13, 23, 33, 43]


ATOMS = {
    "add": lambda old, b: old + b, "min": min, "max": max, "exch": lambda old, b: b,
    "and": lambda old, b: old & b, "or": lambda old, b: old | b, "xor": lambda old, b: old ^ b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}  # fmt: skip


@pytest.mark.parametrize(("op", "kind"), [
    *((op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *((op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")),
    ("inc", "u32"), ("dec", "u32"),
])  # fmt: skip
def test_atomic_operations_give_the_old_value_and_change_memory(op, kind):
    dtype = TYPES[kind.replace("b", "u")]
    a, b = values(dtype), values(dtype, 1)
    reg = "%r" if dtype().itemsize == 4 else "%rd"
    t = f"{kind[0].replace('b', 'u')}{kind[1:]}"
    body = f"""
      ld.global.{t} {reg}10, [%rd2];
      atom.global.{op}.{kind} {reg}11, [%rd1], {reg}10;
      ld.global.{t} {reg}12, [%rd1]; sub.{t} {reg}11, {reg}11, {reg}12;
      st.global.{t} [%rd0], {reg}11;
    """
    got = lanes(body, a, b).view(dtype).reshape(32, -1)[:, 0]
    mask = (1 << 8 * dtype().itemsize) - 1
    want = [x - ATOMS[op](x, y) & mask for x, y in zip(exact(a), exact(b), strict=True)]
    assert [x & mask for x in exact(got)] == want


def test_all_threads_add_to_one_place():
    body = """
      ld.param.u64 %rd10, [p0]; cvta.to.global.u64 %rd10, %rd10;
      mov.f32 %f1, 0f3F800000; red.global.add.f32 [%rd10], %f1;
      mov.f64 %d1, 0d3FF0000000000000; red.global.add.f64 [%rd10+8], %d1;
      mov.u32 %r1, 0x40003C00; red.global.add.noftz.f16x2 [%rd10+16], %r1;
      atom.global.cas.b32 %r2, [%rd10+24], %r79, 77;
    """
    cells = np.zeros(8, np.uint64)
    run = sim.run(kernel(body, 1), "k", 4, 96, [cells])
    assert not run.reports
    assert cells.view(np.float32)[0] == 384 and cells.view(np.float64)[1] == 384
    assert cells.view(np.float16)[8:10].tolist() == [384, 768]
    assert cells.view(np.uint32)[6] in (0, 77)


def one(body, *args, grid=1, block=32, smem=0, seed=0, pointers=None):
    text = kernel(body, len(args) if pointers is None else pointers)
    return sim.run(text, "k", grid, block, list(args), smem=smem, seed=seed)


BAD = [
    ("ld.global.u32 %r1, [%rd0+4096];",
     "oob-global", "read of 4 bytes: 3840 bytes past the end of argument 0 (uint64[32]) "
     "(256 bytes)"),
    ("st.global.u64 [%rd0+-8], %rd0;",
     "oob-global", "write of 8 bytes: 8 bytes before argument 0 (uint64[32]) (256 bytes)"),
    ("mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];",
     "oob-global", "read of 4 bytes: a null pointer"),
    ("ld.global.u32 %r1, [%rd0+2];",
     "misaligned", "read of 4 bytes of global memory, 2 bytes past a multiple of 4"),
    (".shared .b8 s[64]; st.shared.u32 [s+64], %r79;",
     "oob-shared", "write of 4 bytes at byte 64 of 64 of shared memory"),
    (".shared .align 4 .b8 s[64]; st.shared.u32 [s+1], %r79;",
     "misaligned", "write of 4 bytes of shared memory, 1 bytes past a multiple of 4"),
    (".shared .b8 s[64]; ld.shared.u32 %r1, [s+8];",
     "uninit-shared", "read at byte 8 of shared memory, which nothing wrote"),
    (".local .b8 l[16]; mov.u32 %r1, l; st.local.u32 [%r1+16], %r1;",
     "oob-local", "write of 4 bytes at byte 16 of 16 of the thread's own memory"),
    ("ld.param.u64 %rd1, [p0]; cvta.to.global.u64 %rd1, %rd1; "
     "st.global.u32 [%rd1], %r79;",
     "race-lanes", "lanes 0 and 1 write different values to one place"),
    ("mov.u32 %r1, 5; shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffff;",
     "divergent-collective", "shfl.sync runs in a lane that its mask does not name"),
    ("setp.lt.u32 %p1, %r79, 8; @%p1 bar.sync 0;",
     "divergent-barrier", "24 threads of the warp ended without coming to this barrier"),
    ("trap;",
     "trap", "the kernel stopped itself"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "text"), BAD, ids=[kind for _, kind, _ in BAD])
def test_a_bad_access_is_reported_with_its_facts(body, kind, text):
    (report,) = one(body, np.zeros(32, np.uint64)).reports
    assert (report.kind, report.text) == (kind, text)
    assert report.ptx_line == 12 and report.file == ""


def test_memory_that_nothing_wrote_is_told_at_the_first_read():
    fresh, out = sim.empty(32, np.uint64), np.zeros(32, np.uint64)
    body = """
      setp.lt.u32 %p1, %r79, 20; @%p1 st.global.u64 [%rd1], %rd0;
      ld.global.u64 %rd10, [%rd1]; st.global.u64 [%rd0], %rd10;
    """
    (report,) = one(body, out, fresh).reports
    assert report.kind == "uninit-global" and report.thread == 20
    assert report.text == "read of empty array at byte 160, which nothing has written"


def test_two_warps_without_a_barrier_race_and_with_one_do_not():
    body = """
      .shared .align 4 .b8 s[256]; mov.u32 %r2, s; shl.b32 %r1, %r79, 2; add.u32 %r1, %r1, %r2;
      st.shared.u32 [%r1], %r79; {sync}
      xor.b32 %r3, %r1, 128; add.u32 %r3, %r3, 0;
      sub.u32 %r4, 63, %r79; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2;
      ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd0], %r5;
    """
    out = np.zeros(64, np.uint64)
    assert one(body.format(sync="bar.sync 0;"), out, block=64).reports == ()
    assert out.view(np.uint32)[::2].tolist() == list(range(63, -1, -1))
    kinds = set()
    for seed in range(4):
        kinds |= {r.kind for r in one(body.format(sync=""), out, block=64, seed=seed).reports}
    assert kinds <= {"race-read-after-write", "race-write-after-read", "uninit-shared"} and kinds


def test_named_barriers_order_those_that_meet_there():
    body = """
      .shared .align 4 .b8 s[256]; mov.u32 %r2, s; shl.b32 %r1, %r79, 2; add.u32 %r1, %r1, %r2;
      setp.ge.u32 %p1, %r79, 32; @%p1 bra READ;
      st.shared.u32 [%r1], %r79; bar.arrive 1, 64; bra DONE;
    READ: bar.sync 1, 64; ld.shared.u32 %r5, [%r1+-128]; st.global.u32 [%rd0], %r5;
    DONE:
    """
    out = np.zeros(64, np.uint64)
    for seed in range(4):
        assert one(body, out, block=64, seed=seed).reports == ()
    assert out.view(np.uint32)[64::2].tolist() == list(range(32))
    wrong = body.replace("bar.sync 1, 64;", "bar.sync 2, 32;")
    found = {r.kind for seed in range(4) for r in one(wrong, out, block=64, seed=seed).reports}
    assert {"race-read-after-write", "race-write-after-read"} & found


def test_a_flag_with_fences_orders_warps():
    body = """
      .shared .align 4 .b8 s[8]; setp.ge.u32 %p1, %r79, 32; @%p1 bra READ;
      setp.ne.u32 %p2, %r79, 0; @%p2 bra DONE;
      st.shared.u32 [s+4], 42; {fence} st.volatile.shared.u32 [s], 1; bra DONE;
    READ: ld.volatile.shared.u32 %r1, [s]; setp.ne.u32 %p3, %r1, 1; @%p3 bra READ; {fence}
      ld.shared.u32 %r2, [s+4]; st.global.u32 [%rd0], %r2;
    DONE:
    """
    out = np.zeros(64, np.uint64)
    start = "setp.eq.u32 %p8, %r79, 0; @%p8 st.shared.u32 [s], 0; bar.sync 0;"
    ready = body.replace("setp.ge.u32 %p1", f"{start} setp.ge.u32 %p1", 1)
    assert one(ready.format(fence="membar.cta;"), out, block=64).reports == ()
    assert out.view(np.uint32)[64::2].tolist() == [42] * 32
    (report,) = one(ready.format(fence=""), out, block=64).reports
    assert report.kind == "race-read-after-write"


def test_bank_conflicts_and_sectors_are_counted():
    def factor(stride):
        body = f"""
          .shared .align 4 .b8 s[8192]; mov.u32 %r2, s; mul.lo.u32 %r1, %r79, {4 * stride};
          add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r79;
        """
        return one(body, np.zeros(32, np.uint64)).counters.bank_factor

    assert [factor(n) for n in (1, 2, 3, 4, 8, 16, 32)] == [1, 2, 1, 4, 8, 16, 32]
    body = """
      mul.wide.u32 %rd1, %r79, {n}; ld.param.u64 %rd2, [p0]; add.s64 %rd1, %rd1, %rd2;
      ld.global.f32 %f1, [%rd1];
    """
    got = [one(body.format(n=n), np.zeros(512, np.uint64)).counters for n in (4, 8, 32, 128, 0)]
    assert [c.sector_efficiency for c in got] == [1, 0.5, 0.125, 0.125, 0.125]
    assert [c.sectors for c in got] == [4, 8, 32, 32, 1]


def test_copies_land_when_they_are_waited_for_and_zeros_fill_the_rest():
    body = """
      .shared .align 16 .b8 s[512]; mov.u32 %r2, s; shl.b32 %r1, %r79, 4; add.u32 %r1, %r1, %r2;
      mul.wide.u32 %rd10, %r79, 16; ld.param.u64 %rd11, [p1]; add.s64 %rd10, %rd10, %rd11;
      mov.u32 %r3, {size};
      cp.async.cg.shared.global [%r1], [%rd10], 16, %r3; cp.async.commit_group;
      cp.async.wait_group 0; ld.shared.u64 %rd12, [%r1+8]; st.global.u64 [%rd0], %rd12;
    """
    source = np.arange(1, 65, dtype=np.uint64)
    for size, want in ((16, list(range(2, 65, 2))), (8, [0] * 32), (0, [0] * 32)):
        out = np.full(32, 9, np.uint64)
        run = one(body.format(size=size), out, source)
        assert run.reports == () and out.tolist() == want
    (report,) = one(body.replace("cp.async.wait_group 0;", "").format(size=16), out, source).reports
    assert report.kind == "read-inflight"
