from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from tilewright.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CompileError,
    LaunchError,
    MissingExtraError,
    TilewrightWarning,
)
from tilewright.programs import Program, program_for

CUDA = """
namespace inner {
template <int SIZE, typename T> __global__ void scale(T *out, const T *in, T factor, short n) {
    __shared__ T tile[SIZE];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = factor * tile[SIZE - 1 - threadIdx.x];
}
}
__global__ void plain(int *out) { *out = WIDTH; }
"""


def scale(out: Any, factor: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] *= factor


def address(_: Any) -> int:
    return 64


class TestPython:
    def test_a_signature_a_list_of_types_and_dtypes_agree(self) -> None:
        first = Program.from_python(scale, "void(float32[::1], float64)")
        assert first == Program.from_python(scale, (types.Array(float32, 1, "C"), np.float64))
        assert first == Program.from_python(scale, ["float32[::1]", "float64"])

    def test_properties_of_a_program(self) -> None:
        program = Program.from_python(scale, "(float32[:], float64)", cc=(8, 0))
        assert (program.name, program.entry, program.abi, program.cc) == ("scale", "scale", "numba", (8, 0))
        assert [p.bytes for p in program.parameters] == [8] * 8
        assert program.parameters[-1].kind == "float"
        assert [(a.name, a.kind, a.layout) for a in program.arguments] == [
            ("out", "array", "A"),
            ("factor", "scalar", "A"),
        ]
        assert ".target sm_80" in program.ptx
        assert ".entry scale(" in program.ptx

    def test_lines_lead_to_the_source(self) -> None:
        program = Program.from_python(scale, "(float32[:], float64)")
        multiply = next(n for n, line in enumerate(program.ptx.splitlines(), 1) if "mul.f64" in line)
        line = scale.__code__.co_firstlineno + 3
        assert program.source_lines[multiply] == f"{__file__}:{line}"
        assert Program.from_python(scale, "(float32[:], float64)", lineinfo=False).source_lines == {}

    def test_symbols_do_not_depend_on_what_was_compiled_before(self) -> None:
        def made() -> Any:
            @cuda.jit(device=True)
            def twice(x: Any) -> Any:
                return 2 * x

            def kernel(out: Any) -> None:
                out[0] = twice(out[0])

            return kernel

        texts = {Program.from_python(made(), "(float32[::1],)").ptx for _ in range(2)}
        assert len(texts) == 1
        assert "_ZN" not in texts.pop()

    def test_marshalling_follows_numbas_fields(self) -> None:
        program = Program.from_python(scale, "(float32[:], float64)")
        values = program.marshal((np.zeros(6, np.float32)[::2], 0.5), address)
        assert [int.from_bytes(v, "little") for v in values[:7]] == [0, 0, 3, 4, 64, 3, 8]
        assert program.pack(values) == b"".join(values)
        with pytest.raises(ArgumentTypeError, match="scale: out must be array"):
            program.marshal((np.zeros(6), 0.5), address)
        with pytest.raises(LaunchError, match="scale takes 2 arguments"):
            program.marshal((np.zeros(6, np.float32),), address)

    def test_every_kind_of_argument_has_the_parameters_of_its_fields(self) -> None:
        def kernel(out: Any, b: Any, h: Any, t: Any, c: Any, d: Any, s: Any) -> None:
            if b:
                out[0] = h + t[0] + t[1] + c.real + d.imag + s

        args = (np.zeros(3), True, np.float16(1), (1, 2.0), np.complex64(1j), 2j, np.int8(-1))
        program = program_for(kernel, args)
        assert [len(v) for v in program.marshal(args, address)] == [p.bytes for p in program.parameters]

    def test_fastmath_and_opt_reach_the_compiler(self) -> None:
        def kernel(x: Any) -> None:
            x[0] = x[0] / x[1]

        plain = Program.from_python(kernel, "(float32[::1],)")
        fast = Program.from_python(kernel, "(float32[::1],)", fastmath=True)
        assert "div.approx.ftz.f32" in fast.ptx
        assert "div.approx" not in plain.ptx
        assert len(Program.from_python(kernel, "(float32[::1],)", opt=False).ptx) > len(plain.ptx)
        assert Program.from_python(cuda.jit(kernel, fastmath=True), "(float32[::1],)").ptx == fast.ptx
        assert Program.from_python(cuda.jit(kernel, fastmath=True), "(float32[::1],)", fastmath=False).ptx == plain.ptx

    def test_an_error_holds_the_source_line(self) -> None:
        def kernel(x: Any) -> None:
            x[0] = x.nothing

        with pytest.raises(CompileError) as caught:
            Program.from_python(kernel, "(float32[::1],)")
        line = kernel.__code__.co_firstlineno
        assert str(caught.value).startswith(f"{__file__}:{line}: Numba could not compile `kernel`")
        assert "Unknown attribute 'nothing'" in str(caught.value)
        assert f"line {line + 1}" in str(caught.value)

    def test_a_kernel_returns_nothing(self) -> None:
        def kernel(x: Any) -> Any:
            return x[0]

        with pytest.raises(CompileError):
            Program.from_python(kernel, "(float32[::1],)")

    @pytest.mark.parametrize("argtypes", ["float32[", "nonsense", [object()], 7])
    def test_invalid_types(self, argtypes: Any) -> None:
        with pytest.raises(ArgumentTypeError, match="`argtypes` must"):
            Program.from_python(scale, argtypes)

    def test_invalid_kernels(self) -> None:
        with pytest.raises(ArgumentTypeError, match=r"`function` must be a Python function .*\(got str\)"):
            Program.from_python("scale", "(float32[:],)")
        with pytest.raises(ArgumentTypeError, match="made with device=True"):
            Program.from_python(cuda.jit(scale, device=True), "(float32[:], float64)")

    @pytest.mark.parametrize("cc", [90, "90", (9,), [9, 0]])
    def test_a_compute_capability_is_a_pair(self, cc: Any) -> None:
        with pytest.raises(ArgumentTypeError, match="`cc` must be a pair"):
            Program.from_python(scale, "(float32[:], float64)", cc=cc)


