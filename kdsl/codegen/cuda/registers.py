"""Print loads into registers and stores from them."""

from __future__ import annotations

from kdsl.codegen.cpu.ops import paren
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cuda.fragment import Fragments
from kdsl.errors import InternalError
from kdsl.ir.nodes import Along, AtomicAdd, Index, Let, Load
from kdsl.passes.cuda.maps import Rows
from kdsl.passes.cuda.tensor_plan import StoreOut


class Registers:
    """Prints into a scope; `rows16` collects tensors that are written by 8 or 16 bytes."""

    def __init__(self, scope: Scope, fragments: Fragments, rows16: dict[str, None]) -> None:
        self.scope, self.fragments, self.rows16 = scope, fragments, rows16

    def _access(self, tensor: str, index: tuple[Index, ...], axes: tuple[str, ...]) -> list[str]:
        """The pointer of an access, and the stride of each axis."""
        steps = []
        for axis in axes:
            k, i = next(
                (k, i) for k, i in enumerate(index) if isinstance(i, Along) and i.axis == axis
            )
            steps.append(self.scope.stride(tensor, k, i.step))
        return [self.scope.pointer(tensor, index, tensor), *steps]

    def load(self, let: Let) -> None:
        assert isinstance(let.op, Load)
        scope = self.scope
        scope.mark([let.span])
        scope.begin_step()
        axes = self.fragments.axes(let.name)
        home = self.fragments.homes[let.name]
        pointer, *steps = self._access(let.op.tensor, let.op.index, axes)
        limits = ", ".join(map(self.fragments.limit, axes))
        kind = (
            "block"
            if len(axes) == 2
            else ("rows" if isinstance(self.fragments.maps[let.name, axes[0]], Rows) else "cols")
        )
        self.fragments.declare(home)
        scope.line(
            f"load_{kind}({self.fragments.name_of(home)}, {pointer}, {', '.join(steps)}, "
            f"{self.fragments.bases_of(let.name)}, {limits});"
        )

    def store(self, step: StoreOut) -> None:
        scope, store = self.scope, step.store
        scope.mark([store.span])
        scope.begin_step()
        value = self.fragments.bare(store.value)
        axes = self.fragments.axes(value)
        pointer, *steps = self._access(store.tensor, store.index, axes)
        limits = ", ".join(map(self.fragments.limit, axes))
        array, bases = (
            self.fragments.name_of(self.fragments.homes[value]),
            self.fragments.bases_of(value),
        )
        if isinstance(store, AtomicAdd):
            if len(axes) != 2:
                raise InternalError("print: an atomic addition of one axis on tensor cores")
            maps = [self.fragments.maps[value, a].blocks for a in axes]
            scope.line(
                f"each_element<{maps[0]}, {maps[1]}>({bases}, {limits}, "
                "[&](int mi, int ci, int ei, int down, int along) {"
            )
            scope.line(
                f"  add_each({pointer} + down * {paren(steps[0])} + along * {paren(steps[1])}, "
                f"{array}[mi][ci][ei]);"
            )
            scope.line("});")
        elif step.staged:
            self.rows16[store.tensor] = None
            rows, cols = (self.fragments.size(a) for a in axes)
            dtype = scope.tensor_dtype(store.tensor).name
            scope.line("copies_wait<0>();")
            scope.line(
                f"store_staged<{self.fragments.plan.threads}>("
                f"Tile<{dtype}, {rows}, {cols}>{{smem_base()}}, {array}, {bases}, "
                f"{pointer}, {steps[0]}, {limits});"
            )
        elif len(axes) == 2 and steps[1] == "1" and scope.tensor_dtype(store.tensor).name == "f32":
            if any(p.name == store.tensor for p in self.fragments.plan.func.params):
                self.rows16[store.tensor] = None
                scope.line(f"store_pairs({array}, {pointer}, {steps[0]}, {bases}, {limits});")
            else:
                scope.line(f"store_block({array}, {pointer}, {steps[0]}, 1, {bases}, {limits});")
        elif len(axes) == 2:
            scope.line(f"store_block({array}, {pointer}, {', '.join(steps)}, {bases}, {limits});")
        else:
            rows = isinstance(self.fragments.maps[value, axes[0]], Rows)
            mine = self.fragments.warp_n() if rows else self.fragments.warp_m()
            mine = "true" if mine == "0" else f"{mine} == 0"
            scope.line(
                f"store_{'rows' if rows else 'cols'}({array}, {pointer}, {steps[0]}, {bases}, "
                f"{limits}, {mine});"
            )
