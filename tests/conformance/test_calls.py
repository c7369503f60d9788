"""The same module under each runtime: results, both call forms, and every error in full."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import torch
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from kdsl.runtime import load_module
from tests.codegen import samples

LOADERS = {"kdsl": load_module, "apache-tvm-ffi": tvm_ffi.load_module}


@pytest.fixture(scope="module", params=LOADERS)
def module(request, samples_path):
    return LOADERS[request.param](str(samples_path))


def rand(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


def array(value):
    return np.from_dlpack(value)


# ---- results


def test_an_omitted_output_is_returned(module):
    x, y = rand(5, 7), rand(5, 7)
    assert (array(module.axpy(2.0, x, y)) == array(2 * x + y)).all()
    assert (array(module.axpy(2, x, y, None)) == array(2 * x + y)).all()


def test_a_given_output_is_filled_and_nothing_returned(module):
    x, y, o = rand(5, 7), rand(5, 7), torch.empty(5, 7)
    assert module.axpy(2.0, x, y, o) is None
    assert (o == 2 * x + y).all()


def test_several_outputs_come_together(module):
    q, k = rand(1, 4, 8, 64), rand(1, 2, 9, 64)
    o, lse = module.attention(q, k, k, 0.1)
    assert array(o).shape == (1, 4, 8, 64)
    assert array(lse).shape == (1, 4, 8)


def test_numpy_arrays_go_in_and_out(module):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = module.axpy(1.0, x, x)
    assert (array(out) == 2 * x).all()
    assert out.shape == (3, 4)


VIEWS = {
    "transposed": lambda: rand(7, 5).T,
    "negative": lambda: torch.from_numpy(rand(5, 7).numpy()[::-1, ::-1].copy()),
    "every other": lambda: rand(5, 14)[:, ::2],
    "columns": lambda: rand(5, 20)[:, 3:10],
    "offset": lambda: rand(12, 7)[7:],
    "one row": lambda: rand(1, 7).expand(5, 7),
    "one number": lambda: rand(1, 1).expand(5, 7),
}


@pytest.mark.parametrize("view", VIEWS)
def test_any_strides_may_come_in(module, view):
    x, y = VIEWS[view](), rand(5, 7)
    want = array(3 * x + y)
    assert (array(module.axpy(3.0, x, y)) == want).all()
    assert (array(module.axpy(1.0, y, x)) == array(y + x)).all()


@pytest.mark.parametrize("view", ["transposed", "every other", "columns", "offset"])
def test_outputs_may_have_strides(module, view):
    x, y, o = rand(5, 7), rand(5, 7), VIEWS[view]()
    module.axpy(3.0, x, y, o)
    assert (o == 3 * x + y).all()


def test_an_output_with_strides_leaves_the_elements_between_alone(module):
    x, y, base = rand(5, 7), rand(5, 7), torch.zeros(7, 10)
    module.axpy(1.0, x, y, base[:, ::2].T)
    assert (x + y == base[:, ::2].T).all()
    assert (base[:, 1::2] == 0).all()


def test_negative_strides_come_in_from_numpy(module):
    x, y = rand(5, 7).numpy(), rand(5, 7).numpy()
    assert (array(module.axpy(1.0, x[::-1, ::-1], y)) == x[::-1, ::-1] + y).all()


@pytest.mark.parametrize("shape", [(0, 7), (5, 0), (0, 0), (1, 1), (1, 7), (5, 1)])
def test_sizes_may_be_0_and_1(module, shape):
    x, y = rand(*shape), rand(*shape)
    result = array(module.axpy(2.0, x, y))
    assert result.shape == shape
    assert (result == array(2 * x + y)).all()


def test_an_output_may_be_an_input_where_the_kernel_allows_it(module):
    x, y = rand(5, 7), rand(5, 7)
    want = 2 * x + y
    module.axpy(2.0, x, y, y)
    assert (y == want).all()


def test_an_output_may_lie_between_the_elements_of_an_input(module):
    both = rand(5, 14)
    want = both[:, ::2] * 2
    module.axpy(1.0, both[:, ::2], both[:, ::2].clone(), both[:, 1::2])
    assert (both[:, 1::2] == want).all()


NUMBERS = {
    (torch.float32, False, 64): 0, (torch.float32, False, 32): 1, (torch.float32, True, 64): 2,
    (torch.float32, True, 8): 3, (torch.bfloat16, False, 64): 4, (torch.bfloat16, True, 64): 5,
}  # fmt: skip


@pytest.mark.parametrize(("choice", "number"), NUMBERS.items(), ids=str)
def test_each_specialisation_gets_its_calls(module, choice, number):
    dtype, causal, size = choice
    q, k = rand(2, 4, 3, size).to(dtype), rand(2, 2, 5, size).to(dtype)
    lse = torch.empty(2, 4, 3)
    module.attention(q, k, k, 0.5, torch.empty_like(q), lse, causal)
    assert (lse == number).all()


def test_scalars_defaults_inout_and_expressions(module):
    x, half, count = rand(6, 8), rand(6, 4), torch.tensor(5, dtype=torch.int32)
    out = array(module.pick(x, half, count, True, None, 2))
    assert (out == np.full((2, 6), 99.5, np.float32)).all()
    assert count == 6
    out = array(module.pick(x, half, count, False, None, 2, 4, 7, 0.25))
    assert (out == np.full((2, 1), 7.25, np.float32)).all()
    assert count == 7


def test_metadata_and_doc_are_there(module, samples_path):
    tvm = tvm_ffi.load_module(str(samples_path))
    data = tvm.get_function_metadata("attention")
    assert data["signature"] == samples.attention().signature.text
    assert tvm.get_function_doc("attention") == samples.attention().doc
    schema = tvm_ffi.core.TypeSchema.from_json_str(data["type_schema"])
    tensor = "Tensor | None, Tensor | None"
    assert str(schema) == (
        f"Callable[[Tensor, Tensor, Tensor, float, {tensor}, bool | None], Array[Tensor] | None]"
    )
    assert json.loads(data["type_schema"])["type"] == "ffi.Function"


# ---- errors

AXPY = samples.axpy().signature.text
ATTENTION = samples.attention().signature.text
PICK = samples.pick().signature.text
DROP = samples.drop().signature.text
TAKE = samples.take().signature.text

X = rand(5, 7)
Q, K = rand(1, 4, 8, 64), rand(1, 2, 9, 64)
P, HALF, COUNT = rand(6, 8), rand(6, 4), torch.tensor(5, dtype=torch.int32)
BIG = rand(6, 7)
OWN = "pass a buffer of its own"
COMPILED = (
    "T=f32, causal=False, D=64; T=f32, causal=False; T=f32, causal=True, D=64; "
    "T=f32, causal=True; T=bf16, causal=False, D=64; T=bf16, causal=True, D=64"
)

ERRORS = [
    ("axpy", (1.0, X), TypeError, "expected 3 to 4 arguments, got 2"),
    ("axpy", ("1", X, X), TypeError, "argument 0 `a`: expected f32, got str"),
    ("axpy", ("a longer text", X, X), TypeError, "argument 0 `a`: expected f32, got str"),
    ("axpy", (True, X, X), TypeError, "argument 0 `a`: expected f32, got bool True"),
    ("axpy", (None, X, X), TypeError, "argument 0 `a`: expected f32, got None"),
    ("axpy", (X, X, X), TypeError, "argument 0 `a`: expected f32, got f32[5, 7]"),
    ("axpy", (X[0, 0], X, X), TypeError,
     "argument 0 `a`: expected a number (f32), got the tensor f32[()]; pass a.item()"),
    ("pick", (P, HALF, COUNT, True, None, 2, COUNT), TypeError,
     "argument 6 `G`: expected a number (i32), got the tensor i32[()]; pass G.item()"),
    ("pick", (P, HALF, COUNT, P, None, 2), TypeError,
     "argument 3 `flag`: expected bool, got f32[6, 8]"),
    ("axpy", (1e300, X, X), ValueError,
     "argument 0 `a`: expected f32, got float 1e+300, which is out of range"),
    ("axpy", (1.0, None, X), TypeError, "argument 1 `x`: expected f32[M, N], got None"),
    ("axpy", (1.0, X, 3), TypeError, "argument 2 `y`: expected f32[M=5, N=7], got int 3"),
    ("axpy", (1.0, X, 0.5), TypeError, "argument 2 `y`: expected f32[M=5, N=7], got float 0.5"),
    ("axpy", (1.0, X, X.double()), TypeError,
     "argument 2 `y`: expected f32[M=5, N=7], got f64[5, 7]"),
    ("axpy", (1.0, X.to(torch.complex64), X), TypeError,
     "argument 1 `x`: expected f32[M, N], got complex64[5, 7]"),
    ("axpy", (1.0, X, X[0]), TypeError, "argument 2 `y`: expected f32[M=5, N=7], got f32[7]"),
    ("axpy", (1.0, X[0, 0], X), TypeError, "argument 1 `x`: expected f32[M, N], got f32[()]"),
    ("axpy", (1.0, X, X[:, :3]), ValueError,
     "argument 2 `y`: expected f32[M=5, N=7], got f32[5, 3]"),
    ("axpy", (1.0, X, X, torch.zeros(5, 8)), ValueError,
     "argument 3 `o`: expected f32[M=5, N=7], got f32[5, 8]"),
    ("axpy", (1.0, BIG[:5], X, BIG[1:]), ValueError,
     f"argument 3 `o`: shares memory with argument 1 `x`; {OWN}, or declare one parameter InOut"),
    ("axpy", (1.0, BIG[:, :6].T, BIG[:, :6].T.contiguous(), BIG[:, :6]), ValueError,
     f"argument 3 `o`: shares memory with argument 1 `x`; {OWN}, or declare one parameter InOut"),
    ("axpy", (1.0, X, X.clone(), torch.zeros(7).expand(5, 7)), ValueError,
     "argument 3 `o`: elements share memory (a stride is 0 or too small); an output cannot"),
    ("attention", (Q.double(), K, K, 0.5), TypeError,
     "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, got f64[1, 4, 8, 64]"),
    ("attention", (Q, K.bfloat16(), K, 0.5), TypeError,
     "argument 1 `k`: expected f32[B=1, G, N, D=64], got bf16[1, 2, 9, 64]"),
    ("attention", (Q, K, K[:, :, :8], 0.5), ValueError,
     "argument 2 `v`: expected f32[B=1, G=2, N=9, D=64], got f32[1, 2, 8, 64]"),
    ("attention", (Q, K, K, 0.5, torch.empty_like(Q)), TypeError,
     "argument 5 `lse`: expected f32[B=1, H=4, M=8], got None; outputs are given all or "
     "omitted all"),
    ("attention", (Q, K, K, 0.5, Q, torch.empty(1, 4, 8)), ValueError,
     f"argument 4 `o`: shares memory with argument 0 `q`; {OWN}, or declare one parameter InOut"),
    ("attention", (Q, K, K, 0.5, None, None, 1), TypeError,
     "argument 6 `causal`: expected bool, got int 1"),
    ("attention", (Q, K, K, -0.5), ValueError, "require scale > 0 failed: scale=-0.5"),
    ("attention", (Q, rand(1, 3, 9, 64), rand(1, 3, 9, 64), 0.5), ValueError,
     "require H % G == 0 failed: H=4, G=3"),
    ("attention", (Q, rand(1, 0, 9, 64), rand(1, 0, 9, 64), 0.5), ValueError,
     "division by zero in H % G: H=4, G=0"),
    ("attention", (Q[..., :8].bfloat16(), K[..., :8].bfloat16(), K[..., :8].bfloat16(), 0.5),
     ValueError, f"not compiled for T=bf16, causal=False, D=8; compiled: {COMPILED}"),
    ("pick", (P, HALF[:, :3], COUNT, True, None, 2), ValueError,
     "argument 1 `half`: expected f32[N=6, D // 2=4], got f32[6, 3]"),
    ("pick", (P, HALF, None, True, None, 2), TypeError,
     "argument 2 `count`: expected i32[()], got None"),
    ("pick", (P, HALF, COUNT[None], True, None, 2), TypeError,
     "argument 2 `count`: expected i32[()], got i32[1]"),
    ("pick", (P, HALF, COUNT, 1, None, 2), TypeError,
     "argument 3 `flag`: expected bool, got int 1"),
    ("pick", (P, HALF, COUNT, True, torch.zeros(3, 6), 2), ValueError,
     "argument 4 `o`: expected f32[K=2, N // G=6], got f32[3, 6]"),
    ("pick", (P, HALF, COUNT, True, None, 2.0), TypeError,
     "argument 5 `K`: expected int, got float 2.0"),
    ("pick", (P, HALF, COUNT, True, None, -2), ValueError,
     "argument 5 `K`: expected a size, got int -2"),
    ("pick", (P, HALF, COUNT, True, None, 3), ValueError, "not compiled for K=3; compiled: K=2"),
    ("pick", (P, HALF, COUNT, True, None, 2, 0), ValueError,
     "division by zero in N // G: N=6, G=0"),
    ("pick", (P, HALF, COUNT, True, None, 2, 1, 2**31), ValueError,
     "argument 7 `limit`: expected i32, got int 2147483648, which is out of range"),
    ("drop", (X[0], X[0], 6), ValueError, "argument 2 `N`: expected N=7, got int 6"),
    ("drop", (X[0], X.reshape(-1), 7), ValueError, "the size N - M is negative: -28"),
    ("drop", (X[0], X[0], 7, None, torch.bfloat16), TypeError,
     "argument 4 `T`: expected T=f32, got dtype bf16"),
    ("drop", (X[0], X[0], 7, None, 1), TypeError, "argument 4 `T`: expected dtype, got int 1"),
    ("drop", (X[0].bfloat16(), X[0].bfloat16(), 7, None, torch.bfloat16), ValueError,
     "not compiled for T=bf16; compiled: T=f32"),
    ("take", (torch.tensor([4, 5]), X[:, :4], COUNT), IndexError,
     "index 5 is out of range for dimension 0 of `x` (M=5), at kernels.py:82"),
    ("take", (torch.tensor([-1]), X[:, :4], COUNT, torch.zeros(1), False), IndexError,
     "index -1 is out of range for dimension 0 of `x` (M=5), at kernels.py:82"),
    ("take", (torch.tensor([0, 4]), X[:, :4], COUNT, None, True), IndexError,
     "index 4 is out of range for dimension 1 of `x` (size 4)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "kind", "text"), ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_wrong_call_is_an_error_in_full(module, name, args, kind, text):
    signature = {"axpy": AXPY, "attention": ATTENTION, "pick": PICK, "drop": DROP,
                 "take": TAKE}[name]  # fmt: skip
    with pytest.raises(kind) as error:
        getattr(module, name)(*args)
    assert str(error.value) == f"{signature}: {text}"


def test_indices_inside_are_no_error_and_each_call_begins_anew(module):
    ids, runs = torch.tensor([3, 0, 2]), torch.tensor(0, dtype=torch.int32)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of range"):
            module.take(torch.tensor([7]), X[:, :4], runs)
        assert (array(module.take(ids, X[:, :4], runs)) == array(X[:, 0][ids])).all()
    want = array(X.diagonal()[ids])
    assert (array(module.take(ids, X[:, :4], runs, None, True)) == want).all()


def test_no_phase_runs_after_one_with_an_index_outside(module):
    runs = torch.tensor(0, dtype=torch.int32)
    with pytest.raises(IndexError):
        module.take(torch.tensor([0, 9, 1]), X[:, :4], runs)
    assert runs == 0
    module.take(torch.tensor([0, 1]), X[:, :4], runs)
    assert runs == 1


def test_many_threads_may_find_indices_outside_at_once(module):
    ids, runs = torch.arange(5, 200_005), torch.tensor(0, dtype=torch.int32)
    with pytest.raises(IndexError, match=r"index \d+ is out of range for dimension 0 of `x`"):
        module.take(ids, X[:, :4], runs)
    assert runs == 0


def test_a_failed_call_leaves_outputs_and_inouts_alone(module):
    count = torch.tensor(5, dtype=torch.int32)
    with pytest.raises(ValueError):
        module.pick(P, HALF, count, True, None, 3)
    assert count == 5


THINGS = st.sampled_from(
    [None, True, 0, -1, 7, 2**40, 0.5, float("nan"), "text", "a longer text", b"bytes", X, X.T,
     X[0], X[:0], X.double(), X.bfloat16(), X[0, 0], Q, K, COUNT, torch.float32, [X], [1, 2], print]
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.sampled_from(["axpy", "attention", "pick", "drop", "take"]), st.lists(THINGS, max_size=10)
)
def test_no_arguments_whatever_end_the_process(module, name, args):
    function = getattr(module, name)
    with contextlib.suppress(TypeError, ValueError):
        function(*args)
