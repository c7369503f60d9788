"""Floating-point instructions, bit for bit against NumPy; other roundings against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.sim.harness import apply, binary

SPECIALS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-42, 3.4e38, -3.4e38, 0.5, 1.5]


def floats(dtype, seed=0, count=64):
    rng = np.random.default_rng(seed)
    rest = rng.standard_normal(count - len(SPECIALS)) * 10.0 ** rng.integers(
        -30, 30, count - len(SPECIALS)
    )
    with np.errstate(over="ignore"):
        return rng.permutation(np.concatenate([SPECIALS, rest])).astype(dtype)


def same(got, want):
    """Equal bits, any NaN for a NaN."""
    unsigned = f"u{got.dtype.itemsize}"
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), nan)
    assert np.array_equal(got[~nan].view(unsigned), want[~nan].astype(got.dtype).view(unsigned))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("op", "f"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div.rn", np.divide)],
)
def test_arithmetic_is_ieee(op, f, dtype):
    a, b = floats(dtype), floats(dtype, 1)
    with np.errstate(all="ignore"):
        same(binary(f"{op}.f{8 * a.itemsize}", a, b), f(a, b))


def test_an_f32_nan_has_one_form():
    a = floats(np.float32)
    got = binary("add.f32", a, np.full_like(a, np.nan))
    assert set(got.view(np.uint32)) == {0x7FFFFFFF}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype):
    one = dtype(1)
    eps = np.finfo(dtype).eps
    a = np.full(32, one + eps)
    got = apply(f"fma.rn.f{8 * a.itemsize}", [a, a, np.full(32, -(one + 2 * eps), dtype)], dtype)
    assert list(got) == [eps * eps] * 32  # a product rounded first would leave nothing


def exact(value):
    return Fraction(float(value))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "div", "fma"])
def test_directed_roundings_lie_on_the_right_side(op, mode, dtype):
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(64).astype(dtype) for _ in range(3))
    operands = [a, b, c] if op == "fma" else [a, b]
    got = apply(f"{op}.{mode}.f{8 * a.itemsize}", operands, dtype)
    for x, y, z, r in zip(a, b, c, got, strict=True):
        want = {
            "add": exact(x) + exact(y), "mul": exact(x) * exact(y), "div": exact(x) / exact(y),
            "fma": exact(x) * exact(y) + exact(z),
        }[op]  # fmt: skip
        up = mode == "rp" or (mode == "rz" and want < 0)
        other = np.nextafter(r, dtype(np.inf if not up else -np.inf), dtype=dtype)
        assert (exact(r) >= want) if up else (exact(r) <= want)
        assert (exact(other) < want) if up else (exact(other) > want)


def test_ftz_flushes_operands_and_results_and_sat_clamps():
    tiny, small = np.float32(1e-40), np.float32(1.2e-38)
    a = np.array([tiny, -tiny, small, 2, -2, np.nan, 0.25, 1] * 4, np.float32)
    got = binary("mul.ftz.f32", a, np.full(32, 0.5, np.float32))[:3]
    assert got.view(np.uint32).tolist() == [0, 0x80000000, 0]
    got = binary("add.sat.f32", a, np.zeros(32, np.float32))[3:8]
    assert got.tolist() == [1, 0, 0, 0.25, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_min_and_max_ignore_or_keep_nan_and_order_zeros(dtype):
    a, b = floats(dtype), floats(dtype, 1)
    t = f"f{8 * a.itemsize}"
    same(binary(f"min.{t}", a, b), np.fmin(a, b))
    same(binary(f"max.{t}", a, b), np.fmax(a, b))
    zeros, minus = np.zeros(32, dtype), -np.zeros(32, dtype)
    for x, y in ((zeros, minus), (minus, zeros)):
        assert not np.signbit(binary(f"max.{t}", x, y)).any()
        assert np.signbit(binary(f"min.{t}", x, y)).all()
    if dtype == np.float32:
        same(binary("min.NaN.f32", a, b), np.minimum(a, b))
        same(binary("max.NaN.f32", a, b), np.maximum(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_operand(dtype):
    a = floats(dtype)
    t = f"f{8 * a.itemsize}"
    with np.errstate(all="ignore"):
        same(apply(f"neg.{t}", [a], dtype), -a)
        same(apply(f"abs.{t}", [a], dtype), np.abs(a))
        same(apply(f"sqrt.rn.{t}", [a], dtype), np.sqrt(a))
        same(apply(f"rcp.rn.{t}", [a], dtype), 1 / a)
        same(binary(f"copysign.{t}", a, floats(dtype, 1)), np.copysign(floats(dtype, 1), a))


@pytest.mark.parametrize(("op", "f"), [
    ("ex2.approx.ftz.f32", np.exp2), ("lg2.approx.f32", np.log2), ("sin.approx.f32", np.sin),
    ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh), ("rcp.approx.f32", np.reciprocal),
    ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)), ("sqrt.approx.f32", np.sqrt),
])  # fmt: skip
def test_approximate_functions_are_good_to_a_rounding(op, f):
    rng = np.random.default_rng(0)
    a = rng.uniform(0.01, 20, 1000).astype(np.float32)
    if "ex2" in op:
        a = rng.uniform(-120, 120, 1000).astype(np.float32)
    want = f(a.astype(np.float64))
    assert np.abs(apply(op, [a], np.float32) - want).max() <= (np.abs(want) * 2.0**-23).max()
    assert np.all(np.abs(apply(op, [a], np.float32) - want) <= np.abs(want) * 2.0**-23 + 1e-30)


def test_ex2_at_the_ends():
    a = np.array([-np.inf, np.inf, np.nan, 0, 128, -126, -149, -150.5, 127.5, 1], np.float32)
    got = apply("ex2.approx.f32", [a], np.float32)
    with np.errstate(over="ignore"):
        same(got, np.exp2(a.astype(np.float64)).astype(np.float32))
    assert apply("ex2.approx.ftz.f32", [a], np.float32)[6] == 0


@pytest.mark.parametrize(
    "relation",
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_comparisons_with_and_without_nan(relation, dtype):
    from tests.sim.harness import lanes

    a, b = floats(dtype), floats(dtype, 1)
    b[:20] = a[:20]
    reg, t = ("%f", "f32") if dtype == np.float32 else ("%d", "f64")
    body = f"""
      ld.global.{t} {reg}1, [%rd1]; ld.global.{t} {reg}2, [%rd2];
      setp.{relation}.{t} %p1|%p2, {reg}1, {reg}2;
      selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; or.b32 %r1, %r1, %r2;
      st.global.u32 [%rd0], %r1;
    """
    got = lanes(body, a, b, threads=64).view(np.uint32)[::2]
    nan = np.isnan(a) | np.isnan(b)
    ordered = {
        "eq": a == b, "ne": (a != b) & ~nan, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        "num": ~nan, "nan": nan,
    }  # fmt: skip
    want = ordered[relation] if relation in ordered else ordered[relation[:-1]] | nan
    assert list(got) == [1 if w else 2 for w in want]


@pytest.mark.parametrize(("name", "f"), [
    ("finite", np.isfinite), ("infinite", np.isinf), ("number", lambda x: ~np.isnan(x)),
    ("notanumber", np.isnan),
    ("normal", lambda x: np.isfinite(x) & (np.abs(x) >= 2.0**-126)),
    ("subnormal", lambda x: (x != 0) & (np.abs(x) < 2.0**-126)),
])  # fmt: skip
def test_testp(name, f):
    from tests.sim.harness import lanes

    a = floats(np.float32)
    body = f"""ld.global.f32 %f1, [%rd1]; testp.{name}.f32 %p1, %f1; selp.u32 %r1, 1, 0, %p1;
      st.global.u32 [%rd0], %r1;"""
    assert list(lanes(body, a, threads=64).view(np.uint32)[::2]) == list(f(a))
