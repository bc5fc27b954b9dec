"""A kernel's product of operands that stay on the GPU between launches, for a tuner: no copies disturb its clock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.backends import estimates
from tilewright.multiply.backends.cuda import current, products
from tilewright.multiply.backends.cuda.launches import Launches, pointer
from tilewright.multiply.kernels.record import Record
from tilewright.simulate.programs import Program
from tilewright.simulate.programs.array_arguments import row_major
from tilewright.simulate.programs.optional import require

Array = npt.NDArray[Any]


class Resident:
    """C = A B by one kernel of the catalogue; a call launches it and waits.

    `a`, `b`: of the host, (m, k) and (k, n), in the dtype that the kernel reads. `made`: of C.

    Raises DeviceError: the GPU has no memory left, or its driver refuses a call.
    """

    def __init__(self, record: Record, program: Program, a: Array, b: Array, made: np.dtype[Any]) -> None:
        self._device = require("cuda.core", "Tuning a GPU").Device()
        self._shape, self._made = (len(a), b.shape[1]), made
        self._held: list[Any] = []
        with self._inside():
            self._prepare(record, program, a, b)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """The GPU's own context; the caller's is current again afterwards."""
        with current.kept_context(current.driver()):
            self._device.set_current()
            yield

    def _prepare(self, record: Record, program: Program, a: Array, b: Array) -> None:
        made = self._made
        self._stream = self._device.create_stream()
        steps = row_major(self._shape, made.itemsize)
        # Boxes begin at multiples of 16 bytes; an operand that has others would be copied by the host.
        apart = 16 if record.operands == "boxes" else 1
        x, y = (
            self._sent(one.T, apart).T if turned else self._sent(one, apart)
            for one, turned in zip((a, b), record.columns, strict=True)
        )
        c = pointer(self._room(len(a) * steps[0]), self._shape, steps, made)
        ready = products.Ready(record, program, x.dtype.name, made, estimates.rows_of(record, len(a)))
        self._launches = Launches(current.device())
        for start in range(0, len(a), ready.rows):
            part = slice(start, start + ready.rows)
            products.multiply(self._launches, ready, x[part], y, c[part], [])

    def __call__(self) -> float:
        """Seconds between the events before and after the launches."""
        with self._inside():
            return current.timed(current.driver(), self._stream, lambda: self._launches.issue(self._stream))

    def product(self) -> Array:
        """C on the host."""
        found: Array = np.empty(self._shape, self._made)
        with self._inside():
            made = current.driver().cuMemcpyDtoH(found.ctypes.data, int(self._held[-1].handle), found.nbytes)
            current.check(made, "copying C from the GPU")
        return found

    def _room(self, size: int) -> int:
        self._held.append(self._device.allocate(max(size, 1), stream=self._stream))
        self._stream.sync()
        return int(self._held[-1].handle)

    def _sent(self, rows: Array, apart: int) -> Array:
        """A copy on the GPU whose rows begin at multiples of some bytes."""
        raw = np.ascontiguousarray(rows).view(np.uint8)
        sent = np.zeros((len(raw), -(-raw.shape[1] // apart) * apart), np.uint8)
        sent[:, : raw.shape[1]] = raw
        to = self._room(sent.nbytes)
        current.check(current.driver().cuMemcpyHtoD(to, sent.ctypes.data, sent.nbytes), "copying an operand")
        return pointer(to, rows.shape, (sent.shape[1], rows.itemsize), rows.dtype)
