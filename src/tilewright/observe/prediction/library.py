"""Times of products that a library computes: those of the catalogue's best kernel, since the library's are closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.errors import ArgumentValueError, CompileError, DeviceError, KernelError, MissingExtraError
from tilewright.multiply.engine.matmul import plan
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.observe.prediction.record import Prediction
from tilewright.simulate.machine import Gpu
from tilewright.simulate.observer import LibraryCall

_REFUSED = (ArgumentValueError, CompileError, DeviceError, KernelError, MissingExtraError)


@dataclass(frozen=True, slots=True)
class LibraryTime:
    """A product of a library, how often it was computed, and the time that one would take."""

    call: LibraryCall
    count: int
    kernel: str = ""  #: The kernel of the catalogue whose time it is.
    time: Prediction | None = None  #: None if there is no such kernel or no prediction of it;
    refused: str = ""  #: then the reason.

    @property
    def seconds(self) -> float | None:
        """Of one call."""
        return self.time.seconds if self.time else None

    @property
    def gflops(self) -> float | None:
        """Multiplications and additions a second, in 10^9."""
        return 2 * self.call.m * self.call.n * self.call.k / self.time.seconds / 1e9 if self.time else None


def times(calls: Sequence[LibraryCall], gpu: Gpu, clock_mhz: int | None = None) -> Iterator[LibraryTime]:
    """The time of each different product, in the order of first calls.

    Products by columns are those of the transposed matrices by rows. float32 has the canonical order, as cuBLAS sums it
    without tensor cores by default; other types take the fastest kernel.
    """
    for call, count in Counter(calls).items():
        order: Literal["canonical", "fast"] = "canonical" if call.dtype == "float32" else "fast"
        try:
            kernel = plan(
                (call.n, call.k), (call.k, call.m), call.dtype, dtype=call.result, device=gpu.key, order=order
            ).kernel
            product = Product(call.n, call.m, call.k, call.dtype)
            time = predict_product(kernel, product, gpu, clock_mhz, changes=False)
        except _REFUSED as refused:
            yield LibraryTime(call, count, refused=str(refused).splitlines()[0].partition(";")[0])
        else:
            yield LibraryTime(call, count, kernel.name, time)
