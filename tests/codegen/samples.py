"""Kernels for tests of the host side: signatures and IR by hand, bodies in plain C++.

What a compiler of kernels prints is not needed here, so these tests stand without one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from kdsl.codegen.context import Compiled, KernelUnit
from kdsl.dims import dims
from kdsl.dtypes import DType, bf16, boolean, dtypes, f32, i32, i64
from kdsl.errors import Span
from kdsl.frontend.signature import MISSING, Parameter, Signature
from kdsl.ir import nodes as ir
from kdsl.ir.types import Axis, Type
from kdsl.passes.specialise import specialise

T = dtypes("T", f32, bf16)
B, H, G, M, N, D, K = dims("B H G M N D K")

FLAG = Type(boolean)
INT = Type(i64)


def unit(signature: Signature, line: int, specialisations: list[Compiled], doc: str) -> KernelUnit:
    digest = hashlib.sha256(signature.text.encode()).hexdigest()
    return KernelUnit(signature, doc, "kernels.py", line, digest, tuple(specialisations))


def _func(
    name: str,
    signature: Signature,
    chosen: DType | None = None,
    host: ir.Block = (),
    axes: tuple[Axis, ...] = (),
    phases: tuple[ir.Parallel, ...] = (),
) -> ir.Func:
    def resolve(p: Parameter) -> ir.Param:
        type_ = p.type
        if chosen is not None and getattr(type_, "dtype", None) is T:
            type_ = replace(type_, dtype=chosen)  # type: ignore[type-var]
        return ir.Param(p.name, p.kind, type_)  # type: ignore[arg-type]

    params = tuple(resolve(p) for p in signature.parameters if p.kind != "static")
    return ir.Func(name, params, signature.dims, axes, (), host, phases)


# ---- axpy: o = a * x + y over rows; y may be the output, as may x


def axpy() -> KernelUnit:
    signature = Signature(
        "axpy",
        (
            Parameter("a", "scalar", f32),
            Parameter("x", "in", f32[M, N]),
            Parameter("y", "in", f32[M, N]),
            Parameter("o", "out", f32[M, N]),
        ),
        ("M", "N"),
        (),
    )
    row = (ir.Along("m"), ir.Along("N"))
    body = (
        ir.Let("a", Type(f32), ir.Arg("a")),
        ir.Let("t", Type(f32, ("m", "N")), ir.Load("x", row)),
        ir.Let("t_2", Type(f32, ("m", "N")), ir.Load("y", row)),
        ir.Let("t_3", Type(f32, ("m", "N")), ir.Ew("mul", ("a", "t"))),
        ir.Let("t_4", Type(f32, ("m", "N")), ir.Ew("add", ("t_3", "t_2"))),
        ir.Store("o", row, "t_4"),
    )
    func = _func(
        "axpy",
        signature,
        axes=(Axis("m", "tile", M), Axis("N", "whole", N)),
        phases=(ir.Parallel((ir.Each("m", M, True),), body),),
    )
    return unit(signature, 5, [Compiled(func)], "o = a * x + y")


AXPY = r"""
static kdsl::i64 axpy_tasks(const void* args) {
  return static_cast<const axpy_args*>(args)->M;
}
static void axpy_run(const void* args, char*, kdsl::i64 begin, kdsl::i64 end) {
  const auto& a = *static_cast<const axpy_args*>(args);
  for (kdsl::i64 m = begin; m < end; ++m) {
    const float* x = static_cast<const float*>(a.x) + m * a.x_strides[0];
    const float* y = static_cast<const float*>(a.y) + m * a.y_strides[0];
    float* o = static_cast<float*>(a.o) + m * a.o_strides[0];
    for (kdsl::i64 n = 0; n < a.N; ++n) o[n] = a.a * x[n] + y[n];
  }
}
static const kdsl::Phase axpy_phases[] = {{axpy_tasks, nullptr, axpy_run}};
extern const kdsl::Kernel KDSL_NAME(axpy) = {axpy_phases, 1, nullptr};
"""


# ---- attention: the flagship's signature, dispatch and requirements; the body writes what it got


def attention() -> KernelUnit:
    signature = Signature(
        "attention",
        (
            Parameter("q", "in", T[B, H, M, D]),
            Parameter("k", "in", T[B, G, N, D]),
            Parameter("v", "in", T[B, G, N, D]),
            Parameter("scale", "scalar", f32),
            Parameter("o", "out", T[B, H, M, D]),
            Parameter("lse", "out", f32[B, H, M]),
            Parameter("causal", "static", bool, False, True),
        ),
        ("B", "H", "M", "D", "G", "N"),
        (T,),
    )
    host = (
        ir.Let("h", INT, ir.DimSize(H)),
        ir.Let("g", INT, ir.DimSize(G)),
        ir.Let("rest", INT, ir.Ew("mod", ("h", "g"))),
        ir.Let("zero", INT, ir.Const("0")),
        ir.Let("divides", FLAG, ir.Ew("eq", ("rest", "zero"))),
        ir.Require("divides", "H % G == 0"),
        ir.Let("scale", Type(f32), ir.Arg("scale")),
        ir.Let("none", Type(f32), ir.Const("0")),
        ir.Let("positive", FLAG, ir.Ew("gt", ("scale", "none"))),
        ir.Require("positive", "scale > 0"),
    )
    specialisations = []
    for dtype in (f32, bf16):
        for causal in (False, True):
            name = f"attention_{dtype}{'_causal' if causal else ''}"
            func = _func(name, signature, dtype, host)
            chosen = ((("T", dtype),), (("causal", causal),))
            specialisations.append(Compiled(specialise(func, {"D": 64}), None, *chosen))
            if dtype is f32:
                specialisations.append(Compiled(func, None, *chosen))
    doc = 'Softmax attention.\n\nFully masked rows give "0".'
    return unit(signature, 12, specialisations, doc)


def attention_kernels() -> str:
    """Kernels that store their own number into `lse`."""
    parts = [
        r"""
