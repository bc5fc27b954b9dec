"""The table of backends: the devices on which this machine multiplies and runs kernels.

Examples
--------
>>> {"cpu", "simulated"} <= {found.device for found in devices()}
True
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError, nearest
from tilewright.multiply.backends.dlpack import CUDA_DEVICES, dlpack_device
from tilewright.multiply.backends.protocol import Backend, Device, DeviceArrays
from tilewright.simulate import machine


@dataclass(frozen=True, slots=True)
class Row:
    """One backend."""

    name: str  #: The name that `device=` and `--device` take.
    title: str  #: Its name in sentences.
    #: The module, with `describe() -> list[Device]`; `opened(device) -> Backend` if it multiplies arrays of the host;
    #: `arrays_of(a, b) -> DeviceArrays` if some library has arrays on it.
    module: str
    #: The `backend` of the catalogue's records that run there: its own and the host's. A device without any is not part
    #: of the ladder.
    kernels: tuple[str, ...] = ()
    #: Whether it makes its kernels itself, for any real dtype. Others launch compiled programs, within a GPU's limits.
    own_kernels: bool = False
    multiplies: bool = False  #: Whether `tw.matmul` takes it for arrays of the host.
    several: bool = False  #: Whether `name:WHICH` chooses one of its devices.
    arrays: tuple[str, str] | None = None  #: Module and class of its arrays.
    interface: str = ""  #: The attribute that marks its arrays, of any library.
    dlpack: tuple[int, ...] = ()  #: DLPack's device types of its arrays, for arrays with DLPack alone.

    def load(self) -> Any:
        """The module.

        Raises DeviceError: it cannot be imported, for any reason.
        """
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            reason = f"its module {self.module} cannot be imported ({type(error).__name__}: {error})"
            raise DeviceError(f"{self.title} cannot be used: {reason}") from error

    def runs(self, record: Any) -> bool:
        """Whether a record of the catalogue runs on this device or, for the ladder on it, on the host."""
        return record.backend in self.kernels

    def means(self, device: str) -> bool:
        """Whether a caller's `device` names this row or one of its devices."""
        name, colon, _ = device.partition(":")
        return name.strip().lower() == self.name and (self.several or not colon)

    def owns(self, value: Any) -> bool:
        """Whether a value is an array on this device; the test does not import the array's library."""
        if self.interface and (_has(value, self.interface) or dlpack_device(value) in self.dlpack):
            return True
        module = None if self.arrays is None else sys.modules.get(self.arrays[0])
        return module is not None and self.arrays is not None and isinstance(value, getattr(module, self.arrays[1]))


def _has(value: Any, name: str) -> bool:
    try:
        return getattr(value, name, None) is not None
    except RuntimeError:  # torch's, of a tensor that requires a gradient, or of a sparse one on the CPU
        return bool(getattr(value, "is_cuda", True))


#: Every backend; the first is the default.
BACKENDS = (
    Row("cpu", "the CPU", "tilewright.multiply.backends.cpu.backend", ("cpu",), own_kernels=True, multiplies=True),
    Row("cuda", "NVIDIA GPUs", "tilewright.multiply.backends.cuda.backend", ("cpu", "gpu"), multiplies=True,
        interface="__cuda_array_interface__", dlpack=CUDA_DEVICES,
    ),
    Row(
        "opencl", "OpenCL devices", "tilewright.multiply.backends.opencl.backend", ("cpu", "opencl"), own_kernels=True,
        multiplies=True, several=True, arrays=("pyopencl.array", "Array"),
    ),
    Row(
        "simulated", "the simulated GPU", "tilewright.multiply.backends.simulated", ("cpu", "gpu"), multiplies=True,
        several=True,
    ),
)  # fmt: skip


def devices() -> list[Device]:
    """All devices of this machine for products and kernels, and the missing ones with reasons."""
    found: list[Device] = []
    for row in BACKENDS:
        try:
            module = row.load()
        except DeviceError as error:
            found.append(Device(row.name, "", "accelerator", missing=str(error)))
        else:
            found += module.describe()
    return found


def row_of(device: str) -> Row | None:
    """The row that a caller's `device` means."""
    return next((row for row in BACKENDS if row.means(device)), None)


def spellings() -> list[str]:
    """The values that `tw.matmul` takes for `device`.

    >>> spellings()
    ['cpu', 'cuda', 'opencl', 'opencl:NAME', 'simulated', 'simulated:NAME']
    """
    return [name for row in BACKENDS if row.multiplies for name in (row.name, *[f"{row.name}:NAME"] * row.several)]


def with_kernels() -> list[str]:
    """The backends that run records of the catalogue, the simulated GPU first.

    >>> with_kernels()
    ['simulated', 'cpu', 'cuda', 'opencl']
    """
    return sorted((row.name for row in BACKENDS if row.kernels), key=lambda name: (name != "simulated", name))


def opened(device: str | None = None) -> Backend:
    """The backend that `device=` names; the first of the table by default.

    Raises ArgumentTypeError, ArgumentValueError: it does not name a backend that multiplies arrays of the host;
    DeviceError, MissingExtraError: this machine has no such device, or its module cannot be imported.
    """
    if device is None:
        row: Row | None = BACKENDS[0]
    elif not isinstance(device, str):
        raise ArgumentTypeError(f"`device` must be a name (got {type(device).__name__})")
    else:
        row = row_of(device)
    if row is None or not row.multiplies:
        names, here = spellings(), _meant(str(device))
        raise ArgumentValueError(f"`device` must be {', '.join(names[:-1])} or {names[-1]} (got {device!r}); {here}")
    found: Backend = row.load().opened(device or row.name)
    return found


def _meant(device: str) -> str:
    """A hint for a name that no device has.

    >>> _meant("h100"), _meant("h200x")
    ('tw.plan takes it, and simulated:h100 multiplies', 'did you mean simulated:h200?')
    >>> _meant("simulatd:a100"), _meant("abacus")
    ('did you mean simulated:a100?', '`tilewright devices` lists what is found')
    """
    if device in machine.names():
        return f"tw.plan takes it, and simulated:{device} multiplies"
    asked = device.strip().lower()
    simulated = [f"simulated:{name}" for name in machine.names()]
    known = {
        **{name: name for name in (*spellings(), *simulated)},
        **dict(zip(machine.names(), simulated, strict=True)),
    }
    close = nearest(asked, known, cutoff=0.7)
    return f"did you mean {known[close[0]]}?" if close else "`tilewright devices` lists what is found"


def for_plans(device: str | None = None) -> Backend:
    """The backend of a plan: :func:`opened`, or a simulated GPU that `device` names without "simulated:".

    Raises as :func:`opened`.

    >>> for_plans("t4").name
    'NVIDIA T4, simulated'
    """
    named = isinstance(device, str) and row_of(device) is None and device in machine.names()
    return opened(f"simulated:{device}" if named else device)


def owner(*values: Any) -> Row | None:
    """The backend that holds one of some arrays; None if all are of the host."""
    for row in BACKENDS:  # plain loops for speed: every product of arrays on a GPU comes here
        for x in values:
            if row.owns(x):
                return row
    return None


def arrays_of(row: Row, a: Any, b: Any) -> DeviceArrays:
    """The arrays of a product on a backend's device.

    Raises ArgumentTypeError, ArgumentValueError: one of them is not on it.
    """
    found: DeviceArrays = row.load().arrays_of(a, b)
    return found
