"""The IR of the shared kernels, whole, as it leaves the frontend."""

from __future__ import annotations

import ast

import pytest

from kdsl import lang as kdsl
from kdsl.frontend import capture, lower
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.verify import verify
from kdsl.ir.walk import statements
from kdsl.lang import Out, f32
from tests import kernels

SPECIALISATIONS = [
    ("add", "f32", {}),
    ("softmax", "bf16", {}),
    ("rmsnorm", "f32", {}),
    ("matmul_gelu", "bf16", {}),
    ("attention", "f32", {"causal": False}),
    ("attention", "bf16", {"causal": True}),
    ("mean_of_squares", "f16", {}),
]


@pytest.mark.parametrize(("name", "dtype", "statics"), SPECIALISATIONS)
def test_ir_of_a_kernel(golden, name, dtype, statics):
    func = lower(capture(kernels.KERNELS[name]), {"T": getattr(kdsl, dtype)}, statics)
    verify(func)
    text = show(func)
    golden(f"frontend/{func.name}.kdsl", text)
    assert show(parse(text)) == text


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_lowering_is_the_same_every_time(name):
    source = capture(kernels.KERNELS[name])
    first = lower(source, {"T": f32}, {})
    assert lower(source, {"T": f32}, {}) == first
    assert lower(capture(kernels.KERNELS[name]), {"T": f32}, {}) == first


def test_statements_point_at_their_lines():
    source = capture(kernels.attention)
    func = lower(source, {"T": f32}, {"causal": True})
    places = {s.span.line for s in statements(func)}
    lines = {
        source.span(node).line
        for node in ast.walk(source.node)
        if isinstance(node, ast.Assign) and ast.unparse(node) != "top = new"
    }
    assert len(lines) > 10
    assert lines <= places


N, M = kdsl.dims("N M")


def test_a_static_that_binds_a_dim_makes_it_fixed():
    def kernel(x: f32[M, N], o: Out[f32[M, 2 * N]], *, N: kdsl.Static[int]):
        for i in kdsl.parallel(M):
            o[i] = kdsl.zeros(2 * N)
            o[i, :N] = x[i]

    func = lower(capture(kernel), {}, {"N": 8})
    verify(func)
    assert func.name == "kernel_N8"
    assert func.fixed == (("N", 8),)
    assert [str(p.type) for p in func.params] == ["f32[M, 8]", "f32[M, 16]"]


def test_unused_axes_are_left_out():
    def kernel(x: f32[M, N], o: Out[f32[M]]):
        for i in kdsl.parallel(M):
            for _ in range(3):
                total = x[i].sum()
            o[i] = total

    func = lower(capture(kernel), {}, {})
    verify(func)
    assert [a.name for a in func.axes] == ["N"]


def test_strict_is_kept():
    assert lower(capture(kernels.add, strict=True), {"T": f32}, {}).strict
