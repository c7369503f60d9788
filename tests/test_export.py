"""What `export` writes: complete, with the specialisations asked for, and nothing else."""

from __future__ import annotations

import importlib
import subprocess

import numpy as np
import pytest

import kdsl
from kdsl import Out, Static, bf16, dot, f32, paths
from kdsl.export import Options, specialisations

T = kdsl.dtypes("T", f32, bf16)
M, N, D = kdsl.dims("M N D")


@kdsl.kernel
def double(x: T[N], o: Out[T[N]], *, negate: Static[bool] = False):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * (-2 if negate else 2)


@kdsl.kernel
def product(a: f32[M, D], b: f32[D, N], o: Out[f32[M, N]], *, power: Static[int]):
    """a @ b to a power."""
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        o[m, n] = dot(a[m], b[:, n]) ** power


ONE = np.ones(1, np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """One kernel with a size and a power."""
    path = tmp_path_factory.mktemp("export") / "two.so"
    product.export(path, dims={"D": [8]}, statics={"power": [2]})
    return path


@pytest.mark.parametrize(
    ("kernel", "options", "text"),
    [
        (double, {"statics": {"negate": [3]}}, "double: the static `negate` is a bool, got 3"),
        (double, {"statics": {"negate": [0]}}, "double: the static `negate` is a bool, got 0"),
        (
            double,
            {"statics": {"negate": ["no"]}},
            "double: the static `negate` is a bool, got 'no'",
        ),
        (
            product,
            {"statics": {"power": [True]}},
            "product: the static `power` is an int, got True",
        ),
        (product, {"statics": {"power": [2.0]}}, "product: the static `power` is an int, got 2.0"),
        (double, {"dtypes": {"T": ["f32"]}}, "double: T is one of f32, bf16, got 'f32'"),
        (
            product,
            {"statics": {"power": [2]}, "dims": {"D": [2.5]}},
            "product: the dim `D` is a size, got 2.5",
        ),
        (
            product,
            {"statics": {"power": [2]}, "dims": {"D": [-1]}},
            "product: the dim `D` is a size, got -1",
        ),
    ],
)
def test_a_choice_of_another_type_is_an_error_at_export(kernel, options, text, tmp_path):
    with pytest.raises(ValueError) as caught:
        kernel.export(tmp_path / "z.so", **options)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kernels", "got"),
    [
        (double, "the kernel `double` alone"),
        ([len], "`len` in it"),
        ([double, None], "`None` in it"),
        ("double", "str"),
        (None, "NoneType"),
        (3, "int"),
    ],
)
def test_what_is_no_list_of_kernels_is_an_error(kernels, got, tmp_path):
    with pytest.raises(TypeError) as caught:
        kdsl.export(tmp_path / "z.so", kernels)
    assert str(caught.value) == f"export: expected a list of kernels, got {got}"


def spell(kernel, **options):
    return [str(spec) for spec in specialisations(kernel.compiler, Options(**options))]


def test_an_export_holds_every_dtype_and_both_values_of_a_bool():
    assert spell(double) == [
        "T=f32, negate=False",
        "T=f32, negate=True",
        "T=bf16, negate=False",
        "T=bf16, negate=True",
    ]


def test_options_choose_and_the_general_variant_comes_along():
    assert spell(double, dtypes={"T": [bf16]}, statics={"negate": [True]}) == [
        "T=bf16, negate=True"
    ]
    assert spell(product, dims={"D": [8, 16, 8]}, statics={"power": [2]}) == [
        "power=2, D=8",
        "power=2, D=16",
        "power=2",
    ]


def test_a_library_runs_listed_sizes_and_others(library):
    module = kdsl.load_module(library)
    rng = np.random.default_rng(0)
    for size in (8, 5):
        a = rng.standard_normal((3, size), dtype=np.float32)
        b = rng.standard_normal((size, 4), dtype=np.float32)
        want = (a.astype(np.float64) @ b) ** 2
        np.testing.assert_allclose(module.product(a, b, power=2), want, rtol=1e-5)


def test_a_static_that_was_not_compiled_is_an_error_that_lists_what_was(library):
    module = kdsl.load_module(library)
    a = np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match="power"):
        module.product(a, a, power=3)


def test_a_library_needs_libc_alone(library):
    run = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    needed = [
        line.split("[")[1].rstrip("]") for line in run.stdout.splitlines() if "NEEDED" in line
    ]
    assert set(needed) <= {"libc.so.6", "libm.so.6"}


def test_the_header_beside_a_library_is_c_and_declares_its_kernels(library, tmp_path):
    header = library.with_suffix(".h")
    assert "int __tvm_ffi_product(" in header.read_text()
    source = tmp_path / "host.c"
    source.write_text(f'#include "{header}"\n')
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run = subprocess.run(
        [*command, f"-I{paths.include_dir()}", str(source)], capture_output=True, text=True
    )
    assert run.stderr == ""


