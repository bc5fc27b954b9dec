"""The library that replaces the runtime, the driver and cuBLAS in a program: made from the headers, compiled once.

Each implemented function (`calls/`) sends its arguments to the simulated GPU's process; any other function of the
headers prints its name and returns an error. The host's C++ compiler builds the library at its first use.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tilewright.errors import CompileError, MissingExtraError
from tilewright.frontends.cublas import calls as cublas
from tilewright.frontends.cublas.header import STATUSES
from tilewright.frontends.programs import headers
from tilewright.frontends.programs.headers import Function
from tilewright.ground.native import eviction, secure_files, store
from tilewright.ground.progress import announced

#: The folder of headers that the compiler's wheels lack.
HEADERS = Path(__file__).parent / "include"
#: File names of the libraries in programs; all are this library.
NAMES = (
    "libcudart.so",
    "libcudart.so.13",
    "libcudart.so.12",
    "libcudart.so.11.0",
    "libcuda.so",
    "libcuda.so.1",
    "libcublas.so",
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so.11",
    "libcublasLt.so",
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.11",
)
#: Versions of symbols that programs ask of the runtime. All our symbols have none and serve each, but the loader prints
#: a warning if a library lacks a version.
_VERSIONS = "\n".join(f"{name} {{}};" for name in NAMES if name[-1].isdigit() and not name.startswith("libcuda."))
_ENUMERATOR = re.compile(r"\b(cudaError\w+|cudaSuccess|CUDA_ERROR_\w+|CUDA_SUCCESS)\s*=\s*(\d+)")
#: Functions that `local.hpp` defines.
_LOCAL = re.compile(r"^extern \"C\" .*?(\w+)\(", re.MULTILINE)
#: Calls that programs of CUDA 12 or 11 make with other parameters or structures: what is done first for these.
_OLDER = {
    "cudaGetDeviceProperties": "return cudaGetDeviceProperties_v2(a0, a1);",
    "cudaGraphAddDependencies": "a4 = (size_t)a3, a3 = nullptr;",
}
#: Calls that change nothing on which the acceptance of a launch depends, so that tickets stay valid.
KEEPS_TICKETS = frozenset(
    "cudaLaunchKernel cudaDeviceSynchronize cudaStreamSynchronize cudaGetLastError cudaPeekAtLastError cudaMalloc "
    "cudaFree cudaMallocAsync cudaFreeAsync cudaMemcpy cudaMemcpyAsync cudaMemset cudaMemsetAsync cudaGetDevice "
    "cudaEventCreate cudaEventRecord cudaEventSynchronize cudaEventQuery cudaEventElapsedTime cudaStreamQuery".split()
)
_VERSIONED = re.compile(r"#define\s+(cu\w+)\s+(?:__CUD\w+\()?(cu\w+_v\d+)\b")
_PER_THREAD = re.compile(r"#define\s+(cuda\w+|cu\w+)\s+_{1,2}CUD\w*_API_(PT[DS][SZ])\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Library:
    """The library on disk."""

    file: Path
    functions: tuple[Function, ...]  #: The functions, indexed by the number in a call.

    def placed(self, folder: Path) -> None:
        """Copy it into a folder, under each of `NAMES`."""
        for name in NAMES:
            (folder / name).symlink_to(self.file)


def answered(names: Sequence[str]) -> tuple[Function, ...]:
    """The functions of these names, as declared in the headers."""
    folder = headers.folder()
    own = resources.files(__package__)
    with resources.as_file(own / "registration.hpp") as registration:
        known = {
            **headers.functions(registration),
            **headers.functions(folder / "cuda_runtime_api.h"),
            **headers.functions(folder / "cuda.h"),
            **{one.name: Function(one.name, cublas.STATUS, one.parameters) for one in cublas.functions()},
        }
    return tuple(known[name] for name in sorted(names) if name in known)


def built(names: Sequence[str]) -> Library:
    """The library from the cache, compiled at its first use.

    Raises MissingExtraError: the vendor's headers or the host's compiler are missing; CompileError: the compiler
    failed.
    """
    functions = answered(names)
    sources = {"answered.cpp": _answered(functions), "refused.c": _refused(functions), "versions.map": _VERSIONS}
    sources |= {name: (HEADERS / name).read_text("utf-8") for name in ("cublas_v2.h", "cublasLt.h")}
    for name in ("messages.h", "client.hpp", "local.hpp", "older.hpp", "registration.hpp", "replacing.hpp"):
        sources[name] = resources.files(__package__).joinpath(name).read_text("utf-8")
    room = store.room(secure_files.PROGRAMS) or secure_files.temporary_folder()
    file = room / f"{store.digest(*sources.values(), str(headers.folder()))}.bin"
    if file.exists():
        eviction.note_use(file)
    else:
        secure_files.write(file, _compiled(sources))
    return Library(file, functions)


def compiler() -> str:
    """The host's C++ compiler.

    Raises MissingExtraError: it is not installed.
    """
    found = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if found is None:
        raise MissingExtraError(
            "Running CUDA programs needs the host's C++ compiler, g++, which is not installed; install the system's "
            "package: g++ (Debian, Ubuntu), gcc-c++ (Fedora), gcc (Arch), or gxx (conda)",
            "gpu",
        )
    return found


def _compiled(sources: dict[str, str]) -> bytes:
    with announced("compiling", "the CUDA runtime"), secure_files.working_folder() as work:
        for name, text in sources.items():
            (work / name).write_text(text, "utf-8")
        flags = ["-O1", "-fPIC", "-w", f"-I{headers.folder()}", f"-I{work}", "-fvisibility=default"]
        run([compiler(), "-std=c++17", *flags, "-c", "answered.cpp", "-o", "answered.o"], work)
        run([compiler(), "-x", "c", *flags, "-c", "refused.c", "-o", "refused.o"], work)
        objects = ["answered.o", "refused.o", "-lpthread", "-ldl"]
        versions = "-Wl,--version-script=versions.map"
        run([compiler(), "-shared", "-Wl,-soname,libcudart.so.13", versions, "-o", "made", *objects], work)
        return (work / "made").read_bytes()


def run(command: Sequence[str], folder: Path) -> None:
    """Run a compiler.

    Raises CompileError: it failed; the message has its output.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{Path(command[0]).name} failed:\n{(done.stderr or done.stdout).strip()}")