class TestSpecialisation:
    def test_the_arguments_choose_the_parameters(self) -> None:
        whole = program_for(scale, (np.zeros(4, np.float32), 2.0))
        assert whole is program_for(scale, (np.ones(9, np.float32), 3.0))
        strided = program_for(scale, (np.zeros(4, np.float32)[::2], 2.0))
        integer = program_for(scale, (np.zeros(4, np.float32), 2))
        assert len({whole.ptx, strided.ptx, integer.ptx}) == 3
        assert [a.type_name for a in integer.arguments] == ["array(float32, 1d, C)", "int64"]
        assert strided.arguments[0].layout == "A"

    def test_a_program_passes_through(self) -> None:
        program = Program.from_python(scale, "(float32[:], float64)")
        assert program_for(program, ()) is program

    def test_a_jit_object(self) -> None:
        args = (np.zeros(4, np.float32), 2.0)
        assert program_for(cuda.jit(scale), args).ptx == program_for(scale, args).ptx

    def test_the_gpus_arrays(self) -> None:
        class OnGpu:
            def __init__(self) -> None:
                self.__cuda_array_interface__ = {"typestr": "<f4", "shape": (4,), "strides": None, "data": (1, True)}

        program = program_for(lambda x, y: None, (OnGpu(), np.zeros(1)))
        assert program.entry == "_lambda_"
        assert (program.arguments[0].dtype, program.arguments[0].layout) == ("<f4", "C")
        assert [a.writable for a in program.arguments] == [False, True]

    def test_objects_that_cannot_be_arguments(self) -> None:
        with pytest.raises(ArgumentTypeError, match="must be arrays, numbers"):
            program_for(scale, (object(), 1))


