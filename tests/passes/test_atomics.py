"""Additions to a tensor are writes for every pass, and effects that stay."""

from kdsl.passes.cse import cse
from kdsl.passes.dce import dce
from kdsl.passes.hoist import hoist
from tests.passes.bodies import after, text


def test_what_an_addition_needs_stays():
    body = """
        i: i64 = var(i)
        one: f32 = 1
        unread: f32 = 2
        sure: bool = True
        if sure {
          z[i] += one
        }
        for k in tiles() {
          t: f32[k] = w[k]
          t_2: f32 = sum(t; k)
          z[i] += t_2
        }
    """
    assert after(dce, body) == text(body.replace("unread: f32 = 2\n        ", ""))


def test_a_load_of_what_is_added_to_is_done_again():
    body = """
        i: i64 = var(i)
        a: f32 = z[i]
        z[i] += a
        b: f32 = z[i]
        o[i] = b
    """
    assert after(cse, body) == text(body)


def test_a_load_of_what_is_added_to_stays_in_its_loop():
    body = """
        i: i64 = var(i)
        for k in tiles() {
          a: f32 = z[i]
          z[i] += a
        }
    """
    assert after(hoist, body) == text(body)
