"""Built CUDA programs: checks whether an executable can run on the simulated GPU.

Source: System V ABI, "Object Files" (ELF); names of sections by the vendor's `fatbinary_section.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.frontends import vendor_libraries
from tilewright.frontends.programs import fatbin
from tilewright.frontends.target import STDIN, NoProgramError, Target

_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16s2HI3QI6H")
_SECTION = struct.Struct("<2I4Q2I2Q")
_SYMBOLS = 2
_FATBIN = ".nv_fatbin"


def is_cuda(target: Target) -> bool:
    """Whether it is a CUDA program: source by its name, a binary by its first bytes.

    >>> is_cuda(Target("saxpy.cu")), is_cuda(Target("saxpy.py"))
    (True, False)
    """
    path = Path(target.text)
    return target.kind == "script" and target.text != STDIN and (path.suffix == ".cu" or is_binary(path))


def is_binary(path: Path) -> bool:
    """Whether a file is an executable of the host."""
    try:
        if not path.is_file():  # reading a pipe would consume its data
            return False
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def check(path: Path) -> list[str]:
    """Reject a program that cannot run on a simulated GPU; return what in it will fail.

    Raises NoProgramError: it has only machine code for GPUs, or a runtime that cannot be replaced, or it is damaged.
    """
    data = path.read_bytes()
    try:
        sections = _sections(data)
    except (struct.error, IndexError, OverflowError, ValueError):
        raise NoProgramError(
            f"{path} must be a whole program for this host (got a cut or damaged ELF file of {len(data)} bytes); build "
            "it again"
        ) from None
    failing = [reason for name in vendor_libraries.files(data) if (reason := vendor_libraries.refusal(name))]
    if _FATBIN not in sections:
        return failing  # it may load its kernels, or they are in libraries
    start, size = sections[_FATBIN][1:]
    try:
        images = list(fatbin.images(data[start : start + size]))
    except CompileError as error:
        raise NoProgramError(f"{path}: {error}") from None
    if images and not any(image.is_ptx for image in images):
        kinds = ", ".join(sorted({f"sm_{image.architecture}" for image in images}))
        raise NoProgramError(
            f"{path} must hold PTX, which the simulated GPU runs (got only machine code: {kinds}); build it with "
            "nvcc -arch=compute_90, or give `tilewright run` its .cu file"
        )
    static = b"libcudart.so" not in data
    if static and not any(kind == _SYMBOLS for kind, _, _ in sections.values()):
        raise NoProgramError(
            f"{path} must let the CUDA runtime be replaced (got one linked in, without a symbol table); build it with "
            "nvcc -cudart shared, or without strip and -s"
        )
    return failing


def _sections(data: bytes) -> Mapping[str, tuple[int, int, int]]:
    """For each section name: type, offset and size."""
    head = _HEADER.unpack_from(data)
    offset, size, count, names = head[6], head[11], head[12], head[13]
    found = [_SECTION.unpack_from(data, offset + at * size) for at in range(count)]
    if not found:
        return {}
    table = found[names][4]
    return {
        data[table + one[0] : data.index(b"\0", table + one[0])].decode(): (one[1], one[4], one[5]) for one in found
    }
