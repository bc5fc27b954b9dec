"""Reads the inputs of a CUDA call by its prototype, performs the call, and writes its outputs.

It serves calls from this process and from other processes: `gpu.host` reads and writes the caller's memory.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.frontends.driver_binding import UNLOCKED, WORKS
from tilewright.frontends.libcuda.prototypes import Parameter, Prototype
from tilewright.frontends.libcuda.structures import LAYOUTS, Layout
from tilewright.ground.settings import debugging
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.launching import code_of

Reader = Callable[[Any, Any], Any]
#: Handle types of what implementations get itself: kernels, and variables of the program.
_READ: Mapping[str, Reader] = MappingProxyType(
    dict.fromkeys(
        ("CUfunction", "CUkernel", "cudaFunction_t", "cudaKernel_t"), lambda gpu, handle: gpu.host.kernel(handle)
    )
    | {"cudaSymbol_t": lambda gpu, address: gpu.host.variable(address)}
)


class Call:
    """One function of CUDA.

    `wanted`: its prototype. `answer`: the implementation, which gets the simulated GPU and the inputs. `driver`: the
    driver call that it is, if the prototype is of another function.
    """

    def __init__(self, wanted: Prototype, answer: Callable[..., Any], driver: str = "") -> None:
        self.wanted, self.answer = wanted, answer
        self._works = WORKS.match(wanted.name) is not None
        self._unlocked = (driver or wanted.name).partition("_v")[0] in UNLOCKED
        self._reads = [(at, _reader(one)) for at, one in enumerate(wanted.parameters) if not one.given]
        self._writes = [(at, _writer(one)) for at, one in enumerate(wanted.parameters) if one.given]

    def under_lock(self, gpu: SimulatedGpu, words: Sequence[Any]) -> None:
        """Perform the call in this process, one at a time if it is not one of those that wait or free."""
        gpu.check_process()
        if self._works:
            gpu.require_working()
        if self._unlocked:
            self(gpu, words)
            return
        with gpu.call():
            self(gpu, words)

    def __call__(self, gpu: SimulatedGpu | None, words: Sequence[Any]) -> None:
        """Perform the call with its arguments: numbers, addresses, and structures that are passed by value.

        A few calls need no simulated GPU.
        """
        given = [words[at] or 0 if read is None else read(gpu, words[at] or 0) for at, read in self._reads]
        found = self.answer(gpu, *given)
        if self._writes:
            values, write = found if isinstance(found, tuple) else (found,), _poke if gpu is None else gpu.host.write
            for (at, packed), value in zip(self._writes, values, strict=True):
                write(words[at] or 0, packed(value))


def _poke(address: int, data: bytes) -> None:
    if address:
        ctypes.memmove(address, data, len(data))


def _reader(parameter: Parameter) -> Reader | None:
    """The reader of an input; None for a number or an address."""
    plain = parameter.type.removesuffix(" *")
    if plain in _READ:
        return _READ[plain]
    if isinstance(parameter.native, type) and issubclass(parameter.native, ctypes.Structure):
        return _by_value
    if plain in LAYOUTS and plain != parameter.type:
        return _pointed_at(LAYOUTS[plain])
    return None


def _by_value(gpu: SimulatedGpu, value: Any) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else tuple(getattr(value, name) for name, _ in value._fields_)


def _pointed_at(layout: Layout) -> Reader:
    def read(gpu: SimulatedGpu, address: int) -> Any:
        if not address:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "a structure's address must not be null")
        return layout.read(gpu, address)

    return read


def _writer(parameter: Parameter) -> Callable[[Any], bytes]:
    """The bytes of an output."""
    layout, kind = LAYOUTS.get(parameter.type), parameter.given
    if layout is not None and layout.write is not None:
        return layout.write
    if kind is ctypes.c_float:
        return struct.Struct("<f").pack
    return lambda value: bytes(kind(int(value)))


def driver_error(error: BaseException, name: str = "") -> DriverError:
    """What a call failed with, as an error with a code of the driver or the runtime.

    Anything that is no error of ours comes of values that no call has.
    """
    if isinstance(error, DriverError):
        return error
    code = getattr(error, "code", None)
    if code is None and isinstance(error, TilewrightError):
        return DriverError(code_of(error), str(error))
    if code is None:
        if debugging():
            raise error
        return DriverError("CUDA_ERROR_INVALID_VALUE", f"{name}: {type(error).__name__}: {error}")
    return DriverError(code if isinstance(code, str) else code.name, str(getattr(error, "msg", error)))
