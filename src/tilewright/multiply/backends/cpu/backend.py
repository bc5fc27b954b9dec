"""The processor of this machine, as a backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeviceError
from tilewright.ground.native.compiler import compiler
from tilewright.ground.settings import Settings
from tilewright.multiply.backends.cpu import blocks, product as products
from tilewright.multiply.backends.cpu.threads import limit
from tilewright.multiply.backends.protocol import IN_WORDS, Choices, Device, Planned, Strided
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind
from tilewright.simulate.machine.processor import host_name
from tilewright.simulate.programs.array_arguments import row_major

Array = npt.NDArray[Any]
#: The processor features that products use, by LLVM's names.
_FEATURES = {
    "avx2": "AVX2", "avx512f": "AVX-512", "avx512vnni": "VNNI", "avxvnni": "AVX-VNNI", "avx512fp16": "AVX512-FP16",
    "avx512bf16": "AVX512-BF16", "amx-int8": "AMX int8", "amx-bf16": "AMX bfloat16", "neon": "NEON", "f16c": "F16C",
}  # fmt: skip


def describe() -> list[Device]:
    """The processor."""
    present = {name.removeprefix("+") for name in compiler().features.split(",") if name.startswith("+")}
    known = tuple(label for name, label in _FEATURES.items() if name in present)
    threads = Settings.from_environ().threads
    return [Device("cpu", host_name(), "processor", threads, commands=("tw.matmul", "ladder"), features=known)]


class Processor:
    """Products on the processor."""

    multiply_into = staticmethod(products.multiply_into)

    @property
    def name(self) -> str:
        """The processor's name, from the system."""
        return host_name()

    def refusal(self, kind: Kind) -> str:
        """Why the processor cannot multiply a kind: booleans must be in words; it multiplies all other kinds."""
        return IN_WORDS if kind.accumulator == "bool" else ""

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """The plan of the product for this layout."""
        x = arrays
        found = products.product(x.a, x.a_strides, x.b, x.b_strides, x.out, x.out_strides, kind, threads, x.more)
        key, tile, path = found.key, found.tile, found.path
        text = f"{path}: {key.family}, vectors of {key.vector_bytes} bytes"
        if path in ("packed", "tile registers"):
            text += f", tiles of {tile.mr} x {tile.nr}, blocks of {tile.kc} along k and {tile.nc} along n"
            text += ", tuned" * (key.blocks is not None)
        return Planned(
            path=path,
            order=key.order,
            kernel=key,
            tile=tile,
            parts=len(found.pieces),
            threads=found.threads,
            buffer_bytes=sum(found.buffer_bytes.values()) * found.threads,
            flops=2 * found.pairs**2 * found.layout.work,
            text=text,
        )

    def choices(self, kind: Kind, extents: tuple[int, int, int]) -> Choices:
        """The block sizes, by estimate."""
        (m, n, k), threads = extents, limit().count
        arrays = ((m, k), kind.a), ((k, n), kind.b), ((m, n), kind.out)
        laid = [part for shape, name in arrays for part in (shape, row_major(shape, element(name).bytes))]
        found = products.product(*laid, kind, threads)
        if found.path != "packed":
            raise DeviceError(
                f"the CPU multiplies {m:,} x {n:,} x {k:,} in {kind.a} without blocks ({found.path}); nothing is tuned"
            )
        some = blocks.ranked(found.layout, found.key, found.size, threads)

        def prepare(at: int, a: Array, b: Array) -> Callable[[], None]:
            made = products.Product(found.layout, kind, threads, some[at].blocks)
            return functools.partial(made.run_arrays, a, b, np.zeros((m, n), element(kind.out).numpy))

        asked = blocks.key_of(found.layout, kind, threads)
        return Choices(asked, tuple(one.ranked for one in some), prepare, products.forget)


_PROCESSOR = Processor()


def opened(device: str) -> Processor:
    """The processor; there is one, so `device` does not matter."""
    return _PROCESSOR
