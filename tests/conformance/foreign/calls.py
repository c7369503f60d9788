"""Calls into foreign.cc and a kdsl module through one or two runtimes; run in many environments.

    python calls.py ORDER FOREIGN HAND [SITE]

ORDER names the runtimes in the order in which they are imported: `kdsl`, `tvm_ffi`, `kdsl,tvm_ffi`,
`tvm_ffi,kdsl`, or `late`: tvm_ffi can be imported from SITE only after kdsl has loaded FOREIGN.
Prints the provider that kdsl uses and `ok`; any difference is an exception.
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np


def raised(kind, text, call, *args):
    """The call raises that kind (by name) and that text begins what it says."""
    try:
        answer = call(*args)
    except BaseException as err:
        said = err.args[0] if isinstance(err, KeyError) else str(err)
        if (type(err).__name__, said[: len(text)]) == (kind, text):
            return err
        raise AssertionError(f"expected {kind}: {text}") from err
    raise AssertionError(f"no {kind}: {answer!r}")


def numbers(tensor):
    return np.from_dlpack(tensor).tolist()


class Mine(Exception):
    """A class that only this process knows."""


def check_foreign(module, same_exception):
    """Every function of foreign.cc, by a runtime whose arguments are NumPy arrays."""
    x, y = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    assert module.add_one(x, y[::2]) is None
    assert y[::2].tolist() == [1, 2, 3, 4]
    raised("ValueError", "sizes differ: 4 and 3", module.add_one, x, y[:3])
    raised("ValueError", "x has 2 dimensions, not 1", module.add_one, x.reshape(2, 2), y)
    raised("TypeError", "expected float32, got float64", module.add_one, np.zeros(4), y[:4])
    raised("TypeError", "Mismatched type on argument #0 when calling: ", module.add_one, "x", y)
    assert module.greet("bob") == "hello bob"
    assert module.greet("a name of some length") == "hello a name of some length"
    for text in ("abc", "more than seven bytes"):
        assert module.bytes_of(text) == text.encode()
    for value in (None, True, 2**40, -0.5, "s", "a longer text", b"b", b"a longer one"):
        assert module.same(value) == value
        assert isinstance(module.same(value), type(value))
    assert [module.key_of(v) for v in (None, 1, [1], {})] == ["None", "int", "ffi.Array", "ffi.Map"]
    first, second = module.pack(x, "k")
    assert numbers(first) == [0, 1, 2, 3]
    assert second == "k"
    words = [str(i) * (1 + i % 11) for i in range(40)]
    lengths = module.lengths(words)
    assert {str(k): v for k, v in lengths.items()} == {w: len(w) for w in words}
    assert [module.look_up({w: len(w) for w in words}, w) for w in words] == [len(w) for w in words]
    raised("KeyError", "", module.look_up, {}, "absent")
    assert list(module.shape_of(x.reshape(2, 2))) == [2, 2]
    assert "32" in str(module.dtype_of(x))
    assert "cpu" in str(module.device_of(x))
    add = module.adder(3)
    del first, second, lengths
    assert [add(i) for i in range(3)] == [3, 4, 5]
    assert module.call_twice(lambda v: v * 5, 2) == 50
    assert module.call_twice(add, 1) == 7
    check_errors(module, same_exception)
    check_objects(module)


def check_errors(module, same_exception):
    for kind in ("ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError"):
        raised(kind, "a reason", module["raise"], kind, "a reason")

    def divide():
        return 1 // 0

    def fail():
        raise Mine("own")

    assert "division" not in module.caught(lambda: None)
    assert "integer division or modulo by zero" in str(module.caught(divide))
    before = module.cleanings()
    raised("Mine" if same_exception else "RuntimeError", "own", module.through, fail)
    assert module.cleanings() == before + 1
    raised("ValueError", "Function nope not found", module.call_global, "nope", 1)


def check_objects(module):
    pair = module.make_pair(3, 4)
    assert module.pair_sum(pair) == 7
    raised("TypeError", "Mismatched type on argument #0", module.pair_sum, 1)
    assert module.call_global("foreign.triple", 5) == 15
    module.exchange(["kept for long", 1])
    assert list(module.exchange(None)) == ["kept for long", 1]
    assert module.exchange(None) is None


def check_modules(module, path):
    """Modules as results, in containers, as arguments, and their functions from both sides."""
    made = module.load(path)
    assert (made.kind, module.kind_of(made)) == ("library", "library")
    assert made.greet("bob") == made["greet"]("bob") == module.call_of(made, "greet", "bob")
    raised("KeyError", "no nothing", module.call_of, made, "nothing", 1)
    assert made.implements_function("greet")
    assert not made.implements_function("nothing")
    (inner,) = module.same([made])
    greet = inner.get_function("greet")
    del made, inner
    assert greet("a name of some length") == "hello a name of some length"


def check_allocation(module):
    """What kdsl's runtime adds: memory for results without any framework."""
    x = np.arange(3, dtype=np.float32)
    assert module.twice(x).tolist() == [0, 2, 4]
    assert type(module.twice(x)) is np.ndarray
    assert numbers(module.fresh(3)) == [0, 1, 2]
    module.exchange(np.arange(3))
    assert numbers(module.exchange(None)) == [0, 1, 2]
    assert module.stream_of(2) == 0


