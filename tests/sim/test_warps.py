"""What lanes of a warp do together, and branches that part and join them."""

from __future__ import annotations

import numpy as np
import pytest

from kdsl import sim
from tests.sim.harness import kernel, lanes
from tests.sim.test_integers import exact, values

LANE = np.arange(32)


def words(body, *inputs, **options):
    return lanes(body, *inputs, **options).view(np.uint32)[::2]


@pytest.mark.parametrize(("mode", "step", "c", "source"), [
    ("up", 3, 0, np.where(LANE >= 3, LANE - 3, LANE)),
    ("down", 5, 31, np.where(LANE + 5 < 32, LANE + 5, LANE)),
    ("bfly", 7, 31, LANE ^ 7),
    ("idx", 9, 31, np.full(32, 9)),
    ("bfly", 1, 0x1C1F, LANE ^ 1),
    ("down", 2, 0x181F, np.where(LANE % 8 + 2 < 8, LANE + 2, LANE)),
    ("idx", 1, 0x181F, LANE // 8 * 8 + 1),
])  # fmt: skip
def test_shuffles_take_values_of_other_lanes(mode, step, c, source):
    a = values(np.uint32)
    body = f"""ld.global.u32 %r1, [%rd1]; shfl.sync.{mode}.b32 %r2|%p1, %r1, {step}, {c}, -1;
      st.global.u32 [%rd0], %r2;"""
    assert list(words(body, a)) == list(a[source])


def test_a_shuffle_from_a_lane_that_is_away_is_reported():
    body = """mov.u32 %r1, %r79; setp.lt.u32 %p1, %r79, 16;
      @%p1 shfl.sync.bfly.b32 %r2, %r1, 16, 31, 0xffff; st.global.u32 [%rd0], %r1;"""
    (report,) = sim.run(kernel(body, 1), "k", 1, 32, [np.zeros(32, np.uint64)]).reports
    assert (report.kind, report.text) == (
        "shfl-inactive",
        "reads lane 16, which does not take part",
    )


def test_votes_count_the_lanes_that_take_part():
    body = """
      and.b32 %r1, %r79, 3; setp.eq.u32 %p1, %r1, 1; setp.lt.u32 %p9, %r79, 16;
      vote.sync.ballot.b32 %r2, %p1, -1; vote.sync.any.pred %p2, %p1, -1;
      vote.sync.all.pred %p3, %p1, -1; vote.sync.uni.pred %p4, !%p1, -1;
      @%p9 vote.sync.ballot.b32 %r2, %p1, 0xffff;
      selp.u32 %r3, 1, 0, %p2; selp.u32 %r4, 2, 0, %p3; selp.u32 %r5, 4, 0, %p4;
      or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5; st.global.v2.u32 [%rd0], {%r2, %r3};
    """
    got = lanes(body).view(np.uint32).reshape(32, 2)
    assert got[0].tolist() == [0x2222, 1] and got[31].tolist() == [0x22222222, 1]


def test_matches_find_equal_values():
    a = np.array([3, 5, 3, 7] * 8, np.uint32)
    body = """ld.global.u32 %r1, [%rd1]; match.any.sync.b32 %r2, %r1, -1;
      match.all.sync.b32 %r3|%p1, %r1, -1; @%p1 mov.u32 %r2, 0; st.global.u32 [%rd0], %r2;"""
    assert list(words(body, a)) == [0x55555555, 0x22222222, 0x55555555, 0x88888888] * 8
    assert list(words(body, a * 0)) == [0] * 32


@pytest.mark.parametrize(("op", "f"), [
    ("add.u32", lambda a: int(a.sum()) & 0xFFFFFFFF), ("min.u32", min), ("max.u32", max),
    ("and.b32", np.bitwise_and.reduce), ("or.b32", np.bitwise_or.reduce),
    ("xor.b32", np.bitwise_xor.reduce),
    ("min.s32", lambda a: a.view(np.int32).min()), ("max.s32", lambda a: a.view(np.int32).max()),
])  # fmt: skip
def test_redux(op, f):
    a = values(np.uint32)
    body = f"ld.global.u32 %r1, [%rd1]; redux.sync.{op} %r2, %r1, -1; st.global.u32 [%rd0], %r2;"
    assert set(exact(words(body, a))) == {int(f(a)) & 0xFFFFFFFF}


def test_special_registers():
    text = kernel("""
      mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %laneid;
      mov.u32 %r5, %warpid; mov.u32 %r6, %lanemask_lt; mov.u32 %r7, %tid.y;
      mad.lo.u32 %r8, %r7, %r3, %r79; mul.wide.u32 %rd1, %r8, 32; sub.s64 %rd0, %rd0, %rd79;
      add.s64 %rd0, %rd0, %rd1; st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4};
      st.global.v4.u32 [%rd0+16], {%r5, %r6, %r7, %r79};
    """, 1)  # fmt: skip
    out = np.zeros((48, 8), np.uint32)
    assert not sim.run(text, "k", 1, (16, 3), [out.view(np.uint64)]).reports
    assert out[37].tolist() == [0, 1, 16, 5, 1, 31, 2, 5]


def test_lanes_part_at_branches_and_meet_again():
    body = """
      mov.u32 %r1, 0; mov.u32 %r2, %r79;
    LOOP: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;
      and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra EVEN;
      mad.lo.u32 %r2, %r2, 3, 1; setp.gt.u32 %p3, %r1, 200; @%p3 bra DONE;
    EVEN: shr.u32 %r2, %r2, 1; add.u32 %r1, %r1, 1; setp.ne.u32 %p4, %r2, 1; @%p4 bra LOOP;
    DONE: st.global.u32 [%rd0], %r1;
    """

    def steps(n):
        count = 0
        while n != 0:
            n = 3 * n + 1 if n & 1 else n
            n, count = n >> 1, count + 1
            if n == 1:
                break
        return count

    assert list(words(body)) == [steps(n) for n in range(32)]


def test_a_table_of_branches():
    body = """
      and.b32 %r1, %r79, 3; T: .branchtargets A, B, C, B; brx.idx %r1, T;
    A: mov.u32 %r2, 10; bra END;
    B: mov.u32 %r2, 20; bra END;
    C: mov.u32 %r2, 30;
    END: st.global.u32 [%rd0], %r2;
    """
    assert list(words(body)) == [10, 20, 30, 20] * 8


def test_calls_have_parameters_results_and_registers_of_their_own():
    outside = """
.func (.param .b32 result) twice (.param .b32 a, .param .align 8 .b8 pair[8])
{ .reg .b32 %r<5>; ld.param.u32 %r1, [a]; ld.param.v2.u32 {%r2, %r3}, [pair];
  add.u32 %r1, %r1, %r1; add.u32 %r2, %r2, %r3; add.u32 %r1, %r1, %r2;
  st.param.b32 [result], %r1; ret; }
"""
    body = """
      mov.u32 %r1, 1000;
      { .param .b32 x; .param .align 8 .b8 y[8]; .param .b32 z;
        st.param.b32 [x], %r79; st.param.v2.b32 [y], {3, 4};
        call.uni (z), twice, (x, y); ld.param.b32 %r2, [z]; }
      add.u32 %r2, %r2, %r1; st.global.u32 [%rd0], %r2;
    """
    assert list(words(body, outside=outside)) == [2 * n + 1007 for n in range(32)]


def test_barriers_that_reduce():
    body = """
      setp.lt.u32 %p1, %r79, 40; bar.red.popc.u32 %r1, 0, %p1;
      bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;
      selp.u32 %r2, 100, 0, %p2; selp.u32 %r3, 1000, 0, %p3; add.u32 %r1, %r1, %r2;
      add.u32 %r1, %r1, %r3; st.global.u32 [%rd0], %r1;
    """
    assert set(words(body, threads=64)) == {1040}


def test_a_lock_between_lanes_does_not_hang():
    # The lane with the lock stands behind the ones that wait: it must get its turn.
    body = """
      ld.param.u64 %rd10, [p1]; cvta.to.global.u64 %rd10, %rd10;
    TRY: atom.global.cas.b32 %r1, [%rd10], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
      ld.volatile.global.u32 %r2, [%rd10+4]; add.u32 %r2, %r2, 1;
      st.volatile.global.u32 [%rd10+4], %r2; membar.gl; atom.global.exch.b32 %r3, [%rd10], 0;
      st.global.u32 [%rd0], %r2;
    """
    cell, out = np.zeros(1, np.uint64), np.zeros(32, np.uint64)
    run = sim.run(
        kernel(body, 2).replace("add.s64 %rd1, %rd1, %rd79;", ""), "k", 1, 32, [out, cell]
    )
    assert cell.view(np.uint32).tolist() == [0, 32] and not run.reports
