"""Generated CUDA changes only when it means to, and reads as if written by hand."""

from __future__ import annotations

import pytest

import kdsl
from kdsl.codegen.cuda import device_source
from kdsl.codegen.cuda.text import with_lines
from tests.cuda.test_attention import attention
from tests.test_breadth import kernel

CASES = {
    "attention_f16_causal_D128": (attention, {"T": kdsl.f16}, {"causal": True}, {"D": 128}),
    "layernorm_f32": (kernel("layernorm"), {"T": kdsl.f32}, {}, {}),
    "splitk_matmul_bf16": (kernel("splitk_matmul"), {"T": kdsl.bf16}, {}, {}),
    "paged_attention_f16_D64": (kernel("paged_attention"), {"T": kdsl.f16}, {}, {"D": 64}),
    "scatter_add_f32": (kernel("scatter_add"), {"T": kdsl.f32}, {}, {}),
}


def text_of(name: str) -> str:
    own, dtypes, statics, dims = CASES[name]
    compiler = own._compiler
    unit = compiler.unit([compiler.default(dtypes, statics, dims)])
    return device_source(unit.name, [unit])[0]


@pytest.mark.parametrize("name", CASES)
def test_generated_code_is_as_it_was(golden, name):
    golden(f"cuda/{name}.cu", text_of(name))


@pytest.mark.parametrize("name", CASES)
def test_generated_code_is_short_and_fits_a_page(name):
    lines = text_of(name).splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 100


def test_each_statement_of_a_body_says_which_line_of_the_author_it_is():
    text = with_lines(text_of("layernorm_f32"), "layernorm_cuda.cu")
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "each_turn" in line)
    assert lines[at - 1].startswith("#line 2")
    assert lines[at - 1].endswith('"layernorm.py"')
    # What no author wrote is at its place in the generated file.
    end = next(i for i, line in enumerate(lines) if line.startswith("}"))
    assert lines[end - 1].endswith('"layernorm_cuda.cu"')


N = kdsl.dims("N")[0]


@kdsl.kernel
def double(x: kdsl.f32[N], o: kdsl.Out[kdsl.f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + x[n]


def test_a_kernel_may_have_a_name_that_is_a_word_of_cpp():
    compiler = double._compiler
    unit = compiler.unit([compiler.default({}, {}, {})])
    text, (device,) = device_source(unit.name, [unit])
    assert device.phases[0].symbol == "double_"
    assert "\ndouble_(const __grid_constant__ double_args a) {" in text
