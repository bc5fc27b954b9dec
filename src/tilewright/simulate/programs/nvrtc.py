"""CUDA C++ to PTX through NVRTC, which needs no GPU and no driver.

`cuda.core.Program` asks the driver for its version before it returns PTX, so this uses the bindings directly.

Source: NVRTC documentation, "Accessing Lowered Names" and "Supported Compile Options".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright.errors import ArgumentValueError, CompileError, MissingExtraError
from tilewright.ground.native import store
from tilewright.ground.native.memo import memo
from tilewright.ground.progress import announced
from tilewright.simulate.programs import nvrtc_cache, removed_names, toolkits
from tilewright.simulate.programs.optional import missing, require, with_vendor_library

_PURPOSE = "Compiling CUDA C++ kernels"
#: C headers that kernel files include although NVRTC has their contents built in; it has no such headers itself.
#: Source: NVRTC documentation, "Predefined Types", "Builtin Functions": printf, assert, malloc and free, mathematics.
_HEADERS = MappingProxyType(
    dict.fromkeys(("assert.h", "cassert", "math.h", "stdio.h", "cstdio", "stdlib.h", "cstdlib"), "\n")
    | dict.fromkeys(
        ("cstdint", "stdint.h"),
        "#include <cuda/std/cstdint>\n"
        + "".join(f"using cuda::std::{u}int{bits}_t;\n" for u in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
_NO_HEADER = re.compile(r'cannot open source file "([^"\n]+)"')
#: Lines after an error: more of its text, the source line as `#line` counts it, and a caret.
_SHOWN = re.compile(r"\n(?:(?!.*\(\d+\): ).+\n)*?  (?P<line>.*)\n +[ \t]*\^")
_ERROR = re.compile(r"^(?P<file>.*?)\((?P<line>\d+)\): (?P<text>(?:catastrophic )?error.*)$", re.MULTILINE)


def compile_cuda(
    source: str, entry: str, cc: tuple[int, int], options: Sequence[str], path: str, *, lineinfo: bool
) -> tuple[str, str]:
    """Compile CUDA C++; return its PTX and the entry's name in it.

    `entry` is a name expression: `kernel`, `space::kernel`, or a template instance such as `MatrixMulCUDA<16>`.
    `options` are further NVRTC options, such as `-DNAME=1` or `--use_fast_math`; `path` is the file name in messages
    and in the line table.

    Raises CompileError: NVRTC rejected the source, or it has no such kernel.
    """
    folders, own = _headers()
    named = any(option.startswith(("--gpu-architecture", "-arch")) for option in options)  # older releases refuse two
    flags = [f"--gpu-architecture=compute_{cc[0]}{cc[1]}"] * (not named)
    flags += [*own, *options, *["-lineinfo"] * lineinfo]
    facts = (entry, path, _version(), store.fingerprint("simulate/programs"))
    return nvrtc_cache.kept(source, path, flags, folders, facts, lambda: _compiled(source, entry, flags, folders, path))


def _compiled(source: str, entry: str, flags: Sequence[str], folders: Sequence[str], path: str) -> tuple[str, str]:
    nvrtc = with_vendor_library("cuda.bindings.nvrtc", _PURPOSE)
    ok = nvrtc.nvrtcResult.NVRTC_SUCCESS
    try:
        texts, names = ([part.encode() for part in parts] for parts in (_HEADERS.values(), _HEADERS))
        error, program = nvrtc.nvrtcCreateProgram(source.encode(), path.encode(), len(names), texts, names)
    except RuntimeError as cause:  # the bindings load the library at the first call
        raise missing("the NVRTC library", _PURPOSE, cause) from cause
    _check(nvrtc, error)
    try:
        _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, entry.encode())[0])
        flags = [*(f"--include-path={folder}" for folder in folders), *flags]
        with announced("compiling", entry):
            (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if error == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            _check_gpu(nvrtc, flags)
            raise ArgumentValueError(f"`options` must be NVRTC options (got {' '.join(flags)}): {log(nvrtc, program)}")
        if error != ok:
            raise CompileError(_explained(log(nvrtc, program), path, entry))
        error, lowered = nvrtc.nvrtcGetLoweredName(program, entry.encode())
        _check(nvrtc, error)
        ptx = output(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    # NVRTC makes a relative path absolute; this restores it, so that the PTX does not depend on the current folder.
    return ptx.replace(f'"{Path.cwd() / path}"', f'"{path}"'), str(lowered.decode())


def _check(nvrtc: Any, error: Any) -> None:
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC reports {error.name}")


def _check_gpu(nvrtc: Any, flags: Sequence[str]) -> None:
    """Raise ArgumentValueError if it is the GPU that NVRTC refuses."""
    known = [divmod(number, 10) for number in nvrtc.nvrtcGetSupportedArchs()[1]]
    named = re.search(r"compute_(\d+)(\d)", " ".join(flags))
    wanted = (int(named[1]), int(named[2])) if named else known[0]
    if wanted in known:
        return
    release, *gpus = (".".join(map(str, one)) for one in (nvrtc.nvrtcVersion()[1:], wanted, *known))
    raise ArgumentValueError(
        f"`cc` must be of a GPU that NVRTC {release} compiles for: {', '.join(gpus[1:])} (got {gpus[0]}"
        f"{', which is too old for it' if wanted < known[0] else ''}); name one of these, or pass PTX"
    )


def _headers() -> tuple[list[str], list[str]]:
    """The folders of CUDA's headers (cuda_fp16.h, and cuda/std of CCCL, which they use), and flags for them.

    They are of NVRTC's release if such are installed. Without headers a kernel that includes none compiles too.
    """
    release = _release()
    try:
        found = toolkits.with_headers(_PURPOSE, release)
    except MissingExtraError:
        return [], []
    differ = release is not None and found.headers != release
    return [str(folder) for folder in found.includes], [toolkits.ANY_RELEASE] * differ


def _release() -> toolkits.Release | None:
    """NVRTC's release by its package; None if it comes from elsewhere."""
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
        major, minor = metadata.version("nvidia-cuda-nvrtc").split(".")[:2]
        return int(major), int(minor)
    return None


