"""What the CUDA compiler of this machine makes of the kernels, and of its library of functions."""

from __future__ import annotations

import math
import subprocess

import numpy as np
import pytest

from kdsl import sim
from tests.sim import fixtures

pytestmark = pytest.mark.skipif(not fixtures.has_nvcc(), reason="no nvcc")

MATHS = """
extern "C" __global__ void maths(const double* x, double* y, const float* f, float* g, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  y[i] = sin(x[i] * 1e10) + exp(x[i]) * log(x[i] + 3) + erf(x[i]) + fmod(x[i], 0.3);
  g[i] = cosf(f[i] * 1e6f) + tanhf(f[i]) + powf(fabsf(f[i]), 1.5f) + f[i] / 3.0f;
  printf("%d %.3f\\n", i, x[i]);
}
"""


def test_softmax_of_this_compiler_is_right():
    x = np.random.default_rng(0).standard_normal((3, 200)).astype(np.float32)
    y = np.zeros_like(x)
    run = sim.run(fixtures.compile_ptx("rows"), "softmax", 3, 128, [x, y, 200])
    want = np.exp(x - x.max(1, keepdims=True))
    assert not run.reports
    assert np.abs(y - want / want.sum(1, keepdims=True)).max() < 1e-7


def test_cudas_own_functions_agree_with_numpy_to_the_last_places(tmp_path):
    source = tmp_path / "maths.cu"
    source.write_text("#include <cstdio>\n" + MATHS)
    command = ["nvcc", "-arch=sm_80", "-ptx", "-o", "-", str(source)]
    ptx = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rng = np.random.default_rng(0)
    x, f = rng.uniform(-2, 2, 40), rng.uniform(-2, 2, 40).astype(np.float32)
    y, g = np.zeros_like(x), np.zeros_like(f)
    run = sim.run(ptx, "maths", 1, 64, [x, y, f, g, 40])
    assert not run.reports and run.printed.splitlines()[3] == f"3 {x[3]:.3f}"
    erf = np.vectorize(math.erf)
    want = np.sin(x * 1e10) + np.exp(x) * np.log(x + 3) + erf(x) + np.fmod(x, 0.3)
    assert np.abs(y - want).max() < 1e-14
    wide = f.astype(np.float64)
    scaled = (f * np.float32(1e6)).astype(np.float64)
    want = np.cos(scaled) + np.tanh(wide) + np.abs(wide) ** 1.5 + wide / 3
    assert np.abs(g - want).max() < 2e-6
