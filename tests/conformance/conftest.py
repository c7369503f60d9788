"""`samples`: the module of tests/codegen/samples.py, built once for two variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdsl.codegen import targets
from kdsl.codegen.build import build
from kdsl.codegen.module import host_sources
from tests.codegen import samples as texts


@pytest.fixture(scope="session")
def samples_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    variants = targets.variants_of()[-2:]
    sources = host_sources("samples", texts.kernels(), variants)
    sources["samples_cpu.cc"] = texts.kernel_text("samples")
    path = tmp_path_factory.mktemp("samples") / "samples.so"
    build(sources, path, variants, path.with_suffix(".log"))
    return path
