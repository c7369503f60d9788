"""What the passes do to guards: merge equal ones, drop proven or unread ones, move none."""

from dataclasses import replace

from kdsl.passes import run_pipeline
from kdsl.passes.cse import cse
from kdsl.passes.dce import dce
from kdsl.passes.fold import fold
from kdsl.passes.hoist import hoist
from tests.passes.bodies import after, func, statements, text


def test_equal_guards_are_one():
    body = """
        i: i64 = var(i)
        a: i64 = ids[i]
        b: i64 = ids[i]
        c: i64 = guard(a; x, 0)
        d: i64 = guard(b; x, 0)
        e: i64 = guard(b; y, 0)
        t: f32 = x[c]
        z[d] = t
        o[e] = t
    """
    assert after(cse, body) == text("""
        i: i64 = var(i)
        a: i64 = ids[i]
        c: i64 = guard(a; x, 0)
        e: i64 = guard(a; y, 0)
        t: f32 = x[c]
        z[c] = t
        o[e] = t
    """)


def test_a_guard_stays_in_its_loop_and_its_branch_with_what_needs_it():
    body = """
        i: i64 = var(i)
        a: i64 = ids[i]
        zero: f32 = 0
        for k in tiles() with
            acc: f32 = zero as acc_3 {
          b: i64 = guard(a; x, 0)
          t: f32 = x[b]
          acc_2: f32 = add(acc, t)
          yield acc=acc_2
        }
        c: bool = gt(acc_3, zero)
        if c {
          d: i64 = guard(a; o, 0)
          o[d] = acc_3
        }
    """
    assert after(hoist, body) == text(body)


def test_a_guard_that_nothing_reads_goes():
    body = """
        i: i64 = var(i)
        a: i64 = guard(i; x, 0)
        b: i64 = guard(i; y, 0)
        t: f32 = y[b]
        o[i] = t
    """
    assert after(dce, body) == text("""
        i: i64 = var(i)
        b: i64 = guard(i; y, 0)
        t: f32 = y[b]
        o[i] = t
    """)


def test_scratch_that_only_a_guard_mentions_stays():
    body = """
        i: i64 = var(i)
        a: i64 = guard(i; part, 0)
        t: f32 = y[a]
        o[i] = t
    """
    assert [b.name for b in dce(func(body)).scratch] == ["part"]


def test_a_guard_of_a_constant_that_is_inside_is_the_constant():
    body = """
        a: i64 = 3
        b: i64 = guard(a; part, 1)
        c: i64 = guard(a; part, 0)
        t: f32 = part[c, b]
        o[c] = t
    """
    assert after(fold, body) == text("""
        a: i64 = 3
        c: i64 = guard(a; part, 0)
        t: f32 = part[c, a]
        o[c] = t
    """)


def test_the_pipeline_guards_an_index_once():
    given = func("""
        i: i64 = var(i)
        a: i64 = ids[i]
        t: f32 = x[a]
        a_2: i64 = ids[i]
        t_2: f32 = y[a_2]
        t_3: f32 = add(t, t_2)
        z[a] += t_3
    """)
    new = run_pipeline(replace(given, params=tuple(p for p in given.params if p.name != "o")))
    assert statements(new) == text("""
        i: i64 = var(i)
        a: i64 = ids[i]
        a_3: i64 = guard(a; x, 0)
        t: f32 = x[a_3]
        a_4: i64 = guard(a; y, 0)
        t_2: f32 = y[a_4]
        t_3: f32 = add(t, t_2)
        z[a_3] += t_3
    """)
