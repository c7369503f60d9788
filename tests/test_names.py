"""What authors call things never meets what headers and compilers call theirs."""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import re

import numpy as np
import pytest

from kdsl import paths
from tests.cuda.launch import build

pytestmark = pytest.mark.usefixtures("cuda_compiler")

USED = {"kdsl", "Out", "dot", "f16", "f32"}
HEAD = """import kdsl
from kdsl import Out, dot, f16, f32

M_, N_, D_ = kdsl.dims("M_ N_ D_")
"""


def names() -> list[str]:
    """Every identifier in the headers that kernels include, and a few of the C library."""
    folder = paths.include_dir() / "kdsl"
    found = set("NULL assert EOF printf malloc threadIdx INFINITY errno tasks main signbit".split())
    for place in (folder, folder / "cpu", folder / "cuda"):
        for file in place.glob("*.h"):
            text = re.sub(r'//.*|"[^"\n]*"', "", file.read_text(encoding="utf-8"))
            found |= set(re.findall(r"\b[A-Za-z]\w*\b", text))
    taken = USED | set(dir(builtins))
    return sorted(n for n in found - taken if not keyword.iskeyword(n))


def kernel(file, head: str, out: str):
    """A kernel whose locals have all the names, each made of the one before it."""
    lines, last = [HEAD, "@kdsl.kernel", *head.splitlines()], "t_"
    for i, name in enumerate(names()):
        if i % 40 == 0:  # not one chain of hundreds
            lines.append(f"        {out} = {last}")
            last = "t_"
        lines.append(f"        {name} = kdsl.maximum({last} * 0.5, {last} + {i % 7})")
        last = name
    lines.append(f"        {out} = {last}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.named


def test_locals_have_any_name_on_both_targets(tmp_path):
    head = "def named(q_: f32[M_], o_: Out[f32[M_]]):\n"
    head += "    for m_ in kdsl.parallel(kdsl.tiles(M_)):\n        t_ = q_[m_]"
    own = kernel(tmp_path / "names_of_locals.py", head, "o_[m_]")
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(own(x), own.reference(x))
    build(own, tmp_path)


def test_locals_have_any_name_beside_tensor_cores(tmp_path):
    head = "def named(q_: f16[M_, D_], k_: f16[N_, D_], o_: Out[f32[M_, N_]]):\n"
    head += "    for m_, n_ in kdsl.parallel(kdsl.tiles(M_), kdsl.tiles(N_)):\n"
    head += "        t_ = dot(q_[m_], k_[n_].T)"
    own = kernel(tmp_path / "names_of_elements.py", head, "o_[m_, n_]")
    assert "mma" in build(own, tmp_path, dims={"D_": 16}).ptx


@pytest.mark.parametrize("name", ["exp", "malloc", "printf", "Vec", "keep", "expf", "main"])
def test_kernels_parameters_and_dims_have_any_name(name, tmp_path):
    file = tmp_path / "names_of_kernels.py"
    file.write_text(
        f"import kdsl\nfrom kdsl import Out, f32\n\n{name}_d = kdsl.dims({name!r})[0]\n\n\n"
        f"@kdsl.kernel\ndef {name}({name}: f32[{name}_d], o: Out[f32[{name}_d]]):\n"
        f"    for n in kdsl.parallel(kdsl.tiles({name}_d)):\n        o[n] = {name}[n] + 1\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location("names_of_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = getattr(module, name)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(own(x), x + 1)
    build(own, tmp_path)
