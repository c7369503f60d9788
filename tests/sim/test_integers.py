"""Integer instructions against NumPy, at the edges of their types and in between."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.harness import apply, binary

TYPES = {
    "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64,
}  # fmt: skip


def values(dtype, seed=0, count=32):
    info = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1], dtype)
    rng = np.random.default_rng(seed)
    rest = rng.integers(info.min, info.max, count - len(edges), dtype, endpoint=True)
    return rng.permutation(np.concatenate([edges, rest]))


def exact(a):
    return [int(x) for x in a]


def wrapped(numbers, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    return np.array([n & ((1 << bits) - 1) for n in numbers], f"u{bits // 8}").view(dtype)


def truncated(a, b):
    """Division towards zero; by zero: what devices give."""
    return [
        (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else -1
        for x, y in zip(a, b, strict=True)
    ]


BINARY = {
    "add.{t}": lambda a, b, n: [x + y for x, y in zip(a, b, strict=True)],
    "sub.{t}": lambda a, b, n: [x - y for x, y in zip(a, b, strict=True)],
    "mul.lo.{t}": lambda a, b, n: [x * y for x, y in zip(a, b, strict=True)],
    "mul.hi.{t}": lambda a, b, n: [x * y >> n for x, y in zip(a, b, strict=True)],
    "min.{t}": lambda a, b, n: list(map(min, a, b)),
    "max.{t}": lambda a, b, n: list(map(max, a, b)),
    "div.{t}": lambda a, b, n: truncated(a, b),
    "rem.{t}": lambda a, b, n: [
        x - q * y if y else x for x, y, q in zip(a, b, truncated(a, b), strict=True)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("op", BINARY)
def test_arithmetic_wraps_as_integers_do(op, name):
    dtype = TYPES[name]
    a, b = values(dtype), values(dtype, 1)
    bits = 8 * np.dtype(dtype).itemsize
    want = wrapped(BINARY[op](exact(a), exact(b), bits), dtype)
    assert exact(binary(op.format(t=name), a, b)) == exact(want)


@pytest.mark.parametrize(
    ("name", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")]
)
def test_wide_products_keep_every_bit(name, wide):
    a, b, c = values(TYPES[name]), values(TYPES[name], 1), values(TYPES[wide], 2)
    got = apply(f"mul.wide.{name}", [a, b], TYPES[wide])
    assert exact(got) == [x * y for x, y in zip(exact(a), exact(b), strict=True)]
    got = apply(f"mad.wide.{name}", [a, b, c], TYPES[wide])
    want = [x * y + z for x, y, z in zip(exact(a), exact(b), exact(c), strict=True)]
    assert exact(got) == exact(wrapped(want, TYPES[wide]))


@pytest.mark.parametrize("name", TYPES)
def test_mad_adds_to_either_half_of_the_product(name):
    dtype = TYPES[name]
    bits = 8 * np.dtype(dtype).itemsize
    a, b, c = (values(dtype, seed) for seed in range(3))
    for half, shift in (("lo", 0), ("hi", bits)):
        want = [(x * y >> shift) + z for x, y, z in zip(exact(a), exact(b), exact(c), strict=True)]
        got = apply(f"mad.{half}.{name}", [a, b, c], dtype)
        assert exact(got) == exact(wrapped(want, dtype))


@pytest.mark.parametrize("bits", [32, 64])
def test_carries_chain_additions_and_subtractions(bits):
    from tests.sim.harness import lanes

    dtype = TYPES[f"u{bits}"]
    a, b = values(dtype), values(dtype, 1)
    reg = "%r" if bits == 32 else "%rd"
    body = f"""
      ld.global.b{bits} {reg}10, [%rd1]; ld.global.b{bits} {reg}11, [%rd2];
      {{op}}.cc.u{bits} {reg}12, {reg}10, {reg}11;
      {{op}}c.u{bits} {reg}13, 0, 0;
      cvt.u32.u{bits} %r20, {reg}13;
      st.global.u32 [%rd0], %r20;
    """
    if bits == 32:
        body = body.replace("cvt.u32.u32 %r20, %r13", "mov.u32 %r20, %r13")
    carries = lanes(body.format(op="add"), a, b).view(np.uint32)[::2]
    assert list(carries) == [
        int(x + y >= 1 << bits) for x, y in zip(exact(a), exact(b), strict=True)
    ]
    borrows = lanes(body.format(op="sub"), a, b).view(np.uint32)[::2]
    assert list(borrows) == [
        0xFFFFFFFF if x < y else 0 for x, y in zip(exact(a), exact(b), strict=True)
    ]


def test_saturating_sums_stop_at_the_ends():
    a, b = values(np.int32), values(np.int32, 1)
    for op, f in (("add", int.__add__), ("sub", int.__sub__)):
        want = [
            min(max(f(x, y), -(2**31)), 2**31 - 1) for x, y in zip(exact(a), exact(b), strict=True)
        ]
        assert exact(binary(f"{op}.sat.s32", a, b)) == want


@pytest.mark.parametrize("name", ["s16", "s32", "s64"])
def test_signs(name):
    a = values(TYPES[name])
    assert exact(apply(f"neg.{name}", [a], a.dtype)) == exact(
        wrapped([-x for x in exact(a)], a.dtype)
    )
    assert exact(apply(f"abs.{name}", [a], a.dtype)) == exact(
        wrapped([abs(x) for x in exact(a)], a.dtype)
    )


def test_sums_of_absolute_differences():
    a, b, c = (values(np.int32, seed) for seed in range(3))
    want = [abs(x - y) + z for x, y, z in zip(exact(a), exact(b), exact(c), strict=True)]
    assert exact(apply("sad.s32", [a, b, c], np.int32)) == exact(wrapped(want, np.int32))


@pytest.mark.parametrize(
    ("ta", "tb"), [("u32", "u32"), ("s32", "s32"), ("u32", "s32"), ("s32", "u32")]
)
def test_dot_products_of_bytes(ta, tb):
    a, b, c = (values(np.uint32, seed) for seed in range(3))
    parts = {"u32": np.uint8, "s32": np.int8}
    x = a.view(parts[ta]).reshape(-1, 4).astype(np.int64)
    y = b.view(parts[tb]).reshape(-1, 4).astype(np.int64)
    want = (x * y).sum(1) + c.astype(np.int64)
    assert exact(apply(f"dp4a.{ta}.{tb}", [a, b, c], np.uint32)) == exact(want & 0xFFFFFFFF)
    halves = {"u32": np.uint16, "s32": np.int16}
    x = a.view(halves[ta]).reshape(-1, 2).astype(np.int64)
    for half, cut in (("lo", y[:, :2]), ("hi", y[:, 2:])):
        want = (x * cut).sum(1) + c.astype(np.int64)
        got = apply(f"dp2a.{half}.{ta}.{tb}", [a, b, c], np.uint32)
        assert exact(got) == exact(want & 0xFFFFFFFF)
