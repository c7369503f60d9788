"""What `import kdsl` offers."""

from __future__ import annotations

import builtins
import importlib
import importlib.metadata
from types import ModuleType

import pytest

import kdsl
import kdsl.lang


@pytest.mark.parametrize("name", kdsl.__all__)
def test_a_public_name_is_there_and_no_submodule(name):
    assert not isinstance(getattr(kdsl, name), ModuleType)


def test_every_name_of_the_language_is_a_name_of_kdsl():
    assert set(kdsl.lang.__all__) - set(dir(kdsl)) == set()
    assert kdsl.max is kdsl.lang.max
    assert kdsl.exp2 is kdsl.lang.exp2


def test_importing_all_names_leaves_those_of_python_as_they_are():
    names: dict[str, object] = {}
    exec("from kdsl import *", names)
    assert {"kernel", "Out", "f32", "where", "load_module", "Race"} <= set(names)
    assert [name for name in vars(builtins) if name in names and not name.startswith("__")] == []


def test_importing_a_submodule_leaves_the_public_name_of_that_name():
    for module in ("kdsl.dims", "kdsl.dtypes", "kdsl.kernel", "kdsl.export"):
        importlib.import_module(module)
    assert [str(d) for d in kdsl.dims("A B")] == ["A", "B"]
    assert callable(kdsl.kernel)
    assert callable(kdsl.export)


def test_a_name_that_is_none_is_an_attribute_error_of_the_usual_text():
    with pytest.raises(AttributeError, match=r"^module 'kdsl' has no attribute 'expp'$"):
        kdsl.expp  # noqa: B018


def test_the_version_is_that_of_the_distribution():
    assert kdsl.__version__ == importlib.metadata.version("kdsl")
