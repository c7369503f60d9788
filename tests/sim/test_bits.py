"""Instructions on bits against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.harness import apply, lanes
from tests.sim.test_integers import TYPES, exact, values


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize(
    ("op", "f"), [("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)]
)
def test_logic(op, f, bits):
    a, b = values(TYPES[f"u{bits}"]), values(TYPES[f"u{bits}"], 1)
    assert exact(apply(f"{op}.b{bits}", [a, b], a.dtype)) == list(map(f, exact(a), exact(b)))
    mask = (1 << bits) - 1
    assert exact(apply(f"not.b{bits}", [a], a.dtype)) == [~x & mask for x in exact(a)]


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0xCA, 0x01, 0xFF])
def test_lop3_looks_every_bit_up(table):
    a, b, c = (values(np.uint32, seed) for seed in range(3))
    want = []
    for x, y, z in zip(exact(a), exact(b), exact(c), strict=True):
        bits = [(x >> k & 1) << 2 | (y >> k & 1) << 1 | (z >> k & 1) for k in range(32)]
        want.append(sum((table >> index & 1) << k for k, index in enumerate(bits)))
    assert exact(apply("lop3.b32", [a, b, c], np.uint32, f", {table:#x}")) == want


@pytest.mark.parametrize("name", TYPES)
def test_shifts_beyond_the_width_leave_zeros_or_signs(name):
    a = values(TYPES[name])
    bits = 8 * a.dtype.itemsize
    n = np.resize(np.array([0, 1, 5, bits - 1, bits, bits + 9, 255], np.uint32), 32)
    mask = (1 << bits) - 1
    if name[0] == "u":
        got = apply(f"shl.b{bits}", [a, n], a.dtype)
        assert exact(got) == [
            x << k & mask if k < bits else 0 for x, k in zip(exact(a), exact(n), strict=True)
        ]
    got = apply(f"shr.{name}", [a, n], a.dtype)
    assert exact(got) == [x >> min(k, bits) for x, k in zip(exact(a), exact(n), strict=True)]


def test_funnel_shifts():
    a, b = values(np.uint32), values(np.uint32, 1)
    n = np.arange(32, dtype=np.uint32) + 10
    both = [y << 32 | x for x, y in zip(exact(a), exact(b), strict=True)]
    for mode, amount in (
        ("wrap", [k & 31 for k in exact(n)]),
        ("clamp", [min(k, 32) for k in exact(n)]),
    ):
        got = apply(f"shf.l.{mode}.b32", [a, b, n], np.uint32)
        assert exact(got) == [x << k >> 32 & 0xFFFFFFFF for x, k in zip(both, amount, strict=True)]
        got = apply(f"shf.r.{mode}.b32", [a, b, n], np.uint32)
        assert exact(got) == [x >> k & 0xFFFFFFFF for x, k in zip(both, amount, strict=True)]


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits):
    a = values(TYPES[f"u{bits}"])
    assert exact(apply(f"popc.b{bits}", [a], np.uint32)) == [x.bit_count() for x in exact(a)]
    assert exact(apply(f"clz.b{bits}", [a], np.uint32)) == [bits - x.bit_length() for x in exact(a)]
    want = [int(f"{x:0{bits}b}"[::-1], 2) for x in exact(a)]
    assert exact(apply(f"brev.b{bits}", [a], a.dtype)) == want
    want = [x.bit_length() - 1 if x else 0xFFFFFFFF for x in exact(a)]
    assert exact(apply(f"bfind.u{bits}", [a], np.uint32)) == want
    s = a.view(TYPES[f"s{bits}"])
    want = [((x if x >= 0 else ~x).bit_length() - 1) & 0xFFFFFFFF for x in exact(s)]
    assert exact(apply(f"bfind.s{bits}", [s], np.uint32)) == want
    want = [bits - x.bit_length() if x else 0xFFFFFFFF for x in exact(a)]
    assert exact(apply(f"bfind.shiftamt.u{bits}", [a], np.uint32)) == want


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_are_cut_out_and_put_in(bits):
    a, b = values(TYPES[f"u{bits}"]), values(TYPES[f"u{bits}"], 1)
    rng = np.random.default_rng(2)
    pos = rng.integers(0, bits + 8, 32, np.uint32)
    count = rng.integers(0, bits + 8, 32, np.uint32)
    want = [
        x >> p & (1 << n) - 1 for x, p, n in zip(exact(a), exact(pos), exact(count), strict=True)
    ]
    assert exact(apply(f"bfe.u{bits}", [a, pos, count], a.dtype)) == want

    signed = []
    for x, p, n in zip(exact(a), exact(pos), exact(count), strict=True):
        top = min(p + n - 1, bits - 1)
        sign = x >> top & 1 if n else 0
        field = [x >> p + k & 1 if p + k < bits else sign for k in range(min(n, bits))]
        value = sum(bit << k for k, bit in enumerate(field))
        if sign:
            value |= -1 << min(n, bits) if n < bits else 0
        signed.append(value & (1 << bits) - 1)
    got = apply(f"bfe.s{bits}", [a, pos, count], a.dtype)
    assert exact(got) == signed

    mask = [
        (1 << n) - 1 << p & (1 << bits) - 1 for p, n in zip(exact(pos), exact(count), strict=True)
    ]
    want = [
        y & ~m | x << p & m for x, y, p, m in zip(exact(a), exact(b), exact(pos), mask, strict=True)
    ]  # fmt: skip
    assert exact(apply(f"bfi.b{bits}", [a, b, pos, count], a.dtype)) == want


def test_prmt_picks_bytes_and_repeats_signs():
    a, b, c = (values(np.uint32, seed) for seed in range(3))
    want = []
    for x, y, z in zip(exact(a), exact(b), exact(c), strict=True):
        pool = (x | y << 32).to_bytes(8, "little")
        picked = []
        for k in range(4):
            n = z >> 4 * k & 15
            byte = pool[n & 7]
            picked.append((255 if byte & 128 else 0) if n & 8 else byte)
        want.append(int.from_bytes(bytes(picked), "little"))
    assert exact(apply("prmt.b32", [a, b, c], np.uint32)) == want


@pytest.mark.parametrize(("mode", "order"), [
    ("f4e", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
    ("b4e", [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
    ("rc8", [[0] * 4, [1] * 4, [2] * 4, [3] * 4]),
    ("ecl", [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
    ("ecr", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
    ("rc16", [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
])  # fmt: skip
def test_prmt_modes(mode, order):
    a, b = values(np.uint32), values(np.uint32, 1)
    c = np.arange(32, dtype=np.uint32) % 4
    pools = [(x | y << 32).to_bytes(8, "little") for x, y in zip(exact(a), exact(b), strict=True)]
    want = [
        int.from_bytes(bytes(pool[k] for k in order[n]), "little")
        for pool, n in zip(pools, exact(c), strict=True)
    ]
    assert exact(apply(f"prmt.b32.{mode}", [a, b, c], np.uint32)) == want


def test_predicates_have_logic_of_their_own():
    a, b = values(np.uint32), values(np.uint32, 1)
    body = """
      ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];
      setp.lt.u32 %p1, %r1, 0x80000000; setp.lt.u32 %p2, %r2, 0x80000000;
      and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; xor.pred %p5, %p1, %p2; not.pred %p6, %p1;
      selp.u32 %r3, 1, 0, %p3; selp.u32 %r4, 2, 0, %p4; selp.u32 %r5, 4, 0, %p5;
      selp.u32 %r6, 8, 0, %p6; or.b32 %r3, %r3, %r4; or.b32 %r5, %r5, %r6; or.b32 %r3, %r3, %r5;
      mov.pred %p7, %p3; @!%p7 add.u32 %r3, %r3, 16;
      st.global.u32 [%rd0], %r3;
    """
    got = lanes(body, a, b).view(np.uint32)[::2]
    x, y = a < 1 << 31, b < 1 << 31
    assert list(got) == list((x & y) + 2 * (x | y) + 4 * (x ^ y) + 8 * ~x + 16 * ~(x & y))
