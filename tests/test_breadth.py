"""The kernels of examples/: ragged sizes and every dtype against float64 and the reference run."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import kdsl
from tests.house import ROOT

Array = np.ndarray
#: Arguments of a call, static ones by name, and what its outputs are in float64, InOuts first.
Problem = tuple[tuple[object, ...], dict[str, object], tuple[Array, ...]]
Make = Callable[..., Problem]

DTYPES = {"f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16)}
DTYPES["bf16"] = np.dtype(ml_dtypes.bfloat16)
#: Of the largest value of an output. The sums here have up to some thousand terms.
TOLERANCE = {"f64": 1e-14, "f32": 4e-6, "f16": 2**-9, "bf16": 2**-6}

CASES: list[tuple[Make, str, str, tuple[int, ...]]] = []


@cache
def example(file: str):
    """A module of examples/, which is no package."""
    spec = importlib.util.spec_from_file_location(file, ROOT / "examples" / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel(name: str) -> kdsl.Kernel:
    """The kernel of an example, by its name."""
    files = {
        "layernorm_grad": "layernorm", "row_prefix_sum": "prefix_sum",
        "scatter_add_in_order": "scatter_add", "attention_alibi": "score_mod",
        "attention_soft_cap": "score_mod", "attention_window": "score_mod",
    }  # fmt: skip
    return getattr(example(files.get(name, name)), name)


def problem(dtypes: str, *sizes: tuple[int, ...]) -> Callable[[Make], Make]:
    """Registers a function that makes problems of the kernel of its name."""

    def register(make: Make) -> Make:
        CASES.extend(
            (make, make.__name__, dtype, size)
            for dtype, size in itertools.product(dtypes.split(), sizes)
        )
        return make

    return register


def normal(dtype: np.dtype, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32).astype(dtype)


def integers(high: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).integers(0, high, shape)


def wide(*arrays: Array) -> tuple[Array, ...]:
    return tuple(a.astype(np.float64) for a in arrays)


ROWS = (0, 5), (1, 1), (3, 7), (5, 8), (2, 33), (70, 129), (9, 1000)


@problem("f32 f16 bf16", *ROWS)
def layernorm(dtype: np.dtype, m: int, n: int) -> Problem:
    x, w, b = normal(dtype, m, n), normal(dtype, n), normal(dtype, n, seed=1)
    X, W, B = wide(x, w, b)
    mean = X.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(((X - mean) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    return (x, w, b), {}, ((X - mean) * rstd * W + B, mean[:, 0], rstd[:, 0])


@problem("f32 f16 bf16", *ROWS, (17, 64), (33, 48))
def layernorm_grad(dtype: np.dtype, m: int, n: int) -> Problem:
    x, do, w = normal(dtype, m, n), normal(dtype, m, n, seed=1), normal(dtype, n)
    X, DO, W = wide(x, do, w)
    mean = X.mean(axis=1, dtype=np.float32)
    rstd = (1 / np.sqrt(X.var(axis=1) + 1e-5)).astype(np.float32)
    hat, g = (X - mean[:, None]) * rstd[:, None], DO * W
    means = (a.mean(axis=1, keepdims=True) for a in (g, g * hat))
    dx = (g - next(means) - hat * next(means)) * rstd[:, None]
    return (x, w, mean, rstd, do), {}, (dx, (DO * hat).sum(axis=0), DO.sum(axis=0))


@problem("f64 f32 f16 bf16", (4, 0), *ROWS)
def gelu_bias(dtype: np.dtype, m: int, n: int) -> Problem:
    x, bias = normal(dtype, m, n), normal(dtype, n)
    y = x.astype(np.float64) + bias.astype(np.float64)
    normal_below = np.array([math.erf(v * 0.5**0.5) for v in y.flat]).reshape(y.shape)
    return (x, bias), {}, (0.5 * y * (1 + normal_below),)


@problem("f32 f16 bf16", (4, 0), (16, 3), (15, 100), (17, 64), (1000, 31), *ROWS)
def column_sum(dtype: np.dtype, m: int, n: int) -> Problem:
    x = normal(dtype, m, n)
    return (x,), {}, (x.astype(np.float64).sum(axis=0),)


@problem("f64 f32 bf16", (0, 1, 5), (7, 1, 0), (10, 3, 1), (33, 100, 17), (5, 20, 64))
def embedding(dtype: np.dtype, n: int, v: int, d: int) -> Problem:
    table, ids = normal(dtype, v, d), integers(v, n)
    return (table, ids), {}, (table.astype(np.float64)[ids],)


@problem("f32 f16 bf16", (0, 4), (1, 1), (5, 9), (40, 100), (3, 1000))
def cross_entropy(dtype: np.dtype, m: int, v: int) -> Problem:
    x, labels = normal(dtype, m, v), integers(v, m)
    X, rows = x.astype(np.float64), np.arange(m)
    lse = np.log(np.exp(X).sum(axis=1))
    loss = lse - X[rows, labels]
    labels[::3], loss[::3] = -100, 0
    return (x, labels), {}, (loss, lse)


@problem("f32 f16 bf16", (1, 1, 1, 2), (2, 3, 2, 0), (2, 5, 3, 6), (1, 9, 2, 34), (2, 4, 1, 128))
def rope(dtype: np.dtype, b: int, s: int, h: int, d: int) -> Problem:
    x, angle = normal(dtype, b, s, h, d), normal(np.dtype(np.float32), s, d // 2) * 3
    cos, sin = np.cos(angle), np.sin(angle)
    X = x.astype(np.float64)
    turned = (X[..., : d // 2] + 1j * X[..., d // 2 :]) * (cos + 1j * sin)[:, None]
    return (cos, sin, x), {}, (np.concatenate([turned.real, turned.imag], axis=-1),)


@problem("f32 f16 bf16", (3, 4, 0), (1, 1, 1), (5, 3, 2), (7, 70, 300), (65, 64, 129), (0, 5, 8))
def splitk_matmul(dtype: np.dtype, m: int, n: int, k: int) -> Problem:
    x, w = normal(dtype, m, k), normal(dtype, k, n)
    return (x, w), {}, (x.astype(np.float64) @ w.astype(np.float64),)


@problem("f32 f16 bf16", (3, 4, 0), (1, 1, 64), (1, 70, 128), (97, 49, 192), (0, 5, 64))
def int8_matmul(dtype: np.dtype, m: int, n: int, k: int) -> Problem:
    x, w = normal(dtype, m, k), integers(256, k, n).astype(np.uint8).view(np.int8)
    scale = (np.abs(normal(np.dtype(np.float32), k // 64, n)) * 0.01).astype(dtype)
    weights = w * np.repeat(scale.astype(np.float64), 64, axis=0)
    return (x, w, scale), {}, (x.astype(np.float64) @ weights,)


@problem("f64 f32 f16 bf16", (0, 4), (1, 3), (5, 8), (4, 33), (30, 200))
def topk(dtype: np.dtype, m: int, n: int) -> Problem:
    # Few values, so that ties abound; and some that count as nothing.
    x = integers(9, m, n).astype(np.float64)
    x[x == 8] = -np.inf
    order = np.argsort(-x, axis=1, kind="stable")[:, :3]
    return (x.astype(dtype),), {"K": 3}, (np.take_along_axis(x, order, axis=1), order)


@problem("f32 f16 bf16", (2, 1, 1, 16), (3, 4, 2, 16), (2, 6, 2, 5))
def paged_attention(dtype: np.dtype, b: int, h: int, g: int, size: int) -> Problem:
    d, pages = 24, 4 * b
    q = normal(dtype, b, h, d)
    k, v = normal(dtype, pages, g, size, d), normal(dtype, pages, g, size, d, seed=1)
    table = np.random.default_rng(0).permutation(pages).reshape(b, 4)
    lengths = np.array([0, 4 * size, size + 3, 1])[-b:]
    o = np.zeros((b, h, d))
    for i, j in np.ndindex(b, h):
        keys, values = (
            c.astype(np.float64)[table[i], j // (h // g)].reshape(-1, d)[: lengths[i]]
            for c in (k, v)
        )
        p = np.exp(keys @ q[i, j].astype(np.float64) * d**-0.5)
        o[i, j] = p @ values / max(p.sum(), 1e-9)
    # What lies behind the end of a sequence may be anything.
    for i, t in np.ndindex(b, 4):
        for c in (k, v):
            c[table[i, t], :, max(lengths[i] - t * size, 0) :] = np.nan
    return (q, k, v, table, lengths, d**-0.5), {}, (o,)


@problem(
    "f32 f16 bf16", (1, 1, 1), (9, 9, 3), (70, 70, 1), (100, 130, 40), (60, 50, 7), (33, 33, 99)
)
def sliding_window(dtype: np.dtype, m: int, n: int, window: int) -> Problem:
    q, k, v = (normal(dtype, 1, 2, x, 24, seed=s) for s, x in enumerate((m, n, n)))
    Q, K, V = wide(q, k, v)
    ahead = np.arange(m)[:, None] + (n - m) - np.arange(n)
    p = np.exp(Q @ K.swapaxes(-1, -2) * 0.2) * ((ahead >= 0) & (ahead < window))
    total = p.sum(axis=-1, keepdims=True)
    return (q, k, v, 0.2, window), {}, (p @ V / np.where(total > 0, total, 1),)


LENGTHS = (1, 1), (5, 40), (70, 70), (100, 131)


def scored(dtype: np.dtype, m: int, n: int, change: Callable[..., Array]) -> Problem:
    """Attention with changed scores; every query sees one key at least."""
    q, k, v = (normal(dtype, 1, 3, x, 24, seed=s) for s, x in enumerate((m, n, n)))
    slopes = np.array([0.5, 0.1, 0], np.float32)
    Q, K, V = wide(q, k, v)
    ahead = np.arange(m)[:, None] - np.arange(n)
    p = np.exp(change(Q @ K.swapaxes(-1, -2) * 0.2, ahead, slopes[:, None, None]))
    return (q, k, v, slopes, 0.2), {}, (p @ V / p.sum(axis=-1, keepdims=True),)


@problem("f32 f16 bf16", *LENGTHS)
def attention_alibi(dtype: np.dtype, m: int, n: int) -> Problem:
    return scored(dtype, m, n, lambda s, d, w: np.where(d >= 0, s - w * d, -np.inf))


@problem("f32", *LENGTHS)
def attention_soft_cap(dtype: np.dtype, m: int, n: int) -> Problem:
    return scored(dtype, m, n, lambda s, d, w: 20 * np.tanh(s / 20))


@problem("f32", *LENGTHS)
def attention_window(dtype: np.dtype, m: int, n: int) -> Problem:
    return scored(dtype, m, n, lambda s, d, w: np.where((d >= 0) & (d < 64), s, -np.inf))


@problem("f32 f16 bf16", (0, 3, 5), (1, 1, 1), (100, 7, 33), (50, 60, 8), (40, 2, 600))
def scatter_add(dtype: np.dtype, n: int, v: int, d: int) -> Problem:
    ids, x, table = integers(v, n), normal(dtype, n, d), normal(DTYPES["f32"], v, d)
    want = table.astype(np.float64)
    np.add.at(want, ids, x.astype(np.float64))
    return (ids, x, table), {}, (want,)


@problem("f32", (0, 3, 5), (1, 1, 1), (100, 7, 33), (40, 2, 600))
def scatter_add_in_order(dtype: np.dtype, n: int, v: int, d: int) -> Problem:
    return scatter_add(dtype, n, v, d)


@problem("f64 f32 f16 bf16", *ROWS, (3, 4097))
def row_prefix_sum(dtype: np.dtype, m: int, n: int) -> Problem:
    x = normal(dtype, m, n)
    return (x,), {}, (x.astype(np.float64).cumsum(axis=1),)


@problem("f64 f32", (0,), (1,), (4095,), (4096,), (4097,), (10_000,))
def prefix_sum(dtype: np.dtype, n: int) -> Problem:
    x = normal(dtype, n)
    return (x,), {}, (x.astype(np.float64).cumsum(),)


def outputs(
    called: kdsl.Kernel, args: tuple[object, ...], kwargs: dict[str, object]
) -> list[Array]:
    """What a call returns, or the array that it changes: the last one, where an InOut is."""
    changed = "InOut[" in called.signature
    args = (*args[:-1], args[-1].copy()) if changed else args
    result = called(*args, **kwargs)
    if changed:
        return [args[-1]]
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize(
    ("make", "name", "dtype", "size"), CASES,
    ids=[f"{name}-{dtype}-{'x'.join(map(str, size))}" for _, name, dtype, size in CASES],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_kernel_equals_float64_and_its_reference_run(make, name, dtype, size):
    args, kwargs, wants = make(DTYPES[dtype], *size)
    called = kernel(name)
    for got, want in zip(outputs(called, args, kwargs), wants, strict=True):
        assert got.shape == want.shape
        if np.issubdtype(want.dtype, np.integer):
            np.testing.assert_array_equal(got, want)
            continue
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite].astype(np.float64), want[~finite])
        error = np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0)
        assert error <= TOLERANCE[dtype] * np.abs(want[finite]).max(initial=1e-30)
    report = called.check(*args, **kwargs)
    assert report.ok, str(report)


F32 = DTYPES["f32"]


@pytest.mark.parametrize("outside", [-1, 20, 2**40])
def test_a_row_outside_the_table_is_an_index_error(outside):
    table, ids = normal(F32, 20, 7), integers(20, 9)
    ids[4] = outside
    with pytest.raises(IndexError, match=rf"index {outside} is out of range .* `table` \(V=20\)"):
        kernel("embedding")(table, ids)
    for name in ("scatter_add", "scatter_add_in_order"):
        with pytest.raises(IndexError, match=rf"index {outside} is out of range .* `table`"):
            kernel(name)(ids, normal(F32, 9, 7), table.copy())


@pytest.mark.parametrize("outside", [-1, -99, 50])
def test_a_label_outside_the_classes_is_an_index_error_unless_ignored(outside):
    labels = np.full(3, -100)
    loss, _ = kernel("cross_entropy")(normal(F32, 3, 50), labels)
    assert loss.tolist() == [0, 0, 0]
    labels[1] = outside
    with pytest.raises(IndexError, match=f"index {outside} is out of range"):
        kernel("cross_entropy")(normal(F32, 3, 50), labels)


def test_a_page_outside_the_cache_is_an_index_error_only_where_it_is_read():
    (*args, lengths, scale), _, (want,) = paged_attention(F32, 3, 4, 2, 16)
    table = args[3]
    table[0, 1:] = 99  # the first sequence is one of 64 tokens
    with pytest.raises(IndexError, match=r"index 99 is out of range"):
        kernel("paged_attention")(*args, lengths, scale)
    lengths[0] = 16
    np.testing.assert_allclose(
        kernel("paged_attention")(*args, lengths, scale)[1:], want[1:], atol=1e-5
    )


def test_sizes_that_a_kernel_excludes_are_value_errors_with_their_values():
    x = normal(F32, 2, 100)
    with pytest.raises(ValueError, match=r"K % GROUP == 0.*K=100"):
        kernel("int8_matmul")(x, np.zeros((100, 3), np.int8), normal(F32, 1, 3))
    with pytest.raises(ValueError, match=r"D % 2 == 0.*D=5"):
        kernel("rope")(normal(F32, 4, 2), normal(F32, 4, 2), normal(F32, 1, 4, 1, 5))
    with pytest.raises(ValueError, match=r"K <= N.*N=2"):
        kernel("topk")(x[:, :2], K=3)
    with pytest.raises(ValueError, match=r"window > 0"):
        kernel("sliding_window")(*normal(F32, 3, 1, 2, 4, 24), 0.2, 0)


def test_a_wide_window_is_causal_attention():
    q, k, v = normal(F32, 3, 1, 2, 70, 24)
    windows = [kernel("sliding_window")(q, k, v, 0.2, w) for w in (70, 71, 2**40)]
    for other in windows[1:]:
        np.testing.assert_array_equal(other, windows[0])


def test_additions_in_order_have_equal_bits_whatever_the_layout():
    ids, x = integers(5, 1000), normal(F32, 1000, 33)
    want = np.zeros((5, 33), np.float32)
    np.add.at(want, ids, x)
    padded = np.zeros((5, 40), np.float32)
    kernel("scatter_add_in_order")(ids, x, padded[:, 3:36])
    np.testing.assert_array_equal(padded[:, 3:36], want)
    assert not padded[:, :3].any() and not padded[:, 36:].any()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_prefix_sums_wrap_as_numpy_does(dtype):
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 9001).astype(dtype)
    np.testing.assert_array_equal(kernel("prefix_sum")(x), np.cumsum(x, dtype=dtype))


def strided(array: Array) -> Array:
    """The same elements with gaps between rows, and rows in reverse order in memory."""
    if array.ndim == 0:
        return array
    room = np.zeros(tuple(n + 3 for n in array.shape), array.dtype)
    view = room[tuple(slice(1, n + 1) for n in array.shape)]
    view = view[::-1] if array.ndim > 1 else view
    view[...] = array
    return view


LARGEST = {name: (make, size) for make, name, dtype, size in CASES if dtype == "f32"}


@pytest.mark.parametrize("name", LARGEST)
def test_strides_change_no_bit(name):
    make, size = LARGEST[name]
    args, kwargs, _ = make(F32, *size)
    plain = outputs(kernel(name), args, kwargs)
    moved = tuple(strided(a) if isinstance(a, np.ndarray) else a for a in args)
    if "InOut[" not in kernel(name).signature:
        again = outputs(kernel(name), moved, kwargs)
    else:
        kernel(name)(*moved, **kwargs)
        again = [moved[-1]]
    for a, b in zip(again, plain, strict=True):
        if name == "scatter_add":  # additions of several threads come in any order
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)
