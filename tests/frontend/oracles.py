"""Runs a kernel both ways: its Python under NumPy, and its IR in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kdsl.frontend import capture, lower
from kdsl.frontend.arguments import Facts, bind, check, output_type
from kdsl.frontend.reference import reference
from kdsl.ir import interp
from kdsl.ir.verify import verify
from kdsl.lang.arrays import kdsl_dtype, numpy_dtype


def both(fn, *args, tiles: Mapping[str, int] | None = None, **kwargs):
    """Outputs of the reference run and of the interpreted IR, each a tuple of arrays: Outs, then
    InOuts as the run leaves them."""
    source = capture(fn)
    passed = [_copy(a) for a in args]
    made = reference(source, passed, kwargs, tiles)
    expected = () if made is None else made if isinstance(made, tuple) else (made,)
    expected += tuple(
        a for p, a in zip(source.signature, passed, strict=False) if p.kind == "inout"
    )
    values = bind(source.signature, [_copy(a) for a in args], kwargs)
    facts = {
        n: Facts(kdsl_dtype(v.dtype), v.shape)
        for n, v in values.items()
        if isinstance(v, np.ndarray)
    }
    bound = check(source.signature, values, facts)
    statics = {p.name: values[p.name] for p in source.signature.of_kind("static")}
    statics |= {p.name: values[p.name] is not None for p in source.signature if p.optional}
    func = lower(source, bound.dtypes, statics)
    verify(func)
    outs = []
    for p in source.signature:
        if p.kind == "out":
            dtype, shape = output_type(p, bound)
            values[p.name] = np.zeros(shape, numpy_dtype(dtype))
            outs.append(values[p.name])
    outs += [values[p.name] for p in source.signature.of_kind("inout")]
    passed = {p.name: values[p.name] for p in func.params}
    interp.run(func, passed, tiles)
    return expected, tuple(outs)


def agree(fn, *args, tiles=None, rtol=0.0, atol=0.0, **kwargs):
    """Both ways give the same (exactly, unless a bound is given); returns the reference's."""
    expected, got = both(fn, *args, tiles=tiles, **kwargs)
    for e, g in zip(expected, got, strict=True):
        assert e.dtype == g.dtype
        assert e.shape == g.shape
        np.testing.assert_allclose(g.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=atol)
    return expected[0] if len(expected) == 1 else expected


def _copy(value):
    return value.copy() if isinstance(value, np.ndarray) else value