def check_hand(module, ours):
    """A module of kdsl's own kind: errors go to whoever calls."""
    assert module.nop() is None
    assert [module.echo(v) for v in (None, 3, 1.5, "short")] == [None, 3, 1.5, "short"]
    for kind in ("TypeError", "ValueError", "IndexError", "RuntimeError"):
        raised(kind, "a reason", module.fail, kind, "a reason")
    if not ours:
        return  # an official runtime has no memory for results where no argument is Torch's
    double, triple = module.pair(np.arange(3, dtype=np.float32))
    assert numbers(double) == [0, 2, 4]
    assert numbers(triple) == [0, 3, 6]


def in_threads(work, in_child, threads=16):
    """`work` from many threads at once, and `in_child` in a child of fork meanwhile."""
    failures = []

    def guarded():
        try:
            for _ in range(20):
                work()
        except BaseException as err:
            failures.append(err)

    running = [threading.Thread(target=guarded) for _ in range(threads)]
    for thread in running:
        thread.start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            in_child()
            code = 0
        finally:
            os._exit(code)
    for thread in running:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    if failures:
        raise failures[0]


def main(order, foreign, hand, site=""):
    loaders, modules = {}, {}
    late = order == "late"
    for name in ["kdsl"] if late else order.split(","):
        loaders[name] = import_loader(name)
        modules[name] = loaders[name](foreign), loaders[name](hand)
    if late:
        check_all(modules)
        sys.path.append(site)
        loaders["tvm_ffi"] = import_loader("tvm_ffi")
        modules["tvm_ffi"] = loaders["tvm_ffi"](foreign), loaders["tvm_ffi"](hand)
    check_all(modules)
    for foreign_module, _ in modules.values():
        check_modules(foreign_module, foreign)
    if len(modules) == 2:
        check_across(*(modules[name][0] for name in ("kdsl", "tvm_ffi")))
        check_all({name: (load(foreign), load(hand)) for name, load in loaders.items()})
    provider = "-"
    if "kdsl" in modules:
        from kdsl.runtime import _core

        provider = _core.provider()

    def work():
        for name, (foreign_module, _) in modules.items():
            check_errors(foreign_module, name == "kdsl")

    def in_child():
        # An official library's lock for backtraces may be held by a thread that is not here: what
        # raises through it may never return.
        if provider == "bundled":
            work()
        for _, module in modules.values():
            assert module.echo("in the child") == "in the child"

    in_threads(work, in_child)
    print(provider, "ok")


def import_loader(name):
    if name == "kdsl":
        import kdsl.runtime

        return kdsl.runtime.load_module
    import tvm_ffi

    return tvm_ffi.load_module


def check_all(modules):
    for name, (foreign, hand) in modules.items():
        check_foreign(foreign, name == "kdsl")
        check_hand(hand, name == "kdsl")
        if name == "kdsl":
            check_allocation(foreign)


def check_across(ours, theirs):
    """Functions, tensors and errors of one runtime in the hands of the other."""
    import tvm_ffi

    import kdsl.runtime

    kdsl.runtime.register_global_func("kdsl.square", lambda v: v * v, override=True)
    assert theirs.call_global("kdsl.square", 9) == 81
    tvm_ffi.register_global_func("official.cube", lambda v: v**3, override=True)
    assert ours.call_global("official.cube", 3) == 27
    assert kdsl.runtime.get_global_func("official.cube")(2) == 8
    assert tvm_ffi.get_global_func("kdsl.square")(3) == 9
    assert tvm_ffi.get_global_func("foreign.triple")(3) == 9
    ours.exchange(np.arange(3))
    assert numbers(theirs.exchange(None)) == [0, 1, 2]
    for module, other in ((ours, theirs), (theirs, ours)):
        nested = raised(
            "IndexError", "deep", module.through, lambda m=other: m["raise"]("IndexError", "deep")
        )
        assert nested is not None
        raised(
            "ValueError",
            "sizes differ",
            module.through,
            lambda m=other: m.add_one(np.zeros(2, np.float32), np.zeros(3, np.float32)),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