@memo
def _version() -> str:
    """Which NVRTC it is: the versions of its wheels, which are found first, or the library's path, size and time.

    The bindings choose between the wheels.
    """
    wheels = {}
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "cuda-bindings"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            wheels[name] = metadata.version(name)
    if wheels.keys() - {"cuda-bindings"}:
        return str(wheels)
    try:
        path = require("cuda.pathfinder", _PURPOSE).load_nvidia_dynamic_lib("nvrtc").abs_path
    except RuntimeError as cause:
        raise missing("the NVRTC library", _PURPOSE, cause) from cause
    status = Path(path).stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def output(nvrtc: Any, program: Any, size_of: Any, read: Any) -> bytes:
    """NVRTC's result for a program: its code, or its log with the final NUL."""
    error, size = size_of(program)
    _check(nvrtc, error)
    # NVRTC writes into the object. Python shares one object for each `bytes` of length 1, so an empty log (one NUL)
    # would change that byte in the whole process. One more byte makes an object of our own.
    buffer = bytes(size + 1)
    _check(nvrtc, read(program, buffer)[0])
    return buffer[:size]


def log(nvrtc: Any, program: Any) -> str:
    """NVRTC's log of a program."""
    text = output(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    return text.rstrip(b"\0").decode(errors="replace").strip()


def _explained(text: str, path: str, entry: str) -> str:
    """NVRTC's log after its first error, which shows the source line, and what to do where that is known."""
    advised = "".join(f"\n{one}." for one in _advice(text))
    first = _ERROR.search(text)
    if first is None:
        return f"{path}: NVRTC could not compile `{entry}`:\n{text}{advised}"
    shown = _SHOWN.match(text, first.end())
    marked = f"\n  {first['line']} | {shown['line']}" if shown else ""
    at = f"{first['file']}:{first['line']}"
    return f"{at}: NVRTC could not compile `{entry}`: {first['text']}{marked}\n\n{text}{advised}"


def _advice(text: str) -> list[str]:
    """A hint: the name to write instead, or the folders that are searched for headers."""
    missing_headers = [
        f"The header {name} is in no folder that NVRTC searches: pass its folder, options=['-I FOLDER']"
        for name in dict.fromkeys(_NO_HEADER.findall(text))
    ]
    return [*removed_names.advice(text), *missing_headers]
