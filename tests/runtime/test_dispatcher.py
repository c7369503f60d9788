"""A Dispatcher runs what its table has, and asks Python for the rest."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from kdsl.runtime import Dispatcher, Module

X = np.ones((2, 3), np.float32)
F32 = (2, 32)


class Mine(Dispatcher):
    """What a user of Dispatcher makes of it."""


@pytest.fixture
def mine() -> Mine:
    dispatcher = Mine()
    dispatcher._set_otherwise(lambda args, kwargs: ("otherwise", args, kwargs))
    return dispatcher


def is_otherwise(answer: object) -> bool:
    return isinstance(answer, tuple) and answer[0] == "otherwise"


def test_without_a_table_everything_goes_to_python(mine: Mine) -> None:
    assert mine(1, a=2) == ("otherwise", (1,), {"a": 2})
    assert mine() == ("otherwise", (), {})
    with pytest.raises(TypeError, match="this dispatcher was not set up"):
        Dispatcher()(1)


@pytest.mark.parametrize(
    ("condition", "args", "fits"),
    [
        (("dtype", 0, False, 0, F32), (X,), True),
        (("dtype", 0, False, 0, (0, 32)), (X,), False),
        (("dtype", 0, False, 0, F32), (1,), False),
        (("dtype", 0, False, 0, F32), (), False),
        (("size", 0, False, 1, 3), (X,), True),
        (("size", 0, False, 1, 2), (X,), False),
        (("size", 0, False, 2, 3), (X,), False),
        (("size", 0, False, 0, 3), (3,), False),
        (("int", 1, False, 0, 5), (X, 5), True),
        (("int", 1, False, 0, 5), (X, np.int32(5)), True),
        (("int", 1, False, 0, 1), (X, True), False),
        (("int", 1, False, 0, 5), (X,), False),
        (("int", 1, True, 0, 5), (X,), True),
        (("int", 1, True, 0, 5), (X, None), True),
        (("bool", 1, False, 0, 1), (X, True), True),
        (("bool", 1, False, 0, 1), (X, 1), False),
        (("given", 1, False, 0, 0), (X, 0), True),
        (("given", 1, False, 0, 0), (X, None), False),
        (("absent", 1, True, 0, 0), (X,), True),
        (("absent", 1, True, 0, 0), (X, 1), False),
        (("object", 0, False, 0, X), (X,), True),
        (("object", 0, False, 0, X), (X.copy(),), False),
    ],
    ids=str,
)
def test_a_row_is_for_arguments_that_fulfil_all_its_conditions(
    mine: Mine, hand: Module, condition: tuple, args: tuple[object, ...], fits: bool
) -> None:
    mine._set_table((), ((hand.plain, (condition,)),))
    taken = []
    mine._set_otherwise(lambda args, kwargs: taken.append(args))
    try:
        mine(*args)
    except Exception:  # whatever the function says
        assert fits
    assert bool(taken) is not fits


def test_the_first_row_that_fits_is_run(mine: Mine, hand: Module) -> None:
    rows = (
        (hand.nop, (("given", 2, False, 0, 0),)),
        (hand.scale, ()),
    )
    mine._set_table((), rows)
    np.testing.assert_array_equal(mine(X, 2), X * 2)
    assert mine(X, X, X) is None
    mine._set_table((), ())
    assert is_otherwise(mine(X, 2))


def look_at_dict(value: object) -> tuple[tuple, Callable[[object], None]]:
    space = {"name": value}
    return (space, "name", value), lambda new: space.update(name=new)


def look_at_cell(value: object) -> tuple[tuple, Callable[[object], None]]:
    cell = types.CellType(value)
    return (cell, None, value), lambda new: setattr(cell, "cell_contents", new)


def look_at_class(value: object) -> tuple[tuple, Callable[[object], None]]:
    space = type("Space", (), {"name": value})
    return (vars(space), "name", value), lambda new: setattr(space, "name", new)


@pytest.mark.parametrize("look", [look_at_dict, look_at_cell, look_at_class])
def test_a_place_with_another_value_sends_calls_to_python(
    mine: Mine, hand: Module, look: Callable[[object], tuple[tuple, Callable[[object], None]]]
) -> None:
    place, change = look("old")
    mine._set_table((place,), ((hand.nop, ()),))
    assert mine(X, X, X) is None
    change("new")
    assert is_otherwise(mine(X, X, X))
    change("old")
    assert mine(X, X, X) is None


def test_a_place_that_is_gone_sends_calls_to_python(mine: Mine, hand: Module) -> None:
    space, cell = {"name": 1}, types.CellType(1)
    for place, drop in (((space, "name", 1), space.clear), ((cell, None, 1), None)):
        mine._set_table((place,), ((hand.nop, ()),))
        assert mine(X, X, X) is None
        if drop:
            drop()
        else:
            del cell.cell_contents
        assert is_otherwise(mine(X, X, X))


def test_arguments_that_cannot_be_taken_go_to_python(mine: Mine, hand: Module) -> None:
    mine._set_table((), ((hand.nop, ()),))

    class Broken:
        def __dlpack__(self, **kwargs: object) -> object:
            raise RuntimeError("no")

    assert is_otherwise(mine(Broken(), X, X))
    assert is_otherwise(mine(X, X, unknown=X))
    assert is_otherwise(mine(X, X, X, X))
    assert is_otherwise(mine(X, X, X, x=X))


def test_a_table_may_be_written_while_arguments_are_taken(mine: Mine, hand: Module) -> None:
    class Writes:
        def __dlpack__(self, **kwargs: object) -> object:
            mine._set_table((), ())
            gc.collect()
            return X.__dlpack__()

    mine._set_table((({"a": 1}, "a", 1),), ((hand.nop, (("size", 1, False, 0, 2),)),))
    assert mine(Writes(), X, X) is None
    assert is_otherwise(mine(X, X, X))


@pytest.mark.parametrize(
    ("places", "rows"),
    [
        ((1,), ((None, ()),)),
        ((), ((None, ()),)),
        ((), (("hand.nop", ()),)),
        ((), ((..., (("colour", 0, False, 0, 0),)),)),
        ((), ((..., (("int", -1, False, 0, 0),)),)),
        ((), ((..., (("int", 0, False, 0, "1"),)),)),
        ((), ((..., (("int", 0, False, 0, 2**63),)),)),
        ((), ((..., (("dtype", 0, False, 0, 1),)),)),
        ([], ()),
    ],
    ids=str,
)
def test_a_table_of_another_form_is_refused(
    mine: Mine, hand: Module, places: tuple, rows: tuple
) -> None:
    good = ((hand.nop, ()),)
    mine._set_table((), good)
    filled = tuple((hand.nop if row[0] is ... else row[0], row[1]) for row in rows)
    with pytest.raises((TypeError, ValueError, OverflowError, SystemError)):
        mine._set_table(places, filled)
    assert mine(X, X, X) is None


def test_what_a_table_refers_to_is_let_go(hand: Module) -> None:
    class Value:
        pass

    value, mine = Value(), Mine()
    mine.itself = mine  # type: ignore[attr-defined]
    mine._set_otherwise(mine)
    gc.collect()
    before = sys.getrefcount(hand.nop)
    place = ({"v": value}, "v", value)
    row = (hand.nop, (("object", 0, False, 0, value),))
    mine._set_table((place,), (row,))
    gone = weakref.ref(value), weakref.ref(mine)
    del value, mine, place, row
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    after = sys.getrefcount(hand.nop)  # not in the assert, which would hold one more
    assert after == before
