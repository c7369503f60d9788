"""kdsl's wheel in clean environments, each with one framework; its runtime on each Python here.

Run by `make conformance`: it takes too long for `make test`, and nothing is downloaded. Packages
come from the environment that runs this, by links, so that a clean one has no other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tests import house

#: What kdsl's own distribution asks for.
NEEDED = ("filelock", "jinja2", "lark", "ml_dtypes", "ninja", "numpy")

SCRIPT = """
import sys
from importlib.util import find_spec

import numpy as np

import kdsl
from kdsl import Out, f32

(N,) = kdsl.dims("N")


@kdsl.kernel
def double(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + x[n]


framework, path = sys.argv[1:]
assert [name for name in ("torch", "jax", "tvm_ffi") if find_spec(name)] == framework.split()
if framework == "torch":
    import torch as library
elif framework == "jax":
    import jax.numpy as library
else:
    library = np
x = library.ones(5, dtype=library.float32)
y = double(x)
assert type(y) is type(x), type(y)
assert y.tolist() == [2.0] * 5
double.check(np.arange(7, dtype=np.float32))
double.export(path)
assert kdsl.runtime.load_module(path).double(x).tolist() == [2.0] * 5
print(kdsl.__file__)
"""

RUNTIME = """
import array, sys
from kdsl.runtime import load_module
module = load_module(sys.argv[1])
x = array.array("f", [1, 2, 3])
assert memoryview(module.double(x)).tolist() == [2.0, 4.0, 6.0]
try:
    module.double(array.array("d", [1]))
except TypeError as err:
    assert "expected f32[N], got f64[1]" in str(err), err
else:
    raise SystemExit("no error")
assert "numpy" not in sys.modules
"""

Environment = Callable[[str], Path]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return house.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`environment("torch")`: the Python of a new one with kdsl's wheel and that framework."""
    made: dict[str, Path] = {}

    def make(framework: str) -> Path:
        if framework not in made:
            folder = tmp_path_factory.mktemp(framework or "numpy")
            venv.create(folder / "venv", symlinks=True)
            python = folder / "venv" / "bin" / "python"
            (site,) = folder.glob("venv/lib/python*/site-packages")
            for name in _closure([*NEEDED, *framework.split()]):
                _link(name, site)
            command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq"]
            subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True)
            made[framework] = python
        return made[framework]

    return make


def _closure(names: list[str]) -> list[str]:
    """Distributions and what they ask for, without extras; what is not here is not needed here."""
    found: dict[str, None] = {}
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in found:
            continue
        try:
            requires = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue
        found[name] = None
        names += [re.split(r"[^\w.-]", r, maxsplit=1)[0] for r in requires if "extra ==" not in r]
    return list(found)


def _link(name: str, site: Path) -> None:
    """Links to the top folders and files of a distribution, and to its programs."""
    distribution = metadata.distribution(name)
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if file.parts[0] != "..":
            source, target = (
                Path(str(distribution.locate_file(file.parts[0]))),
                site / file.parts[0],
            )
        elif source.parent.name == "bin":
            target = site.parents[2] / "bin" / source.name
        else:
            continue
        if not target.exists():
            target.symlink_to(source.resolve())


def _run(python: Path, script: str, *arguments: str, **variables: str) -> str:
    """Output of a script run away from the checkout, with nothing of this run's environment."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    run = subprocess.run(
        [str(python), "-X", "faulthandler", "-", *arguments],
        input=script,
        env=kept | variables,
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("framework", ["", "torch", "jax"], ids=["numpy", "torch", "jax"])
def test_a_kernel_compiles_runs_and_exports_from_the_wheel(framework, environment, tmp_path):
    python = environment(framework)
    script = tmp_path / "kernel.py"
    script.write_text(SCRIPT)
    run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    cache = str(tmp_path / "cache")
    output = _run(python, run, framework, str(tmp_path / "double.so"), KDSL_CACHE_DIR=cache)
    assert output.strip().startswith(str(python.parents[1]))


def test_the_doctor_of_the_wheel_finds_all_it_needs(environment, tmp_path):
    run = "from kdsl.__main__ import main; raise SystemExit(main(['doctor']))"
    output = _run(environment(""), run, KDSL_CACHE_DIR=str(tmp_path))
    assert output.endswith("kernels can be compiled here\n")
    assert re.search(r"^torch +not installed \(optional\)$", output, re.MULTILINE)


def pythons() -> list[Path]:
    """Each Python from 3.10 on that pyenv has here, and the one that runs this."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [p / "bin" / "python" for p in root.glob("3.*") if int(p.name.split(".")[1]) >= 10]
    return sorted({p.resolve() for p in found if p.exists()} | {Path(sys.executable).resolve()})


@pytest.fixture(scope="session")
def exported(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module that SCRIPT exports where there is only NumPy."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "kernel.py").write_text(SCRIPT)
    run = f"import runpy; runpy.run_path({str(folder / 'kernel.py')!r}, run_name='__main__')"
    _run(environment(""), run, "", str(folder / "double.so"), KDSL_CACHE_DIR=str(folder))
    return folder / "double.so"


@pytest.mark.parametrize("python", pythons(), ids=str)
def test_the_runtime_of_the_wheel_loads_an_exported_module_on_each_python(
    python, exported, wheel, tmp_path
):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    _run(python, RUNTIME, str(exported), PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
