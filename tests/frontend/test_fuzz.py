"""Kernels changed at random: each is lowered, or refused with one error that points at its text.

Those that still are kernels run both ways, and agree.
"""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import random
import signal
import textwrap
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

from kdsl.dims import evaluate
from kdsl.dtypes import DTypeVar
from kdsl.errors import KernelError
from kdsl.frontend import capture, lower
from kdsl.frontend.arguments import Facts, bind, check, output_type
from kdsl.frontend.reference import reference
from kdsl.ir import interp
from kdsl.ir.verify import verify
from kdsl.lang.arrays import kdsl_dtype, numpy_dtype
from kdsl.lang.run import Race
from tests import kernels
from tests.frontend import test_control, test_values

SNIPPETS = [
    "None", "'a'", "(1, 2)", "()", "[1]", "{}", "x", "o", "kdsl", "kdsl.tiles(N)", "N", "N // 2",
    "i", "n", "m.index", "...", "True", "1.5", "-1", "2**70", "lambda a: a", "kdsl.parallel(N)",
    "f32", "T", "x[:]", "x[:, None]", "x[...]", "x[None]", "n + 1", "kdsl.dot", "math.pi",
    "float('nan')", "1 / 0", "x.T", "x[:].T", "x[0]", "not x", "x[i] if i else 0", "1 < i < 3",
    "(x, *x)", "f'{i}'", "[a for a, b in x]", "{1: 2}", "{1}", "(a for a in x)", "x[::2]",
]  # fmt: skip


def authors():
    """Functions to change, with their trees."""
    found = list(kernels.KERNELS.values())
    for module in (test_control, test_values):
        for f in vars(module).values():
            if inspect.isfunction(f) and f.__module__ == module.__name__:
                if f.__annotations__ and not f.__name__.startswith("test"):
                    found.append(f)
    pairs = []
    for f in found:
        try:
            capture(f)
        except KernelError:
            continue
        pairs.append((f, ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]))
    return pairs


PAIRS = authors()
POOL = [n for _, t in PAIRS for n in ast.walk(t) if isinstance(n, ast.expr)]
POOL += [ast.parse(s, mode="eval").body for s in SNIPPETS] * 5


