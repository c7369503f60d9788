"""CUDA compilers and architectures: found, named when missing, and what they make."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from kdsl.codegen import archs, toolchain
from kdsl.codegen.build import build
from kdsl.codegen.device import Image
from kdsl.codegen.device_compile import Nvrtc, lowered
from kdsl.codegen.toolchain import REMEDY, find_toolchain
from kdsl.errors import BuildError

KNOWN = (
    "sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, "
    "sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a"
)

SOURCE = """extern "C" __global__ void twice(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] * 2 + 1;
}
"""

NVCC = shutil.which("nvcc")


def test_targets_name_architectures():
    assert archs.arch_of("cuda:sm_80") == "sm_80"
    for target in ("cuda", "cuda:", "cuda:sm_70", "sm_80", "cuda:80"):
        with pytest.raises(ValueError) as err:
            archs.arch_of(target)
        assert str(err.value) == (
            f"kdsl has no target {target!r}; for CUDA name an architecture as in "
            f'"cuda:sm_80", one of {KNOWN}'
        )


def test_a_gpu_gets_the_newest_code_that_it_runs():
    found = {c: archs.arch_for(c) for c in ((7, 5), (8, 0), (8, 6), (9, 0), (10, 1), (12, 0))}
    assert list(found.values()) == ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    with pytest.raises(ValueError) as err:
        archs.arch_for((7, 0))
    assert str(err.value) == "kdsl has no code for sm_70; the oldest it has is sm_75"


@pytest.mark.parametrize(
    ("line", "oldest", "version"),
    [
        ("add.f32 %f1, %f2, %f3;", (6, 3), "7.0"),
        ("add.f32 %f1, %f2, %f3;", (8, 7), "8.7"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {}, {}, {}, {};", (7, 0), "7.0"),
        ("ld.global.L2::128B.f32 %f1, [%rd1];", (7, 0), "7.4"),
        ("cvta.param.u64 %rd1, %rd2;", (7, 0), "7.7"),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {};", (7, 0), "7.8"),
        ("wgmma.fence.sync.aligned;", (8, 0), "8.0"),
        ("some.word", (9, 9), "9.0"),
    ],
)
def test_ptx_is_written_for_the_oldest_driver_that_has_its_instructions(line, oldest, version):
    text = f"// by nvcc\n.version 9.0\n.target sm_80\n{line}\n"
    assert lowered(text, oldest) == text.replace("9.0", version, 1)


@pytest.fixture
def no_cuda(monkeypatch):
    """A machine on which CUDA is nowhere."""
    monkeypatch.setattr(toolchain, "ROOTS", ())
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CUDA_HOME", "KDSL_CUDA_COMPILER"):
        monkeypatch.delenv(name, raising=False)
    toolchain._find.cache_clear()
    yield monkeypatch
    toolchain._find.cache_clear()


def test_a_missing_compiler_is_an_error_that_says_what_to_install(no_cuda, tmp_path):
    with pytest.raises(BuildError) as err:
        find_toolchain()
    assert str(err.value) == (
        "no CUDA compiler: neither libnvrtc.so nor nvcc is among the packages of this Python, on "
        f"PATH or where CUDA installs itself (no folder). {REMEDY}"
    )
    no_cuda.setenv("CUDA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    with pytest.raises(BuildError, match=f"installs itself \\({tmp_path}/bin\\)"):
        find_toolchain()
    no_cuda.setenv("KDSL_CUDA_COMPILER", "nvcc-9")
    with pytest.raises(BuildError) as err:
        find_toolchain()
    assert str(err.value) == (
        f"no CUDA compiler: KDSL_CUDA_COMPILER is 'nvcc-9', which is no file. {REMEDY}"
    )


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"")
        (folder / name).chmod(0o755)


def test_nvrtc_comes_first_if_it_is_whole_and_the_newest_toolkit_wins(no_cuda, tmp_path):
    site, roots = tmp_path / "site", tmp_path / "local"
    no_cuda.setattr(sys, "path", [str(site)])
    no_cuda.setattr(toolchain, "ROOTS", (roots,))
    put(roots / "cuda-9.2" / "bin", "nvcc")
    put(roots / "cuda-13.0" / "bin", "nvcc")
    put(site / "nvidia" / "cu13" / "lib", "libnvrtc.so.13")  # without its other half
    assert find_toolchain().path == roots / "cuda-13.0" / "bin" / "nvcc"
    toolchain._find.cache_clear()
    put(site / "nvidia" / "cuda_nvrtc" / "lib", "libnvrtc.so.12", "libnvrtc-builtins.so.12.4")
    found = find_toolchain()
    assert (found.kind, found.path.name, found.version) == ("nvrtc", "libnvrtc.so.12", (12, 4))


def compilers():
    found = find_toolchain()
    some = [pytest.param(str(found.path), id=found.kind)]
    if NVCC and found.kind != "nvcc":
        some.append(pytest.param(NVCC, id="nvcc"))
    return some


def compile_source(tmp_path, monkeypatch, compiler, images, source=SOURCE):
    monkeypatch.setenv("KDSL_CUDA_COMPILER", compiler)
    parts = "\n".join(f'.incbin "{image.file("m")}"' for image in images)
    sources = {
        "m.cc": "",
        "m_cuda.cu": source,
        "m_images.s": f'.section .rodata\n.ascii "images:"\n{parts}\n.ascii "end."\n',
    }
    build(sources, tmp_path / "m.so", (), tmp_path / "m.log", images)
    return (tmp_path / "m.so").read_bytes()


def unpacked(library):
    """The images in a library, as the module unpacks them."""
    found = []
    start = library.index(b"images:") + len(b"images:")
    while library[start : start + 4] != b"end.":
        size, packed = struct.unpack_from("<QQ", library, start)
        data = zlib.decompress(library[start + 16 : start + 16 + packed], -15)
        assert len(data) == size
        found.append(data)
        start += 16 + packed
    return found


@pytest.mark.parametrize("compiler", compilers())
def test_machine_code_and_old_ptx_come_out(tmp_path, monkeypatch, compiler):
    images = (Image("sm_80", "cubin"), Image("sm_80", "ptx"))
    library = compile_source(tmp_path, monkeypatch, compiler, images)
    code, text = unpacked(library)
    assert code[:4] == b"\x7fELF" and b"mul.f32" not in code, "PTX is beside it"
    assert b".version 7.0\n.target sm_80" in text and text[-1] == 0
    assert str(tmp_path).encode() not in code + text, "the same on every machine"
    assert b"mul" in text and b"fma" not in text, "contracted is what the kernel says"


@pytest.mark.parametrize("compiler", compilers())
def test_ptx_alone_names_lines_and_no_folders(tmp_path, monkeypatch, compiler):
    (text,) = unpacked(compile_source(tmp_path, monkeypatch, compiler, [Image("sm_80", "ptx")]))
    assert b'.file\t1 "m_cuda.cu"' in text
    assert str(tmp_path).encode() not in text


@pytest.mark.parametrize("arch", ["sm_75", "sm_89", "sm_90a", "sm_120"])
def test_any_architecture_compiles_without_a_gpu(tmp_path, arch):
    nvrtc = find_toolchain()
    ptx, cubin = tmp_path / "m.ptx", tmp_path / "m.cubin"
    (tmp_path / "m.cu").write_text(SOURCE)
    oldest = "{}.{}".format(*archs.ARCHS[arch])
    outs = ["--ptx", str(ptx), "--cubin", str(cubin)]
    command = [*nvrtc.command(), "--arch", arch, "--oldest", oldest, *outs, str(tmp_path / "m.cu")]
    subprocess.run(command, check=True)
    assert f".target {arch}\n" in ptx.read_text()
    assert cubin.read_bytes()[:4] == b"\x7fELF"
    if NVCC:  # its assembler takes the older version
        again = [NVCC, "--cubin", f"-arch={arch}", str(ptx), "-o", str(tmp_path / "again.cubin")]
        subprocess.run(again, check=True)


@pytest.mark.parametrize("compiler", compilers())
def test_what_does_not_compile_names_the_authors_line(tmp_path, monkeypatch, compiler):
    wrong = '#line 14 "softmax.py"\n__global__ void f() { nothing(); }\n'
    with pytest.raises(BuildError) as err:
        compile_source(tmp_path, monkeypatch, compiler, [Image("sm_80", "ptx")], wrong)
    assert str(err.value) == (
        'm.so: the CUDA compiler failed: softmax.py(14): error: identifier "nothing" is undefined\n'
        f"That code was generated for softmax.py:14.\nThe full log is {tmp_path / 'm.log'}."
    )


def test_a_library_that_is_no_nvrtc_is_an_error(tmp_path):
    with pytest.raises(OSError, match="cannot open shared object"):
        Nvrtc(str(tmp_path / "libnvrtc.so.13"))
