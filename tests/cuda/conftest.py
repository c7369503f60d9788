"""What tests of CUDA code share: a compiler, and the machine that runs what it makes."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def ptx_folder(cuda_compiler, tmp_path_factory):
    """Where compiled kernels go; skips where nothing compiles them."""
    return tmp_path_factory.mktemp("ptx")