def mutate(tree, rng):
    """The function with one or two of its expressions or statements replaced by others."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 2])):
        parent, name, position = rng.choice(list(places(tree)))
        container = getattr(parent, name)
        current = container if position is None else container[position]
        if isinstance(current, ast.stmt):
            others = [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and s is not tree]
            new = rng.choice([ast.Pass(), ast.Continue(), *others, *others])
        else:
            new = rng.choice(POOL)
        new = copy.deepcopy(new)
        if position is None:
            setattr(parent, name, new)
        else:
            container[position] = new
    return tree


def places(tree):
    for statement in tree.body:
        for parent in ast.walk(statement):
            for name, value in ast.iter_fields(parent):
                values = value if isinstance(value, list) else [value]
                for i, v in enumerate(values):
                    stored = isinstance(getattr(v, "ctx", None), ast.Store)
                    if isinstance(v, (ast.expr, ast.stmt)) and not stored:
                        yield parent, name, i if isinstance(value, list) else None


def build(function, source):
    """The changed text as a function with the names of the old one; None if it is no Python."""
    namespace = dict(function.__globals__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linecache.cache["<changed>"] = (1, None, source.splitlines(keepends=True), "<changed>")
        try:
            exec(compile(source, "<changed>", "exec", dont_inherit=True), namespace)
        except (SyntaxError, NameError, TypeError, ValueError):
            return None
    changed = namespace[function.__name__]
    changed.__annotations__ = dict(function.__annotations__)
    return changed


def one(seed):
    """What became of one change: "refused", "same", or why there was nothing to compare."""
    rng = random.Random(seed)
    function, tree = rng.choice(PAIRS)
    try:
        source = ast.unparse(ast.fix_missing_locations(mutate(tree, rng)))
    except (ValueError, TypeError, AttributeError):
        return "no python"
    changed = build(function, source)
    if changed is None:
        return "no python"
    try:
        kernel = capture(changed, source=source)
        dtypes = {v.name: rng.choice(v.choices) for v in kernel.signature.dtype_vars}
        statics = {
            p.name: rng.random() < 0.5 if p.type is bool else 3
            for p in kernel.signature.of_kind("static")
        }
        func = lower(kernel, dtypes, statics)
    except KernelError as err:
        refused = err
    else:
        verify(func)
        return compare(kernel, func, dtypes, statics, rng, source)
    assert refused.span.line > 0, f"{source}\n{refused}"
    return "refused"


def compare(kernel, func, dtypes, statics, rng, source):
    values = arguments(kernel.signature, dtypes, statics, rng)
    tiles = {a.name: 3 for a in func.axes if a.kind == "tile" and a.size is None}
    expected, error = attempt(lambda: reference(kernel, [], copies(values), tiles))
    passed = bind(kernel.signature, [], copies(values))
    arrays = {n: v for n, v in passed.items() if isinstance(v, np.ndarray)}
    facts = {n: Facts(kdsl_dtype(v.dtype), v.shape) for n, v in arrays.items()}
    bound = check(kernel.signature, passed, facts)
    outs = []
    for p in kernel.signature.of_kind("out"):
        dtype, shape = output_type(p, bound)
        if min(shape, default=0) < 0:
            return "negative size"
        passed[p.name] = np.full(shape, np.nan if dtype.is_float else 0, numpy_dtype(dtype))
        outs.append(passed[p.name])
    _, other = attempt(
        lambda: interp.run(func, {p.name: passed[p.name] for p in func.params}, tiles)
    )
    if isinstance(error, (Race, TimeoutError)) or isinstance(other, TimeoutError):
        return "not comparable"
    if error is not None or other is not None:
        # what no dtype or shape check finds must fail both ways, with the same class of error
        same = isinstance(error, type(other)) or isinstance(other, type(error))
        assert same, f"{source}\n{error!r}\n{other!r}"
        return "same error"
    expected = expected if isinstance(expected, tuple) else (expected,)
    short = any(d.bits < 32 for d in dtypes.values())
    for e, g in zip(expected if outs else (), outs, strict=True):
        e, g = e.astype(np.float64), g.astype(np.float64)
        tolerance = 2e-2 if short else 1e-4
        scale = np.abs(e[np.isfinite(e)]).max(initial=1)
        ok = np.allclose(g, e, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        assert ok, f"{source}\n{e}\n{g}"
    return "same"


def arguments(signature, dtypes, statics, rng):
    sizes = {d: rng.choice([1, 2, 3, 5, 6, 8]) for d in signature.dims}
    sizes.update((n, v) for n, v in statics.items() if n in sizes)
    numbers = np.random.default_rng(rng.randrange(10**6))
    values = {}
    for p in signature:
        if p.kind == "static":
            values[p.name] = statics[p.name]
        elif p.kind == "scalar":
            whole = not isinstance(p.type, DTypeVar) and p.type.is_int
            values[p.name] = sizes.get(p.name, 1 if whole else 0.5)
        elif p.kind != "out":
            dtype = p.type.dtype
            dtype = dtypes[dtype.name] if isinstance(dtype, DTypeVar) else dtype
            shape = tuple(evaluate(e, sizes) for e in p.type.shape)
            array = numbers.standard_normal(shape) * 2 if dtype.is_float else None
            array = numbers.integers(0, 3, shape) if array is None else array
            values[p.name] = array.astype(numpy_dtype(dtype))
    return values


def copies(values):
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in values.items()}


def attempt(run):
    """The result of `run`, or the error it ends with."""
    try:
        with time_limit(3):
            return run(), None
    except Exception as err:
        return None, err


@contextmanager
def time_limit(seconds):
    """A changed bound may make a loop very long."""

    def stop(*_):
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.filterwarnings("ignore")
def test_changed_kernels_are_refused_with_a_place_or_run_the_same_both_ways(block):
    outcomes = Counter(one(seed) for seed in range(block * 100, block * 100 + 100))
    assert outcomes["refused"] + outcomes["same"] > 50
