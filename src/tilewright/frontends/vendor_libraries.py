"""NVIDIA's closed libraries: they contain machine code for GPUs, which no simulated GPU runs, but for served ones."""

from __future__ import annotations

import re

#: How names of headers, files, functions and CuPy's modules begin, with the libraries' names; a longer one is first.
LIBRARIES = {
    "cublasLt": "cuBLASLt", "cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT", "curand": "cuRAND",
    "cusparselt": "cuSPARSELt", "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER", "npp": "NPP", "nccl": "NCCL", "nvjpeg": "nvJPEG", "cutensor": "cuTENSOR",
}  # fmt: skip
#: How names of headers begin whose functions are all in the headers, with the package that has them.
_HEADERS = {"curand_": "nvidia-curand"}
#: Headers and files of cuBLAS and cuBLASLt, whose functions are served (`frontends/cublas`).
_SERVED = re.compile(r"cublas(_v2|_api|Lt)\.h|-lcublas(Lt)?|libcublas(Lt)?\.so[.\d]*")
_FILE = re.compile(rb"lib(?:" + "|".join(LIBRARIES).encode() + rb")\w*\.so[.\d]*")


def package(header: str) -> str:
    """The package with a header that needs none of its library's machine code; "" for other headers.

    >>> package("curand_kernel.h"), package("curand.h")
    ('nvidia-curand', '')
    """
    return next((found for start, found in _HEADERS.items() if header.startswith(start)), "")


def refusal(name: str) -> str | None:
    """What a header, file or function belongs to, and why that cannot run; None if it is of no closed library.

    >>> refusal("libcurand.so.10")
    'libcurand.so.10, of cuRAND, a library in machine code, which no simulated GPU runs'
    """
    name = name.rpartition("/")[2]
    if package(name) or _SERVED.fullmatch(name):
        return None
    start = name.removeprefix("-l").removeprefix("lib")
    found = next((library for key, library in LIBRARIES.items() if start.startswith(key)), None)
    return found and f"{name}, of {found}, a library in machine code, which no simulated GPU runs"


def files(data: bytes) -> list[str]:
    """The closed libraries' files that a program names."""
    return sorted({name.decode() for name in _FILE.findall(data)})
