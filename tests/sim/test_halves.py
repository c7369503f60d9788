"""f16 and bf16: arithmetic against the exact value rounded once, singly and in pairs."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.sim.harness import apply

TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def halves(name, seed=0, count=96):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 16, count, np.uint16)
    return bits.view(TYPES[name])


def nearest(value: Fraction, dtype):
    """A fraction as the nearest value of a type, ties to even."""
    as_float = np.float64(float(value))
    near = as_float.astype(dtype)
    candidates = {
        near,
        np.nextafter(near, np.array(np.inf, dtype)),
        np.nextafter(near, np.array(-np.inf, dtype)),
    }
    finite = [c for c in candidates if np.isfinite(c)]
    limit = Fraction(float(np.array(ml_dtypes.finfo(dtype).max)))
    if (
        abs(value)
        >= limit
        + (
            limit
            - Fraction(
                float(np.nextafter(np.array(ml_dtypes.finfo(dtype).max), np.array(0, dtype)))
            )
        )
        / 2
    ):
        return np.array(np.inf if value > 0 else -np.inf, dtype)
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.uint16)) & 1))


def check(got, want):
    for g, w in zip(got, want, strict=True):
        if np.isnan(w.astype(np.float32)):
            assert np.isnan(g.astype(np.float32))
        elif float(w) != 0:
            assert g.view(np.uint16) == w.view(np.uint16)
        else:
            assert float(g) == 0


EXACT = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


def results(name, op, operands):
    dtype = TYPES[name]
    for values in zip(*operands, strict=True):
        plain = [float(v) for v in values]
        with np.errstate(all="ignore"):
            if all(map(np.isfinite, plain)):
                yield nearest(EXACT[op](*map(Fraction, plain)), dtype)
            else:
                yield np.array(EXACT[op](*map(np.float32, plain))).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_results_are_rounded_once(name, op):
    operands = [halves(name, seed) for seed in range(3 if op == "fma" else 2)]
    suffix = ".rn" if op == "fma" or name == "bf16" else ""
    bits = [o.view(np.uint16) for o in operands]
    got = apply(f"{op}{suffix}.{name}", bits, np.uint16).view(TYPES[name])
    check(got, list(results(name, op, operands)))


@pytest.mark.parametrize("name", TYPES)
def test_pairs_are_two_of_them(name):
    a, b, c = (halves(name, seed, 64) for seed in range(3))
    words = [o.view(np.uint32) for o in (a, b, c)]
    got = apply(f"fma.rn.{name}x2", words, np.uint32).view(TYPES[name])
    single = apply(f"fma.rn.{name}", [o.view(np.uint16) for o in (a, b, c)], np.uint16)
    assert got.view(np.uint16).tolist() == single.tolist()


@pytest.mark.parametrize("name", TYPES)
def test_min_max_neg_abs(name):
    a, b = halves(name), halves(name, 1)
    wide = [x.astype(np.float32) for x in (a, b)]
    bits = [x.view(np.uint16) for x in (a, b)]
    for op, f in (
        ("min", np.fmin),
        ("max", np.fmax),
        ("min.NaN", np.minimum),
        ("max.NaN", np.maximum),
    ):
        got = apply(f"{op}.{name}", bits, np.uint16).view(TYPES[name]).astype(np.float32)
        assert np.array_equal(got, f(*wide), equal_nan=True)
    assert apply(f"neg.{name}", bits[:1], np.uint16).tolist() == (bits[0] ^ 0x8000).tolist()
    assert apply(f"abs.{name}", bits[:1], np.uint16).tolist() == (bits[0] & 0x7FFF).tolist()


def test_comparisons_of_halves_and_pairs():
    from tests.sim.harness import lanes

    a, b = halves("f16", 5, 64), halves("f16", 6, 64)
    body = """
      ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];
      setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2;
      or.b32 %r3, %r3, %r4; st.global.u32 [%rd0], %r3;
    """
    got = lanes(body, a.view(np.uint32), b.view(np.uint32)).view(np.uint32)[::2]
    less = a < b
    assert list(got) == list(less[::2] * 1 + less[1::2] * 2)
