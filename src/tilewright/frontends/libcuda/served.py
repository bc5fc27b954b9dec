"""The library `libcuda.so.1` of this process, with our functions while a simulated GPU is installed.

Other libraries find it by its name. If the process also has the vendor's driver, calls go to that while no simulated
GPU is installed.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.frontends.libcuda.entries import DYNSYM, functions
from tilewright.frontends.libcuda.errors import code_of, errors, name_of
from tilewright.frontends.libcuda.marshalling import Call, driver_error
from tilewright.frontends.libcuda.prototypes import DRIVER_CALLS, Prototype
from tilewright.frontends.libcuda.shared_object import MACHINES, NOTHING, SLOTS, shared_object
from tilewright.frontends.libcuda.table import driver_calls
from tilewright.ground.native.interrupts import Postponed
from tilewright.ground.native.memo import memo
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import DriverError
from tilewright.simulate.device.installed_gpu import installed_gpu

_SONAME = "libcuda.so.1"
#: Files of Linux that show that the vendor's driver is installed: natively, and under Windows.
_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
#: Functions that free or release; their objects disappear with their GPU.
_GIVES_BACK = re.compile(r"cu(da)?\w*(Free|Destroy|Unload|Release|Unregister)\w*")
#: The CUDA version that has a version of a function first, if its parameters are others than before.
_SINCE = {text.partition("(")[0]: int(since) for text, since in DRIVER_CALLS if since}
_Answer = Callable[..., Any]


class Server:
    """Makes C functions from Python functions: reads the inputs of a prototype, and writes the outputs.

    `code_of`: converts the name of an error to the number that the C function returns. `vendor`: the library that is
    called while no simulated GPU is installed.
    """

    def __init__(self, code_of: Callable[[str], int], vendor: ctypes.CDLL | None = None) -> None:
        self.errors = errors()
        self._code_of = code_of
        self._vendor = vendor
        self._kept: list[Any] = []

    def function(self, wanted: Prototype, answer: _Answer, any_time: bool = False, driver: str = "") -> int:
        """The address of a C function that calls a Python function.

        With `any_time`, it needs no simulated GPU, and the Python function gets None if none is installed. `driver` is
        the driver call that it performs, if the prototype is of another function.
        """
        elsewhere, perform = self._vendors(wanted), Call(wanted, answer, driver)
        code_of, harmless = self._code_of, _GIVES_BACK.fullmatch(wanted.name) is not None
        noted = self._noted

        def call(*arguments: Any) -> int:
            with Postponed():
                try:
                    gpu: Any = installed_gpu()
                    if gpu is None and elsewhere is not None and not any_time:
                        return int(elsewhere(*arguments))
                    if gpu is None and harmless:
                        return 0
                    if gpu is None and not any_time:
                        raise DriverError("CUDA_ERROR_NO_DEVICE", "no simulated GPU is installed")
                    if gpu is None:
                        perform(None, arguments)
                    else:
                        perform.under_lock(gpu, arguments)
                except BaseException as error:
                    code = noted(error, wanted.name)
                    if not isinstance(error, Exception):
                        raise
                    return code_of(code)
                return 0

        made = wanted.native(call)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def _noted(self, error: BaseException, name: str) -> str:
        """Note why a call failed, and give the code.

        A C function's own frame must not keep the error, whose traceback has that frame: arrays of all its callers
        would live until Python collects cycles.
        """
        failed = driver_error(error, name)
        self.errors.note(failed.code, str(failed).removeprefix(f"{failed.code}: "))
        return failed.code

    def refusal(self, name: str) -> int:
        """The address of a C function for one that is not implemented."""

        def refuse(gpu: Any) -> None:
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", f"{name} is not implemented on the simulated GPU")

        return self.function(Prototype(name, ()), refuse, True)

    def _vendors(self, wanted: Prototype) -> Any:
        """The vendor's function; None if there is none."""
        place = _place(self._vendor, wanted.name) if self._vendor is not None else 0
        return wanted.native(place) if place else None


