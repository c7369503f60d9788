"""Dims and expressions of them, outside a run."""

from __future__ import annotations

import pytest

from kdsl.dims import Dim, Size, ZeroDivision, binding, dim_names, dims, evaluate
from kdsl.dtypes import bf16, dtypes, f16, f32, i8

M, N = dims("M, N")


def test_names_may_be_separated_by_commas_or_spaces():
    assert dims("A B,C") == (Dim("A"), Dim("B"), Dim("C"))
    with pytest.raises(ValueError, match="a dim needs a Python identifier as its name, got '2x'"):
        dims("2x")


def test_a_dim_is_its_name():
    assert Dim("N") == N
    assert hash(Dim("N")) == hash(N)
    assert N != M
    assert len({N, Dim("N"), M}) == 2
    with pytest.raises(AttributeError, match="a dim is immutable"):
        N.name = "M"


@pytest.mark.parametrize(
    "text",
    [
        "M + N - 1", "M - (N - 1)", "M * (N + 1)", "M // 2 * 3", "M // (2 * N)", "2 * M + 1",
        "(M + 1) % N", "M - N % 2", "1 - M",
    ],
)  # fmt: skip
def test_expressions_print_as_python_reads_them(text):
    expression = eval(text, {"M": M, "N": N})
    assert str(expression) == text
    for m, n in [(7, 3), (8, 2), (1, 5)]:
        assert evaluate(expression, {"M": m, "N": n}) == eval(text, {"M": m, "N": n})


def test_a_division_by_zero_names_the_expression():
    with pytest.raises(ZeroDivision) as caught:
        evaluate(1 + M // (N - 1), {"M": 4, "N": 1})
    assert str(caught.value) == "division by zero in M // (N - 1)"
    assert list(dim_names(caught.value.expression)) == ["M", "N"]


def test_outside_a_run_a_dim_has_no_number():
    for use in (int, float, bool, range, abs, lambda d: -d):
        with pytest.raises(TypeError):
            use(N)
    for use in (lambda: N < 3, lambda: N / 2, lambda: N + 0.5, lambda: N + True, lambda: N << 1):
        with pytest.raises(TypeError):
            use()


def test_bindings_nest_and_end():
    with binding({"N": 3}):
        assert N + 1 == 4
        with binding({"N": 5}):
            assert N == 5
        assert N == 3
    assert str(N + 1) == "N + 1"


def test_computed_sizes_stay_sizes_and_divide_by_zero_as_tiles_do():
    size = Size(7)
    for value in (size + 1, 1 + size, size - 9, 2 * size, size // 2, 15 // size, size % 4, -size):
        assert isinstance(value, Size)
    assert (size // 0, size % 0, 3 // Size(0)) == (0, 0, 0)
    assert size / 2 == 3.5
    assert repr(size) == "7"


def test_dtypes_and_variables():
    var = dtypes("T", f16, bf16)
    assert str(var[N, 2 * M]) == "T[N, 2 * M]"
    assert str(f32[()]) == "f32[()]"
    assert f32[N].ndim == 1
    assert i8.is_int
    assert not i8.is_float
    assert bf16.bytes == 2
    with pytest.raises(ValueError, match="give at least one dtype"):
        dtypes("T")
    with pytest.raises(ValueError, match="a dtype is given twice"):
        dtypes("T", f32, f32)
