"""From the arguments of a call to the compiled function: the part of a call that is Python.

What decides which machine code runs are the dtypes of tensors, the statics and the sizes of fixed
dims. They are read off the arguments into a key; a dict of keys holds the functions. What was found
once is told to the runtime, which finds it again without Python. Everything else about the
arguments is checked by the compiled module itself; only a wrong call imports more.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kdsl.dims import Dim, ZeroDivision
from kdsl.driver import LARGEST_FIXED, Compiler, Specialisation
from kdsl.dtypes import DTYPES, DType, TensorType
from kdsl.frontend.signature import MISSING, Parameter, Signature
from kdsl.runtime import Function
from kdsl.watch import Watch

if TYPE_CHECKING:
    from kdsl.frontend.arguments import Facts
    from kdsl.runtime._core import Condition, Place, Row

    SetTable = Callable[[tuple[Place, ...], tuple[Row, ...]], None]

#: More specialisations of one kernel than this are found by Python: going through a longer table
#: would cost as much.
LARGEST_TABLE = 64

#: What DLPack calls a GPU of CUDA.
_CUDA = 2

#: Names that frameworks give dtypes, without "torch." and such.
_BY_NUMPY_NAME = {d.numpy: d for d in DTYPES.values()} | {"bool": DTYPES["bool"]} | DTYPES


class Unbound(Exception):
    """The arguments name no specialisation: a call with them is an error of the caller's."""


def dtype_of(value: object) -> DType:
    """The dtype of an array of any framework. Raises Unbound."""
    dtype = getattr(value, "dtype", None)
    # NumPy's has a name, which says nothing of the byte order; Torch's is "torch.float32".
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    try:
        return _BY_NUMPY_NAME[name]
    except KeyError:
        raise Unbound("no dtype of kdsl", name) from None


