"""The processor of this machine, as a backend."""

from __future__ import annotations

from tilewright.backends.cpu import product as products
from tilewright.backends.inventory import host_name
from tilewright.backends.protocol import IN_WORDS, Device, Planned, Strided
from tilewright.native.compiler import compiler
from tilewright.problem.kind import Kind
from tilewright.settings import Settings

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


_PROCESSOR = Processor()


def opened(device: str) -> Processor:
    """The processor; there is one, so `device` does not matter."""
    return _PROCESSOR