def test_several_kernels_go_into_one_library(tmp_path):
    @kdsl.kernel
    def triple(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * 3

    kdsl.export(tmp_path / "kernels.so", [double, triple])
    module = kdsl.load_module(tmp_path / "kernels.so")
    x = np.arange(3, dtype=np.float32)
    assert list(module) == ["double", "triple"]
    np.testing.assert_array_equal(module.double(x), [0, 2, 4])
    np.testing.assert_array_equal(module.triple(x), [0, 3, 6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: kdsl.export(p, []), "export: give at least one kernel"),
        (lambda p: kdsl.export(p, [double, double]), "export: two kernels are called `double`"),
        (
            lambda p: double.export(p, targets=["tpu"]),
            "kdsl has no target 'tpu'; it has \"cpu\" and, as \"cuda:sm_80\", CUDA",
        ),
        (
            lambda p: double.export(p, dtypes={"T": f32}),
            "export: dtypes['T'] must list values, got kdsl.f32",
        ),
        (
            lambda p: double.export(p, dims={"N": [4]}),
            "double: no fixed dim is called 'N'; there are: none",
        ),
        (
            lambda p: product.export(p),
            "product: give a value for the static `power`",
        ),
        (
            lambda p: product.export(p, statics={"power": []}),
            "export: statics['power'] lists no value",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_told_before_anything_is_compiled(call, message, tmp_path):
    with pytest.raises(ValueError) as caught:
        call(tmp_path / "x.so")
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "kind", "why"),
    [
        ("", IsADirectoryError, "Is a directory"),
        ("file/kernels.so", OSError, "exists"),
        ("file/deeper/kernels.so", NotADirectoryError, "Not a directory"),
        ("folder.so", IsADirectoryError, "Is a directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_told_before_anything_is_compiled(
    path, kind, why, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.so").mkdir()
    export = importlib.import_module("kdsl.export")
    monkeypatch.setattr(export, "build", lambda *a: pytest.fail("compiled"))
    place = tmp_path / path if path else tmp_path / "folder.so"
    with pytest.raises(kind) as caught:
        double.export(place)
    assert f"export: cannot write '{place}': " in str(caught.value)
    assert why in str(caught.value)
    with pytest.raises(ValueError, match=r"is a header's name; write e\.g\. 'x\.so'"):
        double.export("x.h")


def test_the_last_folder_of_a_path_is_made_and_no_others(tmp_path):
    double.export(tmp_path / "where" / "double.so", dtypes={"T": [f32]})
    assert kdsl.load_module(tmp_path / "where" / "double.so").double(ONE).tolist() == [2]
    place = tmp_path / "some" / "where" / "double.so"
    with pytest.raises(FileNotFoundError) as caught:
        double.export(place)
    assert str(caught.value).partition("] ")[2] == (
        f"export: cannot write '{place}': there is no folder '{tmp_path / 'some'}'; make it first"
    )
    assert not (tmp_path / "some").exists()


def test_several_kernels_share_options_by_name_and_have_their_own(tmp_path):
    path = tmp_path / "kernels.so"
    kdsl.export(
        path, [double, product],
        dtypes={"T": [f32], "double.T": [bf16]}, statics={"power": [2, 3]},
    )  # fmt: skip
    module = kdsl.load_module(path)
    rows = {name: module[name].metadata["specialisations"] for name in module}
    assert [row["dtypes"] for row in rows["double"]] == [{"T": "bf16"}] * 2
    assert sorted(row["statics"]["power"] for row in rows["product"]) == [2, 3]
    with pytest.raises(ValueError, match="not compiled for T=f32, negate=False; compiled: T=bf16"):
        module.double(ONE)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"statics": {"double.power": [1], "power": [2]}},
         "statics['double.power']: no kernel `double` here has it; there are: negate, power"),
        ({"dtypes": {"U": [f32]}}, "dtypes['U']: no kernel here has it; there are: T"),
        ({"dims": {"M": [3]}}, "dims['M']: no kernel here has it; there are: D"),
        ({"dtypes": {"triple.T": [f32]}},
         "dtypes['triple.T']: no kernel `triple` here has it; there are: T"),
        ({"dtypes": {"T": f32}}, "dtypes['T'] must list values, got kdsl.f32"),
    ],
)  # fmt: skip
def test_an_option_that_fits_no_kernel_is_told_with_those_there_are(options, text, tmp_path):
    options = {"statics": {"power": [2]}} | options
    with pytest.raises(ValueError) as caught:
        kdsl.export(tmp_path / "x.so", [double, product], **options)
    assert str(caught.value) == f"export: {text}"


(ν,) = kdsl.dims("ν")


@kdsl.kernel
def scaled(ü: f32[N, ν], größe: f32, ö: Out[f32[N, ν]], *, schön: Static[bool] = True):
    """Öl"""
    for ñ in kdsl.parallel(N):
        é = ü[ñ] * größe
        if schön:
            é = é + ν
        ö[ñ] = é


def test_parameters_with_other_letters_than_ascii_are_compiled_and_named(tmp_path):
    scaled.export(tmp_path / "scaled.so", statics={"schön": [True]})
    module = kdsl.load_module(tmp_path / "scaled.so")
    x = np.ones((2, 3), np.float32)
    assert module.scaled(x, größe=2.0).tolist() == [[5.0] * 3] * 2
    assert module.scaled.__doc__ == "Öl"
    text = "scaled(ü: f32[N, ν], größe: f32, ö: Out[f32[N, ν]], *, schön: bool = True): argument "
    with pytest.raises(TypeError) as caught:
        module.scaled(x, None)
    assert str(caught.value) == text + "1 `größe`: expected f32, got None"
    with pytest.raises(ValueError) as caught:
        module.scaled(x, 1.0, x[:1].copy())
    assert str(caught.value) == text + "2 `ö`: expected f32[N=2, ν=3], got f32[1, 3]"


def test_headers_and_a_stub_lie_beside_a_library(tmp_path):
    double.export(tmp_path / "my-kernels.so", dtypes={"T": [f32]})
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["my-kernels.h", "my-kernels.hpp", "my-kernels.so", "my_kernels_module.pyi"]
    stub = (tmp_path / "my_kernels_module.pyi").read_text()
    assert "def double(self, x: _Array, o: None = None, *, negate: bool = False) -> _Array:" in stub
