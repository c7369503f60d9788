"""The CUDA plan's own rules: arrays, pipelines, orientations, what falls back to teams."""

from __future__ import annotations

import pytest

import kdsl
from kdsl import Out, bf16, dot, exp2, f16, f32
from kdsl.errors import InternalError
from kdsl.passes.cuda.arrays import (
    Arrays, Enter, Leave, Make, Read, assign_arrays, check_arrays,
)  # fmt: skip
from kdsl.passes.cuda.layout import Misfit
from kdsl.passes.cuda.maps import Cols, Rows
from kdsl.passes.cuda.pipeline import Use, pipeline
from kdsl.passes.cuda.sync import synchronise
from kdsl.passes.cuda.team import team_plan
from kdsl.passes.cuda.tensor import Schedule, tensor_plan
from kdsl.passes.cuda.tensor_plan import Loop, Product, StageIn
from tests.cuda.test_attention import attention

T = kdsl.dtypes("T", f16, bf16, f32)
B, H, M, N, K, D = kdsl.dims("B H M N K D")


@kdsl.kernel
def keys_side(q: T[H, M, D], k: T[H, N, D], g: T[H, M, D], o: Out[T[H, N, D]]):
    """The second product wants the transpose of what the first one made."""
    for h, n in kdsl.parallel(H, kdsl.tiles(N)):
        kn, acc = k[h, n], kdsl.zeros(n, D)
        for m in kdsl.tiles(M):
            p = exp2(dot(q[h, m], kn.T) * 0.125)
            acc += dot(p.astype(T).T, g[h, m])
        o[h, n] = acc


def func(kernel, dtype=f16, statics=None, dims=None):
    compiler = kernel._compiler
    return compiler.func(compiler.default({"T": dtype}, statics or {}, dims or {}))


def steps(plan, kind):
    found, stack = [], list(plan.steps)
    while stack:
        step = stack.pop(0)
        if isinstance(step, kind):
            found.append(step)
        if isinstance(step, Loop):
            stack += step.body
    return found


def test_a_product_turns_so_that_the_next_one_keeps_it_in_registers():
    plan = tensor_plan(func(keys_side, dims={"D": 64}), 0, Schedule())
    assert steps(plan, StageIn) == []
    first, second = steps(plan, Product)
    # q k^T is computed as k q^T: its rows are the keys.
    assert (first.left, second.left != second.right) == ("kn", True)


def test_a_carry_and_what_comes_next_in_it_share_an_array():
    plan = tensor_plan(func(attention, dims={"D": 64}), 0, Schedule())
    homes = dict(plan.homes)
    assert homes["acc_3"] == homes["acc_2"] == homes["acc_4"]
    # What the second product reads is written over the scores.
    assert [v for v, home in homes.items() if home == "s" and v != "s"] != []


@pytest.mark.parametrize(
    ("kernel", "dtype", "statics", "why"),
    [
        (attention, f32, {}, "multiplies f32"),
        (attention, f16, {}, "not known when the kernel is compiled"),
    ],
)
def test_what_is_not_for_tensor_cores_says_why(kernel, dtype, statics, why):
    with pytest.raises(Misfit, match=why):
        tensor_plan(func(kernel, dtype, statics), 0, Schedule())


def test_a_value_overwritten_before_its_last_reader_is_found():
    events = [Make("a"), Make("b"), Read(("a",))]
    good = assign_arrays(
        events, {"a": (Rows(1, 16),), "b": (Rows(1, 16),)}, {"a": "f32", "b": "f32"}
    )
    check_arrays(events, good)
    bad = Arrays(good.shapes, {"a": "a", "b": "a"})
    with pytest.raises(InternalError, match="the array of `a` holds `b` when it is read"):
        check_arrays(events, bad)


def test_an_array_is_not_reused_while_a_loop_will_read_it_again():
    shape = {n: (Rows(1, 16), Cols(1, 16)) for n in "abcxyz"}
    carries = (("x", None, "z", "y"),)
    events = [Make("a"), Enter(carries), Read(("a", "x")), Make("b"), Read(("b",)),
              Make("y", ("x",)), Leave(carries), Read(("z",))]  # fmt: skip
    arrays = assign_arrays(events, shape, dict.fromkeys(shape, "f32"))
    check_arrays(events, arrays)
    assert arrays.homes["a"] not in (arrays.homes["b"], arrays.homes["x"])
    assert arrays.homes["y"] == arrays.homes["x"]


ROW = (Rows(1, 16),)
LOOP = (("x", None, "z", "c"),)


@pytest.mark.parametrize("events", [
    # Both could take the place of `a`.
    [Make("a"), Read(("a",)), Make("b", ("a",)), Make("c", ("a",)), Read(("b",)), Read(("c",))],
    # `a` and `b` would like that of the carry that `c` is next in.
    [Enter(LOOP), Read(("x",)), Make("a", ("x",)), Make("b", ("a",)), Read(("b",)), Read(("a",)),
     Make("c", ("b",)), Leave(LOOP), Read(("z",))],
])  # fmt: skip
def test_an_array_has_one_guest_at_a_time(events):
    shapes = dict.fromkeys("abcxz", ROW)
    check_arrays(events, assign_arrays(events, shapes, dict.fromkeys("abcxz", "f32")))


def test_one_slot_gives_the_schedule_of_flash_attention():
    # K is read by item 0, V by item 2. V's copy flies over the first two, K's over the last.
    uses = {"k": Use(0, 0), "v": Use(2, 2)}
    found = pipeline(uses, 3, 1)
    assert {p: (x.wait, x.copies) for p, x in found.points.items()} == {
        0: (0, (("v", 0),)), 2: (0, (("k", 1),)),
    }  # fmt: skip
    assert found.prologue == ((("k", 0),),)
    # The point between moves up to where it frees K's slot.
    found = pipeline(uses, 3, 1, early=True)
    assert {p: (x.wait, x.copies) for p, x in found.points.items()} == {
        0: (0, (("v", 0),)), 1: (0, (("k", 1),)),
    }  # fmt: skip
    assert found.prologue == ((("k", 0),),)


def test_three_slots_give_one_barrier_a_turn_and_leave_a_group_in_flight():
    found = pipeline({"x": Use(0, 0), "w": Use(0, 0)}, 1, 3)
    assert {p: (x.wait, x.copies) for p, x in found.points.items()} == {
        0: (1, (("x", 2), ("w", 2)))
    }
    assert found.prologue == ((("x", 0), ("w", 0)), (("x", 1), ("w", 1)))


def test_barriers_of_a_team_stand_where_lanes_change_hands():
    f = func(attention, f32, dims={"D": 32})
    team = team_plan(f)
    assert team.threads == (128,)
    # Synchronising again changes nothing.
    from dataclasses import replace

    from kdsl.passes.cpu.facts import Facts

    facts = Facts(replace(team.plan.func, phases=(team.plan.func.phases[0],)),
                  team.plan.func.phases[0])  # fmt: skip
    assert synchronise(facts, team.plan.phases[0]) == team.plan.phases[0]
