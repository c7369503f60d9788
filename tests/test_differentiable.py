"""`@kdsl.kernel(differentiable=False)`: the results have no gradient, so Torch tensors that require
one are plain data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kdsl
from kdsl import Out, Static, f32, i32

torch = pytest.importorskip("torch")

M, N = kdsl.dims("M N")
X = np.array([[1, 5, 2], [7, 0, 3]], np.float32)
REFUSED = "that does not require grad, got f32[2, 3] with requires_grad=True; pass x.detach() or"


def largest(x: f32[M, N], o: Out[i32[M]], *, shift: Static[int] = 0):
    """Where the largest element of each row is."""
    for m in kdsl.parallel(M):
        o[m] = x[m].argmax() + shift


constant = kdsl.kernel(differentiable=False)(largest)
plain = kdsl.kernel(largest)
bound = constant.bind(shift=1, name="shifted")


def graph() -> list[object]:
    """A leaf that requires grad, a parameter, and what was computed from one."""
    leaf = torch.tensor(X, requires_grad=True)
    return [leaf, torch.nn.Parameter(torch.tensor(X)), leaf * 2, leaf[:, :]]


@pytest.mark.parametrize("warm", [False, True])
def test_tensors_that_require_grad_are_taken_as_plain_data(warm):
    kernel = kdsl.kernel(differentiable=False)(largest)
    for _ in range(1 + warm):
        for x in graph():
            result = kernel(x)
            assert result.tolist() == [1, 0]
            assert not result.requires_grad
    assert kernel(x=graph()[0]).tolist() == [1, 0]


def test_without_it_they_are_refused_before_and_after_a_call_that_compiled():
    kernel = kdsl.kernel(largest)
    for _ in range(2):
        for x in graph():
            with pytest.raises(ValueError, match=re.escape(REFUSED)):
                kernel(x)
        assert kernel(torch.tensor(X)).tolist() == [1, 0]


def test_one_function_with_and_without_it_shares_no_compiled_code():
    x = torch.tensor(X, requires_grad=True)
    for _ in range(2):
        assert constant(x).tolist() == [1, 0]
        with pytest.raises(ValueError, match=re.escape(REFUSED)):
            plain(x)


def test_what_is_wrong_with_a_tensor_otherwise_is_told_as_ever():
    conjugated = torch.ones(2, 3, dtype=torch.complex64, requires_grad=True).conj()
    with pytest.raises(TypeError, match="argument 0 `x`: expected f32"):
        constant(torch.ones(2, 3, dtype=torch.float64, requires_grad=True))
    with pytest.raises(ValueError, match="without the negative bit"):
        constant(conjugated.imag.reshape(2, 3))


def test_a_bound_kernel_inherits_it():
    assert bound.differentiable is False
    assert bound(graph()[0]).tolist() == [2, 1]
    with pytest.raises(ValueError, match=re.escape(REFUSED)):
        plain.bind(shift=1)(graph()[0])


def test_reference_and_check_take_such_tensors_too():
    assert constant.reference(graph()[0]).tolist() == [1, 0]
    assert constant.check(graph()[0]).ok


def test_the_kernel_tells():
    assert constant.differentiable is False
    assert plain.differentiable is None
    assert constant.signature == plain.signature


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("differentiable") / "kernels.so"
    named = plain.bind(shift=0, name="plain")
    kdsl.export(path, [constant, bound, named], statics={"largest.shift": [0]})
    return path


def test_an_exported_module_says_it_of_each_function(exported):
    module = kdsl.load_module(exported)
    said = {name: module[name].metadata["differentiable"] for name in module}
    assert said == {"largest": False, "shifted": False, "plain": None}
    assert module.largest(graph()[0]).tolist() == [1, 0]
    assert module.shifted(graph()[2]).tolist() == [2, 1]
    with pytest.raises(ValueError, match=re.escape(REFUSED)):
        module.plain(graph()[0])


def test_inspect_tells_it(exported):
    command = [sys.executable, "-m", "kdsl", "inspect", str(exported)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for row in text.split("\n\n")[1:]:
        assert ("no gradient: takes" in row) is not row.startswith("plain(")
    facts = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert {f["name"]: f["differentiable"] for f in facts["functions"]}["largest"] is False


@pytest.mark.parametrize("value", [True, 0, 1, "no", np.False_])
@pytest.mark.parametrize("decorate", [kdsl.kernel, lambda **o: lambda f: kdsl.kernel(f, **o)])
def test_anything_but_false_and_none_is_refused(value: object, decorate: Callable[..., object]):
    message = (
        f"largest: expected differentiable=False or None, got {value!r}; kdsl derives no "
        "gradients: leave it out, or say False where there is none"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        decorate(differentiable=value)(largest)
