"""The host side of modules: golden files, and what the samples do not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kdsl
from kdsl.codegen import targets
from kdsl.codegen.context import VERSION, Compiled
from kdsl.codegen.device import DeviceCode
from kdsl.codegen.module import host_sources
from kdsl.codegen.public import public_headers
from kdsl.dims import dims
from kdsl.dtypes import DType, f32, i64
from kdsl.errors import KernelTypeError
from kdsl.frontend.signature import Parameter, Signature
from kdsl.ir import nodes as ir
from kdsl.ir.types import Type
from kdsl.passes.specialise import specialise
from tests.codegen import samples
from tests.ffi import gpu

BOTH = targets.variants_of("x86_64")[1:]


def test_host_side_of_the_samples(golden):
    sources = host_sources("samples", samples.kernels(), BOTH)
    golden("host/samples.cc", sources["samples.cc"])
    golden("host/samples.h", sources["samples.h"])
    golden("host/samples_args.h", sources["samples_args.h"])


def test_header_beside_an_exported_library(golden):
    headers = public_headers("samples", samples.kernels())
    golden("host/samples_public.h", headers[".h"])
    golden("host/samples_public.hpp", headers[".hpp"])


def test_a_module_of_one_variant_and_one_specialisation(golden):
    sources = host_sources("axpy", [samples.axpy()], BOTH[:1])
    golden("host/axpy.cc", sources["axpy.cc"])


def test_a_module_for_gpus(golden):
    sources = gpu.sources()
    golden("host/gpu.cc", sources["gpu.cc"])
    golden("host/gpu_images.s", sources["gpu_images.s"])


def test_a_module_for_cpus_and_gpus(golden):
    unit = gpu.on_cuda(samples.attention(), on_cpu=True)
    device = DeviceCode("", gpu.KERNELS, gpu.IMAGES)
    golden("host/both.cc", host_sources("both", [unit], BOTH, device)["both.cc"])


def test_lines_have_at_most_100_columns_but_for_metadata():
    text = host_sources("samples", samples.kernels(), BOTH)["samples.cc"]
    code = text.partition("KDSL_MODULE")[0]
    assert [line for line in code.splitlines() if len(line) > 100] == []


def test_the_version_in_generated_files_is_kdsls():
    assert kdsl.__version__ == VERSION


def unit_of(signature, *compiled):
    return samples.unit(signature, 1, list(compiled), "")


def test_parameters_may_have_names_that_cpp_or_the_template_uses():
    (N,) = dims("N")
    names = ("new", "call", "count", "scratch", "args", "fault")
    signature = Signature(
        "float",
        tuple(Parameter(name, "in", f32[N]) for name in names),
        ("N",),
        (),
    )
    func = ir.Func("float", (), ("N",), (), (), (), ())
    sources = host_sources("m", [unit_of(signature, Compiled(func))], BOTH[:1])
    assert "  const void* new_;  // f32[N]\n" in sources["m_args.h"]
    assert '  kdsl::Input call_(call, 1, "call", kdsl::kF32, N);\n' in sources["m.cc"]
    assert "  count_.pass(args.count, args.count_strides);\n" in sources["m.cc"]
    assert "  scratch_.pass(args.scratch_, args.scratch__strides);\n" in sources["m.cc"]
    assert "  fault_.pass(args.fault_, args.fault__strides);\n" in sources["m.cc"]


def test_requirements_that_only_some_specialisations_have_are_asked_there_alone():
    (N,) = dims("N")
    signature = Signature(
        "f",
        (Parameter("x", "in", f32[N]), Parameter("even", "static", bool, False, True)),
        ("N",),
        (),
    )
    host = (
        ir.Let("n", Type(i64), ir.DimSize(N)),
        ir.Let("two", Type(i64), ir.Const("2")),
        ir.Let("rest", Type(i64), ir.Ew("mod", ("n", "two"))),
        ir.Let("zero", Type(i64), ir.Const("0")),
        ir.Let("is_even", Type(kdsl.boolean), ir.Ew("eq", ("rest", "zero"))),
        ir.Require("is_even", "N % 2 == 0"),
    )
    plain = ir.Func("f", (), ("N",), (), (), (), ())
    even = replace(plain, name="f_even", host=host)
    unit = unit_of(
        signature,
        Compiled(plain, None, (), (("even", False),)),
        Compiled(even, None, (), (("even", True),)),
    )
    text = host_sources("m", [unit], BOTH[:1])["m.cc"]
    want = """
  if (even) {
    if (!(kdsl::mod(N, 2) == 0)) return call.unmet("N % 2 == 0", N);
  }
