"""An elementwise operation is one entry of the language and one of each target."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.codegen.cpu import ops as cpu
from kdsl.dtypes import DTYPES, f32
from kdsl.errors import KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.ir import interp
from kdsl.lang import Out, ops
from kdsl.lang.declare import operation
from kdsl.lang.operation import np as lazy
from kdsl.lang.promote import PromotionError, maths
from kdsl.lang.promote import Operand
from tests.cpu.harness import Compiled
from tests.house import ROOT, tracked

N = kdsl.dims("N")[0]


@operation(maths, cost="division")
def softsign(x):
    """x over 1 plus its absolute value."""
    return x / (1 + lazy.abs(x))


def uses_softsign(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = softsign(x[n]) + softsign(x=3.0)


def test_an_operation_is_added_in_two_places(monkeypatch):
    monkeypatch.setitem(ops.FUNCTIONS, softsign, softsign.operation)
    monkeypatch.setitem(ops.OPS, "softsign", softsign.operation)
    monkeypatch.setitem(cpu.EXPRESSIONS, "softsign", "({0} / (1.0f + abs({0})))")
    x = np.linspace(-5, 5, 37, dtype=np.float32)
    want = x / (1 + np.abs(x)) + np.float32(0.75)
    np.testing.assert_array_equal(reference(capture(uses_softsign), [x], {}), want)
    func = lower(capture(uses_softsign), {}, {})
    got = np.empty_like(x)
    interp.run(func, {"x": x, "o": got})
    np.testing.assert_array_equal(got, want)
    got = np.empty_like(x)
    Compiled(func)(x=x, o=got)
    np.testing.assert_array_equal(got, want)


def test_an_operation_that_the_target_lacks_is_refused_at_the_authors_line(monkeypatch):
    monkeypatch.setitem(ops.FUNCTIONS, softsign, softsign.operation)
    monkeypatch.setitem(ops.OPS, "softsign", softsign.operation)
    with pytest.raises(KernelTypeError) as caught:
        Compiled(lower(capture(uses_softsign), {}, {}))
    message, place, *_, help = str(caught.value).splitlines()
    assert message == "`softsign` of f32 is not available on the CPU"
    assert place.endswith("test_ops.py:35:16")
    assert help == "help: convert with .astype; docs/language.md says which dtypes it has code for"


#: What passes know of particular operations: identities, signs, sums of products, masks.
KNOWN = {"where", "fma", "maximum", "minimum", "fmax", "fmin", "abs", "sqrt", "round"}


@pytest.mark.parametrize("name", sorted({f.__name__ for f in ops.FUNCTIONS} - KNOWN))
def test_no_other_file_of_the_compiler_names_a_function(name):
    word = re.compile(rf"[\"' ]{name}[\"' ]")
    naming = {
        str(file.relative_to(ROOT))
        for file in tracked(".py", under=("kdsl/",))
        if word.search(re.sub(r'""".*?"""|#.*', "", file.read_text(), flags=re.DOTALL))
    }
    targets = {f for f in naming if re.fullmatch(r"kdsl/codegen/\w+/(ops|spelling)\.py", f)}
    assert naming - targets <= {"kdsl/lang/functions.py"}


def test_every_operation_is_spelled_for_every_dtype_that_it_takes():
    for op in ops.OPS.values():
        for dtype in DTYPES.values():
            try:
                found = op.rule(*[Operand(dtype)] * (op.arity - op.conditions))
            except PromotionError:
                continue
            if found.compute == dtype:
                assert cpu.has(op.name, dtype) or (op.name, dtype.name) in MISSING, op.name


#: What the CPU does not have yet.
MISSING = {
    (name, "f64") for name in "exp exp2 log log2 tanh sigmoid erf sin cos floor ceil round".split()
}
MISSING |= {(n, d) for n in ("floordiv", "mod") for d in ("f32", "f64")}
MISSING |= {(n, d) for n in ("floor", "ceil", "round") for d in DTYPES if DTYPES[d].is_int}
MISSING |= {("pow", d) for d in DTYPES}
