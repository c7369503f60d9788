"""When two dim expressions are the same number for every size of the dims."""

from __future__ import annotations

from collections.abc import Mapping

from kdsl.dims import Dim, DimOp, Extent, dim_names, evaluate

#: A sum of products: {sorted atoms: factor}; the empty tuple is the constant.
_Sum = dict[tuple[str, ...], int]


def same_extent(a: Extent, b: Extent, multiples: Mapping[str, int]) -> bool:
    """Whether a == b is certain. `multiples` holds what divides a dim (`require(D % 2 == 0)`)."""
    return a == b or _normal(a, multiples) == _normal(b, multiples)


def may_fit(part: Extent, whole: Extent, multiples: Mapping[str, int]) -> bool:
    """Whether slices of `part` may be slices of an axis of `whole` elements: `N - 2`, `N // 2` and
    `N`, `N` and `2 * N`. Of two unrelated dims they are not meant to be.

    That each access is inside is for the pass that proves all of them, with what is required.
    """
    if same_extent(part, whole, multiples):
        return True
    room = _plus(_normal(whole, multiples), _normal(part, multiples), -1)
    related = not set(dim_names(part)).isdisjoint(dim_names(whole)) or set(room) == {()}
    return related and any(factor > 0 for factor in room.values())


def with_sizes(extent: Extent, sizes: Mapping[str, object]) -> Extent:
    """An extent with numbers for the dims that have one in `sizes`.

    Raises:
        ValueError: it then divides by zero.
    """
    match extent:
        case Dim(name=name):
            number = sizes.get(name)
            return number if isinstance(number, int) else extent
        case DimOp(op=op, a=a, b=b):
            x, y = with_sizes(a, sizes), with_sizes(b, sizes)
            if x is a and y is b:
                return extent
            made = DimOp(op, x, y)
            return evaluate(made, {}) if isinstance(x, int) and isinstance(y, int) else made
    return extent


def as_int(extent: Extent) -> int | None:
    """The number an extent is, when it is one whatever the dims are."""
    normal = _normal(extent, {})
    if not normal:
        return 0
    return normal[()] if set(normal) == {()} else None


def simplify(extent: Extent) -> Extent:
    """The same size, as a plain sum of products where it is one: `2 * N - 0` is `2 * N`."""
    normal = _normal(extent, {})
    if not all(atom.isidentifier() for atoms in normal for atom in atoms):
        return extent
    total: Extent = 0
    for atoms, factor in sorted(normal.items(), key=lambda item: (item[1] < 0, not item[0])):
        term: Extent = abs(factor)
        for atom in atoms:
            term = Dim(atom) if isinstance(term, int) and term == 1 else term * Dim(atom)
        if isinstance(total, int) and total == 0 and factor > 0:
            total = term
        else:
            total = total + term if factor > 0 else total - term
    return total


def _normal(extent: Extent, multiples: Mapping[str, int]) -> _Sum:
    match extent:
        case int():
            return {(): extent} if extent else {}
        case Dim(name=name):
            factor = multiples.get(name, 1)
            atom = name if factor == 1 else f"({name} // {factor})"
            return {(atom,): factor}
        case DimOp(op="+", a=a, b=b):
            return _plus(_normal(a, multiples), _normal(b, multiples), 1)
        case DimOp(op="-", a=a, b=b):
            return _plus(_normal(a, multiples), _normal(b, multiples), -1)
        case DimOp(op="*", a=a, b=b):
            return _times(_normal(a, multiples), _normal(b, multiples))
        case DimOp(op=op, a=a, b=b):
            return _divided(op, _normal(a, multiples), _normal(b, multiples))
    raise TypeError(f"not an extent: {extent!r}")


def _plus(a: _Sum, b: _Sum, sign: int) -> _Sum:
    out = dict(a)
    for atoms, factor in b.items():
        out[atoms] = out.get(atoms, 0) + sign * factor
    return {atoms: factor for atoms, factor in out.items() if factor}


def _times(a: _Sum, b: _Sum) -> _Sum:
    out: _Sum = {}
    for x, i in a.items():
        for y, j in b.items():
            out = _plus(out, {tuple(sorted((*x, *y))): i * j}, 1)
    return out


def _divided(op: str, a: _Sum, b: _Sum) -> _Sum:
    by = b.get((), 0) if set(b) == {()} else 0
    if by > 0 and all(factor % by == 0 for atoms, factor in a.items() if atoms):
        rest = a.get((), 0)
        if op == "%":
            return {(): rest % by} if rest % by else {}
        return {atoms: factor // by for atoms, factor in a.items() if factor // by}
    return {(f"({_text(a)} {op} {_text(b)})",): 1}


def _text(a: _Sum) -> str:
    return " + ".join(f"{factor}*{'*'.join(atoms)}" for atoms, factor in sorted(a.items()))