"""
    assert want in text


def test_divisions_in_loops_are_guarded_on_the_host():
    H, G = dims("H G")
    signature = Signature("f", (Parameter("x", "in", f32[H, G]),), ("H", "G"), ())
    body = (
        ir.Let("h", Type(i64), ir.DimSize(H)),
        ir.Let("g", Type(i64), ir.DimSize(G)),
        ir.Let("group", Type(i64), ir.Ew("floordiv", ("h", "g"))),
        ir.Let("i", Type(i64), ir.LoopVar("i")),
        ir.Let("head", Type(i64), ir.Ew("floordiv", ("i", "group"))),
    )
    phase = ir.Parallel((ir.Each("i", H, False),), body)
    func = ir.Func("f", (), ("H", "G"), (), (), (), (phase,))
    text = host_sources("m", [unit_of(signature, Compiled(func))], BOTH[:1])["m.cc"]
    assert '  if (G == 0) return call.zero_division("H // G", H, G);\n' in text


def test_a_checked_index_has_the_size_that_the_signature_says_also_where_it_is_fixed():
    H, G = dims("H G")
    signature = Signature("f", (Parameter("x", "in", f32[H, G // 2]),), ("H", "G"), ())
    body = (
        ir.Let("i", Type(i64), ir.LoopVar("i")),
        ir.Let("i_2", Type(i64), ir.Guard("i", "x", 1)),
        ir.Let("i_3", Type(i64), ir.Guard("i", "part", 0)),
    )
    func = ir.Func(
        "f",
        (ir.Param("x", "in", f32[H, G // 2]),),
        ("H", "G"),
        (),
        (ir.ScratchBuffer("part", f32[H + 1]),),
        (),
        (ir.Parallel((ir.Each("i", H, False),), body),),
    )
    unit = unit_of(signature, Compiled(specialise(func, {"G": 8})), Compiled(func))
    text = host_sources("m", [unit], BOTH[:1])["m.cc"]
    want = """
constexpr kdsl::Site f_G8_sites[] = {
    {"x", 1, "G // 2", nullptr},
    {"part", 0, "H + 1", nullptr},
};
constexpr kdsl::Site f_sites[] = {
"""
    assert want in text


def test_a_static_dtype_binds_its_variable():
    (N,) = dims("N")
    U = kdsl.dtypes("U", f32, kdsl.f64)
    signature = Signature(
        "cast",
        (
            Parameter("x", "in", f32[N]),
            Parameter("o", "out", U[N]),
            Parameter("U", "static", DType, f32, True),
        ),
        ("N",),
        (U,),
    )
    units = [
        Compiled(ir.Func(f"cast_{d}", (), ("N",), (), (), (), ()), None, (("U", d),), ())
        for d in U.choices
    ]
    text = host_sources("m", [unit_of(signature, *units)], BOTH[:1])["m.cc"]
    want = """
  kdsl::Input x(call, 0, "x", kdsl::kF32, N);
  call.dtype(2, "U", U, kdsl::kF32);
  kdsl::Output o(call, 1, "o", U, N);
  if (!call.ok()) return -1;

  const kdsl::Kernel* const* kernel;
  if (U == kdsl::kF32) {
    kernel = cast_f32_variants;
  } else if (U == kdsl::kF64) {
"""
    assert want in text


def test_more_than_8_axes_are_an_error():
    signature = Signature("f", (Parameter("x", "in", f32[(2,) * 9]),), (), ())
    func = ir.Func("f", (), (), (), (), (), ())
    with pytest.raises(KernelTypeError, match="`x` has 9 axes; a tensor has 8 at most"):
        host_sources("m", [unit_of(signature, Compiled(func))], BOTH[:1])
