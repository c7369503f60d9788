"""Stores that all iterations of a loop share, and outputs read before they hold anything."""

import pytest

from kdsl.errors import KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.passes.writes import writes
from tests.frontend.refusal import define

HEAD = "def k(x: f32[M, N], ids: i64[M], z: InOut[f32[M]], o: Out[f32[M, N]]):\n"


def checked(body):
    text = HEAD + body
    if "o[" not in body:
        text += "    for m in kdsl.parallel(M):\n        o[m] = x[m]\n"
    return writes(lower(capture(define(text), source=text), {}, {}))


def message(body):
    with pytest.raises(KernelTypeError) as caught:
        checked(body)
    return str(caught.value)


def test_a_place_that_no_iteration_has_alone_is_refused():
    body = "    for m in kdsl.parallel(kdsl.tiles(M)):\n        z[0] = x[m].sum()\n"
    assert message(body) == (
        "all iterations of `m` write one place of `z`\n"
        " --> <source of k>:3:9\n"
        "  |\n"
        "3 |         z[0] = x[m].sum()\n"
        "  |         ^^^^ this index does not depend on `m`\n"
        "help: index it by the loop's variable, walk that dim by a loop inside one iteration, or "
        "add up with kdsl.atomic_add"
    )


def test_each_variable_of_a_loop_has_to_be_in_the_index():
    body = "    for m, n in kdsl.parallel(M, N):\n        z[m] = x[m, n]\n"
    assert message(body).startswith("all iterations of `n` write one place of `z`\n")


@pytest.mark.parametrize(
    "body",
    [
        "    for m in kdsl.parallel(M):\n        o[m] = x[m]\n",
        "    for m in kdsl.parallel(M):\n        o[ids[m]] = x[m]\n",
        "    for m in kdsl.parallel(M):\n        row = m * 1\n        o[row] = x[m]\n",
        "    for m in kdsl.parallel(1):\n        z[0] = x[0].sum()\n",
        "    for m in kdsl.parallel(M):\n"
        "        if m == 0:\n"
        "            z[0] = x[m].sum()\n"
        "        o[m] = x[m]\n",
        "    for m in kdsl.parallel(kdsl.tiles(M)):\n"
        "        for n in kdsl.tiles(N):\n"
        "            o[m, n] = x[m, n]\n",
    ],
)
def test_places_that_depend_on_the_iteration_are_accepted(body):
    checked(body)


def test_an_output_holds_nothing_before_it_is_written():
    body = "    for m in kdsl.parallel(M):\n        o[m] = o[m] + 1\n"
    assert message(body) == (
        "`o` is read before anything has been written to it\n"
        " --> <source of k>:3:16\n"
        "  |\n"
        "3 |         o[m] = o[m] + 1\n"
        "  |                ^^^^ an Out holds nothing yet\n"
        "help: declare `o` as InOut[...] to read what the caller passes"
    )


def test_an_output_may_be_read_where_it_has_been_written():
    checked(
        "    for m in kdsl.parallel(M):\n        o[m] = x[m]\n"
        "    for m in kdsl.parallel(M):\n        z[m] = o[m].sum()\n"
    )


def test_what_the_caller_passes_may_be_read_at_once():
    checked("    for m in kdsl.parallel(M):\n        z[m] = z[m] + 1\n")


def test_an_output_that_nothing_writes_is_refused():
    text = "def k(x: f32[N], o: Out[f32[N]], p: Out[f32[N]]):\n"
    text += "    for n in kdsl.parallel(N):\n        o[n] = x[n]\n"
    with pytest.raises(KernelTypeError) as caught:
        writes(lower(capture(define(text), source=text), {}, {}))
    assert str(caught.value) == (
        "nothing writes the Out `p`\n"
        " --> <source of k>:1:1\n"
        "  |\n"
        "1 | def k(x: f32[N], o: Out[f32[N]], p: Out[f32[N]]):\n"
        f"  | {'^' * 49} what it returns would be whatever the memory held\n"
        "help: store to `p[...]`, or leave the parameter out"
    )
