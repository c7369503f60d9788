"""Tensor-core instructions against matrix products, in the layouts that PTX gives registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kdsl import sim
from tests.sim.harness import kernel

LANE = np.arange(32)
ROW, COLUMN = LANE // 4, LANE % 4


def registers(matrix, per, parts):
    """A matrix as words of registers [part][lane]: `parts` gives each part's first row, column."""
    words = []
    for down, along in parts:
        block = matrix[down : down + 8, along : along + 4 * per]
        flat = np.ascontiguousarray(block).view(np.uint8).reshape(8, 4, -1)
        words.append(flat[ROW, COLUMN].copy().view(np.uint32).ravel())
    return words


def run_mma(op, words, results, wide=False):
    """Words of d for words of a, b, c in registers, all of one kind."""
    memory = np.stack(words)  # [register][lane]
    count = len(words)
    kind, reg, size = ("f64", "%d", 8) if wide else ("b32", "%r", 4)
    loads = "".join(f"ld.global.{kind} {reg}{n}, [%rd10+{n * 32 * size}]; " for n in range(count))
    names = [f"{reg}{n}" for n in range(count)]
    out = [f"{reg}{count + n}" for n in range(results)]

    def group(items):
        return "{" + ", ".join(items) + "}"

    sizes = op[1]
    at, groups = 0, []
    for n in sizes:
        groups.append(group(names[at : at + n]))
        at += n
    stores = "".join(
        f"st.global.{kind} [%rd12+{n * 32 * size}], {reg}{count + n}; " for n in range(results)
    )
    body = f"""
      mul.wide.u32 %rd11, %r79, {size}; ld.param.u64 %rd10, [p1]; add.s64 %rd10, %rd10, %rd11;
      ld.param.u64 %rd12, [p0]; add.s64 %rd12, %rd12, %rd11;
      {loads} {op[0]} {group(out)}, {", ".join(groups)}; {stores}
    """
    result = np.zeros((results, 32), memory.dtype)
    run = sim.run(kernel(body, 2), "k", 1, 32, [result, memory])
    assert not run.reports, run
    return result, run


