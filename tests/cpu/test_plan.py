"""What the planner decides, as text; and that it notices memory reused too early."""

from dataclasses import replace

import pytest

from kdsl.codegen.cpu.source import kernel_source
from kdsl.dtypes import bf16, f32
from kdsl.errors import InternalError
from kdsl.frontend import capture, lower
from kdsl.passes import run_pipeline, specialise
from kdsl.passes.cpu.build import plan
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.lanes import choose_lanes
from kdsl.passes.cpu.plan import Hold, Loop, Nest, Product
from kdsl.passes.cpu.show import show_plan
from kdsl.passes.cpu.storage import verify_storage
from tests.kernels import KERNELS

CASES = {
    "softmax_bf16": ("softmax", bf16, {}, {}),
    "matmul_gelu_f32": ("matmul_gelu", f32, {}, {}),
    "mean_of_squares_f32": ("mean_of_squares", f32, {}, {}),
    "attention_f32_causal_D128": ("attention", f32, {"causal": True}, {"D": 128}),
    "attention_bf16": ("attention", bf16, {"causal": False}, {}),
}


def planned(name):
    kernel, dtype, statics, dims = CASES[name]
    source = capture(KERNELS[kernel])
    dtypes = {v.name: dtype for v in source.signature.dtype_vars}
    func = lower(source, dtypes, statics)
    return plan(run_pipeline(specialise(func, dims) if dims else func))


@pytest.mark.parametrize("name", CASES)
def test_plans_and_sources_are_as_they_were(golden, name):
    made = planned(name)
    golden(f"cpu/{name}.plan", show_plan(made))
    kernel = CASES[name][0]
    golden(f"cpu/{name}.cc", kernel_source(kernel, "kernels.py:1", [(kernel, made)]))


def test_attention_is_two_dots_and_one_nest_between_them():
    (phase,) = planned("attention_bf16").phases
    (loop,) = [s for s in phase.steps if isinstance(s, Loop)]
    kinds = [type(s) for s in loop.body if isinstance(s, (Product, Nest))]
    assert kinds == [Product, Nest, Product]


def test_attention_source_is_short():
    text = kernel_source(
        "attention", "x.py:1", [("attention", planned("attention_f32_causal_D128"))]
    )
    assert len(text.splitlines()) < 300
    assert max(map(len, text.splitlines())) <= 100


def test_lanes_of_scores_are_queries_and_those_of_results_head_dims():
    func = planned("attention_f32_causal_D128").func
    lanes = choose_lanes(Facts(func, func.phases[0]))
    assert {lanes[v] for v in ("s", "p")} == {"m"}
    assert lanes["acc_2"] == "D"


def test_reading_memory_after_its_reuse_is_noticed():
    made = planned("attention_f32_causal_D128")
    (phase,) = made.phases
    facts = Facts(made.func, made.func.phases[0])
    cx = Context(facts, choose_lanes(facts))
    cx.packs, cx.homes = dict(phase.packs), dict(phase.homes)
    verify_storage(cx, phase)

    def swap(step):
        """The softmax nest writes p where the accumulators lie."""
        if isinstance(step, Loop):
            return replace(step, body=tuple(map(swap, step.body)))
        if isinstance(step, Nest):
            stages = tuple(
                replace(s, within=tuple(
                    replace(a, buffer="acc_2") if isinstance(a, Hold) and a.value == "p" else a
                    for a in s.within
                )) for s in step.stages
            )  # fmt: skip
            return replace(step, stages=stages)
        return step

    broken = replace(phase, steps=tuple(map(swap, phase.steps)))
    with pytest.raises(InternalError, match="is read after its memory was reused"):
        verify_storage(cx, broken)
