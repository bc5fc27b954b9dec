"""What a machine lacks for measuring, before anything is measured: a line for each part, and what it costs.

Only metadata are read, so it takes a part of a second.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

import profiler

#: Modules without which nothing can be measured.
NEEDED = {
    "numpy": "numpy", "ml_dtypes": "ml-dtypes", "llvmlite": "llvmlite", "typer": "typer", "rich": "rich",
    "cuda.bindings": "cuda-bindings", "cuda.core": "cuda-core", "cuda.pathfinder": "cuda-pathfinder",
    "pytest": "pytest",
}  # fmt: skip
#: Modules, and what is left out without them.
OPTIONAL = {
    "numba_cuda": ("numba-cuda", "kernels in Python"), "torch": ("torch", "races with cuBLAS"),
    "triton": ("triton", "races with Triton"), "cupy": ("cupy-cuda13x", "races with CuPy"),
    "pynvml": ("nvidia-ml-py", "clocks"),
}  # fmt: skip
#: Of llvmlite: it reads the bitcode that the simulated GPU is made of.
_READS_BITCODE = (0, 50)
#: A borrowed machine installs nothing, but wheels of a folder can travel there.
_BRING = "bring wheels: pip download --no-deps -d FOLDER {}; there: pip install --no-index --no-deps FOLDER/*"


def lacks() -> tuple[list[str], list[str]]:
    """What is missing that nothing can be measured without, and what is only left out."""
    absent = [name for part, name in NEEDED.items() if not _has(part)]
    missing = [f"{name} is missing" for name in absent] + [_BRING.format(" ".join(absent))] * bool(absent)
    less = [f"{name} is missing: no {what}" for part, (name, what) in OPTIONAL.items() if not _has(part)]
    for program, what in (("ptxas", "registers; the driver compiles"), ("nvcc", "headers of CUDA")):
        if shutil.which(program, path=environment()["PATH"]) is None:
            less.append(f"{program} is not on PATH: no {what}; set CUDA_HOME")
    if profiler.find() is None:
        less.append("Nsight Compute (ncu) is not installed: no counts")
    if _has("llvmlite") and _version("llvmlite") < _READS_BITCODE:
        less.append(
            f"llvmlite {metadata.version('llvmlite')} does not read the simulated GPU's bitcode (0.50 does): results "
            "are recorded here and compared elsewhere, by tests/hardware/comparing_recordings.py"
        )
    return missing, less


def environment() -> dict[str, str]:
    """The environment, with CUDA's tools, and folders for compilers' caches if the home folder cannot be written."""
    found = dict(os.environ)
    home = toolkit()
    if home is not None:
        found.setdefault("CUDA_HOME", str(home))
        found["PATH"] = os.pathsep.join([found.get("PATH", ""), str(home / "bin")])
    if not os.access(Path.home(), os.W_OK):
        room = Path(tempfile.gettempdir()) / "tilewright-measure"
        folders = {"XDG_CACHE_HOME": "", "TRITON_CACHE_DIR": "triton", "CUPY_CACHE_DIR": "cupy"}
        folders["NUMBA_CACHE_DIR"] = "numba"
        found = {name: str(room / folder) for name, folder in folders.items()} | found
    return found


def toolkit() -> Path | None:
    """The folder of CUDA's toolkit, whose tools and libraries a search path may lack."""
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [*named, Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    return next((place for place in places if (place / "bin" / "ptxas").exists()), None)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of the package above it
        return False


def _version(package: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in metadata.version(package).split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return (0,)
