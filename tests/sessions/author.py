"""A module as an author may write one: kernels of every shape. Prints what is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

import kdsl
from kdsl import Out, Static, f32

N = kdsl.dims("N")[0]
X = np.arange(5, dtype=np.float32)


def near(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-6)


@kdsl.kernel(
    strict=True,
)
def many_lines(
    x: f32[N],  # größer — ein Kommentar
    o: Out[f32[N]],
):
    """Äöü."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + 1


near(many_lines(X), X + 1)


class Kernels:
    factor = 3

    @staticmethod
    @kdsl.kernel
    def below(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * 2

    @kdsl.kernel
    def plain(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * Kernels.factor

    @kdsl.kernel
    @staticmethod
    def above(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * 2


near(Kernels.above(X), X * 2)
near(Kernels().above(X), X * 2)
near(Kernels.below(X), X * 2)
near(Kernels().below(X), X * 2)
near(Kernels.plain(X), X * 3)
near(Kernels().plain(X), X * 3)


def make(factor):
    def scale(v):
        return v * factor

    @kdsl.kernel
    def nested(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = scale(x[n])

    return nested


near(make(4)(X), X * 4)
near(make(5)(X), X * 5)


def logged(name):
    def around(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            return function(*args, **kwargs)

        return call

    return around


@logged("a")
@kdsl.kernel
def decorated(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 6


near(decorated(X), X * 6)


@kdsl.kernel
def apply(x: f32[N], o: Out[f32[N]], *, f: Static[Callable]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = f(x[n])


double, triple = apply.bind(f=lambda v: v * 2), apply.bind(f=lambda v: v * 3)
near(double(X), X * 2)
near(triple(X), X * 3)

try:

    class Bound:
        @kdsl.kernel
        def method(self, x: f32[N], o: Out[f32[N]]):
            pass

except kdsl.KernelSyntaxError as error:
    print(error)

for bad in (classmethod(near), len, functools.partial(near), Kernels):
    try:
        kdsl.kernel(bad)
    except TypeError as error:
        print(error)


def yielding(x: f32[N], o: Out[f32[N]]):
    yield


async def waiting(x: f32[N], o: Out[f32[N]]):
    pass


for bad in (yielding, waiting):
    try:
        kdsl.kernel(bad)
    except kdsl.KernelSyntaxError as error:
        print(str(error).splitlines()[0])
print("fertig ✓")
