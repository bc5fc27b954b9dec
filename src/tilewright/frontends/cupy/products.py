"""A replacement for CuPy's module of cuBLAS, whose functions `frontends/cublas` computes on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tilewright.frontends.cublas import answers, header
from tilewright.frontends.cublas.operands import RefusedCall
from tilewright.simulate.device.gpu import SimulatedGpu


class CUBLASError(RuntimeError):
    """A refused call; CuPy catches it under this name."""


class HostProducts:
    """Replaces the module `cupy_backends.cuda.libs.cublas`."""

    CUBLASError = CUBLASError

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        for values in header.ENUMERATIONS.values():
            for name, value in values.items():
                setattr(self, name, value)

    def destroy(self, handle: int) -> None:
        """Destroy a handle: CuPy does so while the interpreter ends, when nothing can be called any more."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function by CuPy's name for it, such as `sgemm`."""
        full = f"cublas{name[:1].upper()}{name[1:]}"
        found = next((one for one in (f"{full}_v2", full) if one in answers.FUNCTIONS), None)
        if found is None:
            raise AttributeError(
                f"{name} of cuBLAS is machine code for GPUs, but the simulated GPU runs PTX and computes only what "
                "`tilewright.frontends.cublas.calls` lists; use your own kernels, or work on the host (`cupy.asnumpy`)"
            )
        return lambda *values: self._call(found, values)

    def _call(self, name: str, values: tuple[Any, ...]) -> Any:
        """Perform a call; return what it gives, if the address for that is left out."""
        given = ctypes.c_int64() if len(values) < len(answers.FUNCTIONS[name].parameters) else None
        places = () if given is None else (ctypes.addressof(given),)
        try:
            with self._gpu.call():
                answers.perform(self._gpu, name, (*values, *places))
        except RefusedCall as refused:
            raise CUBLASError(f"CUBLAS_STATUS_{refused.status}: {name}: {refused}") from None
        return None if given is None else given.value
