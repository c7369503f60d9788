"""The kernels of examples/ against the best of torch and NumPy, one thread, call by call in turn.

Each runs on one size that is usual for it, in f32, into buffers that stand ready where the peer
can do that too. The ratio is ours over the fastest peer's; the table at the end sums up.
Names on the command line choose kernels: `python benchmarks/kernels.py topk rope`.
"""

from __future__ import annotations

import os

os.environ["KDSL_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from harness import Call, Times, interleave, machine, time_text

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from column_sum import column_sum
from cross_entropy import cross_entropy
from embedding import embedding
from gelu_bias import gelu_bias
from int8_matmul import int8_matmul
from layernorm import layernorm, layernorm_grad
from paged_attention import paged_attention
from prefix_sum import prefix_sum, row_prefix_sum
from rope import rope
from scatter_add import scatter_add, scatter_add_in_order
from score_mod import attention_alibi
from sliding_window import sliding_window
from splitk_matmul import splitk_matmul
from topk import topk

GOAL = 1.5
LOOSE_GOAL = 2.0

F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    """One kernel on one problem; `peers` by name, `ours` among none of them."""

    name: str
    size: str
    ours: Call
    peers: dict[str, Call]
    goal: float = GOAL


CASES: list[Callable[[], Iterator[Case]]] = []


def case(make: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
    CASES.append(make)
    return make


@case
def layernorm_cases() -> Iterator[Case]:
    m, n = 4096, 1024
    x, do, w, b = torch.randn(m, n), torch.randn(m, n), torch.randn(n), torch.randn(n)
    o, mean, rstd = torch.empty_like(x), torch.empty(m), torch.empty(m)
    yield Case(
        "layernorm", f"{m}x{n}",
        lambda: layernorm(x, w, b, o, mean, rstd),
        {"torch": lambda: torch.native_layer_norm(x, (n,), w, b, 1e-5)},
    )  # fmt: skip
    grads = torch.empty_like(x), torch.empty(n), torch.empty(n)
    _, mean2, rstd2 = torch.native_layer_norm(x, (n,), w, b, 1e-5)
    backward = torch.ops.aten.native_layer_norm_backward
    yield Case(
        "layernorm_grad", f"{m}x{n}",
        lambda: layernorm_grad(x, w, mean, rstd, do, *grads),
        {"torch": lambda: backward(do, x, (n,), mean2, rstd2, w, b, [True] * 3)},
    )  # fmt: skip


@case
def gelu_bias_cases() -> Iterator[Case]:
    m, n = 2048, 1024
    x, bias = torch.randn(m, n), torch.randn(n)
    o, between = torch.empty_like(x), torch.empty_like(x)

    def into_buffers() -> torch.Tensor:
        return torch._C._nn.gelu(torch.add(x, bias, out=between), out=o)

    peers = {"torch out=": into_buffers, "torch": lambda: F.gelu(x + bias)}
    yield Case("gelu_bias", f"{m}x{n}", lambda: gelu_bias(x, bias, o), peers)


@case
def column_sum_cases() -> Iterator[Case]:
    for m, n in ((4096, 1024), (100_000, 32)):
        x, o = torch.randn(m, n), torch.empty(n)
        a, b = x.numpy(), o.numpy()
        peers = {
            "torch out=": lambda x=x, o=o: torch.sum(x, dim=0, out=o),
            "numpy": lambda a=a, b=b: np.sum(a, axis=0, out=b),
        }
        yield Case("column_sum", f"{m}x{n}", lambda x=x, o=o: column_sum(x, o), peers)


@case
def embedding_cases() -> Iterator[Case]:
    v, d, n = 32_000, 512, 4096
    table, ids, o = torch.randn(v, d), torch.randint(v, (n,)), torch.empty(n, d)
    a, i, b = table.numpy(), ids.numpy(), o.numpy()
    peers = {
        "torch out=": lambda: torch.index_select(table, 0, ids, out=o),
        "torch": lambda: F.embedding(ids, table),
        "numpy": lambda: np.take(a, i, axis=0, out=b, mode="clip"),
    }
    yield Case("embedding", f"{n} of {v}x{d}", lambda: embedding(table, ids, o), peers)


@case
def cross_entropy_cases() -> Iterator[Case]:
    m, v = 256, 32_000
    x, labels = torch.randn(m, v), torch.randint(v, (m,))
    labels[::5] = -100
    loss, lse = torch.empty(m), torch.empty(m)
    peers = {"torch": lambda: F.cross_entropy(x, labels, reduction="none")}
    yield Case("cross_entropy", f"{m}x{v}", lambda: cross_entropy(x, labels, loss, lse), peers)


@case
def rope_cases() -> Iterator[Case]:
    b, s, h, d = 1, 1024, 16, 128
    angle = torch.rand(s, d // 2)
    cos, sin, x = angle.cos(), angle.sin(), torch.randn(b, s, h, d)
    wide_cos, wide_sin = (t.repeat(1, 2)[:, None] for t in (cos, sin))

    def concatenated() -> None:
        turned = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), dim=-1)
        x.mul_(wide_cos).add_(turned.mul_(wide_sin))

    def halves() -> None:
        left, right = x[..., : d // 2], x[..., d // 2 :]
        c, z = cos[:, None], sin[:, None]
        new = left * c
        new.addcmul_(right, z, value=-1)
        right.mul_(c).addcmul_(left, z)
        left.copy_(new)

    peers = {"torch cat": concatenated, "torch halves": halves}
    yield Case("rope", f"{b}x{s}x{h}x{d}", lambda: rope(cos, sin, x), peers)


@case
def matmul_cases() -> Iterator[Case]:
    m, n, k = 64, 64, 16_384
    x, w, o = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    peers = {
        "torch out=": lambda: torch.mm(x, w, out=o),
        "numpy": lambda: np.matmul(x.numpy(), w.numpy(), out=o.numpy()),
    }
    yield Case("splitk_matmul", f"{m}x{n}x{k}", lambda: splitk_matmul(x, w, o), peers)


@case
def int8_cases() -> Iterator[Case]:
    n, k, group = 1024, 1024, 64
    w = torch.randint(-127, 128, (k, n), dtype=torch.int8)
    scale = torch.rand(k // group, n) * 0.01
    wide, w32 = torch.empty(k // group, group, n), torch.empty(k, n)
    for m in (1, 256):
        x, o = torch.randn(m, k), torch.empty(m, n)

        def theirs(x: torch.Tensor = x, o: torch.Tensor = o) -> torch.Tensor:
            torch.mul(w.view(-1, group, n), scale[:, None], out=wide)
            return torch.mm(x, wide.view(k, n), out=o)

        def converted(x: torch.Tensor = x, o: torch.Tensor = o) -> torch.Tensor:
            w32.copy_(w).view(-1, group, n).mul_(scale[:, None])
            return torch.mm(x, w32, out=o)

        peers = {"torch mul": theirs, "torch copy": converted}
        ours = lambda x=x, o=o: int8_matmul(x, w, scale, o)  # noqa: E731
        yield Case("int8_matmul", f"{m}x{n}x{k}", ours, peers, LOOSE_GOAL)


@case
def topk_cases() -> Iterator[Case]:
    for m, n, k in ((1024, 4096, 8), (4096, 64, 2)):
        x, values, indices = torch.randn(m, n), torch.empty(m, k), torch.empty(m, k).long()
        peers = {
            "torch out=": lambda x=x, v=values, i=indices, k=k: torch.topk(x, k, out=(v, i)),
        }
        ours = lambda x=x, v=values, i=indices, k=k: topk(x, v, i, K=k)  # noqa: E731
        yield Case("topk", f"{m}x{n}, {k}", ours, peers, LOOSE_GOAL)


@case
def paged_cases() -> Iterator[Case]:
    heads, groups, dim, size, length, count = 16, 4, 128, 16, 1000, 4
    width = -(-length // size)
    q = torch.randn(count, heads, dim)
    k, v = torch.randn(2, count * width, groups, size, dim)
    table = torch.randperm(count * width).view(count, width)
    lengths = torch.full((count,), length)
    scale, o = dim**-0.5, torch.empty_like(q)

    def gathered() -> torch.Tensor:
        keys, values = (
            c[table].transpose(1, 2).reshape(count, groups, -1, dim)[:, :, :length] for c in (k, v)
        )
        return F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)

    yield Case(
        "paged_attention", f"{count}x{heads}x{dim}, {length} tokens",
        lambda: paged_attention(q, k, v, table, lengths, scale, o), {"torch": gathered},
    )  # fmt: skip


@case
def window_cases() -> Iterator[Case]:
    heads, length, dim, window = 8, 2048, 64, 256
    q, k, v = torch.randn(3, 1, heads, length, dim)
    o, at = torch.empty_like(q), torch.arange(length)
    ahead = at[:, None] - at
    mask = (ahead >= 0) & (ahead < window)
    yield Case(
        "sliding_window", f"{heads}x{length}x{dim}, {window}",
        lambda: sliding_window(q, k, v, dim**-0.5, window, o),
        {"torch": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)},
    )  # fmt: skip


@case
def alibi_cases() -> Iterator[Case]:
    heads, length, dim = 8, 1024, 64
    q, k, v = torch.randn(3, 1, heads, length, dim)
    o, at, slopes = torch.empty_like(q), torch.arange(length), torch.rand(heads)
    back = at - at[:, None]
    bias = (slopes[:, None, None] * back).masked_fill(back > 0, -torch.inf)[None]
    yield Case(
        "attention_alibi", f"{heads}x{length}x{dim}",
        lambda: attention_alibi(q, k, v, slopes, dim**-0.5, o),
        {"torch": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=bias)},
    )  # fmt: skip


@case
def scatter_cases() -> Iterator[Case]:
    v, d, n = 32_000, 512, 4096
    ids, x, table = torch.randint(v, (n,)), torch.randn(n, d), torch.zeros(v, d)
    for name, ours in (("atomic", scatter_add), ("in order", scatter_add_in_order)):
        yield Case(
            "scatter_add", f"{n} to {v}x{d}, {name}",
            lambda ours=ours: ours(ids, x, table),
            {"torch": lambda: table.index_add_(0, ids, x)},
        )  # fmt: skip


@case
def prefix_cases() -> Iterator[Case]:
    for name, ours, shape in (
        ("row_prefix_sum", row_prefix_sum, (1024, 1024)),
        ("prefix_sum", prefix_sum, (1_000_000,)),
    ):
        x = torch.randn(shape)
        o = torch.empty_like(x)
        a, b = x.numpy(), o.numpy()
        peers = {
            "torch out=": lambda x=x, o=o: torch.cumsum(x, -1, out=o),
            "numpy": lambda a=a, b=b: np.cumsum(a, -1, out=b),
        }
        size = "x".join(map(str, shape))
        yield Case(name, size, lambda f=ours, x=x, o=o: f(x, o), peers)


def measure(case: Case) -> tuple[Times, Times]:
    """Our times and those of the fastest peer."""
    times = interleave({"kdsl": case.ours, **case.peers}, rounds=15)
    ours = times.pop("kdsl")
    return ours, min(times.values(), key=lambda t: t.best)


def row(case: Case, ours: Times, peer: Times) -> str:
    best, median = ours.best / peer.best, ours.median / peer.median
    verdict = "met" if best <= case.goal else "MISSED"
    return (
        f"{case.name:16} {case.size:26} {time_text(ours.best):>9}  {time_text(peer.best):>9} "
        f"{peer.name:12}  {best:5.2f}  {median:6.2f}   {case.goal:.1f} {verdict}"
    )


def main() -> None:
    torch.set_num_threads(1)
    print(machine())
    wanted, rows = set(sys.argv[1:]), []
    for make in CASES:
        for case in make():
            if wanted and case.name not in wanted:
                continue
            rows.append(row(case, *measure(case)))
            print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    head = f"{'kernel':16} {'size':26} {'kdsl':>9}  {'best peer':22}   best  median  goal"
    print(head, "-" * len(head), *rows, sep="\n")


if __name__ == "__main__":
    main()
