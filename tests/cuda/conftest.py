"""What tests of CUDA code share: a compiler, and the machine that runs what it makes."""

from __future__ import annotations

import pytest

from kdsl.codegen.toolchain import find_toolchain
from kdsl.errors import BuildError


@pytest.fixture(scope="session")
def ptx_folder(tmp_path_factory):
    """Where compiled kernels go; skips where nothing compiles them."""
    try:
        find_toolchain()
    except BuildError as err:
        pytest.skip(f"no CUDA compiler: {err}")
    return tmp_path_factory.mktemp("ptx")
