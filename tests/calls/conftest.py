"""All kernels of `kinds` in one exported module, and the faces through which each is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest

import kdsl
from kdsl.codegen import targets
from tests.calls.kinds import KINDS, Kind

# `kdsl.export` is the function, not its module.
export = importlib.import_module("kdsl.export")

Faces = Callable[[Kind], list[Callable[..., object]]]


@pytest.fixture(scope="session")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Faces:
    """`faces(kind)`: the kernel itself, compiled when called, and the same from a module."""
    path = tmp_path_factory.mktemp("kinds") / "kinds.so"
    with pytest.MonkeyPatch.context() as patch:
        # The checks are the same in every variant: compiling one will do.
        patch.setattr(export, "variants_of", lambda: (targets.best_variant(),))
        kdsl.export(path, [kind.kernel for kind in KINDS])
    module = kdsl.load_module(path)

    def make(kind: Kind) -> list[Callable[..., object]]:
        kind.kernel(**kind.arguments())  # compiled: what only a module sees is told from now on
        return [kind.kernel, module[kind.kernel.__name__]]

    return make
