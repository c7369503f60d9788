"""Facts about the repository that the house tests judge."""

from __future__ import annotations

import ast
import shutil
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Parts of the package from the ground up; a part may import itself and lower rows.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "paths", "version"),
    ("config", "dims"),
    ("dtypes",),
    ("lang", "runtime"),
    ("ir",),
    ("frontend", "passes"),
    ("codegen", "cache"),
    ("stamp", "tuning"),
    ("sim",),
    ("gpus",),
    ("driver", "native", "watch"),
    ("dispatch", "check", "explain"),
    ("export", "cuda_check"),
    ("kernel",),
    ("doctor", "inspection"),
    ("__main__",),
    ("__init__",),
)

#: The one module that imports each third-party package.
DOORS = {
    "jinja2": "kdsl/codegen/render.py",
    "lark": "kdsl/ir/parser.py",
    "ninja": "kdsl/codegen/build.py",
    "torch": "kdsl/runtime/torch.py",
    "jax": "kdsl/runtime/jax.py",
}


def tracked(*suffixes: str, under: tuple[str, ...] = ("",)) -> list[Path]:
    """Files of the repository with one of these suffixes, new ones that git does not ignore too."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    files = [ROOT / name for name in names if name.endswith(suffixes) and name.startswith(under)]
    return sorted(file for file in files if file.exists())


def part(module: str) -> str:
    """The row entry of LAYERS that a module belongs to: "kdsl.ir.nodes" -> "ir"."""
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else "__init__"


def rank(module: str) -> int:
    return next(i for i, row in enumerate(LAYERS) if part(module) in row)


def module_name(file: Path) -> str:
    pieces = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" and len(pieces) > 1 else pieces)


def modules() -> dict[str, Path]:
    return {module_name(file): file for file in tracked(".py", ".pyi", under=("kdsl/",))}


def imports(file: Path) -> list[str]:
    """Every module a file imports, also inside functions, `TYPE_CHECKING` blocks left out."""
    found: list[str] = []
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from kdsl.ir import nodes` may name a module or something in one.
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def resolve(name: str, known: dict[str, Path]) -> str | None:
    """The module of kdsl that an imported dotted name lies in."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built in `folder` from a copy of what belongs to it."""
    tree = folder / "tree"
    for file in tracked("", under=("kdsl/", "include/", "templates/", "setup.py", "pypr")):
        copy = tree / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    run = subprocess.run([*command, "-w", str(folder), str(tree)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (wheel,) = folder.glob("kdsl-*.whl")
    return wheel


def plain(value: object) -> str:
    """A test's id: what a value prints as, without where in memory it lies. Processes that share
    the tests know them by these."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
