"""What the rewriting passes make of a few statements, and what they leave alone."""

import pytest

from kdsl.errors import InternalError
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.verify import verify
from kdsl.passes import fixed_dims, run_pipeline, specialise
from kdsl.passes.accumulate import accumulate
from kdsl.passes.contract import contract
from kdsl.passes.cse import cse
from kdsl.passes.dce import dce
from kdsl.passes.hoist import hoist
from kdsl.passes.localise import localise
from kdsl.passes.sink_scale import sink_scale
from tests.ir_texts import ATTENTION, MATMUL
from tests.passes.bodies import after, func, statements, text

# ---- cse


def test_equal_operations_are_computed_once_and_keep_the_authors_name():
    body = """
        t: f32[n] = x[n]
        a: f32[n] = y[n]
        t_2: f32[n] = x[n]
        t_3: f32[n] = add(t, a)
        sum: f32[n] = add(a, t_2)
        t_4: f32[n] = mul(t_3, sum)
        o[n] = t_4
    """
    assert after(cse, body) == text("""
        t: f32[n] = x[n]
        a: f32[n] = y[n]
        sum: f32[n] = add(t, a)
        t_4: f32[n] = mul(sum, sum)
        o[n] = t_4
    """)


def test_a_value_of_one_branch_is_not_in_scope_in_the_other():
    body = """
        a: f32[n] = x[n]
        c: bool = True
        if c {
          t: f32[n] = exp(a)
          o[n] = t
        } else {
          t_2: f32[n] = exp(a)
          o[n] = t_2
        }
    """
    assert after(cse, body) == text(body)


def test_a_load_of_what_the_phase_writes_is_no_common_subexpression():
    body = """
        a: f32[n] = z[n]
        b: f32[n] = exp(a)
        z[n] = b
        c: f32[n] = z[n]
        o[n] = c
    """
    assert after(cse, body) == text(body)


def test_operands_that_do_not_commute_stay_apart():
    body = """
        a: f32[n] = x[n]
        b: f32[n] = y[n]
        c: f32[n] = sub(a, b)
        d: f32[n] = sub(b, a)
        e: f32[n] = maximum(a, b)
        f: f32[n] = maximum(b, a)
    """
    assert after(cse, body) == text(body)


# ---- dce


def test_only_what_a_store_needs_stays():
    body = """
        one: i64 = 1
        c: bool = True
        a: f32[n] = x[n]
        unused: f32[n] = exp(a)
        t: f32[n] = 0.0
        for k in tiles() with kept: f32[n] = t as end, lost: f32[n] = t as t_2 {
          t_3: f32[n] = add(kept, a)
          t_4: f32[n] = exp(lost)
          yield kept=t_3, lost=t_4
        }
        for r in range(one, one) {
          t_5: f32 = 1
        }
        if c as m: f32, m_2: f32[n] {
          t_6: f32 = 1
          yield m=t_6, m_2=end
        } else {
          t_7: f32 = 2
          yield m=t_7, m_2=a
        }
        o[n] = m_2
    """
    assert after(dce, body) == text("""
        c: bool = True
        a: f32[n] = x[n]
        t: f32[n] = 0.0
        for k in tiles() with
            kept: f32[n] = t as end {
          t_3: f32[n] = add(kept, a)
          yield kept=t_3
        }
        if c as m_2: f32[n] {
          yield m_2=end
        } else {
          yield m_2=a
        }
        o[n] = m_2
    """)


def test_axes_and_scratch_that_nothing_mentions_go():
    new = dce(func("    a: f32[n] = x[n]\n    o[n] = a"))
    assert [a.name for a in new.axes] == ["n"]
    assert new.scratch == ()


def test_requirements_stay_on_the_host():
    assert len(dce(func("")).host) == 4


# ---- hoist


def test_what_a_loop_does_not_change_moves_out_of_all_loops():
    body = """
        a: f32[n] = x[n]
        for k in tiles() {
          lo: i64 = k.start
          two: i64 = 2
          for r in range(two, lo) {
            t: f32[n] = exp(a)
            t_2: f32[K] = mat[i_0, K]
            t_3: i64 = var(r)
            t_4: f32[k] = w[k]
            t_5: f32 = sum(t_4; k)
            t_6: f32[n] = mul(t, t_5)
            o[n] = t_6
          }
        }
    """
    assert after(hoist, "    i_0: i64 = var(i)" + body) == text("""
        i_0: i64 = var(i)
        a: f32[n] = x[n]
        two: i64 = 2
        t: f32[n] = exp(a)
        t_2: f32[K] = mat[i_0, K]
        for k in tiles() {
          lo: i64 = k.start
          t_4: f32[k] = w[k]
          t_5: f32 = sum(t_4; k)
          t_6: f32[n] = mul(t, t_5)
          for r in range(two, lo) {
            t_3: i64 = var(r)
            o[n] = t_6
          }
        }
    """)