def _answered(functions: Sequence[Function]) -> str:
    """C++ code of the implemented functions, checked against the vendor's declarations."""
    lines = [
        "#define CUDART_API_PER_THREAD 0",
        "#include <cuda_runtime_api.h>",
        "#include <cuda.h>",
        '#include "cublasLt.h"',
        '#include "client.hpp"',
        'extern "C" {',
        '#include "registration.hpp"',
        "}",
    ]
    lines += ["struct TilewrightError { int number; const char *name, *text; };"]
    lines += _errors()
    lines += _of_cublas()
    for number, function in enumerate(functions):
        lines.append(_stub(number, function))
    names = [f.name for f in functions if f.returns == "CUresult"]
    lines += [
        "struct TilewrightName { const char *name; void *function; };",
        "static const TilewrightName tilewright_names[] = {",
    ]
    lines += [f'    {{"{name}", (void *){name}}},' for name in names]
    lines += ['    {"", nullptr}};', '#include "local.hpp"', '#include "older.hpp"', '#include "replacing.hpp"']
    lines += _per_thread({f.name for f in functions})
    return "\n".join(lines) + "\n"


def _stub(number: int, function: Function) -> str:
    declared = ", ".join(f"{kind} a{at}" for at, (kind, _) in enumerate(function.parameters))
    # addresses as words: the compiler then makes one function for all stubs with such words
    words = ("(uint64_t)" * (kind[-1] == "*" or function.returns == cublas.STATUS) for kind, _ in function.parameters)
    given = "".join(f", {word}a{at}" for at, word in enumerate(words))
    body = f"tilewright::call({number}{given})"
    if function.name == "cudaLaunchKernel":
        body = f"(tilewright::launched(a0, a1, a2, a3, a4, a5) ? 0 : {body})"
    elif function.name not in KEEPS_TICKETS:
        body = f"(tilewright::end_tickets(), {body})"
    older = f"if (tilewright::older_) {{ {_OLDER[function.name]} }} " if function.name in _OLDER else ""
    result = f"{body};" if function.returns == "void" else f"return ({function.returns}){body};"
    return f'extern "C" {function.returns} {function.name}({declared or "void"}) {{ {older}{result} }}'


