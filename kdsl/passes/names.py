"""Names in a function: making new ones, and choosing which of two survives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.walk import lets, map_blocks, rename, value_types

_TEMPORARY = re.compile(r"t(_\d+)?")


def is_temporary(name: str) -> bool:
    """Whether a frontend or a pass made the name up, rather than an author."""
    return _TEMPORARY.fullmatch(name) is not None


class Names:
    """Gives names that no value of a function has."""

    def __init__(self, func: ir.Func) -> None:
        self.taken = set(value_types(func))
        self.last: dict[str, int] = {}

    def new(self, wish: str = "t") -> str:
        """`wish`, or with the first number that makes it unique: t, t_2, t_3."""
        base = re.sub(r"_\d+$", "", wish)
        count = self.last.get(base, 0)
        name = base
        while name in self.taken:
            count = max(count + 1, 2)
            name = f"{base}_{count}"
        self.last[base] = count
        self.taken.add(name)
        return name


def substitute(func: ir.Func, kept: Mapping[str, str]) -> ir.Func:
    """Read `kept[x]` wherever x is read, and drop the `Let`s of the x.

    A value that an author named keeps that name: where `kept[x]` is a temporary, its definition
    takes the name x.
    """
    if not kept:
        return func
    defined = lets(func)
    roots = {gone: _root(kept, gone) for gone in kept}
    better: dict[str, str] = {}
    for gone, root in roots.items():
        if root in defined and is_temporary(root) and not is_temporary(gone):
            better.setdefault(root, gone)
    final = {gone: better.get(root, root) for gone, root in roots.items()}
    reads = {name: to for name, to in {**final, **better}.items() if name != to}

    def block(stmts: ir.Block) -> ir.Block:
        return tuple(
            replace(s, name=better[s.name]) if isinstance(s, ir.Let) and s.name in better else s
            for s in stmts
            if not (isinstance(s, ir.Let) and s.name in kept)
        )

    return rename(map_blocks(func, block), reads)


def _root(kept: Mapping[str, str], name: str) -> str:
    while name in kept:
        name = kept[name]
    return name
