"""`kdsl.load_inline`, `kdsl.build` and `kdsl.load`."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kdsl
from kdsl.native import parameter_names

ADD = """
void add(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView o) {
  TVM_FFI_CHECK_EQ(x.size(0), y.size(0), ValueError) << "x and y differ";
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) static_cast<float*>(o.data_ptr())[i] = a[i] + b[i];
}
int64_t twice(int64_t value) { return 2 * value; }
"""


@pytest.fixture(scope="module")
def module():
    return kdsl.load_inline("adding", ADD, functions={"add": "o = x + y", "twice": ""})


def test_text_becomes_functions(module):
    x, y, o = np.arange(3, dtype=np.float32), np.ones(3, np.float32), np.zeros(3, np.float32)
    assert module.add(x, y, o) is None
    assert o.tolist() == [1, 2, 3]
    assert module.twice(21) == 42
    assert sorted(module) == ["add", "twice"]


def test_functions_have_their_documentation_and_the_names_of_their_parameters(module):
    assert module.add.__doc__ == "o = x + y"
    assert module.add.metadata["arg_names"] == ["x", "y", "o"]
    assert '"type":"DLTensor*"' in module.add.metadata["type_schema"]


def test_what_the_text_throws_is_raised(module):
    x, o = np.zeros(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=re.escape("(3 vs. 2) : x and y differ")):
        module.add(x, x[:2], o)
    with pytest.raises(TypeError, match=r"Expected `int` but got `ffi.SmallStr`"):
        module.twice("x")


def test_the_same_text_is_compiled_once(module, monkeypatch):
    def compiles(*arguments: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("kdsl.native._compile", compiles)
    again = kdsl.load_inline("adding", ADD, functions={"add": "o = x + y", "twice": ""})
    assert again.path == module.path


def test_an_error_names_the_line_of_the_python_file():
    line = test_an_error_names_the_line_of_the_python_file.__code__.co_firstlineno
    with pytest.raises(kdsl.BuildError) as caught:
        kdsl.load_inline(
            "wrong",
            """
int f(int x) {
  return y;
}
""",
            functions="f",
        )
    text = str(caught.value)
    place = f"{Path(__file__).name}:{line + 7}:"
    assert place in text and "was not declared" in text
    log = Path(re.search(r"The full log is (.*)\.$", text)[1])
    assert "return y;" in log.read_text()


def test_text_from_elsewhere_has_lines_of_its_own():
    text = "int f(int x) {\n  return " + "z" + ";\n}\n"
    with pytest.raises(kdsl.BuildError, match=r"elsewhere\.cpp:2:"):
        kdsl.load_inline("elsewhere", text, functions="f")


def test_a_function_that_is_not_there_is_an_error():
    with pytest.raises(kdsl.BuildError, match=r"functions of absent:1:.*missing"):
        kdsl.load_inline("absent", "int f() { return 1; }", functions=["missing"])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("no name", ""), ValueError, "expected the module's name, an identifier, got 'no name'"),
        (("x", b"int"), TypeError, "x: expected C++ text, got bytes"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, text):
    with pytest.raises(error, match=re.escape(text)):
        kdsl.load_inline(*arguments)


def test_flags_are_lists():
    with pytest.raises(TypeError, match=re.escape("write ['-O3', '-DX']")):
        kdsl.load_inline("x", "", flags="-O3 -DX")
    module = kdsl.load_inline(
        "flagged", "int f() { return SEVEN; }", functions="f", flags=["-DSEVEN=7"]
    )
    assert module.f() == 7


def test_files_are_built_and_watched(tmp_path):
    (tmp_path / "scale.h").write_text("inline int scale() { return 2; }\n")
    (tmp_path / "one file.cc").write_text(
        '#include "scale.h"\n#include <tvm/ffi/tvm_ffi.h>\nint other(int);\n'
        "int f(int x) { return scale() * other(x); }\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(f, f);\n"
    )
    (tmp_path / "two.cc").write_text(
        "#include <tvm/ffi/tvm_ffi.h>\nint other(int x) { return x + 1; }\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(other, other);\n"
    )
    sources = [tmp_path / "one file.cc", tmp_path / "two.cc"]
    first = kdsl.build("files", sources)
    assert kdsl.load_module(first).f(1) == 4
    assert kdsl.build("files", sources) == first
    (tmp_path / "scale.h").write_text("inline int scale() { return 3; }\n")
    changed = kdsl.load("files", sources)
    assert changed.f(1) == 6
    assert kdsl.build("files", sources) != first


def test_no_files_and_missing_files_are_errors(tmp_path):
    with pytest.raises(ValueError, match="give at least one source file"):
        kdsl.build("none", [])
    with pytest.raises(FileNotFoundError):
        kdsl.build("missing", tmp_path / "missing.cc")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("void f(int a, float b) {}", ["a", "b"]),
        ("void f() {}", []),
        ("void f(int, float b) {}", []),
        ("ffi::Array<ffi::Tensor> f(ffi::Map<int, int> m, const int* p = nullptr) {}", ["m", "p"]),
        ("int g(int z); // int f(int wrong)\nstatic int f(std::array<int, 2> (&x)[3]);", []),
        ("int f(int x); int h() { return f(3); }", ["x"]),
        ("int f(unsigned int) {}", []),
    ],
)
def test_names_of_parameters_are_read_from_the_text(text, names):
    assert parameter_names(text, "f") == names


def test_parameters_are_passed_by_name(module):
    x, o = np.ones(2, np.float32), np.zeros(2, np.float32)
    module.add(o=o, x=x, y=x)
    assert o.tolist() == [2, 2]
    assert module.twice(value=4) == 8
    assert str(module.add.__signature__) == "(x: 'DLTensor*', y: 'DLTensor*', o: 'DLTensor*')"
    with pytest.raises(TypeError, match=r"unknown keyword `z`; the parameters are x, y, o"):
        module.add(x, x, z=o)
    with pytest.raises(TypeError, match=r"`add\(0: DLTensor\*, .*Expected 3 but got 2"):
        module.add(x, x)


def test_the_command_line_tells_the_flags_for_other_builds(tmp_path):
    command = [sys.executable, "-m", "kdsl", "config", "--cflags"]
    flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "a.cc").write_text("#include <tvm/ffi/tvm_ffi.h>\n")
    compile_only = ["g++", "-fsyntax-only", *shlex.split(flags), str(tmp_path / "a.cc")]
    assert subprocess.run(compile_only, capture_output=True, text=True).stderr == ""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_cuda_text_is_compiled_with_nvcc():
    module = kdsl.load_inline(
        "with_cuda",
        "int64_t launch(int64_t x);",
        functions="launch",
        cuda="""
