"""Which inputs an output may lie over."""

from __future__ import annotations

import pytest

from kdsl import lang as kdsl
from kdsl.codegen.alias import replaceable
from kdsl.dtypes import f32
from kdsl.frontend import capture, lower
from kdsl.lang import Out, dot
from kdsl.passes.specialise import specialise
from tests import kernels
from tests.codegen import samples

M, N = kdsl.dims("M N")


def reversed_rows(x: f32[M, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(M):
        o[m] = x[M - 1 - m]


def square(x: f32[N, N], o: Out[f32[N, N]]):
    for m in kdsl.parallel(kdsl.tiles(N)):
        o[m] = dot(x[m], x[:, :])


def read_again(x: f32[M, N], y: f32[N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(M):
        o[m] = x[m] + y[:]
        o[m] = x[m] * y[:]


def whole_column(x: f32[N, N], o: Out[f32[N, N]]):
    for m in kdsl.parallel(N):
        o[m] = x[m] + x[:, m]


def two_phases(x: f32[N], o: Out[f32[N]], p: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 2
    for n in kdsl.parallel(kdsl.tiles(N)):
        p[n] = x[n] * 3


def func(fn, **dtypes):
    return lower(capture(fn), dtypes, {})


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [(kernels.add, ("x", "y")), (kernels.softmax, ("x",)), (kernels.rmsnorm, ("x",))],
)
def test_an_output_may_lie_over_what_is_read_element_by_element_before(fn, inputs):
    assert replaceable([func(fn, T=f32)], "out") == inputs


@pytest.mark.parametrize("fn", [reversed_rows, square, read_again, whole_column])
def test_an_output_may_not_lie_over_what_is_read_elsewhere_or_later(fn):
    assert replaceable([func(fn)], "o") == ()


def test_a_product_is_never_written_over_its_operands():
    matmul = specialise(func(kernels.matmul_gelu, T=f32), {"M": 8, "N": 8, "K": 8})
    assert replaceable([matmul], "out") == ()


def test_what_a_later_phase_reads_may_not_be_overwritten_by_an_earlier_one():
    both = func(two_phases)
    assert replaceable([both], "o") == ()
    assert replaceable([both], "p") == ("x",)


def test_what_one_specialisation_forbids_is_forbidden():
    (allowed,) = (s.func for s in samples.axpy().specialisations)
    assert replaceable([allowed], "o") == ("x", "y")
    assert replaceable([allowed, samples.attention().specialisations[0].func], "o") == ()
    assert replaceable([], "o") == ()
