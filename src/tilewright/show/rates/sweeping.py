"""Runs a sweep: groups of measured points are verified and timed in turns, the others are predicted.

An error at a point, such as a kernel that writes out of bounds, is kept as its rate, and the sweep continues.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError, MissingExtraError, TilewrightError
from tilewright.ground.progress import announced
from tilewright.multiply.backends import inventory
from tilewright.multiply.backends.cpu import host_kernels
from tilewright.multiply.engine.matmul import matmul
from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.dtypes import dtype
from tilewright.multiply.problem.kind import Kind
from tilewright.observe.prediction import products
from tilewright.show.ladder import operands
from tilewright.show.rates import verify
from tilewright.show.rates.conditions import clock_mhz, usage
from tilewright.show.rates.peers import PEERS
from tilewright.show.rates.plan import MATMUL, Asked, is_predicted, points, record_of, together
from tilewright.show.rates.record import Point, Rate
from tilewright.show.rates.turns import Host, Ready, Spread, turns
from tilewright.simulate import machine

Array = npt.NDArray[Any]


class Sweeping:
    """A sweep in progress."""

    def __init__(self, asked: Asked, host: Host | None = None) -> None:
        self.asked = asked
        self.points = points(asked)
        self._groups = together(self.points)
        self._host = host
        self._verified: dict[tuple[object, ...], str] = {}
        if "cold" in asked.caches:
            for device in asked.devices:
                _require_emptied(device)

    def whole(self, rates: Sequence[Rate]) -> int:
        """The number of a file's rates that are in complete groups of this sweep.

        Raises ArgumentValueError: the rates are of another sweep.
        """
        for rate, point in zip(rates, self.points, strict=False):
            if rate.point != point:
                raise ArgumentValueError(
                    f"the file's rates must be of this sweep (got {rate.point}); name another file"
                )
        ends = [0]
        for group in self._groups:
            ends.append(ends[-1] + len(group))
        return max(end for end in ends if end <= len(rates))

    def rates(self, done: int = 0) -> Iterator[list[Rate]]:
        """Yields the rates of each group, without the first `done` points."""
        know = [done]
        with announced("timing", "", len(self.points), "points", lambda: know[0]):
            start = 0
            for group in self._groups:
                if start >= done:
                    yield self._rates(group)
                    know[0] = start + len(group)
                start += len(group)

    def _rates(self, group: Sequence[Point]) -> list[Rate]:
        if is_predicted(group[0].device):
            return [self._predicted(point) for point in group]
        return self._measured(group)

    def _measured(self, group: Sequence[Point]) -> list[Rate]:
        first = group[0]
        a, b = operands(first.m, first.n, first.k, first.dtype, self.asked.seed)
        judge = verify.Judge(a, b)
        prepared = {point: _prepared(judge, point, a, b) for point in group}
        contenders = {point: found for point, found in prepared.items() if not isinstance(found, Rate)}
        before = usage()
        ready = [one for one, _ in contenders.values()]
        taken = turns(ready, self.asked.samples, cold=first.caches == "cold", host=self._host)
        used = usage().since(before)
        mhz, stolen = clock_mhz(), min(1.0, max(0.0, used.stolen / used.all)) if used.all else 0.0
        found = {point: one for point, one in prepared.items() if isinstance(one, Rate)}
        for (point, (_, said)), samples in zip(contenders.items(), taken.samples, strict=True):
            spread = Spread.of(samples)
            flags = tuple(name for name, is_so in (("noisy", spread.noisy), ("disturbed", taken.disturbed)) if is_so)
            rate = Rate(point, "measured", spread.median, spread.low, spread.high, samples, said, flags)
            found[point] = replace(rate, stolen=round(stolen, 4), mhz=mhz)
        return [found[point] for point in group]

    def _predicted(self, point: Point) -> Rate:
        """A point's rate.

        Raises MissingExtraError: the compilers are not installed.
        """
        try:
            return self._prediction(point)
        except MissingExtraError:
            raise
        except TilewrightError as error:
            return Rate.failure(point, "predicted", error)

    def _prediction(self, point: Point) -> Rate:
        record = _kernel(point)
        gpu = machine.gpu(point.device)
        product = products.Product(point.m, point.n, point.k, point.dtype)
        found = products.predict_product(record, product, gpu, changes=False)
        extents = verify.small(record, point.m, point.n, point.k)
        key = (point.contender, point.block, point.dtype, gpu.key, extents)
        if key not in self._verified:
            self._verified[key] = verify.simulated(record, point.dtype, extents, gpu.key, self.asked.seed)
        return Rate(
            point,
            "predicted",
            found.seconds,
            found.least_seconds,
            found.most_seconds,
            verified=self._verified[key],
            limiter=found.limiter,
        )


def _kernel(point: Point) -> Record:
    found = record_of(point)
    assert found is not None  # only peers and `matmul` have no kernel
    return found


def _prepared(judge: verify.Judge, point: Point, a: Array, b: Array) -> tuple[Ready, str] | Rate:
    """A contender with the result of its verification, or its error, which for a peer may be any exception."""
    ends: type[Exception] = Exception if point.contender in PEERS else TilewrightError
    try:
        ready = _ready(point, a, b)
        return ready, _judged(judge, point, ready)
    except MissingExtraError:
        raise
    except ends as error:
        return Rate.failure(point, "measured", error)


def _judged(judge: verify.Judge, point: Point, ready: Ready) -> str:
    product = np.asarray(ready.product())
    if point.contender in PEERS:
        return judge.bounded(product)
    return judge.exact(product, record_of(point))


def _ready(point: Point, a: Array, b: Array) -> Ready:
    """A contender with its operands on the device and its code compiled."""
    if point.contender in PEERS:
        return PEERS[point.contender].ready(a, b, point.device)
    if point.contender == MATMUL:
        multiply = matmul if point.device == "cpu" else functools.partial(matmul, device=point.device)
        return Ready(multiply, lambda: multiply(a, b), operands=(a, b))
    record = _kernel(point)
    if record.backend == "cpu":
        run = functools.partial(host_kernels.run, record)
        return Ready(run, lambda: run(a, b), operands=(a, b))
    backend: Any = inventory.opened(point.device)
    if record.form:
        operand = dtype(a.dtype)
        launch, fetch = backend.repeated(
            a, b, Kind(operand.name, operand.name, operand.name, operand.accumulator), record.form
        )
        return Ready(launch, lambda: (launch(), fetch())[1])
    return _launched(backend, record, a, b)


def _launched(backend: Any, record: Record, a: Array, b: Array) -> Ready:
    """A kernel on a real GPU, timed between two events."""
    program = record.program(a.dtype.name, backend.cc)
    c: Array = np.zeros((a.shape[0], b.shape[1]), a.dtype)

    def timed() -> float:
        return float(backend.run(record, program, a, b, c).seconds)

    def product() -> Array:
        timed()
        return c

    return Ready(timed, product, timed)


def _require_emptied(device: str) -> None:
    """Raise ArgumentValueError for a device whose caches the host cannot empty."""
    if is_predicted(device) or device == "cpu":
        return
    found = [row for row in inventory.devices() if inventory.row_of(row.device) is inventory.row_of(device)]
    if not any(row.kind == "processor" for row in found):
        raise ArgumentValueError(
            f"`caches` cold must be of the processor (got `device` {device}); only its caches can be emptied from here"
        )