__global__ void kernel(int* p) { *p = 1; }
int64_t launch(int64_t x) { return x + static_cast<int64_t>(tvm::ffi::String("cuda").size()); }
""",
    )
    assert module.launch(3) == 7


def test_text_that_relies_on_what_the_official_headers_include_compiles():
    # With the official headers it does: they include <string>, <vector> and <utility>.
    module = kdsl.load_inline(
        "relies",
        """
namespace ffi = tvm::ffi;
ffi::String joined(ffi::Array<ffi::String> words) {
  std::vector<std::string> kept;
  for (const ffi::String& word : words) kept.push_back(word);
  std::string all;
  for (std::string& word : kept) all += std::move(word);
  return all;
}
""",
        functions="joined",
    )
    assert module.joined(["a", "bc", "a much longer word"]) == "abca much longer word"


def test_an_error_beside_such_a_name_is_the_one_that_is_told():
    text = "std::string f(std::string x) {\n  return x + " + "wrong" + ";\n}\n"
    with pytest.raises(kdsl.BuildError, match=r"relying\.cpp:2:.*wrong.* was not declared"):
        kdsl.load_inline("relying", text, functions="f")


@pytest.mark.parametrize("first", ["std", "kdsl"])
def test_std_move_needs_no_header_and_std_s_own_goes_first(first, tmp_path):
    std = "#include <algorithm>\n#include <string>\n#include <utility>\n#include <vector>\n"
    own = "#include <tvm/ffi/tvm_ffi.h>\n"
    alone = own + "tvm::ffi::String f(tvm::ffi::String a) { return String(std::move(a)); }\n"
    (tmp_path / "alone.cc").write_text(alone.replace("String(std", "tvm::ffi::String(std"))
    (tmp_path / "both.cc").write_text(
        (std + own if first == "std" else own + std)
        + """std::string g(std::vector<std::string> a, std::vector<std::string> b) {
  std::move(a.begin(), a.end(), b.begin());
  std::vector<std::string> c = std::move(b);
  return std::move(c[0]) + std::string(std::forward<std::string>(c[1]));
}
"""
    )
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    files = [str(tmp_path / "alone.cc"), str(tmp_path / "both.cc")]
    for file in files:
        run = subprocess.run(
            [*command, f"-I{kdsl.paths.include_dir()}", file], capture_output=True, text=True
        )
        assert run.stderr == ""
