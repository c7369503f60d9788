"""Branches, loops, helpers, names: the reference run and the interpreted IR agree."""

from __future__ import annotations

import math
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.lang import (
    InOut, Out, Static, bf16, f16, f32, i32, i64, where,
)  # fmt: skip
from tests.frontend.oracles import agree

T = kdsl.dtypes("T", f32, bf16, f16)
B, H, G, M, N, D, K, L = kdsl.dims("B H G M N D K L")

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def integers(*shape, low=-9, high=10, dtype=np.int32):
    return RNG.integers(low, high, shape).astype(dtype)


# ---- branches


def clipped(x: f32[N], low: f32, o: Out[f32[N]], *, double: Static[bool] = False):
    for i in kdsl.parallel(N):
        v = x[i]
        if v < low:
            v = low
        elif v > 1:
            v = 1.0
            if double:
                v = v * 2
        else:
            v = -v
        o[i] = v


@pytest.mark.parametrize("double", [False, True])
def test_branches_on_run_time_scalars_join_their_variables(double):
    agree(clipped, normal(40), -0.5, double=double)


def nested(x: f32[N], n: i32, o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        a, b = 0.0, 1.0
        if n > 0:
            if x[i] > 0:
                a = x[i]
            else:
                b = x[i]
            a = a + 1
        else:
            a, b = b, a
        o[i] = a - b


@pytest.mark.parametrize("n", [-1, 0, 1])
def test_nested_branches_and_tuples(n):
    agree(nested, normal(20), n)


def with_continue(x: f32[N], o: InOut[f32[N]]):
    for i in kdsl.parallel(N):
        v = x[i]
        if v < 0:
            continue
        if v > 1:
            o[i] = 1.0
            continue
        v = v + 1
        o[i] = v


def test_continue_ends_an_iteration():
    source = kernels_inout(with_continue, normal(30), np.zeros(30, np.float32))
    assert (source[0] == source[1]).all()


def kernels_inout(fn, x, o):
    """Reference and interpreter on an InOut tensor."""
    from kdsl.frontend import capture, lower
    from kdsl.frontend.reference import reference
    from kdsl.ir import interp

    a, b = o.copy(), o.copy()
    source = capture(fn)
    reference(source, (x, a), {})
    interp.run(lower(source, {}, {}), {"x": x, "o": b})
    return a, b


def continue_in_loop(x: i32[M, N], o: Out[i32[M]]):
    for i in kdsl.parallel(M):
        total = 0
        for j in range(N):
            if x[i, j] < 0:
                continue
            total += x[i, j]
            if total > 20:
                continue
            total += 1
        o[i] = total


def test_continue_in_an_inner_loop():
    agree(continue_in_loop, integers(6, 9))


def logic(x: i32[N], y: i32[N], o: Out[i32[N]]):
    for i in kdsl.parallel(N):
        a, b = x[i], y[i]
        r = 0
        if a > 0 and b > 0:
            r = 1
        if a > 0 or not b > 0:
            r = r + 2
        if 0 < a < b:
            r = r + 4
        if 0 < a <= b != 3:
            r = r + 8
        o[i] = r + (16 if a == b else 32)


def test_and_or_not_and_chained_comparisons():
    agree(logic, integers(200, low=-3, high=5), integers(200, low=-3, high=5))


def guarded(x: f32[N], at: i64[M], o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        j = at[i]
        o[i] = 1.0 if 0 <= j < N and x[j] > 0 else 0.0


def test_and_guards_an_index_out_of_bounds():
    agree(guarded, normal(5), np.array([-3, 0, 1, 2, 3, 4, 5, 99]))


def choose_load(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        o[i] = x[i] if i == 0 else x[i - 1]


def test_a_conditional_expression_runs_one_side_only():
    agree(choose_load, normal(6))


def static_prune(x: f32[N], o: Out[f32[N]], *, k: Static[int] = 0):
    for i in kdsl.parallel(N):
        v = x[i]
        if v > 0:
            pass
        else:
            if k == 1:
                v = undefined_name  # noqa: F821
            elif k == 2:
                v = v * 3
        o[i] = v


@pytest.mark.parametrize("k", [0, 2])
def test_a_static_condition_prunes_at_any_depth(k):
    agree(static_prune, normal(9), k=k)


# ---- loops


def fibonacci(x: i32[N], o: Out[i32[N]]):
    for i in kdsl.parallel(N):
        a, b = 0, 1
        for _ in range(x[i]):
            a, b = b, a + b
        o[i] = a


def test_a_range_with_bounds_read_from_a_tensor_and_swapped_carries():
    agree(fibonacci, np.array([0, 1, 2, 10, 30], np.int32))


def strided(x: f32[N], o: Out[f32[2]]):
    for i in kdsl.parallel(2):
        total = 0.0
        for j in range(N - 1 - i, -1, -2):
            total = total + x[j] * (j + 1)
        o[i] = total


def test_a_range_with_a_step():
    agree(strided, normal(11), rtol=1e-6)


def last_value(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        for j in range(4):
            last = x[i] * j
        k = j
        for j in range(2):
            last = last + j
        o[i] = last + k * 10 + j


def test_loop_variables_keep_their_last_value():
    agree(last_value, normal(5))


def weak_carry(x: bf16[M, N], o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        total, count, flag = 0, 0, False
        for n in kdsl.tiles(N):
            total = total + x[i, n].sum()
            count = count + n.size
            flag = flag or count > 8
        o[i] = total / count if flag else -1.0


def test_python_numbers_become_carries_of_the_dtype_they_meet():
    agree(weak_carry, normal(4, 20, dtype=ml_dtypes.bfloat16), tiles={"n": 7}, rtol=1e-6)
    agree(weak_carry, normal(4, 5, dtype=ml_dtypes.bfloat16), tiles={"n": 7}, rtol=1e-6)


def invariant(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        v, w = x[i], x[i]
        for j in range(3):
            t = v * j
            if j < 0:
                w = w
            v = v + t
        t = v
        o[i] = t + w


def test_variables_a_loop_sets_anew_or_leaves_alone():
    agree(invariant, normal(4), rtol=1e-6)


def tuple_state(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        state = (x[i], 0)
        for j in range(3):
            state = (state[0] * 2, state[1] + j)
        pair = state if x[i] > 0 else (0.0, 7)
        o[i] = pair[0] + pair[1]


def test_tuples_carried_and_joined():
    agree(tuple_state, normal(6))


def shifted_tiles(x: f32[N], o: Out[f32[N]], w: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + n.index
        w[n] = (n.index - n.start) * 1.0


def test_tile_attributes():
    agree(shifted_tiles, normal(23), tiles={"n": 5})


def shifted(x: f32[N], w: f32[K], o: Out[f32[N - K + 1]]):
    kdsl.require(N >= K)
    for n in kdsl.parallel(kdsl.tiles(N - K + 1)):
        total = kdsl.zeros(n)
        for k in range(K):
            total = total + x[n + k] * w[k]
        o[n] = total


def test_shifted_tiles_are_slices_moved():
    agree(shifted, normal(29), normal(4), tiles={"n": 6}, rtol=1e-5, atol=1e-6)


def bounded(x: f32[N], like: f32[M], o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        total = like[i]
        for n in kdsl.tiles(N, start=i - 2, stop=i * 3, size=4):
            total = total + x[n].sum()
        o[i] = total


def test_tile_bounds_are_clamped():
    agree(bounded, normal(9), normal(7), rtol=1e-6, atol=1e-6)


def unrolled(x: f32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        total = 0.0
        for k, (a, b) in enumerate(((1, 2), (3, 4))):
            total = total + x[i] * a + b * k
        for f in (math.sqrt(4.0), 0.5):
            total = total * f
        o[i] = total


def test_a_loop_over_a_tuple_is_unrolled():
    agree(unrolled, normal(5))


# ---- helpers, closures, names

CONFIG = SimpleNamespace(slope=0.25, parts=(1, 2, 3))
max_of_two = 3


@kdsl.inline
def leaky(x, slope=0.1, *, shift=0):
    if isinstance(slope, float):
        return where(x > 0, x, x * slope) + shift
    return x


def sign(x):
    if x > 0:
        return 1.0
    if x < 0:
        return -1.0
    return 0.0


def power(x, n):
    return x if n <= 1 else x * power(x, n - 1)


def helped(x: f32[N], o: Out[f32[N]], s: Out[f32[N]]):
    def scaled(v, by):
        return v * by + offset

    offset = CONFIG.parts[1]
    square = lambda v: v * v  # noqa: E731
    for i in kdsl.parallel(N):
        v = leaky(x[i], CONFIG.slope, shift=max_of_two)
        o[i] = scaled(square(v), 2) + power(v, 3)
        s[i] = sign(x[i])


def test_helpers_closures_lambdas_and_recursion_that_ends():
    agree(helped, normal(12), rtol=1e-6)


def shadowed(x: f32[N], o: Out[f32[N]]):
    max, min, len, sum = 2.0, 3.0, 4.0, 5.0
    for i in kdsl.parallel(N):
        range = x[i]
        o[i] = range * max + min - len * sum


def test_local_names_come_before_builtins():
    agree(shadowed, normal(4))


def builtin_functions(x: f32[N], y: i32[N], o: Out[f32[N]]):
    for i in kdsl.parallel(N):
        a = max(x[i], 0.0, 0.5)
        b = min(a, 2.0)
        q, r = divmod(y[i], 4)
        o[i] = abs(b) + q * 10 + r + len((1, 2)) + int(2.5) + float(3)


def test_python_builtins():
    agree(builtin_functions, normal(9), integers(9))