class TestCuda:
    def test_a_template_instance(self) -> None:
        program = Program.from_cuda(CUDA, "inner::scale<32, double>", options=["-DWIDTH=3"])
        assert program.name == "inner::scale<32, double>"
        assert program.entry.startswith("_ZN5inner5scaleILi32Ed")
        assert program.abi == "c"
        assert [p.bytes for p in program.parameters] == [8, 8, 8, 2]
        assert program.shared_bytes == 32 * 8
        packed = program.pack(program.marshal((np.zeros(32), np.zeros(32), 2, 7), address))
        assert packed == np.array([64, 64], "<u8").tobytes() + np.float64(2).tobytes() + b"\7\0"

    def test_lines_lead_to_the_source(self) -> None:
        program = Program.from_cuda(CUDA, "plain", options=["-DWIDTH=3"], path="somewhere.cu")
        assert set(program.source_lines.values()) == {"somewhere.cu:10"}
        assert Program.from_cuda(CUDA, "plain", options=["-DWIDTH=3"], lineinfo=False).source_lines == {}

    def test_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "k.cu"
        file.write_text(CUDA)
        program = Program.from_cuda(file, "plain", options=("-DWIDTH=3",), cc=(8, 6))
        assert program.cc == (8, 6)
        assert set(program.source_lines.values()) == {f"{file}:10"}

    def test_the_vendors_headers(self) -> None:
        source = "#include <cuda_fp16.h>\n__global__ void k(__half *x) { *x = __hadd(*x, *x); }"
        assert "f16" in Program.from_cuda(source, "k").ptx

    def test_an_error_marks_the_source_line(self) -> None:
        with pytest.raises(CompileError) as caught:
            Program.from_cuda(CUDA, "plain", path="k.cu")
        assert str(caught.value).startswith('k.cu:10: NVRTC could not compile `plain`: error: identifier "WIDTH"')
        assert "\n  10 | __global__ void plain(int *out) { *out = WIDTH; }\n" in str(caught.value)

    def test_an_unknown_kernel(self) -> None:
        with pytest.raises(CompileError, match="nothing_here"):
            Program.from_cuda(CUDA, "nothing_here", options=["-DWIDTH=3"])

    def test_an_unknown_option(self) -> None:
        with pytest.raises(ArgumentValueError, match="`options` must be NVRTC options"):
            Program.from_cuda(CUDA, "plain", options=["--nonsense"])
        with pytest.raises(ArgumentTypeError, match="sequence of strings"):
            Program.from_cuda(CUDA, "plain", options="-DWIDTH=3")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ArgumentValueError, match="must be a file that is there"):
            Program.from_cuda(tmp_path / "none.cu", "plain")


class TestPtx:
    def test_text_and_file(self, tmp_path: Path) -> None:
        source = CUDA.replace("plain(int *out) { *out = WIDTH; }", "unused();")
        made = Program.from_cuda(source, "inner::scale<32, float>")
        file = tmp_path / "k.ptx"
        file.write_text(made.ptx)
        read = Program.from_ptx(made.ptx)
        assert read == Program.from_ptx(file) == Program.from_ptx(str(file), made.entry)
        assert (read.entry, read.parameters, read.shared_bytes) == (made.entry, made.parameters, 128)

    def test_a_missing_file(self) -> None:
        with pytest.raises(ArgumentValueError, match=r"none\.ptx must be a file that is there"):
            Program.from_ptx("none.ptx")


