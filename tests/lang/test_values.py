"""Values, tensors and loops of a reference run: what they refuse, when iterations depend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.dims import Size, binding
from kdsl.dtypes import bf16, f16, f32, f64, i32, i64, u32
from kdsl.frontend import capture
from kdsl.frontend.reference import reference
from kdsl.lang import InOut, Out
from kdsl.lang.promote import PromotionError
from kdsl.lang.run import Race, Tensor, Tile
from kdsl.lang.value import Value

M, N = kdsl.dims("M N")


def value(*numbers, dtype=np.float32):
    return Value(np.array(numbers, dtype))


# ---- values


def test_short_floats_compute_in_f32():
    x = value(1, 2, dtype=ml_dtypes.bfloat16)
    assert x.dtype is bf16
    assert (x + x).dtype is f32
    assert (-x).dtype is f32
    assert x.max().dtype is f32
    assert (value(1, dtype=np.float16) * 0.1).array.tolist() == [np.float32(0.1)]
    assert kdsl.dot(x, x).dtype is f32


def test_python_numbers_adapt():
    assert (value(1) * 2).dtype is f32
    assert (2 * value(1, dtype=np.float64)).dtype is f64
    assert (value(1, dtype=np.int32) * 0.5).dtype is f32
    assert (value(1, dtype=np.uint32) % 2).dtype is u32
    with pytest.raises(PromotionError, match="4294967296 is not a value of u32"):
        value(1, dtype=np.uint32) + 2**32


def test_a_value_never_changes():
    x = y = value(1, 2)
    x += 1
    assert y.array.tolist() == [1, 2]
    with pytest.raises(TypeError, match="only tensors have elements to write"):
        y[0] = 3
    with pytest.raises(TypeError, match="indexed with `:`, `None` and single integers"):
        y[:1]
    assert y[0].array == 1
    with pytest.raises(IndexError, match="index -1 is outside an axis of 2 elements"):
        y[value(-1, dtype=np.int32)[0]]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x: bool(x > 0), "a condition must be one value"),
        (lambda x: bool(x.sum()), "a run-time condition must be a bool, got a scalar f32"),
        (lambda x: range(x.sum()), "an index must be an integer, got a scalar f32"),
        (lambda x: float(x.sum()), "a run-time value is converted by .astype"),
        (lambda x: int(x.sum()), "a run-time value is converted by .astype"),
        (lambda x: x @ x, "a kernel cannot use `@`"),
        (lambda x: x + np.ones(2), "a NumPy array is no value of a kernel"),
        (lambda x: x + "a", "this is no number: str"),
        (lambda x: 1 < x < 2, "a condition must be one value"),
        (lambda x: x.any(), "`any` is of bools, got f32"),
        (lambda x: (x > 0).max(), "`max` is of numbers, got bool"),
        (lambda x: kdsl.where(x, 1, 2), "the condition of `where` must be bool, got f32"),
        (lambda x: kdsl.dot(x, x.astype(f64)), "`dot` needs operands of one dtype"),
        (lambda x: x.astype(int), "a dtype is wanted here"),
        (lambda x: ~x, "~ is of integers or bools, got f32"),
        (lambda x: -(x > 0), "`-` is not of bool"),
    ],
)
def test_values_refuse_what_the_language_refuses(use, message):
    with pytest.raises(TypeError) as caught:
        use(value(1, 2))
    assert str(caught.value).startswith(message)


# ---- tensors and tiles


def tensor(array, kind="in"):
    return Tensor("x", np.asarray(array, np.float32), kind)


def test_indexing_copies():
    x = tensor([1, 2, 3], "inout")
    before = x[:]
    x[0] = 9
    assert before.array.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda x: x + 1, TypeError, r"without an index: `x\[:\]` is its elements"),
        (lambda x: 1 - x, TypeError, "the tensor `x` is used without an index"),
        (lambda x: value(1) * x, TypeError, "the tensor `x` is used without an index"),
        (lambda x: kdsl.exp(x), TypeError, "the tensor `x` is used without an index"),
        (lambda x: x[3], IndexError, "index 3 is outside `x`, whose axis has 3 elements"),
        (lambda x: x[Size(-1)], IndexError, "index -1 is outside `x`"),
        (lambda x: x[value(0, 5, dtype=np.int64)], IndexError, "index 5 is outside `x`"),
        (lambda x: x[Tile(1, 3) + 1], IndexError, r"the slice \[2, 4\) is outside `x`"),
        (lambda x: x[1:4], IndexError, r"the slice \[1, 4\) is outside `x`"),
        (lambda x: x[0, 0], TypeError, "too many indices for `x`, which has 1 dimensions"),
        (lambda x: x[None], TypeError, "None in the index of `x`"),
        (lambda x: x[1.0], TypeError, "`x` is not indexed with 1.0"),
        (lambda x: x[True], TypeError, "`x` is not indexed with True"),
        (lambda x: x[value(1.0)], TypeError, "an index must be an integer, got f32"),
        (lambda x: Tile(0, 2) + 0.5, TypeError, "a tile moves by an integer, got 0.5"),
        (lambda x: kdsl.exp(Tile(0, 2)), TypeError, "a tile is no number"),
    ],
)
def test_tensors_and_tiles_refuse_what_the_language_refuses(use, error, message):
    with pytest.raises(error, match=message):
        use(tensor([1, 2, 3]))


def test_only_a_literal_index_counts_from_the_end():
    x = tensor([1, 2, 3])
    assert float(x[-1].array) == 3
    assert x[:-1].shape == (2,)
    for i in range(1):
        with pytest.raises(IndexError, match="index -1 is outside"):
            x[i - 1]


def test_inputs_are_not_written_and_values_are_rounded():
    with pytest.raises(TypeError, match="`x` is an input; declare it InOut to write it"):
        tensor([1])[0] = 1.0
    out = Tensor("o", np.zeros(2, np.float16), "out")
    assert out.dtype is f16
    out[:] = value(0.1, 70000)
    assert out.array.tolist() == [np.float16(0.1), np.inf]
    with pytest.raises(TypeError, match=r"does not fit into `o\[\.\.\.\]`: \[3\] into \[2\]"):
        out[:] = value(1, 2, 3)


def test_tiles_are_clamped_slices_and_the_last_is_shorter():
    def bounds(*args, **kwargs):
        return [(t.start, t.stop, t.size) for t in kdsl.tiles(*args, **kwargs)]

    assert bounds(10, size=4) == [(0, 4, 4), (4, 8, 4), (8, 10, 2)]
    assert bounds(10, start=-3, stop=99, size=6) == [(0, 6, 6), (6, 10, 4)]
    assert bounds(0) == bounds(10, start=5, stop=5) == bounds(10, stop=-1) == []
    tile = next(iter(kdsl.tiles(10, start=3, size=4)))
    assert (tile + 1).index.array.tolist() == [4, 5, 6, 7]
    assert tile.index.weak
    assert tile.index.dtype is i64


def test_dims_are_their_numbers_inside_a_run():
    with pytest.raises(TypeError, match="the dim N has a number only inside a run"):
        range(N)
    with binding({"M": 7, "N": 2}):
        assert [*range(N)] == [0, 1]
        assert (M // N, M % N, M - N, -M, M / N, 1 / N, M * 0.5) == (3, 1, 5, -7, 3.5, 0.5, 3.5)
        assert M > N
        assert M == 7
        assert N != M
        assert divmod(M, N) == (3, 1)
        assert isinstance(M - N, Size)
        assert kdsl.sqrt(N * 2) == 2.0
        assert (value(1, dtype=np.int32) * M).dtype is i32
        with pytest.raises(ValueError, match="division by zero"):
            M // (N - N)
    assert str(M // N) == "M // N"
    assert M != N


# ---- iterations are independent


def race(kernel, *args):
    with pytest.raises(Race) as caught:
        reference(capture(kernel), args, {})
    return str(caught.value)


ONES = np.ones(4, np.float32)


def test_two_iterations_that_write_one_element_are_reported():
    def kernel(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i // 2] = x[i]

    assert race(kernel, ONES) == "`o`: two iterations of kdsl.parallel write one element"


def test_an_iteration_that_reads_what_another_wrote_is_reported():
    def kernel(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = x[i]
            if i > 0:
                o[i] = o[i - 1]

    assert race(kernel, ONES) == (
        "`o`: an iteration of kdsl.parallel reads an element that another one writes; "
        "write it in an earlier parallel loop"
    )


def test_an_iteration_that_writes_what_another_read_is_reported():
    def kernel(x: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            if i + 1 < N:
                x[i] = x[i + 1]

    assert race(kernel, ONES.copy()) == (
        "`x`: an iteration of kdsl.parallel writes an element that another one reads; "
        "read it in an earlier parallel loop"
    )


def test_phases_may_depend_on_each_other():
    def kernel(x: f32[N], o: Out[f32[N]]):
        part = kdsl.scratch(f32, N)
        for i in kdsl.parallel(N):
            part[i] = x[i] * 2
        for i in kdsl.parallel(N):
            o[i] = part[N - 1 - i] + part[i]

    assert (reference(capture(kernel), [ONES], {}) == 4).all()