def _errors() -> Iterator[str]:
    """Tables of error codes: names from the headers, texts from the vendor's runtime."""
    folder = headers.folder()
    said = _texts(folder)
    tables = (
        ("tilewright_errors", "cudaError", (folder / "driver_types.h").read_text("utf-8", "replace")),
        ("tilewright_results", "CUDA_", (folder / "cuda.h").read_text("utf-8", "replace")),
    )
    for table, prefix, text in tables:
        yield f"static const TilewrightError {table}[] = {{"
        for name, number in _ENUMERATOR.findall(text):
            if name.startswith((prefix, "cudaSuccess")):
                yield f'    {{{number}, "{name}", "{said(int(number))}"}},'
        yield '    {-1, "", ""}};'


def _of_cublas() -> Iterator[str]:
    """The functions of cuBLAS and cuBLASLt that need no simulated GPU: texts of statuses, versions, descriptors."""
    for name, texts in (
        ("GetStatusName", {number: f"CUBLAS_STATUS_{name}" for name, number in STATUSES.items()}),
        ("GetStatusString", {number: name.replace("_", " ").lower() for name, number in STATUSES.items()}),
    ):
        cases = " ".join(f'case {number}: return "{text}";' for number, text in texts.items())
        body = f'switch (status) {{ {cases} }} return "unknown";'
        for library in ("cublas", "cublasLt"):
            yield f'extern "C" const char *{library}{name}(cublasStatus_t status) {{ {body} }}'
    for name, number in (
        ("cublasGetCudartVersion", "CUDART_VERSION"),
        ("cublasLtGetCudartVersion", "CUDART_VERSION"),
        ("cublasLtGetVersion", "CUBLAS_VERSION"),
    ):
        yield f'extern "C" size_t {name}(void) {{ return {number}; }}'
    yield 'extern "C" unsigned cublasLtDisableCpuInstructionsSetMask(unsigned mask) {'
    yield "    static unsigned set; unsigned before = set; set = mask; return before; }"
    for function in cublas.functions():
        if function.statements:
            yield f'extern "C" cublasStatus_t {function.name}({function.declared}) {{ {function.statements} }}'


def _texts(folder: Path):  # type: ignore[no-untyped-def]
    for path in sorted((folder.parent / "lib").glob("libcudart.so*")):
        library = ctypes.CDLL(str(path))
        library.cudaGetErrorString.restype = ctypes.c_char_p
        return lambda number: library.cudaGetErrorString(number).decode()
    return lambda number: f"error {number}"


def _per_thread(names: set[str]) -> Iterator[str]:
    """For each runtime function, its name for per-thread default streams: an alias."""
    text = (headers.folder() / "cuda_runtime_api.h").read_text("utf-8", "replace")
    for name, form in dict.fromkeys(_PER_THREAD.findall(text)):
        if name in names:
            yield f'extern "C" __typeof__({name}) {name}_{form.lower()} __attribute__((alias("{name}")));'


def _refused(functions: Sequence[Function]) -> str:
    """C code of all other functions of the headers: they print their name and fail."""
    folder = headers.folder()
    local = set(_LOCAL.findall(resources.files(__package__).joinpath("local.hpp").read_text("utf-8")))
    there = {function.name for function in functions} | local
    lines = [
        "#include <stdio.h>",
        "static int refused(const char *name) {",
        '    fprintf(stderr, "tilewright: %s is not implemented by the simulated GPU: not supported, error 801\\n",',
        "            name);",
        "    return 801;",
        "}",
    ]
    for header in ("cuda_runtime_api.h", "cuda.h"):
        symbols = dict(_VERSIONED.findall((folder / header).read_text("utf-8", "replace")))
        for name, function in headers.functions(folder / header).items():
            if name not in there and function.returns.split(" ")[-1] in ("cudaError_t", "CUresult"):
                for symbol in sorted({name, symbols.get(name, name)} - there):
                    there.add(symbol)
                    lines.append(f'__attribute__((weak)) int {symbol}(void) {{ return refused("{name}"); }}')
    return "\n".join(lines) + "\n"