def c_matrix(words, rows=16):
    """D or C from its registers: two columns a register pair, eight rows a part."""
    out = np.zeros((rows, 8), words.dtype)
    for n, values in enumerate(words):
        out[ROW + 8 * (n // 2), 2 * COLUMN + n % 2] = values
    return out


def c_registers(matrix):
    return [matrix[ROW + 8 * (n // 2), 2 * COLUMN + n % 2] for n in range(matrix.shape[0] // 4)]


FLOATS = [
    ("f16", np.dtype(np.float16), 16), ("f16", np.dtype(np.float16), 8),
    ("bf16", np.dtype(ml_dtypes.bfloat16), 16), ("bf16", np.dtype(ml_dtypes.bfloat16), 8),
    ("tf32", np.dtype(np.float32), 8), ("tf32", np.dtype(np.float32), 4),
]  # fmt: skip


def parts_of(k, span):
    a = [(8 * (n % 2), span * (n // 2)) for n in range(2 * k // span)]
    return a, [(0, span * n) for n in range(k // span)]


@pytest.mark.parametrize(("name", "dtype", "k"), FLOATS)
def test_products_of_floats(name, dtype, k):
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 9, (16, k)).astype(np.float32).astype(dtype)
    b = rng.integers(-8, 9, (k, 8)).astype(np.float32).astype(dtype)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    per = 4 // dtype.itemsize
    pa, pb = parts_of(k, 4 * per)
    words = registers(a, per, pa) + registers(b.T, per, pb)
    words += [w.view(np.uint32) for w in c_registers(c)]
    op = f"mma.sync.aligned.m16n8k{k}.row.col.f32.{name}.{name}.f32"
    got, run = run_mma((op, (len(pa), len(pb), 4)), words, 4)
    want = a.astype(np.float32) @ b.astype(np.float32) + c
    assert np.array_equal(c_matrix(got.view(np.float32)), want)
    assert run.counters.tensor_flops == 2 * 16 * 8 * k


def test_sums_in_f16():
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-4, 5, s).astype(np.float16) for s in ((16, 16), (16, 8), (16, 8)))
    pa, pb = parts_of(16, 8)
    words = registers(a, 2, pa) + registers(b.T, 2, pb) + registers(c, 2, [(0, 0), (8, 0)])
    op = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    got, _ = run_mma((op, (4, 2, 2)), words, 2)
    want = registers(
        (a.astype(float) @ b.astype(float) + c).astype(np.float16), 2, [(0, 0), (8, 0)]
    )
    assert got.tolist() == np.stack(want).tolist()


@pytest.mark.parametrize(("ta", "tb"), [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")])
@pytest.mark.parametrize("k", [16, 32])
def test_products_of_bytes(ta, tb, k):
    dtypes = {"s8": np.int8, "u8": np.uint8}
    rng = np.random.default_rng(2)
    a = rng.integers(-128, 128, (16, k)).astype(dtypes[ta])
    b = rng.integers(-128, 128, (k, 8)).astype(dtypes[tb])
    c = rng.integers(-1000, 1000, (16, 8)).astype(np.int32)
    pa, pb = parts_of(k, 16)
    words = registers(a, 4, pa) + registers(b.T, 4, pb)
    words += [w.view(np.uint32) for w in c_registers(c)]
    op = f"mma.sync.aligned.m16n8k{k}.row.col.s32.{ta}.{tb}.s32"
    got, _ = run_mma((op, (len(pa), len(pb), 4)), words, 4)
    want = a.astype(np.int64) @ b.astype(np.int64) + c
    assert np.array_equal(c_matrix(got.view(np.int32)), want)


def test_saturation_of_integer_sums():
    a, b = np.full((16, 16), 127, np.int8), np.full((16, 8), 127, np.int8)
    c = np.full((16, 8), 2**31 - 1000, np.int32)
    pa, pb = parts_of(16, 16)
    words = (
        registers(a, 4, pa) + registers(b.T, 4, pb) + [w.view(np.uint32) for w in c_registers(c)]
    )
    op = "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32"
    got, _ = run_mma((op, (2, 1, 4)), words, 4)
    assert set(got.view(np.int32).ravel()) == {2**31 - 1}


def test_products_of_f64():
    rng = np.random.default_rng(3)
    a, b, c = rng.standard_normal((8, 4)), rng.standard_normal((4, 8)), rng.standard_normal((8, 8))
    words = [a[ROW, COLUMN], b[COLUMN, ROW], *c_registers(c)]
    op = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    got, _ = run_mma((op, (1, 1, 2)), words, 2, wide=True)
    assert np.allclose(c_matrix(got, 8), a @ b + c, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix_are_inverse(count, trans):
    tiles = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    regs = [f"%r{n}" for n in range(1, count + 1)]
    group = "{" + ", ".join(regs) + "}"
    saves = "".join(f"st.global.u32 [%rd12+{128 * n}], {r}; " for n, r in enumerate(regs))
    copies = "".join(
        f"ld.global.u32 %r20, [%rd10+{128 * n}]; st.shared.u32 [%r10+{128 * n}], %r20; "
        for n in range(count)
    )
    back = "".join(
        f"ld.shared.u32 %r20, [%r10+{512 + n}]; st.global.u32 [%rd12+{512 + n}], %r20; "
        for n in range(0, 128 * count, 128)
    )
    body = f"""
      .shared .align 16 .b8 s[1024]; mov.u32 %r11, s; shl.b32 %r10, %r79, 2;
      add.u32 %r10, %r10, %r11;
      mul.wide.u32 %rd11, %r79, 4; ld.param.u64 %rd10, [p1]; add.s64 %rd10, %rd10, %rd11;
      ld.param.u64 %rd12, [p0]; add.s64 %rd12, %rd12, %rd11;
      {copies} bar.sync 0;
      shl.b32 %r12, %r79, 4; rem.u32 %r12, %r12, {128 * count}; add.u32 %r12, %r12, %r11;
      ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {group}, [%r12];
      {saves}
      stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12+512], {group};
      bar.sync 0;
      {back}
    """
    out = np.zeros(256, np.uint32)
    run = sim.run(kernel(body, 2), "k", 1, 32, [out, tiles])
    assert not run.reports, run
    want = np.stack([t.T if trans else t for t in tiles])
    fragments = np.concatenate(
        registers(want.reshape(-1, 8), 2, [(8 * n, 0) for n in range(count)])
    )
    assert out[: 32 * count].tolist() == fragments.tolist()
    assert out[128 : 128 + 32 * count].tolist() == tiles.view(np.uint32).ravel().tolist()


def test_a_collective_without_all_lanes_is_reported():
    body = """setp.lt.u32 %p1, %r79, 31; .shared .align 16 .b8 s[512]; mov.u32 %r1, s;
      @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];"""
    (report,) = sim.run(kernel(body, 0), "k", 1, 32, []).reports
    assert report.kind == "divergent-collective"
    assert report.text == "an instruction of all 32 lanes runs with 31"
