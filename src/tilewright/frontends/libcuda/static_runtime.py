"""The runtime in CuPy's modules and beside torch: its entries jump to ours while a simulated GPU is installed."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilewright.frontends.libcuda import runtime
from tilewright.frontends.libcuda.entries import Redirected, entry_points
from tilewright.frontends.libcuda.errors import code_of, errors, name_of
from tilewright.frontends.libcuda.prototypes import RUNTIME_CALLS, Prototype
from tilewright.frontends.libcuda.served import Exported, Server
from tilewright.frontends.libcuda.table import runtime_calls
from tilewright.ground.native.memo import memo
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu

_TEXT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)
_CODE = ctypes.CFUNCTYPE(ctypes.c_int)
#: Functions that may run in the vendor's code: they need no device.
_HARMLESS = frozenset({"cudaCreateChannelDesc", "cudaGetSymbolAddress"})


class StaticRuntime:
    """Addresses of the replacements of runtime functions."""

    def __init__(self) -> None:
        self._last = threading.local()
        self._server = Server(self._noted)
        self._kept: list[Any] = []
        self._addresses = {
            wanted.name: self._server.function(wanted, answer, driver=driver) for wanted, answer, driver in answers()
        }
        for name, take in (("cudaGetLastError", True), ("cudaPeekAtLastError", False)):
            self._addresses[name] = self._native(_CODE, lambda take=take: self._last_error(take))
        self._addresses["cudaGetErrorName"] = self._native(_TEXT, self._name)
        self._addresses["cudaGetErrorString"] = self._native(_TEXT, self._text)
        exported = Exported("libtilewright_cudart.so", self._addresses)
        self._addresses = {name: exported.address(name) for name in self._addresses}

    def redirect(self, library: Path) -> Redirected:
        """Make the entries of a loaded library jump to ours; functions without an implementation return an error."""
        targets = dict(self._addresses)
        for name in entry_points(library):
            plain = name.removesuffix("_ptsz").removesuffix("_ptds")
            if plain.startswith("cuda") and plain[4:5].isupper() and plain not in _HARMLESS:
                targets[name] = self.address(plain)
        return Redirected(library, targets)

    def address(self, name: str) -> int:
        """The address of a function's replacement."""
        return self._addresses.get(name) or self._refusal(name)

    def text(self, number: int) -> bytes:
        """The text of an error."""
        return ctypes.string_at(self._text(number))

    def _refusal(self, name: str) -> int:
        self._addresses[name] = self._server.refusal(name)
        return self._addresses[name]

    def _native(self, kind: Any, function: Callable[..., int]) -> int:
        made = kind(function)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def _noted(self, name: str) -> int:
        number = code_of(name)
        self._last.number = number
        return number

    def _last_error(self, take: bool) -> int:
        number = int(getattr(self._last, "number", 0))
        if take:
            self._last.number = 0
        return number

    def _name(self, number: int) -> int:
        from cuda.bindings.runtime import cudaError_t

        return errors().kept(cudaError_t(number).name)

    def _text(self, number: int) -> int:
        try:
            return errors().text(name_of(number))
        except DriverError:
            return errors().kept("unrecognized error code")


def answers() -> Iterator[tuple[Prototype, Callable[..., Any], str]]:
    """The table of runtime functions: prototype, implementation, and the driver call that each one is."""
    for wanted, answer, driver in runtime_calls(RUNTIME_CALLS):
        if answer is not None:
            yield wanted, in_context(answer), driver


def in_context(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, but it first makes the primary context current, as every runtime function does."""

    def answered(gpu: SimulatedGpu, *given: Any) -> Any:
        runtime.current(gpu)
        return answer(gpu, *given)

    return answered


@memo
def static_runtime() -> StaticRuntime:
    """The replacements in this process."""
    return StaticRuntime()