template <int kNumber>
static void mark(const void* args, char*, kdsl::i64, kdsl::i64) {
  const auto& a = *static_cast<const attention_args*>(args);
  float* lse = static_cast<float*>(a.lse);
  for (kdsl::i64 i = 0; i < a.B * a.H * a.M; ++i) lse[i] = kNumber;
}
static kdsl::i64 one(const void*) { return 1; }
"""
    ]
    for i, s in enumerate(attention().specialisations):
        parts.append(
            f"static const kdsl::Phase phases_{i}[] = {{{{one, nullptr, mark<{i}>}}}};\n"
            f"extern const kdsl::Kernel KDSL_NAME({s.func.name}) = {{phases_{i}, 1, nullptr}};\n"
        )
    return "".join(parts)


# ---- pick: what the other two do not have: expressions of dims, statics that bind, InOut, 0-d,
# integers, a default, scratch and an arena


def pick() -> KernelUnit:
    signature = Signature(
        "pick",
        (
            Parameter("x", "in", f32[N, D]),
            Parameter("half", "in", f32[N, D // 2]),
            Parameter("count", "inout", i32[()]),
            Parameter("flag", "scalar", boolean),
            Parameter("o", "out", f32[K, N // G]),
            Parameter("K", "static", int, MISSING, True),
            Parameter("G", "scalar", i32, 1, True),
            Parameter("limit", "scalar", i32, -1, True),
            Parameter("bias", "scalar", f32, 0.5, True),
        ),
        ("N", "D", "K", "G"),
        (),
    )
    func = _func("pick_K2", signature)
    return unit(signature, 40, [Compiled(func, None, (), (("K", 2),))], "")


PICK = r"""
static kdsl::i64 pick_scratch(const void*) { return 256; }
static kdsl::i64 pick_arena(const void*) { return 100; }
static kdsl::i64 pick_tasks(const void* args) {
  return static_cast<const pick_args*>(args)->K;
}
static void pick_run(const void* args, char* arena, kdsl::i64 begin, kdsl::i64 end) {
  const auto& a = *static_cast<const pick_args*>(args);
  if (reinterpret_cast<unsigned long>(arena) % 64) return;
  if (reinterpret_cast<unsigned long>(a.scratch) % 64) return;
  arena[99] = static_cast<char*>(a.scratch)[255] = 1;
  for (kdsl::i64 k = begin; k < end; ++k) {
    float* o = static_cast<float*>(a.o) + k * a.o_strides[0];
    for (kdsl::i64 n = 0; n < a.N / a.dim_G; ++n) o[n] = a.bias + a.limit + (a.flag ? 100 : 0);
  }
  if (begin == 0) ++*static_cast<int*>(a.count);
}
static const kdsl::Phase pick_phases[] = {{pick_tasks, pick_arena, pick_run}};
extern const kdsl::Kernel KDSL_NAME(pick_K2) = {pick_phases, 1, pick_scratch};
"""


# ---- drop: an output whose size may come out negative, a scalar that a shape has bound before


def drop() -> KernelUnit:
    signature = Signature(
        "drop",
        (
            Parameter("x", "in", T[N]),
            Parameter("y", "in", T[M]),
            Parameter("N", "scalar", i64),
            Parameter("o", "out", T[N - M, 2]),
            Parameter("T", "static", DType, f32, True),
        ),
        ("N", "M"),
        (T,),
    )
    func = _func("drop_f32", signature, f32)
    return unit(signature, 60, [Compiled(func, None, (("T", f32),))], "")


DROP = r"""
static kdsl::i64 drop_tasks(const void*) { return 0; }
static void drop_run(const void*, char*, kdsl::i64, kdsl::i64) {}
static const kdsl::Phase drop_phases[] = {{drop_tasks, nullptr, drop_run}};
extern const kdsl::Kernel KDSL_NAME(drop_f32) = {drop_phases, 1, nullptr};
"""


# ---- take: rows by number, which may be outside; then a phase that counts


def take() -> KernelUnit:
    signature = Signature(
        "take",
        (
            Parameter("ids", "in", i64[N]),
            Parameter("x", "in", f32[M, 4]),
            Parameter("runs", "inout", i32[()]),
            Parameter("o", "out", f32[N]),
            Parameter("wide", "static", bool, False, True),
        ),
        ("N", "M"),
        (),
    )
    line = "        o[i] = x[ids[i], ids[i]]"
    place = Span("/src/kernels.py", 82, 17, 23, line)
    rows = (
        ir.Let("i", INT, ir.LoopVar("i")),
        ir.Let("id", INT, ir.Load("ids", (ir.Point("i"),))),
        ir.Let("id_2", INT, ir.Guard("id", "x", 0, span=place)),
    )
    columns = (ir.Let("id_3", INT, ir.Guard("id", "x", 1)),)
    count = ir.Parallel((ir.Each("j", 1, False),), ())

    def func(name: str, body: ir.Block) -> ir.Func:
        phase = ir.Parallel((ir.Each("i", N, False),), body)
        return _func(name, signature, phases=(phase, count))

    narrow, wide = func("take", rows), func("take_wide", rows + columns)
    specialisations = [
        Compiled(narrow, None, (), (("wide", False),)),
        Compiled(wide, None, (), (("wide", True),)),
    ]
    return unit(signature, 80, specialisations, "o[i] = x[ids[i], wide and ids[i]]")


TAKE = r"""
template <bool kWide>
static void take_run(const void* args, char*, kdsl::i64 begin, kdsl::i64 end) {
  const auto& a = *static_cast<const take_args*>(args);
  for (kdsl::i64 i = begin; i < end; ++i) {
    const kdsl::i64 id = static_cast<const kdsl::i64*>(a.ids)[i];
    if (id < 0 || id >= a.M) {
      record(a.fault, 0, id, a.M);
    } else if (kWide && id >= 4) {
      record(a.fault, 1, id, 4);
    } else {
      static_cast<float*>(a.o)[i] =
          static_cast<const float*>(a.x)[id * a.x_strides[0] + (kWide ? id : 0)];
    }
  }
}
static void take_count(const void* args, char*, kdsl::i64, kdsl::i64) {
  ++*static_cast<int*>(static_cast<const take_args*>(args)->runs);
}
static kdsl::i64 take_tasks(const void* args) {
  return static_cast<const take_args*>(args)->N;
}
template <bool kWide>
static const kdsl::Phase take_phases[] = {{take_tasks, nullptr, take_run<kWide>},
                                          {one, nullptr, take_count}};
