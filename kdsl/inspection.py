"""What a compiled module holds: of any TVM FFI module its names, of kdsl's own all they tell."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kdsl.codegen import targets
from kdsl.runtime import elf, load_module

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_PREFIX = "__tvm_ffi_"
#: A module of kdsl's has it, and loading one runs no code of its own.
_OWN = "__kdsl_functions"


def inspect(path: str | os.PathLike[str], *, load: bool = False) -> dict[str, Json]:
    """Facts about a shared library as JSON has them.

    A library that kdsl did not make is only read: what loading it would do is not known. `load`:
    do so all the same, and ask its functions what they take.

    Raises:
        OSError: there is no such file, or it is no shared library of this machine.
        ValueError: it has no packed function.
    """
    file = Path(path)
    symbols = elf.read(str(file))
    own = _OWN in symbols.defined
    names = [
        name.removeprefix(_PREFIX)
        for name in symbols.defined
        if name.startswith(_PREFIX) and not name.startswith(_PREFIX + "_")
    ]
    if not names and not own:
        raise ValueError(
            f"{file}: no TVM FFI module: it defines no symbol that begins with {_PREFIX}"
        )
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "made_by_kdsl": own,
        "needed": list(symbols.needed),
        "variants": list(_variants(file.read_bytes())) if own else [],
        "loaded": own or load,
        "functions": _functions(file) if own or load else [{"name": n} for n in sorted(names)],
    }


def _functions(file: Path) -> list[Json]:
    module = load_module(file)
    functions: list[Json] = []
    for name in sorted(module):
        facts = dict(module[name].metadata or {})
        # Written for machines, and long.
        schema = facts.pop("type_schema", None)
        if "signature" not in facts and isinstance(schema, str):
            facts["signature"] = _signature(name, schema)
        functions.append({"name": name, **facts})
    return functions


def _signature(name: str, schema: str) -> str:
    """A signature from TVM FFI's type schema: the types alone, the result first in it."""
    try:
        types = json.loads(schema)
        result, *taken = types["args"]
    except (ValueError, TypeError, KeyError):
        return f"{name}(...)"
    return f"{name}({', '.join(map(_type, taken))}) -> {_type(result)}"


def _type(schema: object) -> str:
    match schema:
        case {"type": str(name), "args": [_, *_] as args}:
            return f"{name}[{', '.join(map(_type, args))}]"
        case {"type": str(name)}:
            return name
    return "?"


def _variants(data: bytes) -> tuple[str, ...]:
    """CPU variants, by the names that the module chooses from; a stripped file has them too."""
    return tuple(v.name for v in targets.VARIANTS if b"\0" + v.name.encode() + b"\0" in data)


def text(facts: dict[str, Json]) -> str:
    """The facts of `inspect` as lines to read."""
    maker = "made by kdsl" if facts["made_by_kdsl"] else "not made by kdsl"
    if not facts["loaded"]:
        maker += ", so not loaded"
    functions = _rows(facts["functions"])
    lines = [
        f"{facts['file']}: {facts['bytes']} bytes, {maker}",
        f"needs: {', '.join(map(str, _list(facts['needed']))) or 'nothing'}",
    ]
    if facts["variants"]:
        lines.append(f"cpu variants: {', '.join(map(str, _list(facts['variants'])))}")
    lines.append(f"functions: {len(functions)}")
    for function in functions:
        lines += ["", *_function(function)]
    return "\n".join(lines)


def _function(facts: dict[str, Json]) -> list[str]:
    lines = [str(facts.get("signature") or f"{facts['name']}(...)")]
    lines += [f"  {line}" for line in str(facts.get("doc") or "").splitlines()]
    match facts.get("source"):
        case {"file": file, "line": line}:
            lines.append(f"  from {file}:{line}")
    match facts.get("kdsl"):
        case {"version": version}:
            lines.append(f"  compiled by kdsl {version}")
    if facts.get("differentiable") is False:
        lines.append("  no gradient: takes tensors of Torch that require grad")
    for key in ("targets", "require", "returns"):
        if values := _list(facts.get(key)):
            lines.append(f"  {key}: {', '.join(map(str, values))}")
    if rows := _rows(facts.get("specialisations")):
        lines.append(f"  specialisations: {len(rows)}")
        lines += [f"    {_specialisation(row)}" for row in rows]
    return lines


def _specialisation(row: dict[str, Json]) -> str:
    pairs = [pair for part in row.values() if isinstance(part, dict) for pair in part.items()]
    words = [f"{name}={value}" for name, value in pairs]
    if not row.get("dims"):
        words.append("any size")
    return ", ".join(words)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _rows(value: Json) -> list[dict[str, Json]]:
    return [row for row in _list(value) if isinstance(row, dict)]