class TestResources:
    def test_resources_are_the_assemblers(self) -> None:
        program = Program.from_cuda(CUDA, "inner::scale<32, double>", options=["-DWIDTH=3"])
        found = program.resources()
        assert found.shared_bytes == 256
        assert found.barriers == 1
        assert 6 <= found.registers_per_thread <= 32
        assert (found.spill_store_bytes, found.spill_load_bytes, found.stack_bytes) == (0, 0, 0)

    def test_spills_and_stack(self) -> None:
        source = """
        __global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
            float v[64], sum = 0;
            #pragma unroll
            for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
            __syncthreads();
            for (int j = 0; j < n; ++j)
                #pragma unroll
                for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 1) % 64] + j;
            #pragma unroll
            for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = v[i];
        }"""
        found = Program.from_cuda(source, "k").resources()
        assert found.registers_per_thread == 32
        assert found.spill_store_bytes > 0
        assert found.spill_load_bytes > 0
        assert found.stack_bytes > 0

    def test_another_architecture(self) -> None:
        program = Program.from_cuda(CUDA, "plain", options=["-DWIDTH=3"], cc=(8, 0))
        assert program.resources((9, 0)).registers_per_thread > 0
        with pytest.raises(CompileError, match="the assembler rejected it for sm_75"):
            program.resources((7, 5))

    def test_text_of_a_later_version_than_the_assembler_is_read_as_its_own(self) -> None:
        text = ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n%s\nret;\n}\n"
        assert Program.from_ptx(text % "").resources().spill_store_bytes == 0
        with pytest.raises(CompileError, match=r"(?s)the assembler rejected it for sm_90.*\n  5 \| mov.u32 %nothing"):
            Program.from_ptx(text % "mov.u32 %nothing, 1;").resources()

    def test_the_right_kernel_of_several(self) -> None:
        both = """
        extern "C" __global__ void small(int *x) { *x = 1; }
        extern "C" __global__ void large(int *x) { __shared__ int s[64]; s[threadIdx.x] = *x; *x = s[*x]; }
        template <void (*A)(int *), void (*B)(int *)> __global__ void all() {}"""
        text = Program.from_cuda(both, "large").ptx
        assert Program.from_ptx(text, "small").resources().shared_bytes == 0
        assert Program.from_ptx(text, "large").resources().shared_bytes == 256

    def test_a_refusal_marks_the_line(self) -> None:
        text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\nmov.u32 %nothing, 1;\nret;\n}\n"
        with pytest.raises(
            CompileError, match=r"(?s)k: the assembler rejected it for sm_90.*\n  5 \| mov.u32 %nothing"
        ):
            Program.from_ptx(text).resources()

    def test_resources_are_kept_on_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from tilewright.simulate.programs import assembler

        program = Program.from_cuda(CUDA, "plain", options=["-DWIDTH=17"])
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
        first = program.resources()
        code = assembler.cubin(program.ptx, program.entry, program.cc)
        assert code.startswith(b"\x7fELF")
        (file,) = (tmp_path / "resources").iterdir()
        assembler._assembled.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(assembler, "_assemble", None)
            assert program.resources() == first
            assert assembler.cubin(program.ptx, program.entry, program.cc) == code
        file.write_text("{half")
        assembler._assembled.cache_clear()
        with pytest.warns(TilewrightWarning, match="damaged"):
            assert program.resources() == first

    def test_without_the_assembler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tilewright.simulate.programs import assembler

        monkeypatch.setattr("tilewright.simulate.programs.toolkits.installed", lambda: ())
        monkeypatch.setattr("shutil.which", lambda name: None)
        with pytest.raises(MissingExtraError, match=r"ptxas.*pip install .*\[gpu\]'"):
            assembler.find_assembler()


WITHOUT_EXTRA = """
import sys
for name in ("numba", "cuda"):
    sys.modules[name] = None
from tilewright.ground import installation
from tilewright.errors import MissingExtraError, TilewrightWarning
from tilewright.programs import Program, program_for
for make in (
    lambda: Program.from_python(lambda x: None, "(float32[:],)"),
    lambda: Program.from_cuda("", "k"),
    lambda: program_for(lambda x: None, (1,)),
    lambda: __import__("tilewright.multiply.kernels.catalogue").catalogue.find("tiled").program("float32"),
):
    try:
        make()
    except MissingExtraError as error:
        assert str(error).endswith(installation.extra("gpu")), error
    else:
        raise SystemExit("no error")
assert Program.from_ptx(".version 8.0\\n.target sm_90\\n.entry k { ret; }\\n").entry == "k"
"""


def test_without_the_gpu_extra_only_ptx_works() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\nexec sleep 20\n", "k: the assembler did not finish within 0.2 s"),
        ("#!/nowhere/sh\n", "k: .*ptxas cannot be run"),
        (None, "k: .*ptxas cannot be run"),
    ],
)
def test_an_assembler_that_does_not_answer_is_a_compile_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str
) -> None:
    from tilewright.simulate.programs import assembler

    if program is not None:
        (tmp_path / "ptxas").write_text(program)
        (tmp_path / "ptxas").chmod(0o755)
    monkeypatch.setattr(assembler, "find_assembler", lambda: tmp_path / "ptxas")
    monkeypatch.setattr(assembler, "_SECONDS", 0.2)
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    with pytest.raises(CompileError, match=said):
        assembler.cubin(text, "k", (9, 0))


def test_a_program_is_pickled_without_its_compiler() -> None:
    program = Program.from_cuda('extern "C" __global__ void k(float *x) { *x = 1; }', "k")
    assert program.with_arrays is not None
    other = pickle.loads(pickle.dumps(program))
    assert other == program and other.with_arrays is None
