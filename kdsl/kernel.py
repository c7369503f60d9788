"""`@kdsl.kernel` and what a kernel can do: be called, checked, shown, tuned, exported."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Literal, overload

from kdsl.codegen.archs import arch_of
from kdsl.dispatch import Dispatch
from kdsl.driver import Compiler
from kdsl.dtypes import DType
from kdsl.frontend import KernelSource, bind, capture
from kdsl.runtime import Dispatcher

if TYPE_CHECKING:
    from kdsl.check import Report
    from kdsl.cuda_check import Report as CudaReport

Function = Callable[..., None]


@overload
def kernel(function: Function, /) -> Kernel: ...
@overload
def kernel(
    *, strict: bool = False, differentiable: Literal[False] | None = None, source: str | None = None
) -> Callable[[Function], Kernel]: ...
def kernel(
    function: Function | None = None,
    /,
    *,
    strict: bool = False,
    differentiable: Literal[False] | None = None,
    source: str | None = None,
) -> Kernel | Callable[[Function], Kernel]:
    """Decorator: a Python function in kdsl's language becomes a kernel.

        @kdsl.kernel
        def add(x: f32[N], y: f32[N], o: Out[f32[N]]):
            for n in kdsl.parallel(kdsl.tiles(N)):
                o[n] = x[n] + y[n]

    Args:
        strict: compile each operation as it stands: no contraction, no rewriting.
        differentiable: False says that the results have no gradient, as those of `argmax` have
            none. Torch tensors that require grad are then taken as plain data; otherwise they are
            refused, for results would be cut off from their graph.
        source: the function's text, where Python cannot find it (made by `exec`, say).

    Raises:
        TypeError: no function; a `differentiable` that is neither False nor None.
        KernelSyntaxError, KernelTypeError: the signature is not one of the language. What is wrong
            in the body shows when it is compiled.
    """
    if function is None:
        return functools.partial(
            Kernel, strict=strict, differentiable=differentiable, source=source
        )
    return Kernel(function, strict=strict, differentiable=differentiable, source=source)


class Kernel(Dispatcher):
    """Called on NumPy, Torch or JAX arrays, a kernel returns arrays of the same kind.

    A call compiles what the arguments need, once, and runs it. Outs may be passed, all of them, and
    are then filled and None is returned.

    Calls raise:
        TypeError, ValueError, IndexError: arguments that do not fit the signature.
        KernelTypeError, KernelSyntaxError: the body is not in the language.
        BuildError: the C++ compiler failed.
    """

    # There is no `__call__` here: one in Python would cost more than all the rest of a call.

    def __init__(
        self,
        function: Function,
        *,
        strict: bool = False,
        differentiable: Literal[False] | None = None,
        source: str | None = None,
    ) -> None:
        if isinstance(function, staticmethod):
            function = function.__func__
        self._set_up(capture(function, strict=strict, differentiable=differentiable, source=source))

    def _set_up(self, source: KernelSource) -> None:
        self._source = source
        self._compiler = Compiler(source)
        self._dispatch = Dispatch(self._compiler, self._set_table)
        self._set_otherwise(self._dispatch)
        functools.update_wrapper(self, source.function)
        vars(self)["__name__"] = source.name

    def __reduce__(self) -> str:
        """Pickled by name, as a function is."""
        return str(vars(self)["__qualname__"])

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, _: object) -> Kernel:
        return self

    def bind(self, *, name: str | None = None, **statics: object) -> Kernel:
        """The kernel with static parameters fixed: `attention.bind(score_mod=alibi, name="alibi")`.

        What is fixed is no parameter of the new kernel any more. It starts with this one's tile
        sizes.

        Args:
            name: of the new kernel, in messages and in exported modules; this one's when left out.

        Raises:
            TypeError: a parameter that does not exist or is not static, a value of another kind.
            ValueError: a name that is no identifier, a dtype or size that the kernel does not have.
        """
        bound = Kernel.__new__(Kernel)
        bound._set_up(bind(self._source, statics, name))
        bound._compiler.tiles.update(self._compiler.tiles)
        bound._compiler.cuda_tiles.update(self._compiler.cuda_tiles)
        bound._compiler.cuda_knobs.update(self._compiler.cuda_knobs)
        return bound

    @property
    def signature(self) -> str:
        """The signature as messages show it."""
        return self._source.signature.text

    @property
    def differentiable(self) -> bool | None:
        """False where the kernel was said to have no gradient, else None."""
        return self._source.differentiable

    @property
    def __signature__(self) -> inspect.Signature:
        """For `inspect.signature` and `help`: types as messages show them, Outs with None."""
        return self._source.signature.of_python()

    def reference(self, *args: object, **kwargs: object) -> object:
        """The author's function run under NumPy: the meaning of the kernel. Breakpoints work."""
        from kdsl.frontend.reference import reference

        return reference(self._source, args, kwargs)

    def check(self, *args: object, **kwargs: object) -> Report:
        """Run compiled code and reference on the same NumPy inputs; printing the result tells more.

        Raises:
            AssertionError: an output differs by more than its bound.
        """
        from kdsl import check
        from kdsl.frontend.reference import reference

        compiler = self.compiler
        spec = self._dispatch.specialisation(args, kwargs)
        # Sums over tiles come out alike only where the tiles are alike.
        tiles = {} if spec is None else compiler.tile_sizes(spec)

        def meaning(*args: object, **kwargs: object) -> object:
            return reference(self._source, args, kwargs, tiles)

        expected = check.Expected(self._source.signature, meaning, args, kwargs)
        report = check.compare(expected, self)
        if not report.ok:
            raise AssertionError(str(report))
        return report

    def check_cuda(self, *args: object, **kwargs: object) -> CudaReport:
        """Run the kernel's CUDA code on the simulated GPU, on NumPy inputs, and look for mistakes.

        Races, accesses out of bounds, missing waits and what else the simulator finds, under three
        schedules; and the outputs against the reference. No GPU is needed. Printing the result
        tells more; docs/simulator.md says what is seen and what is not.

        Raises:
            AssertionError: something was found, or an output differs by more than its bound.
            RuntimeError: the process uses a real GPU; KDSL_CUDA_DRIVER=sim keeps it from that.
        """
        from kdsl import cuda_check
        from kdsl.frontend.reference import reference

        def meaning(*args: object, **kwargs: object) -> object:
            return reference(self._source, args, kwargs)

        report = cuda_check.compare(self._source.signature, self, meaning, args, kwargs)
        if not report.ok:
            raise AssertionError(str(report))
        return report

    def tune(
        self,
        target: str,
        *,
        tiles: Mapping[str, int | None] | None = None,
        warps: int | tuple[int, int] | None = None,
        slots: int | None = None,
        early: bool | None = None,
    ) -> None:
        """Set tile sizes by loop variable: `attention.tune("cpu", tiles={"m": 96, "n": 64})`.

        A second loop over tiles of the same variable, in another phase say, is called `m_2`;
        `show("plan")` lists all names. None goes back to what the compiler chooses for that loop;
        `untune()` does for all.

        Args:
            target: "cpu", or a CUDA target; what is set for one of these holds for all of CUDA.
            warps: of a block on CUDA, along rows, or along rows and along columns.
            slots: turns of a loop whose copied tiles lie in shared memory at once, on CUDA.
            early: whether the copies of a turn start as soon as there is room, on CUDA; more values
                are in registers at once then.

        Raises:
            ValueError: no such target, no such loop, or a size below 1.
        """
        self._compiler.tune(target, tiles or {}, warps=warps, slots=slots, early=early)
        self._dispatch.forget()

    def untune(self) -> None:
        """Go back to what the compiler chooses, on every target."""
        self._compiler.untune()
        self._dispatch.forget()

    def show(
        self,
        what: str = "ir",
        *,
        dtypes: Mapping[str, DType] | None = None,
        statics: Mapping[str, object] | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> str:
        """What the kernel becomes: "ir", "plan", "cpu" (the kernel's C++), "host" (its entry),
        "cuda:sm_80" (its CUDA code) or "ptx:sm_80" (what that compiles to; needs no GPU).

        Args:
            dtypes, statics: which specialisation; f32 (or the first choice) and the defaults.
            dims: sizes of fixed dims; the general variant when left out.

        Raises:
            ValueError: none of these, or a choice that the signature does not have.
            KernelTypeError: CUDA code cannot do this yet.
            BuildError: no CUDA compiler, or it failed ("ptx:sm_80" alone).
        """
        compiler = self.compiler
        spec = compiler.default(dtypes or {}, statics or {}, dims or {})
        match what:
            case "ir":
                from kdsl.ir.printer import show as show_ir

                return show_ir(compiler.func(spec))
            case "plan":
                from kdsl.passes.cpu.show import show_plan

                return show_plan(compiler.plan(spec))
            case "cpu" | "host":
                return compiler.text(spec, what)
        kind = what.partition(":")[0]
        if kind in ("cuda", "ptx"):
            return compiler.text(spec.on(f"cuda:{arch_of(what, kind)}"), kind)
        raise ValueError(
            'show: expected "ir", "plan", "cpu", "host", "cuda:sm_80" or "ptx:sm_80" and such, '
            f"got {what!r}"
        )

    def explain(
        self,
        *,
        dtypes: Mapping[str, DType] | None = None,
        statics: Mapping[str, object] | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> str:
        """Why a specialisation runs as it does: fixed dims, tile sizes, loops, checks, outputs.

            print(attention.explain(dims={"D": 64}))

        Args:
            dtypes, statics, dims: which specialisation, as for `show`.

        Raises:
            ValueError: a choice that the signature does not have.
        """
        from kdsl.explain import explain

        spec = self._compiler.default(dtypes or {}, statics or {}, dims or {})
        return explain(self._compiler, spec)

    def export(
        self,
        path: str | PathLike[str],
        *,
        targets: str | Iterable[str] = ("cpu",),
        dims: Mapping[str, Iterable[int]] | None = None,
        dtypes: Mapping[str, Iterable[DType]] | None = None,
        statics: Mapping[str, Iterable[object]] | None = None,
    ) -> None:
        """Write a shared library that needs no kdsl, no framework and no Python.

        Args:
            path: of the `.so`; headers for C and C++ of the same name, and the types of its
                functions for Python (`<name>_module.pyi`), are written beside it. The last folder
                of it is made where it is missing, those before it are not.
            targets: "cpu", every variant of this architecture; "cuda:sm_80" and such. A function of
                several runs where its tensors are.
            dims: sizes of fixed dims to compile for. Other sizes run a general variant on the CPU,
                and are a ValueError on CUDA.
            dtypes: choices of dtype variables; all of them when left out.
            statics: values of static parameters; a bool gets both when left out. An optional tensor
                counts as a bool, whether there is one: `{"bias": [True], "mask": [False]}`. Left
                out, it gets both as well, and each combination of all takes its time to compile.

        Raises:
            ValueError: an unknown target, dim, dtype variable or static; a static that is no bool
                and has no values.
            KernelTypeError: CUDA code cannot do this yet.
            OSError: nothing can be written there.
            BuildError: a compiler failed or is not there.
        """
        from kdsl.export import Options, named, write

        options = Options(dims or {}, dtypes or {}, statics or {})
        write(path, [(self.compiler, options)], named(targets))

    @property
    def compiler(self) -> Compiler:
        """The compiler of this kernel, up to date with names from outside; for tools."""
        self._dispatch.refresh()
        return self._compiler

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"
