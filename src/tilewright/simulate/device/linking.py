"""Compiles and links device code without a driver: NVRTC, nvJitLink and the joining of PTX.

These classes replace the classes of `cuda.core` with the same names. Linked code stays PTX, because the simulated GPU
runs PTX. Machine code of a real GPU cannot be linked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.errors import CompileError, PtxError
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import current_gpu
from tilewright.simulate.device.modules import Kernel, Library, machine_code, no_binary
from tilewright.simulate.programs import assembler, listing
from tilewright.simulate.programs.nvrtc import log, output
from tilewright.simulate.programs.optional import with_vendor_library
from tilewright.simulate.ptx import parse, to_text
from tilewright.simulate.ptx.joining import join

#: The device runtime's static library; the machine defines its functions when it reads a kernel.
_RUNTIME_LIBRARY = "cudadevrt"
#: Options of NVRTC that add source lines to its output.
WITH_LINES = frozenset({b"--generate-line-info", b"-lineinfo", b"--device-debug", b"-G"})


class ObjectCode:
    """Device code from a compiler or linker, which can be loaded on `gpu`, or else on the installed GPU."""

    def __init__(
        self, code: bytes | str, code_type: str, name: str = "", ptx: str = "", gpu: SimulatedGpu | None = None
    ) -> None:
        self._code: Any = code
        self._gpu = gpu
        self.code_type = code_type  #: `ptx`, `ltoir`, `cubin` and so on; `cubin` for linked code.
        self.name = name
        #: The PTX that the machine runs; empty if unknown.
        self.ptx = ptx or (_text(self.code) if code_type == "ptx" else "")

    @property
    def code(self) -> bytes:
        """The code's bytes; linked code is assembled at the first use."""
        if not self._code and self.ptx:
            self._code = assembler.cubin(self.ptx, self.name, listing.target(listing.parsed(self.ptx)))
        elif isinstance(self._code, str):
            self._code = Path(self._code).read_bytes()
        code: bytes = self._code
        return code

    @property
    def library(self) -> Library:
        """The code as loaded on its GPU."""
        return Library.of(self._gpu or current_gpu(), self)

    @property
    def handle(self) -> Any:
        """The loaded library's handle."""
        from tilewright.simulate.device.contexts import binding

        return binding().CUlibrary(self.library.handle)

    def get_kernel(self, name: str | bytes) -> Kernel:
        """A kernel by its name in PTX."""
        text = name.decode() if isinstance(name, bytes) else name
        self.library.entry(text)
        return Kernel(self, text)


def _maker(kind: str) -> Callable[..., ObjectCode]:
    def make(code: bytes | str, *, name: str = "", symbol_mapping: Any = None) -> ObjectCode:
        return ObjectCode(code, kind, name)

    make.__doc__ = f"Device code of kind {kind}, as bytes or a path."
    return make


for _kind in ("ptx", "cubin", "ltoir", "fatbin", "object", "library"):
    setattr(ObjectCode, f"from_{_kind}", staticmethod(_maker(_kind)))


class Linker:
    """Links device code. Options are `cuda.core.LinkerOptions`."""

    def __init__(self, *objects: Any, options: Any = None) -> None:
        self._objects = objects
        self._options = options

    def link(self, target_type: str) -> ObjectCode:
        """Link to `ptx` or to loadable code.

        Raises cuda.core CUDAError: some code is machine code of a GPU.
        """
        texts: list[str] = []
        intermediate = []
        for code in self._objects:
            if code.code_type == "ltoir":
                intermediate.append(code)
            elif code.code_type == "ptx":
                texts.append(_text(code.code))
            elif not (code.code_type == "library" and _RUNTIME_LIBRARY in code.name):
                raise machine_code(code)
        if intermediate:
            texts.insert(0, _optimised(intermediate, self._options))
        try:
            ptx = texts[0] if len(texts) == 1 else to_text(join([parse(text) for text in texts]))
        except PtxError as error:
            raise no_binary(str(error)) from error
        return ObjectCode(ptx.encode(), "ptx") if target_type == "ptx" else ObjectCode(b"", "cubin", ptx=ptx)

    def get_info_log(self) -> str:
        """The linker's messages."""
        return ""

    def get_error_log(self) -> str:
        """The linker's errors."""
        return ""

    def close(self) -> None:
        """Close the linker."""


def _text(code: bytes | str) -> str:
    return (code.decode(errors="replace") if isinstance(code, bytes) else code).strip("\0 \n") + "\n"


def _optimised(objects: list[Any], options: Any) -> str:
    """PTX of LTO IR, from nvJitLink."""
    nvjitlink = with_vendor_library("cuda.bindings.nvjitlink", "Linking device code")
    flags = [flag.decode() for flag in options.as_bytes("nvjitlink")] if options is not None else ["-lto"]
    flags += [flag for flag in ("-ptx", "-lineinfo") if flag not in flags]
    handle = nvjitlink.create(len(flags), flags)
    try:
        for code in objects:
            data = code.code
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, data, len(data), code.name or "code")
        nvjitlink.complete(handle)
        buffer = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, buffer)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        error.add_note(log.decode(errors="replace").strip("\0 \n"))
        raise
    finally:
        nvjitlink.destroy(handle)
    return _text(bytes(buffer))


class Program:
    """CUDA C++ to be compiled by NVRTC. Options are `cuda.core.ProgramOptions`."""

    def __init__(self, code: str, code_type: str, options: Any = None) -> None:
        self._code = code
        self._options = options

    def compile(self, target_type: str, name_expressions: Any = (), logs: Any = None) -> ObjectCode:
        """Compile to `ptx` or `ltoir`.

        Raises cuda.core NVRTCError: NVRTC rejected the source; the message has its log.
        """
        name = self._options.name or ""
        flags = [*self._options.as_bytes("nvrtc", target_type)]
        if target_type == "ptx" and not WITH_LINES & set(flags):
            flags.append(b"-lineinfo")
        code, log = _compiled(self._code, target_type, name, tuple(flags))
        if logs is not None and log:
            logs.write(log)
        return ObjectCode(code, target_type, name)


@functools.lru_cache(maxsize=64)
def _compiled(source: str, target_type: str, name: str, flags: tuple[bytes, ...]) -> tuple[bytes, str]:
    """NVRTC's output for a source, and its log; cached: numba-cuda compiles its own sources for every kernel."""
    from cuda.bindings import nvrtc
    from cuda.core._utils.cuda_utils import NVRTCError

    readers = {
        "ptx": (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
        "ltoir": (nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR),
    }
    if target_type not in readers:
        raise CompileError(f"`target_type` must be ptx or ltoir (got {target_type!r})")
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    try:
        (result,) = nvrtc.nvrtcCompileProgram(program, len(flags), list(flags))
        text = log(nvrtc, program)
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise NVRTCError(f"{result.name}, compilation log:\n\n{text}")
        return output(nvrtc, program, *readers[target_type]), text
    finally:
        nvrtc.nvrtcDestroyProgram(program)