def test_loads_that_may_fail_or_change_stay_in_their_loop():
    body = """
        i_0: i64 = var(i)
        at: i64 = ids[i_0]
        for k in tiles() {
          t: f32 = x[at]
          t_2: f32[n] = z[n]
          t_3: f32[n] = add(t, t_2)
          z[n] = t_3
        }
    """
    assert after(hoist, body) == text(body)


def test_literals_and_masks_of_tiles_are_not_kept_over_a_loop():
    body = """
        i_0: i64 = var(i)
        for k in tiles() {
          t: f32[n] = 0.0
          t_2: i64[n] = n.index
          t_3: bool[n] = ge(t_2, i_0)
          t_4: f32[n] = where(t_3, t, t)
          o[n] = t_4
        }
    """
    assert "for k in tiles() {\n  t: f32[n] = 0.0\n  t_2" in after(hoist, body)


# ---- accumulate

DOT = """
    a: f32[n, K] = mat[n, K]
    b: f32[K] = w[K]
    c: f32[n] = x[n]
    {dot}
    {add}
    o[n] = e
"""


@pytest.mark.parametrize("add", ["add(c, d)", "add(d, c)"])
def test_a_dot_starts_from_its_addend(add):
    body = DOT.format(dot="d: f32[n] = dot(a, b; K)", add=f"e: f32[n] = {add}")
    assert after(accumulate, body).endswith("e: f32[n] = c + dot(a, b; K)\no[n] = e\n")


def test_a_dot_that_others_read_stays():
    body = DOT.format(dot="d: f32[n] = dot(a, b; K)", add="e: f32[n] = add(c, d)") + "    o[n] = d"
    assert "e: f32[n] = add(c, d)" in after(accumulate, body)


def test_a_dot_with_fewer_axes_than_its_addend_stays():
    body = DOT.format(dot="d: f32 = dot(b, b; K)", add="e: f32[n] = add(c, d)")
    assert "e: f32[n] = add(c, d)" in after(accumulate, body)


def test_a_strict_function_adds_in_the_order_of_its_text():
    body = DOT.format(dot="d: f32[n] = dot(a, b; K)", add="e: f32[n] = add(c, d)")
    for step in (accumulate, contract, sink_scale):
        assert step(func(body, strict=True)) == func(body, strict=True)


# ---- sink_scale

SCALED = """
    a: f32[n, K] = mat[n, K]
    f: f32 = arg(s)
    log2e: f32 = 1.44
    c: f32 = mul(f, log2e)
    t: f32[n, K] = exp(a)
    scores: f32[n, K] = mul(t, c)
    {mask}
    top: f32[n] = max({of}; K)
    t_2: f32[n, K] = sub({of}, top)
    t_3: f32[n] = sum(t_2; K)
    o[n] = t_3
"""


def test_a_positive_factor_moves_past_a_maximum():
    assert after(sink_scale, SCALED.format(mask="", of="scores")) == text("""
        a: f32[n, K] = mat[n, K]
        f: f32 = arg(s)
        log2e: f32 = 1.44
        c: f32 = mul(f, log2e)
        scores: f32[n, K] = exp(a)
        t_4: f32[n] = max(scores; K)
        top: f32[n] = mul(t_4, c)
        t_5: f32[n] = neg(top)
        t_2: f32[n, K] = fma(scores, c, t_5)
        t_3: f32[n] = sum(t_2; K)
        o[n] = t_3
    """)


MASK = """at: i64[K] = K.index
    here: i64 = var(i)
    ok: bool[K] = ge(here, at)
    low: f32 = {low}
    masked: f32[n, K] = where(ok, scores, low)"""


@pytest.mark.parametrize("low", ["-inf", "inf", "0.0"])
def test_a_positive_factor_moves_past_a_mask(low):
    new = after(sink_scale, SCALED.format(mask=MASK.format(low=low), of="masked"))
    assert "masked: f32[n, K] = where(ok, scores, low)\n" in new
    assert "t_4: f32[n] = max(masked; K)\ntop: f32[n] = mul(t_4, c)\n" in new


def test_a_mask_with_another_value_keeps_the_factor_above():
    body = SCALED.format(mask=MASK.format(low="-1.0"), of="masked")
    assert sink_scale(func(body)) == func(body)