class Slots:
    """Where in a call's positional arguments the things stand that decide what runs."""

    def __init__(self, signature: Signature) -> None:
        self.parameters = signature.parameters
        self.index = {p.name: i for i, p in enumerate(signature.parameters)}
        self.statics = signature.selectors
        self.defaults = tuple((self.index[p.name], p.default) for p in self.statics)
        self.dtype_vars = signature.dtype_vars
        self.tensors = tuple(self._first_tensor(var.name) for var in signature.dtype_vars)
        self.decides, self.may_lack = self._deciding_tensor()
        self._read = self._reader()

    def _deciding_tensor(self) -> tuple[int, bool]:
        """The tensor whose device is the call's, and whether it may be left out."""
        for i, p in enumerate(self.parameters):
            if p.is_tensor and _binds(p):
                return i, False
        outs = [i for i, p in enumerate(self.parameters) if p.kind == "out"]
        return (outs[0], True) if outs else (-1, True)

    def _first_tensor(self, var: str) -> int:
        for i, p in enumerate(self.parameters):
            if isinstance(p.type, TensorType) and str(p.type.dtype) == var and _binds(p):
                return i
        # Bound by a static of that name: `U: Static[dtype]`.
        return -1

    def positional(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[object, ...]:
        """All arguments in signature order, None for what was left out. Raises Unbound."""
        if len(args) > len(self.parameters):
            raise Unbound("too many arguments")
        bound = [*args, *[None] * (len(self.parameters) - len(args))]
        for name, value in kwargs.items():
            i = self.index.get(name, -1)
            if i < len(args):
                raise Unbound(f"`{name}` is unknown or given twice")
            bound[i] = value
        return tuple(bound)

    def key(self, args: Sequence[object]) -> Hashable:
        """What tells calls apart that run other code, but for sizes: read off the arguments as it
        is; raises whatever arguments of a wrong kind raise."""
        return self._read(args), self._place(args)

    def _place(self, args: Sequence[object]) -> Hashable:
        """What tells devices apart: as the framework has it, or as DLPack does."""
        value = args[self.decides] if 0 <= self.decides < len(args) else None
        if value is None:
            return None
        place: Hashable = getattr(value, "device", None)
        return value.__dlpack_device__() if place is None else place  # type: ignore

    def gpu(self, args: Sequence[object]) -> int:
        """Number of the GPU that the call's tensors are on; -1 where they are on none."""
        value = args[self.decides] if 0 <= self.decides < len(args) else None
        try:
            kind, number = value.__dlpack_device__()  # type: ignore[attr-defined]
        except Exception:
            return -1  # the checks of the call tell more
        return int(number) if kind == _CUDA else -1

    def _reader(self) -> Callable[[Sequence[object]], Hashable]:
        """A function from positional arguments to the dtypes and statics that choose what runs.

        They are taken as they are, neither read nor checked; it raises whatever arguments of a
        wrong kind raise. The commonest signatures get one without loops: every call runs it.
        """
        tensors = [i for i in self.tensors if i >= 0]
        if len(tensors) == 1 and not self.defaults:
            return lambda args, i=tensors[0]: args[i].dtype  # type: ignore

        def static(args: Sequence[object], i: int, default: object) -> object:
            value = args[i] if i < len(args) else None
            return default if value is None else value

        def given(args: Sequence[object], i: int, _: object) -> object:
            return i < len(args) and args[i] is not None

        if len(tensors) == 1 and len(self.defaults) == 1:
            ((j, default),) = self.defaults
            one = given if self.statics[0].optional else static
            return lambda args, i=tensors[0]: (args[i].dtype, one(args, j, default))  # type: ignore
        rows = [
            (given if p.optional else static, *row)
            for p, row in zip(self.statics, self.defaults, strict=True)
        ]
        return lambda args: (
            *[args[i].dtype for i in tensors],  # type: ignore
            *[read(args, i, default) for read, i, default in rows],
        )

    def choice(self, args: Sequence[object]) -> Specialisation:
        """The dtypes and statics of a call, checked. Raises Unbound."""
        statics: dict[str, object] = {}
        for p, (i, default) in zip(self.statics, self.defaults, strict=True):
            given = i < len(args) and args[i] is not None
            statics[p.name] = given if p.optional else _static(p, args[i] if given else default)
        dtypes = {}
        for var, i in zip(self.dtype_vars, self.tensors, strict=True):
            dtype = statics.pop(var.name, None) if i < 0 else self._dtype(args, i)
            if not isinstance(dtype, DType) or dtype not in var.choices:
                raise Unbound(f"{var.name} cannot be {dtype}")
            dtypes[var.name] = dtype
        return Specialisation(tuple(dtypes.items()), tuple(statics.items()))

    def _dtype(self, args: Sequence[object], i: int) -> DType:
        return dtype_of(args[i] if i < len(args) else None)

    def conditions(self, choice: Specialisation, gpu: int) -> Iterator[Condition]:
        """What arguments fulfil for which `choice` made this of their dtypes and statics, on the
        GPU of this number or (-1) on none."""
        if self.decides >= 0:
            yield "device", self.decides, self.may_lack and gpu < 0, 0, gpu
        dtypes, statics = dict(choice.dtypes), dict(choice.statics)
        for var, i in zip(self.dtype_vars, self.tensors, strict=True):
            if i >= 0:
                dtype = dtypes[var.name]
                yield "dtype", i, False, 0, (dtype.dlpack, dtype.bits)
        for p, (i, default) in zip(self.statics, self.defaults, strict=True):
            if p.optional:
                given = statics[p.name]
                yield "given" if given else "absent", i, not given, 0, 0
            elif p.type is DType:
                dtype = dtypes[p.name]
                yield "object", i, default is dtype, 0, dtype
            else:
                value = statics[p.name]
                absent = type(default) is type(value) and default == value
                yield "bool" if p.type is bool else "int", i, absent, 0, value

    def place(self, dim: str) -> tuple[int, int]:
        """The argument and axis that bind a dim; axis -1 when the argument is its size itself."""
        for i, p in enumerate(self.parameters):
            if p.name == dim:
                return i, -1
            if isinstance(p.type, TensorType) and _binds(p):
                for axis, extent in enumerate(p.type.shape):
                    if isinstance(extent, Dim) and extent.name == dim:
                        return i, axis
        raise KeyError(dim)


def _binds(p: Parameter) -> bool:
    """Whether a tensor parameter binds the dims and the dtype variable in its type."""
    return p.kind != "out" and not p.optional


def _static(p: Parameter, value: object) -> object:
    """A static's value as its type wants it. Raises Unbound."""
    if value is MISSING:
        raise Unbound(f"`{p.name}` is missing")
    # Python's and NumPy's; NumPy called its own `bool_` before 2.0.
    if p.type is bool and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if p.type is int and not isinstance(value, bool) and hasattr(value, "__index__"):
        return int(value.__index__())
    if p.type is DType and isinstance(value, DType):
        return value
    raise Unbound(f"`{p.name}` cannot be {value!r}")


@dataclass(frozen=True, slots=True)
class Sized:
    """The functions of one choice of dtypes and statics, by the sizes of its fixed dims."""

    choice: Specialisation
    dims: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    functions: dict[tuple[int, ...], Function] = field(default_factory=dict)

    def sizes(self, args: Sequence[object]) -> tuple[int, ...]:
        """Sizes of the fixed dims; raises whatever arguments of a wrong kind raise."""
        return tuple(
            [
                args[i].shape[axis] if axis >= 0 else args[i]  # type: ignore[attr-defined,misc]
                for i, axis in self.places
            ]
        )

    def conditions(self, sizes: tuple[int, ...]) -> Iterator[Condition]:
        """What arguments fulfil whose fixed dims have these sizes."""
        for size, (i, axis) in zip(sizes, self.places, strict=True):
            yield "size" if axis >= 0 else "int", i, False, max(axis, 0), size

    def specialisation(self, sizes: tuple[int, ...]) -> Specialisation:
        """The one to compile; the general variant where a size makes no code of its own. CUDA code
        has none."""
        largest = max(sizes, default=1) if self.choice.on_cuda else LARGEST_FIXED
        if all(0 < size <= largest for size in sizes):
            return self.choice.sized(dict(zip(self.dims, sizes, strict=True)))
        return self.choice


#: What is told about without looking into it: it is no tensor, or the number that it is.
_PLAIN = (type(None), bool, int, float, complex, str, list, tuple, dict, set, DType)


def _shaped(value: object) -> bool:
    """Whether an argument is an array that tells all of what it is."""
    try:
        lazy = hasattr(value, "is_conj") and value.is_conj()
        return isinstance(value.shape, tuple) and value.dtype is not None and not lazy  # type: ignore[attr-defined]
    except Exception:
        return False


def _facts(value: object) -> Facts:
    from kdsl.frontend.arguments import Facts

    shape = tuple(getattr(value, "shape", ()))
    try:
        return Facts(dtype_of(value), shape)
    except Unbound as err:
        return Facts(str(err.args[1]), shape)


def _is_number(value: object) -> bool:
    """Whether this is a number of NumPy's, which has a shape and is no array."""
    return hasattr(value, "__array_priority__") and not hasattr(value, "__setitem__")


def _is_small(condition: Condition) -> bool:
    """Whether a number has 64 bits."""
    value = condition[4]
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _integers(sizes: tuple[object, ...]) -> tuple[int, ...]:
    return tuple([operator.index(size) for size in sizes])  # type: ignore[arg-type]


class Dispatch:
    """Calls of one kernel. What was compiled is found by a key that is read off the arguments."""

    def __init__(self, compiler: Compiler, set_table: SetTable | None = None) -> None:
        self._compiler = compiler
        self._slots = Slots(compiler.source.signature)
        self._set_table = set_table
        # What is known, what it was made from and what the runtime was told change together.
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Drop what is known: a captured value or the schedule has changed."""
        with self._lock:
            self._drop()
            self._captured, self._watch = self._look()
            self._tell()

    def _drop(self) -> None:
        # A new dict: a thread that still compiles for the old one adds to that.
        self._known: dict[Hashable, Sized] = {}
        self._rows: list[Row] = []

    def _look(self) -> tuple[object, Watch]:
        # In this order: following what is captured reads helpers, which are watched too.
        source = self._compiler.source
        captured = source.captured()
        watch = Watch(source)
        # Another thread may have bound a name anew between the two; not many times in a row.
        # What is mutable is looked into at every call, whatever the watch has seen.
        for _ in range(8):
            if watch.mutable or (again := source.captured()) == captured:
                break
            captured, watch = again, Watch(source)
        return captured, watch

    def _tell(self) -> None:
        """Let the runtime know what was compiled. What may change in place only Python can see."""
        if self._set_table is not None:
            known = not self._watch.mutable
            self._set_table(self._watch.places(), tuple(self._rows) if known else ())

    def __call__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if self._watch.changed():
            self._look_again()
        function = self._known_function(args, kwargs) or self._find(args, kwargs)
        return function(*args, **kwargs)

    def _known_function(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Function | None:
        slots = self._slots
        try:
            bound = slots.positional(args, kwargs) if kwargs else args
            sized = self._known[slots.key(bound)]
            return sized.functions[sized.sizes(bound)]
        except Exception:  # whatever attributes of strange objects raise
            return None

    def refresh(self) -> None:
        """Drop what was compiled if a name from outside means something else by now."""
        if self._watch.changed():
            self._look_again()

    def _look_again(self) -> None:
        """Names from outside were bound anew or may have changed inside: to other values?"""
        with self._lock:
            captured, watch = self._look()
            if captured != self._captured:
                self._compiler.forget()
                self._drop()
            # Last: until here other threads find that something has changed, too.
            self._captured, self._watch = captured, watch
            self._tell()

    def specialisation(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Specialisation | None:
        """What a call with these arguments runs; None when they fit nothing."""
        try:
            bound = self._slots.positional(args, kwargs)
            choice = self._slots.choice(bound)
        except Exception:
            return None
        choice = choice.on(self._target(self._slots.gpu(bound)))
        sized = self._sized(choice, lambda: self._refuse(args, kwargs))
        try:
            return sized.specialisation(_integers(sized.sizes(bound)))
        except Exception:
            return None

    def _target(self, gpu: int) -> str:
        """What is compiled for the GPU of this number, or the CPU."""
        if gpu < 0:
            return "cpu"
        from kdsl import gpus

        try:
            return f"cuda:{gpus.gpu(gpu).arch}"
        except (RuntimeError, ValueError) as err:
            signature = self._compiler.source.signature.text
            raise RuntimeError(f"{signature}: cuda:{gpu}: {err}") from None

    def _find(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Function:
        """The function for arguments that come for the first time, or that fit none."""
        spec = self.specialisation(args, kwargs)
        if spec is None:
            return self._judge(args, kwargs)
        known, rows = self._known, self._rows
        function = self._compiler.function(spec, lambda: self._refuse(args, kwargs))
        bound = self._slots.positional(args, kwargs)
        try:
            key = self._slots.key(bound)
        except Exception:  # what JAX traces is on no device; the module tells what is wrong
            return function
        sized = known.setdefault(key, self._sized(spec.general()))
        sizes = sized.sizes(bound)
        sized.functions[sizes] = function
        chosen = self._slots.conditions(sized.choice, self._slots.gpu(bound))
        conditions = (*chosen, *sized.conditions(_integers(sizes)))
        row = function, conditions
        with self._lock:
            if row not in rows and len(rows) < LARGEST_TABLE and all(map(_is_small, conditions)):
                rows.insert(0, row)
                if rows is self._rows:
                    self._tell()
        return function

    def _judge(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Function:
        """A function whose checks say what is wrong with a call that fits no specialisation, where
        the signature alone does not tell: any compiled one does."""
        self._refuse(args, kwargs)
        return self._compiler.any_function()

    def _refuse(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raise what is wrong with a call by its signature, before anything is compiled for it.

        The checks are those of the reference run and say the same as the module's. Of arguments
        that only the module can read nothing is said.
        """
        from kdsl.frontend.arguments import bind, check

        signature = self._compiler.source.signature
        values = bind(signature, args, kwargs)
        values.update((n, v.item()) for n, v in values.items() if _is_number(v))  # type: ignore[attr-defined]
        facts = {name: _facts(value) for name, value in values.items() if _shaped(value)}
        if all(name in facts or isinstance(value, _PLAIN) for name, value in values.items()):
            with contextlib.suppress(ZeroDivision):  # the module tells the sizes, too
                check(signature, values, facts)

    def _sized(self, choice: Specialisation, first: Callable[[], None] = lambda: None) -> Sized:
        dims = self._compiler.fixed_dims(choice, first)
        return Sized(choice, dims, tuple(self._slots.place(dim) for dim in dims))
