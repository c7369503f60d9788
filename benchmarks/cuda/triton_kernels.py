"""Attention and a matrix product with epilogue as Triton has them; runs where triton is installed.

    python triton_kernels.py OUT ARCH

Compiles both for an architecture without a GPU and leaves OUT/<name>.{ptx,cubin,json}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def attention(
    q, k, v, o, lse, qs0, qs1, qs2, ks0, ks1, ks2, vs0, vs1, vs2, os0, os1, os2, ls0, ls1,
    heads, groups, queries, keys, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Online softmax over blocks of keys; the same result and the same lse as kdsl's example."""
    block, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    group = head // (heads // groups)
    rows, cols, deep = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, D)
    q += batch * qs0 + head * qs1
    k += batch * ks0 + group * ks1
    v += batch * vs0 + group * vs1
    query = tl.load(
        q + rows[:, None] * qs2 + deep[None, :], mask=rows[:, None] < queries, other=0.0
    )
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    den = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    factor = scale * 1.4426950408889634
    stop = keys
    if CAUSAL:
        stop = tl.minimum(keys, (block + 1) * ROWS + keys - queries)
    clean = stop // COLS * COLS
    if CAUSAL:
        clean = tl.minimum(clean, (block * ROWS + keys - queries + 1) // COLS * COLS)
    for start in range(0, clean, COLS):
        key = tl.load(k + (start + cols)[None, :] * ks2 + deep[:, None])
        s = tl.dot(query, key)
        new = tl.maximum(top, tl.max(s, 1) * factor)
        p = tl.exp2(s * factor - new[:, None])
        fix = tl.exp2(top - new)
        den = den * fix + tl.sum(p, 1)
        value = tl.load(v + (start + cols)[:, None] * vs2 + deep[None, :])
        acc = tl.dot(p.to(query.dtype), value, acc * fix[:, None])
        top = new
    for start in range(clean, stop, COLS):
        at = start + cols
        key = tl.load(k + at[None, :] * ks2 + deep[:, None], mask=at[None, :] < keys, other=0.0)
        s = tl.dot(query, key)
        seen = at[None, :] < stop
        if CAUSAL:
            seen = seen & (rows[:, None] + keys - queries >= at[None, :])
        s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1) * factor)
        safe = tl.where(new > float("-inf"), new, 0.0)
        p = tl.exp2(s * factor - safe[:, None])
        fix = tl.exp2(top - safe)
        den = den * fix + tl.sum(p, 1)
        value = tl.load(v + at[:, None] * vs2 + deep[None, :], mask=at[:, None] < keys, other=0.0)
        acc = tl.dot(p.to(query.dtype), value, acc * fix[:, None])
        top = new
    out = tl.where(den[:, None] == 0, 0.0, acc / den[:, None])
    o += batch * os0 + head * os1
    tl.store(
        o + rows[:, None] * os2 + deep[None, :], out.to(query.dtype),
        mask=rows[:, None] < queries,
    )  # fmt: skip
    tl.store(
        lse + batch * ls0 + head * ls1 + rows, (top + tl.log2(den)) / 1.4426950408889634,
        mask=rows < queries,
    )  # fmt: skip


@triton.jit
def matmul_gelu(
    x, w, bias, o, xs, ws, os, m, n, k,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEEP: tl.constexpr,
):  # fmt: skip
    """gelu(x @ w + bias), with tanh's form."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    deep = tl.arange(0, DEEP)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, k, DEEP):
        at = start + deep
        a = tl.load(
            x + rows[:, None] * xs + at[None, :], other=0.0,
            mask=(rows[:, None] < m) & (at[None, :] < k),
        )  # fmt: skip
        b = tl.load(
            w + at[:, None] * ws + cols[None, :], other=0.0,
            mask=(at[:, None] < k) & (cols[None, :] < n),
        )  # fmt: skip
        acc = tl.dot(a, b, acc)
    y = acc + tl.load(bias + cols, mask=cols < n, other=0.0).to(tl.float32)[None, :]
    inner = 0.7978845608028654 * (y + 0.044715 * y * y * y)
    y = y * tl.sigmoid(2 * inner)
    tl.store(
        o + rows[:, None] * os + cols[None, :], y.to(x.dtype.element_ty),
        mask=(rows[:, None] < m) & (cols[None, :] < n),
    )  # fmt: skip


def compiled(kernel, signature, constants, aligned, arch, warps, stages):
    """The kernel for an architecture. `aligned`: parameters that are multiples of 16."""
    names = kernel.arg_names
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(
        fn=kernel, signature=signature, attrs=attributes,
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )  # fmt: skip
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def main() -> None:
    out, arch = Path(sys.argv[1]), int(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    pointer, index = "*fp16", "i32"
    for causal in (False, True):
        names = attention.arg_names
        signature = dict.fromkeys(names, index)
        signature |= dict.fromkeys(("q", "k", "v", "o"), pointer)
        signature |= {"lse": "*fp32", "scale": "fp32"}
        signature |= dict.fromkeys(("CAUSAL", "ROWS", "COLS", "D"), "constexpr")
        aligned = [n for n in names if signature[n] in (pointer, "*fp32") or n[1:2] == "s"]
        constants = {"CAUSAL": causal, "ROWS": 128, "COLS": 64, "D": 128}
        for warps in (4, 8):
            _save(out, f"attention{'_causal' * causal}_w{warps}", attention, signature, constants,
                  aligned, arch, warps, 2)  # fmt: skip
    names = matmul_gelu.arg_names
    signature = dict.fromkeys(names, index)
    signature |= dict.fromkeys(("x", "w", "bias", "o"), pointer)
    signature |= dict.fromkeys(("ROWS", "COLS", "DEEP"), "constexpr")
    aligned = ["x", "w", "bias", "o", "xs", "ws", "os"]
    constants = {"ROWS": 128, "COLS": 128, "DEEP": 64}
    _save(out, "matmul_gelu", matmul_gelu, signature, constants, aligned, arch, 4, 3)


def _save(out, name, kernel, signature, constants, aligned, arch, warps, stages):
    start = time.process_time()
    done = compiled(kernel, signature, constants, aligned, arch, warps, stages)
    seconds = time.process_time() - start
    (out / f"{name}.ptx").write_text(done.asm["ptx"])
    (out / f"{name}.cubin").write_bytes(done.asm["cubin"])
    about = {"seconds": seconds, "shared": done.metadata.shared, "name": done.metadata.name}
    (out / f"{name}.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
