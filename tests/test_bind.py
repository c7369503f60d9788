"""`kernel.bind`: kernels with a static function, compiled, called and exported."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import kdsl
from kdsl import Out, Static, f32

H, N = kdsl.dims("H N")


@kdsl.kernel
def scaled(x: f32[H, N], slope: f32[H], o: Out[f32[H, N]], *, mod: Static[Callable] = None):
    """Twice x, then `mod`."""
    for h, n in kdsl.parallel(H, kdsl.tiles(N)):
        s = x[h, n] * 2
        if mod is not None:
            s = mod(s, h, n)
        o[h, n] = s


BY = 1.0


def sloped(s, h, n, slope):
    return s + slope[h] * n.index * BY


sloping = scaled.bind(mod=sloped, name="sloping")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SLOPE = np.float32([1, 10])
WANT = 2 * X + SLOPE[:, None] * np.arange(3, dtype=np.float32)


def test_a_bound_kernel_is_a_kernel_of_its_own_name():
    assert sloping.__name__ == "sloping"
    assert sloping.__doc__ == "Twice x, then `mod`."
    assert sloping.signature == "sloping(x: f32[H, N], slope: f32[H], o: Out[f32[H, N]])"
    np.testing.assert_array_equal(scaled(X, SLOPE), 2 * X)
    np.testing.assert_array_equal(sloping(X, SLOPE), WANT)
    assert sloping.check(X, SLOPE).ok


def test_a_call_cannot_pass_what_is_fixed():
    message = (
        "scaled(x: f32[H, N], slope: f32[H], o: Out[f32[H, N]]): `mod` is fixed when a kernel is "
        "compiled, no call passes it; `scaled.bind(mod=...)` is a kernel with another value"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        scaled(X, SLOPE, mod=sloped)


def test_a_bound_kernel_starts_with_the_tile_sizes_of_the_first_and_has_its_own_then():
    first = kdsl.kernel(scaled.__wrapped__)
    first.tune("cpu", tiles={"n": 8})
    second = first.bind(mod=sloped)
    second.tune("cpu", tiles={"n": 16})
    assert first.compiler.tiles == {"n": 8}
    assert second.compiler.tiles == {"n": 16}
    assert first.bind(mod=None).compiler.tiles == {"n": 8}


def test_kernels_with_and_without_a_function_go_into_one_module(tmp_path):
    kdsl.export(tmp_path / "both.so", [scaled, sloping])
    module = kdsl.load_module(tmp_path / "both.so")
    np.testing.assert_array_equal(module.scaled(X, SLOPE), 2 * X)
    np.testing.assert_array_equal(module.sloping(X, SLOPE), WANT)


def test_what_a_bound_function_takes_from_outside_is_looked_at_by_each_use(monkeypatch):
    np.testing.assert_array_equal(sloping(X, SLOPE), WANT)
    assert "= 0.0" not in sloping.show("ir")
    monkeypatch.setitem(globals(), "BY", 0.0)
    assert "= 0.0" in sloping.show("ir")
    np.testing.assert_array_equal(sloping(X, SLOPE), 2 * X)