extern const kdsl::Kernel KDSL_NAME(take) = {take_phases<false>, 2, nullptr};
extern const kdsl::Kernel KDSL_NAME(take_wide) = {take_phases<true>, 2, nullptr};
"""


# ---- room: asks for the memory that its caller names; a module of its own


def room() -> KernelUnit:
    signature = Signature(
        "room",
        (
            Parameter("x", "in", f32[M, N]),
            Parameter("block", "scalar", i64),
            Parameter("each", "scalar", i64),
            Parameter("o", "out", f32[M, N, K]),
            Parameter("K", "scalar", i64, 1, True),
        ),
        ("M", "N", "K"),
        (),
    )
    return unit(signature, 90, [Compiled(_func("room", signature))], "")


ROOM = r"""
static kdsl::i64 room_scratch(const void* args) {
  return static_cast<const room_args*>(args)->block;
}
static kdsl::i64 room_arena(const void* args) { return static_cast<const room_args*>(args)->each; }
static kdsl::i64 room_tasks(const void* args) { return static_cast<const room_args*>(args)->M; }
static void room_run(const void* args, char*, kdsl::i64 begin, kdsl::i64 end) {
  const auto& a = *static_cast<const room_args*>(args);
  for (kdsl::i64 m = begin; m < end; ++m) {
    for (kdsl::i64 n = 0; n < a.N * a.K; ++n) static_cast<float*>(a.o)[m * a.o_strides[0] + n] = 1;
  }
}
static const kdsl::Phase room_phases[] = {{room_tasks, room_arena, room_run}};
extern const kdsl::Kernel KDSL_NAME(room) = {room_phases, 1, room_scratch};
"""


# ---- module: all of them


def kernels() -> tuple[KernelUnit, ...]:
    return axpy(), attention(), pick(), drop(), take()


def kernel_text(name: str) -> str:
    return f'#include "{name}.h"\n{AXPY}{attention_kernels()}{PICK}{DROP}{TAKE}'