class Exported:
    """A library in this process only, with our functions under C names.

    `soname`: the name by which other libraries find it. `functions`: name -> address of the function.
    """

    def __init__(self, soname: str, functions: Mapping[str, int]) -> None:
        descriptor = os.memfd_create(soname)  # stays open: the loader would take a reused path for a loaded library
        os.write(descriptor, shared_object(soname, list(functions), platform.machine()))
        self._loaded = ctypes.CDLL(f"/proc/self/fd/{descriptor}", mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        self.handle = self._loaded._handle
        self._slots = (ctypes.c_size_t * len(functions)).in_dll(self._loaded, SLOTS)
        self._slots[:] = list(functions.values())
        atexit.register(self._end)  # objects freed at the interpreter's end must not call Python functions

    def address(self, name: str) -> int:
        """The address of a function."""
        return _place(self._loaded, name)

    def _end(self) -> None:
        self._slots[:] = [self.address(NOTHING)] * len(self._slots)


class DriverLibrary:
    """The loaded library.

    `vendor`: the vendor's library. It serves calls while no simulated GPU is installed, and functions that ours lacks.
    `soname`: the name by which other libraries find it.
    """

    def __init__(self, vendor: ctypes.CDLL | None, soname: str = _SONAME) -> None:
        self._vendor, self._soname = vendor, soname
        self._refusals: dict[str, int] = {}  # functions that are not implemented
        self._server = Server(code_of, self._vendor)
        calls = dict(driver_calls())
        names = [one.name for one in calls]
        self._versions: dict[str, list[str]] = {}
        for name in names:
            self._versions.setdefault(name.partition("_v")[0], []).append(name)
        newest = {plain: versions[-1] for plain, versions in self._versions.items()}
        plain = [name for name in newest if name not in names]
        own = self._own()
        addresses = {
            one.name: self._server.function(one, own[one.name] if answer is None else answer, answer is None)
            for one, answer in calls.items()
        }
        ours = addresses | {name: addresses[newest[name]] for name in plain}
        known = {} if vendor is None else functions(Path(vendor._name), DYNSYM)
        theirs = {} if vendor is None else {name: _place(vendor, name) for name in known}
        self._exported = Exported(soname, theirs | ours)

    @property
    def found(self) -> bool:
        """Whether other libraries find it by its name, and not a driver loaded earlier."""
        return ctypes.CDLL(self._soname)._handle == self._exported.handle

    def _own(self) -> dict[str, _Answer]:
        """Functions of the library itself, which need no simulated GPU."""
        return {
            "cuGetErrorName": _error_name, "cuGetErrorString": self._error_text, "cuGetExportTable": self._table,
            "cuGetProcAddress": self._address, "cuGetProcAddress_v2": lambda *given: (self._address(*given), 0),
        }  # fmt: skip

    def _error_text(self, gpu: Any, number: int) -> int:
        return self._server.errors.text(name_of(number))

    def _table(self, gpu: Any, identifier: int) -> int:
        """A table of undocumented functions: ours has none, but the vendor's libraries request them."""
        if self._vendor is not None and gpu is None:
            found = ctypes.c_size_t()
            self._vendor.cuGetExportTable(ctypes.byref(found), ctypes.c_void_p(identifier))
            return found.value
        raise DriverError("CUDA_ERROR_NOT_FOUND")

    def _address(self, gpu: Any, symbol: int, version: int, flags: int) -> int:
        """The address of a function, in the version for a version of CUDA."""
        name = ctypes.string_at(symbol).decode()
        versions = self._versions.get(name, ())
        fitting = [name for name in versions if _SINCE.get(name, 0) <= version]
        if not fitting and self._vendor is not None:
            return _place(self._vendor, name)
        if fitting:
            return self._exported.address(fitting[-1])
        if name not in self._refusals:
            if not callable(getattr(binding(), name, None)):
                raise DriverError("CUDA_ERROR_NOT_FOUND", f"no driver has a function {name}")
            self._refusals[name] = self._server.refusal(name)
        return self._refusals[name]


def _place(library: ctypes.CDLL, name: str) -> int:
    """The address of a library's function; 0 if it has none."""
    found = getattr(library, name, None)
    return (ctypes.cast(found, ctypes.c_void_p).value or 0) if found is not None else 0


def _error_name(gpu: Any, number: int) -> int:
    return errors().kept(name_of(number))


@memo
def vendors_driver() -> ctypes.CDLL | None:
    """The vendor's driver, loaded by its path so that others do not find it by name; None if it is not installed."""
    if not any(device.exists() for device in _DEVICES):
        return None
    with suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=True).stdout
        for line in listed.splitlines():
            name, _, path = line.strip().partition(" => ")
            if name.startswith(f"{_SONAME} ") and "64" in name:
                return ctypes.CDLL(path, mode=os.RTLD_LOCAL)
    return None


def serve() -> None:
    """Let libraries of this process find ours, where the system is one that it is made for.

    A driver of the vendor's that is loaded already stays what they find.
    """
    if sys.platform == "linux" and platform.machine() in MACHINES:
        driver_library()


@memo
def driver_library() -> DriverLibrary:
    """The library of this process, which stays loaded."""
    return DriverLibrary(vendors_driver())
