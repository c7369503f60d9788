"""cvt between types, at the edges of each."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sim.harness import apply
from tests.sim.test_floats import floats, same
from tests.sim.test_integers import TYPES as WIDE
from tests.sim.test_integers import exact, values

INTEGERS = {"u8": np.uint8, "s8": np.int8, **WIDE}
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_are_cut_extended_or_clamped(source, to):
    a = values(INTEGERS[source])
    assert exact(apply(f"cvt.{to}.{source}", [a], INTEGERS[to])) == exact(a.astype(INTEGERS[to]))
    info = np.iinfo(INTEGERS[to])
    want = [min(max(x, int(info.min)), int(info.max)) for x in exact(a)]
    assert exact(apply(f"cvt.sat.{to}.{source}", [a], INTEGERS[to])) == want


@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("mode", "f"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_floats_become_the_nearest_integer_that_fits(mode, f, source, to):
    a = np.concatenate(
        [floats(source), np.array([0.5, 1.5, 2.5, -0.5, 127.5, 255.5, 3e9, -3e9], source)]
    )
    info = np.iinfo(INTEGERS[to])
    special = 1 << (8 * np.dtype(INTEGERS[to]).itemsize - 1)
    zero = source == np.float32 and np.dtype(INTEGERS[to]).itemsize < 8
    want = []
    for x in a:
        if np.isnan(x):
            want.append(0 if zero else (special if to[0] == "u" else -special))
        elif np.isinf(x):
            want.append(int(info.max if x > 0 else info.min))
        else:
            want.append(min(max(int(f(x)), int(info.min)), int(info.max)))
    got = apply(f"cvt.{mode}.{to}.f{8 * a.itemsize}", [a], INTEGERS[to])
    assert exact(got) == want


@pytest.mark.parametrize("source", ["u32", "s32", "u64", "s64", "s16", "u16"])
def test_integers_become_the_nearest_float(source):
    a = values(INTEGERS[source])
    for dtype, name in ((np.float32, "f32"), (np.float64, "f64")):
        same(apply(f"cvt.rn.{name}.{source}", [a], dtype), a.astype(dtype))
    got = apply(f"cvt.rn.f16.{source}", [a], np.uint16).view(np.float16)
    with np.errstate(over="ignore"):
        same(got, a.astype(np.float64).astype(np.float16))
    if source[1:] in ("32", "64"):
        low = apply(f"cvt.rm.f32.{source}", [a], np.float32)
        high = apply(f"cvt.rp.f32.{source}", [a], np.float32)
        for x, below, above in zip(exact(a), low, high, strict=True):
            assert int(below) <= x <= int(above)
            assert above in (below, np.nextafter(below, np.float32(np.inf)))


def test_floats_of_other_sizes():
    a, d = floats(np.float32, count=500), floats(np.float64, count=500)
    with np.errstate(over="ignore"):
        same(apply("cvt.f64.f32", [a], np.float64), a.astype(np.float64))
        same(apply("cvt.rn.f32.f64", [d], np.float32), d.astype(np.float32))
        same(apply("cvt.rn.f16.f32", [a], np.uint16).view(np.float16), a.astype(np.float16))
        bf16 = apply("cvt.rn.bf16.f32", [a], np.uint16).view(BF16)
        assert np.array_equal(
            bf16.astype(np.float32), a.astype(BF16).astype(np.float32), equal_nan=True
        )
    every = np.arange(1 << 16, dtype=np.uint16)[::71]
    same(apply("cvt.f32.f16", [every], np.float32), every.view(np.float16).astype(np.float32))
    got = apply("cvt.f32.bf16", [every], np.float32)
    assert np.array_equal(got, every.view(BF16).astype(np.float32), equal_nan=True)


def test_narrow_floats_round_subnormals_and_ties():
    ties = np.array(
        [
            2.0**-25,
            1.5 * 2.0**-24,
            2.0**-24,
            65519.9,
            65520.0,
            1 + 2.0**-11,
            1 + 3 * 2.0**-11,
            6.1e-5,
        ],
        np.float32,
    )
    with np.errstate(over="ignore"):
        same(
            apply("cvt.rn.f16.f32", [np.resize(ties, 32)], np.uint16).view(np.float16),
            np.resize(ties, 32).astype(np.float16),
        )
    cut = apply("cvt.rz.f16.f32", [np.resize(ties, 32)], np.uint16).view(np.float16)
    assert np.all(cut.astype(np.float32) <= np.resize(ties, 32))
    assert np.isfinite(cut).all()


def test_pairs_hold_the_second_operand_low():
    a, b = floats(np.float32), floats(np.float32, 1)
    with np.errstate(over="ignore"):
        for name, dtype in (("f16", np.dtype(np.float16)), ("bf16", BF16)):
            got = apply(f"cvt.rn.{name}x2.f32", [a, b], np.uint32).view(dtype)
            want = np.stack([b, a], 1).ravel().astype(dtype)
            assert np.array_equal(got.astype(np.float32), want.astype(np.float32), equal_nan=True)
    got = apply("cvt.rn.relu.f16x2.f32", [a, b], np.uint32).view(np.float16)
    assert not (got < 0).any()


def test_tf32_keeps_ten_bits_of_mantissa():
    a = np.array(
        [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-12, -1 - 2.0**-11, np.inf, 3.14159], np.float32
    )
    got = apply("cvt.rna.tf32.f32", [np.resize(a, 36)], np.uint32).view(np.float32)[:6]
    assert got[:5].tolist() == [1 + 2.0**-10, 1 + 4 * 2.0**-11, 1, -1 - 2.0**-10, np.inf]
    assert got.view(np.uint32)[5] & 0x1FFF == 0


def test_whole_numbers_saturation_and_packing():
    a = floats(np.float32)
    with np.errstate(invalid="ignore"):
        for mode, f in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
            same(apply(f"cvt.{mode}.f32.f32", [a], np.float32), f(a))
        clamped = np.where(np.isnan(a), 0, np.clip(a, 0, 1)).astype(np.float32) + np.float32(0)
    assert apply("cvt.sat.f32.f32", [a], np.float32).tolist() == clamped.tolist()
    x, y, z = values(np.int32), values(np.int32, 1), values(np.uint32, 2)
    got = apply("cvt.pack.sat.s8.s32.b32", [x, y, z], np.uint32)
    clip = lambda v: int(np.clip(v, -128, 127)) & 255  # noqa: E731
    want = [
        (c << 16 | clip(p) << 8 | clip(q)) & 0xFFFFFFFF
        for p, q, c in zip(exact(x), exact(y), exact(z), strict=True)
    ]
    assert exact(got) == want
