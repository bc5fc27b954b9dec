"""Compiles CUDA C++ to an executable with the vendor's compiler: device code stays PTX, the runtime is loaded later."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.drivers.cuda_programs.library import Library, compiler
from tilewright.errors import CompileError
from tilewright.machine.gpu import Gpu
from tilewright.programs.optional import vendor_program
from tilewright.programs.program import OLDEST_CC
from tilewright.waiting import announced

_PURPOSE = "Compiling CUDA programs"
#: Headers of closed libraries, with the libraries' names.
_CLOSED = {
    "cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT", "curand": "cuRAND", "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER", "npp": "NPP", "nccl": "NCCL", "nvjpeg": "nvJPEG", "cutensor": "cuTENSOR",
}  # fmt: skip
#: Compiler options for the headers that its wheels lack.
HEADERS = ("-Xcompiler", f"-idirafter,{Path(__file__).parent / 'include'}")
_NO_HEADER = re.compile(r"fatal error: ([\w./-]+): No such file")


def compiled(source: Path, gpu: Gpu, library: Library, folder: Path, options: Sequence[str] = ()) -> Path:
    """Compile a program into a folder; return the executable.

    NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS of the environment apply, as the compiler documents them.

    Raises MissingExtraError: a compiler is missing; CompileError: it rejected the source.

    """
    nvcc = vendor_program("nvcc", "NVIDIA's compiler", _PURPOSE)
    library.placed(folder)
    made = folder / "program"
    command = [
        str(nvcc), "-o", str(made), str(source.absolute()), f"-arch={architecture(gpu)}", "-lineinfo",
        "-cudart", "shared", "-ccbin", compiler(), f"-L{folder}", "-lcuda", "--compress-mode=none",
        *HEADERS, *options,
    ]  # fmt: skip
    with announced("compiling", source.name):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise CompileError(_why(source, done.stderr + done.stdout))
    return made


def architecture(gpu: Gpu) -> str:
    """The virtual architecture of the PTX: that of the GPU, with its architecture-specific features."""
    major, minor = max(gpu.compute_capability, OLDEST_CC)
    return f"compute_{major}{minor}" + ("a" if (major, minor) >= (9, 0) else "")


def _why(source: Path, said: str) -> str:
    header = _NO_HEADER.search(said)
    closed = next((n for key, n in _CLOSED.items() if header and Path(header[1]).name.startswith(key)), None)
    if closed is not None and header is not None:
        return (
            f"{source}: includes {header[1]}, of {closed}, a library in machine code, which no simulated GPU runs; "
            "remove its calls, or replace them by kernels"
        )
    return f"nvcc refused {source}:\n{said.strip()}"
