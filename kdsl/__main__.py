"""The command line: `python -m kdsl --help`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from kdsl import config, doctor
from kdsl.cache import Cache
from kdsl.kernel import Kernel


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except (ValueError, OSError, RuntimeError) as err:
        print(f"kdsl: {err}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kdsl", description="A kernel language inside Python.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    show = commands.add_parser("show", help="print what a kernel becomes")
    show.add_argument("kernel", metavar="FILE:KERNEL", help="attention.py:attention")
    show.add_argument("what", nargs="?", default="ir", choices=("ir", "plan", "cpu", "host"))
    show.set_defaults(run=_show)

    cache = commands.add_parser("cache", help="the disk cache of compiled kernels")
    cache.add_argument("action", choices=("dir", "clear"))
    cache.set_defaults(run=_cache)

    check = commands.add_parser("doctor", help="say what kdsl finds on this machine")
    check.set_defaults(run=_doctor)
    return parser


def _show(arguments: argparse.Namespace) -> int:
    print(_load(arguments.kernel).show(arguments.what), end="")
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    cache = Cache(config.cache_dir())
    if arguments.action == "dir":
        modules, size = cache.size()
        print(f"{config.cache_dir()}: {modules} modules, {size / 1e6:.1f} MB")
    else:
        print(f"removed {cache.clear()} modules")
    return 0


def _doctor(_: argparse.Namespace) -> int:
    lines, fine = doctor.examine()
    print("\n".join(lines))
    return 0 if fine else 1


def _load(place: str) -> Kernel:
    """The kernel that FILE:NAME names. Raises ValueError."""
    name, _, attribute = place.rpartition(":")
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"no file {name!r}; give FILE:KERNEL, e.g. attention.py:attention")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    kernel = getattr(module, attribute, None)
    if not isinstance(kernel, Kernel):
        kernels = [key for key, value in vars(module).items() if isinstance(value, Kernel)]
        raise ValueError(
            f"{name} has no kernel {attribute!r}; it has {', '.join(kernels) or 'none'}"
        )
    return kernel


if __name__ == "__main__":
    sys.exit(main())