@pytest.mark.parametrize(
    "factor",
    ["arg(u)", "neg(p_3)", "exp(p_3)"],  # unknown, negative, may underflow to 0
)
def test_a_factor_that_may_not_be_positive_stays(factor):
    body = "    p_3: f32 = arg(s)\n" + SCALED.format(mask="", of="scores").replace("arg(s)", factor)
    assert sink_scale(func(body)) == func(body)


def test_a_factor_stays_when_one_reader_cannot_take_it_over():
    other = """
    t_6: f32[n, K] = exp(scores)
    t_7: f32[n] = sum(t_6; K)
    o[n] = t_7
    """
    body = SCALED.format(mask="", of="scores") + other
    assert sink_scale(func(body)) == func(body)


# ---- contract

FUSED = {
    ("mul(a, b)", "add(d, c)"): ["e: f32[n] = fma(a, b, c)"],
    ("mul(a, b)", "add(c, d)"): ["e: f32[n] = fma(a, b, c)"],
    ("mul(a, b)", "sub(d, c)"): ["t: f32[n] = neg(c)", "e: f32[n] = fma(a, b, t)"],
    ("mul(a, b)", "sub(c, d)"): ["t: f32[n] = neg(a)", "e: f32[n] = fma(t, b, c)"],
}


@pytest.mark.parametrize(("mul", "add"), FUSED)
def test_a_product_that_is_only_added_is_fused(mul, add):
    body = f"""
        a: f32[n] = x[n]
        b: f32[n] = y[n]
        c: f32[n] = z[n]
        d: f32[n] = {mul}
        e: f32[n] = {add}
        o[n] = e
    """
    lines = after(contract, body).splitlines()
    assert lines[3:-1] == FUSED[mul, add]


def test_a_product_over_fewer_axes_is_computed_once_for_all():
    body = """
        a: f32 = arg(s)
        b: f32 = mul(a, a)
        c: f32[n] = x[n]
        d: f32[n] = add(b, c)
        o[n] = d
    """
    assert after(contract, body) == text(body)


def test_host_arithmetic_stays_as_written():
    host = """
        a: f32 = mul(p, p)
        b: f32 = add(a, p)
        c: bool = gt(b, nothing)
        assert c, "s * s + s > 0"
    """
    assert contract(func("", host=host)) == func("", host=host)


# ---- localise


def test_a_phase_computes_the_host_values_that_it_reads():
    body = """
        a: f32[n] = x[n]
        b: f32[n] = mul(a, q)
        o[n] = b
    """
    new = localise(func(body, host="q: f32 = mul(p, p)\n"))
    verify(new)
    assert statements(new) == text("""
        p_2: f32 = arg(s)
        q_2: f32 = mul(p_2, p_2)
        a: f32[n] = x[n]
        b: f32[n] = mul(a, q_2)
        o[n] = b
    """)
    assert localise(new) is new


# ---- specialise


def test_dims_of_dot_operands_are_fixed_when_they_are_whole_axes():
    assert fixed_dims(parse(ATTENTION)) == ("D",)
    assert fixed_dims(parse(MATMUL)) == ()


def test_a_fixed_dim_is_a_number_everywhere():
    body = """
        d: i64 = size(K)
        d_2: i64 = size(K // 2)
        d_3: i64 = size(N // K)
    """
    new = specialise(func(body), {"K": 6})
    verify(new)
    assert new.name == "f_K6"
    assert new.fixed == (("K", 6),)
    shown = show(new)
    for line in ("mat: f32[N, 6]", "axis K = whole(6)", "d: i64 = 6", "d_2: i64 = 3",
                 "d_3: i64 = size(N // 6)"):  # fmt: skip
        assert line in shown
    assert specialise(new, {"K": 6}) is new


def test_a_division_by_a_dim_that_is_0_stays():
    new = specialise(func("    d: i64 = size(N // K)"), {"N": 1, "K": 0})
    assert "d: i64 = size(1 // 0)" in show(new)
    assert new.name == "f_N1_K0"


def test_fixing_a_dim_again_to_another_value_is_a_mistake():
    with pytest.raises(InternalError, match="cannot have K = 7"):
        specialise(specialise(func(""), {"K": 6}), {"K": 7})


# ---- the pipeline


def test_attention_comes_out_with_fused_dots_and_one_scale_a_row():
    shown = show(run_pipeline(parse(ATTENTION)))
    for line in (
        "s: f32[m, n] = dot(qm, t_17; D)",
        "s_2: f32[m, n] = where(t_28, s, t_29)",
        "t_30: f32[m] = mul(t_23, t_21)",
        "t_34: f32[m, n] = fma(s_2, t_21, t_24)",
        "den_3: f32[m] = fma(den_2, fix, t_37)",
        "acc_3: f32[m, D] = t_38 + dot(p, t_39; n)",
    ):
        assert line in shown
