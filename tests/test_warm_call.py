"""Calls that the runtime answers without Python, and those that must not be answered so."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import torch

import kdsl
from kdsl import InOut, Out, Static, bf16, f32, i32, runtime
from tests.house import plain

T = kdsl.dtypes("T", f32, bf16)
M, N, D = kdsl.dims("M N D")

SCALE = 2.0
config = SimpleNamespace(bias=1.0)
weights = [3.0]


def twice(v):
    return v + v


@kdsl.kernel
def scaled(x: f32[N], o: Out[f32[N]], *, negate: Static[bool] = False):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * (-SCALE if negate else SCALE)


@kdsl.kernel
def helped(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = twice(x[n]) + config.bias


@kdsl.kernel
def weighed(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * weights[0]


@kdsl.kernel
def powered(x: T[N], o: Out[T[N]], *, power: Static[int] = 2):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] ** power


@kdsl.kernel
def product(x: f32[M, D], y: f32[D, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = kdsl.dot(x[m], y[:, :])


@kdsl.kernel
def count_up(x: InOut[i32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        x[n] = x[n] + 1


@kdsl.kernel
def shifted(x: f32[N], b: f32[N] | None, o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        if b is None:
            o[n] = x[n]
        else:
            o[n] = x[n] + b[n]


X = np.arange(5, dtype=np.float32)


class Counted:
    """A kernel with nothing compiled, and how many of its calls Python answered."""

    def __init__(self, kernel: kdsl.Kernel) -> None:
        self.kernel = kdsl.kernel(kernel.__wrapped__)
        self.calls = 0
        self.kernel._set_otherwise(self.answer)

    def answer(self, args, kwargs):
        self.calls += 1
        return self.kernel._dispatch(args, kwargs)

    def __call__(self, *args, **kwargs):
        return self.kernel(*args, **kwargs)


def equal(got, want):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want, np.float32))


def test_the_second_call_runs_without_python():
    kernel = Counted(scaled)
    for x in (X, X[1:], X[::2], torch.tensor(X), X.reshape(5)):
        equal(kernel(x), np.asarray(x) * 2)
    assert kernel.calls == 1


def test_the_kind_of_the_results_is_that_of_the_arguments():
    kernel = Counted(scaled)
    assert isinstance(kernel(X), np.ndarray)
    assert isinstance(kernel(torch.tensor(X)), torch.Tensor)
    out = np.zeros_like(X)
    assert kernel(X, out) is None
    equal(out, X * 2)
    assert kernel.calls == 1


def test_keywords_and_defaults_find_what_positions_find():
    kernel = Counted(scaled)
    kernel(X)
    kernel(X, negate=True)
    for call in (
        lambda: kernel(x=X),
        lambda: kernel(X, negate=False),
        lambda: kernel(X, None, False),
        lambda: kernel(negate=np.bool_(False), x=X),
        lambda: kernel(X, negate=None),
    ):
        equal(call(), X * 2)
    for call in (lambda: kernel(X, None, True), lambda: kernel(o=None, negate=True, x=X)):
        equal(call(), X * -2)
    assert kernel.calls == 2


def test_each_dtype_and_each_integer_has_a_function_of_its_own():
    kernel = Counted(powered)
    low = X.astype(ml_dtypes.bfloat16)
    for _ in range(2):
        equal(kernel(X), X**2)
        equal(kernel(X, power=3), X**3)
        equal(kernel(low, power=3).astype(np.float32), X**3)
        assert kernel(torch.tensor(X).bfloat16()).dtype == torch.bfloat16
    assert kernel.calls == 4


def test_each_size_of_a_fixed_dim_has_a_function_of_its_own():
    kernel = Counted(product)
    rng = np.random.default_rng(0)
    for _ in range(2):
        for depth in (3, 8):
            x, y = rng.random((4, depth), np.float32), rng.random((depth, 5), np.float32)
            np.testing.assert_allclose(kernel(x, y), x @ y, rtol=1e-5)
    assert kernel.calls == 2
    specs = kernel.kernel.compiler._functions
    assert {dict(spec.sizes)["D"] for spec in specs} == {3, 8}


def test_an_optional_tensor_given_and_left_out_are_two_functions():
    kernel = Counted(shifted)
    for _ in range(2):
        equal(kernel(X, X), X + X)
        equal(kernel(X, None), X)
        equal(kernel(X, b=None), X)
    assert kernel.calls == 2


def test_a_global_bound_anew_is_seen_by_the_next_call(monkeypatch):
    kernel = Counted(scaled)
    equal(kernel(X), X * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    equal(kernel(X), X * 3)
    equal(kernel(X), X * 3)
    assert kernel.calls == 2
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(kdsl.KernelError, match="SCALE"):
        kernel(X)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    equal(kernel(X), X * 2)


def test_a_global_bound_to_an_equal_value_keeps_what_was_compiled(monkeypatch):
    kernel = Counted(scaled)
    kernel(X)
    monkeypatch.setitem(globals(), "SCALE", float("2.0"))
    equal(kernel(X), X * 2)
    equal(kernel(X), X * 2)
    assert kernel.calls == 2
    assert len(kernel.kernel._compiler._functions) == 1


def test_a_helper_or_an_attribute_bound_anew_is_seen_by_the_next_call(monkeypatch):
    kernel = Counted(helped)
    for _ in range(2):
        equal(kernel(X), 2 * X + 1)
    assert kernel.calls == 1
    monkeypatch.setattr(config, "bias", 5.0)
    equal(kernel(X), 2 * X + 5)

    def thrice(v):
        return v + v + v

    monkeypatch.setitem(globals(), "twice", thrice)
    equal(kernel(X), 3 * X + 5)
    equal(kernel(X), 3 * X + 5)
    assert kernel.calls == 3


def test_a_closure_variable_bound_anew_is_seen_by_the_next_call():
    factor = 2.0

    @kdsl.kernel
    def times(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * factor

    kernel = Counted(times)
    equal(kernel(X), X * 2)
    equal(kernel(X), X * 2)
    assert kernel.calls == 1
    factor = 4.0
    equal(kernel(X), X * 4)
    equal(kernel(X), X * 4)
    assert kernel.calls == 2


def test_what_may_change_in_place_is_looked_into_by_python():
    kernel = Counted(weighed)
    equal(kernel(X), X * 3)
    weights[0] = 7.0
    try:
        equal(kernel(X), X * 7)
    finally:
        weights[0] = 3.0
    equal(kernel(X), X * 3)
    assert kernel.calls == 3


def test_tune_and_export_in_between_change_no_result(tmp_path, monkeypatch):
    kernel = Counted(scaled)
    kernel(X)
    kernel.kernel.tune("cpu", tiles={"n": 64})
    equal(kernel(X), X * 2)
    equal(kernel(X), X * 2)
    assert kernel.calls == 2
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    kernel.kernel.export(tmp_path / "scaled.so")
    equal(kernel(X), X * 3)
    equal(runtime.load_module(tmp_path / "scaled.so").scaled(X), X * 3)
    kernel.kernel.export(tmp_path / "again.so")
    calls = kernel.calls
    equal(kernel(X), X * 3)
    assert kernel.calls == calls


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((None,), {}),
        ((3,), {}),
        (([1.0],), {}),
        (("x",), {}),
        ((object(),), {}),
        ((X.astype(np.float64),), {}),
        ((X.reshape(5, 1),), {}),
        ((X, X[1:]), {}),
        ((X, None, 1), {}),
        ((X, None, True, None), {}),
        ((X,), {"negate": "yes"}),
        ((X,), {"strict": True}),
        ((X,), {"x": X}),
        ((), {"negate": True}),
        ((torch.ones(3, requires_grad=True),), {}),
        ((torch.ones(3, device="meta"),), {}),
    ],
    ids=plain,
)
def test_wrong_arguments_are_told_alike_cold_and_warm(args, kwargs):
    cold, warm = Counted(scaled), Counted(scaled)
    warm(X)
    warm(X)
    with pytest.raises(Exception) as first:
        cold(*args, **kwargs)
    with pytest.raises(type(first.value)) as second:
        warm(*args, **kwargs)
    assert str(second.value) == str(first.value)
    equal(warm(X), X * 2)


def test_subclasses_of_arrays_are_taken_as_a_function_takes_them():
    class Mine(np.ndarray):
        pass

    kernel = Counted(scaled)
    kernel(X)
    equal(kernel(X.view(Mine)), X * 2)
    equal(kernel(torch.nn.Parameter(torch.tensor(X), requires_grad=False)), X * 2)
    with torch.no_grad():
        equal(kernel(torch.nn.Parameter(torch.tensor(X))), X * 2)
    assert kernel.calls == 1
    for _ in range(2):
        with pytest.raises(TypeError, match="argument 0 `x`"):
            kernel(np.ma.masked_array(X))


def test_an_array_that_jax_passes_for_an_inout_is_counted_up_once():
    jnp = pytest.importorskip("jax.numpy")
    kernel = Counted(count_up)
    x = jnp.arange(5, dtype=jnp.int32)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(kernel(x)), np.arange(5) + 1)
    assert kernel.calls == 1


def test_threads_call_while_names_from_outside_change(monkeypatch):
    kernel = Counted(scaled)
    for scale in (2.0, 3.0):  # both compiled: the disk has them
        monkeypatch.setitem(globals(), "SCALE", scale)
        kernel(X)
    stop = threading.Event()
    wrong: list[object] = []

    def call() -> None:
        while not stop.is_set():
            out = np.asarray(kernel(X))
            if out[1] not in (2.0, 3.0):
                wrong.append(out)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(20):
        globals()["SCALE"] = (2.0, 3.0)[turn % 2]
        kernel.kernel.compiler  # noqa: B018 - looks at the names
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    equal(kernel(X), X * 2)


def test_a_bound_kernel_is_as_fast_and_stays_its_own():
    bound = scaled.bind(negate=True)
    equal(scaled(X), X * 2)
    equal(bound(X), X * -2)
    calls: list[object] = []
    bound._set_otherwise(lambda args, kwargs: calls.append(args))
    equal(bound(X), X * -2)
    equal(scaled(X), X * 2)
    assert calls == []


def test_more_specialisations_than_the_table_holds_are_all_right(monkeypatch):
    monkeypatch.setattr("kdsl.dispatch.LARGEST_TABLE", 1)
    kernel = Counted(powered)
    for _ in range(2):
        equal(kernel(X), X**2)
        equal(kernel(X, power=3), X**3)
    assert kernel.calls == 3


def test_an_error_of_a_checked_call_is_raised_once_and_as_it_is():
    kernel = Counted(product)
    x, y = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    kernel(x, y)
    with pytest.raises(ValueError, match="argument 1 `y`"):
        kernel(x, y[1:])
    assert kernel.calls == 1


def test_a_kernel_is_pickled_and_copied_by_name_and_goes_when_unused():
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert copy.copy(scaled) is copy.deepcopy(scaled) is scaled
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(scaled.bind(negate=True))
    kernel = kdsl.kernel(scaled.__wrapped__)
    kernel(X)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None
