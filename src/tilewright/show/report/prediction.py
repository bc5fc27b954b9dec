"""Predicted times: one launch with a breakdown of its time, or kernels of the catalogue side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.frontends.script import Ended
from tilewright.observe.prediction.library import LibraryTime
from tilewright.observe.prediction.products import Product
from tilewright.observe.prediction.record import Change, Prediction
from tilewright.observe.profiling.record import Extent
from tilewright.show.report import figures, program, styles, verdict
from tilewright.show.report.blocks import Block, Facts, Gap, words
from tilewright.show.report.places import path
from tilewright.show.report.tables import COUNT, PERCENT, RATE, SECONDS, Column, Form, Table, group
from tilewright.simulate import machine
from tilewright.simulate.machine import Gpu
from tilewright.simulate.machine.limiters import phrase

_SHARES = group(
    Column("the time goes to", lambda share: share.name),
    Column("", lambda share: phrase(share.name)),
    Column("share", lambda share: share.fraction, PERCENT),
)
_BARS = group(Column("", lambda share: figures.bar(share.fraction, 1.0), style=styles.QUIET), optional=True)
_CHANGES = group(
    Column("with one change", lambda row: row.change.name),
    Column("time", lambda row: row.change.seconds, SECONDS),
    Column("relative time", lambda row: row.change.seconds / row.now, PERCENT),
)


@dataclass(frozen=True, slots=True)
class Predicted:
    """A kernel of the catalogue and its predicted time."""

    name: str
    product: Product
    time: Prediction

    @property
    def gflops(self) -> float:
        """Multiplications and additions a second, in 10^9."""
        return self.product.operations / self.time.seconds / 1e9


@dataclass(frozen=True, slots=True)
class _Changed:
    change: Change
    now: float


def blocks(found: Prediction) -> Iterator[Block]:
    """One launch: its verdict and time, a breakdown of the time, and the effect of changes."""
    yield words((found.kernel, f"bold {styles.PLACE}"), (f" on {found.gpu}, predicted", styles.QUIET), hang=2)
    yield from verdict.blocks(found.verdict, found)
    yield Facts(tuple(_facts(found)))
    yield Gap()
    yield Table(_SHARES, (_BARS,), [share for share in found.shares if share.fraction >= 0.01])
    if found.changes:
        yield Gap()
        yield Table(_CHANGES, (), [_Changed(change, found.seconds) for change in found.changes])
    for note in found.notes:
        yield words((note, styles.QUIET), hang=2)


def _facts(found: Prediction) -> Iterator[tuple[str, str]]:
    """The launch, the places of its blocks, and the issue rate of a multiprocessor."""
    yield "launch", f"grid {extents(found.grid)}, block {extents(found.block)}"
    yield "blocks", _places(math.prod(found.grid), found.resident_blocks, machine.gpu(found.gpu).multiprocessors)
    yield (
        "room",
        f"{figures.amount(found.resident_blocks, 'block')} a multiprocessor, of {found.registers} registers a thread",
    )
    yield (
        "issue",
        f"{found.instructions_per_clock:.2f} instructions a clock a multiprocessor, at {found.clock_mhz:,} MHz",
    )
    if found.tensor_share:
        yield "tensor cores", f"{figures.percent(found.tensor_share)} of the clocks"
    if found.copies_in_flight is not None:
        yield "copies", in_flight(found)


def in_flight(found: Prediction) -> str:
    """The number of asynchronous copies in flight."""
    each = f"{found.copies_in_flight:.1f} in flight when a warp comes to wait for one"
    return f"{each}, at most {found.most_copies_in_flight}"


def _places(blocks: int, resident: int, multiprocessors: int) -> str:
    """The distribution of a grid's blocks: in waves, if not all fit at once.

    >>> _places(1, 10, 84), _places(1024, 10, 84)
    ('1 block on 1 of 84 multiprocessors', '1,024 blocks in 1.22 waves')
    >>> _places(256, 10, 84)
    '256 blocks on 84 multiprocessors, at most 4 on one'
    """
    count = figures.amount(blocks, "block")
    if blocks < multiprocessors:
        return f"{count} on {blocks} of {multiprocessors} multiprocessors"
    if blocks <= resident * multiprocessors:
        return f"{count} on {multiprocessors} multiprocessors, at most {-(-blocks // multiprocessors)} on one"
    return f"{count} in {blocks / (resident * multiprocessors):.2f} waves"


def of_program(found: Sequence[Prediction], library: Sequence[LibraryTime] = ()) -> Iterator[Block]:
    """A table of a program's launches, if it has several, of libraries' products, and each kernel's longest launch."""
    slowest: dict[str, Prediction] = {}
    for one in found:
        if one.kernel not in slowest or one.seconds > slowest[one.kernel].seconds:
            slowest[one.kernel] = one
    if len(found) > 1:
        extent = Form(extents, extents)
        key = group(Column("launch", lambda row: row.launch, COUNT), Column("kernel", lambda row: row.kernel))
        what = group(Column("grid", lambda row: row.grid, extent), Column("block", lambda row: row.block, extent))
        time = group(
            Column("predicted", lambda row: row.seconds, SECONDS),
            Column("from", lambda row: row.least_seconds, SECONDS),
            Column("to", lambda row: row.most_seconds, SECONDS),
            Column("limited by", lambda row: row.limiter, wrap_at=16),
        )
        where = group(Column("launched at", lambda row: path(row.launched_at)))
        yield Table(key, (what, time, where), list(found))
        if counted := sum(one.launch == one.counted_in for one in found) - len(found):
            sentence = (
                f"{len(found) + counted} of {len(found)} launches were counted; each of the others uses the counts of "
                "an earlier launch with the same grid and block, shapes of arrays and integer arguments"
            )
            yield words((sentence, styles.QUIET), hang=2)
    if library:
        if len(found) > 1:
            yield Gap()
        yield from _of_library(library)
    for number, one in enumerate(slowest.values()):
        if number or len(found) > 1 or library:
            yield Gap()
        yield from blocks(one)


def _of_library(found: Sequence[LibraryTime]) -> Iterator[Block]:
    """Products of libraries, with the kernel whose time each has."""
    key = group(
        Column("library call", lambda row: row.call.name),
        Column("m x n x k", lambda row: f"{row.call.m}x{row.call.n}x{row.call.k}"),
        Column("dtype", lambda row: row.call.dtype),
        Column("products", lambda row: row.count, COUNT),
    )
    time = group(
        Column("predicted", lambda row: row.seconds, SECONDS),
        Column("GFLOPS", lambda row: row.gflops, RATE),
        Column("kernel", lambda row: row.kernel),
    )
    yield Table(key, (time,), list(found))
    sentence = "a library's kernels are closed: the host computed these products, and a time is that of our kernel"
    yield words((sentence, styles.QUIET), hang=2)


def extents(extent: Extent) -> str:
    """A grid or a block, such as `32x8x1`."""
    return "x".join(map(str, extent))


def program_document(
    found: Sequence[Prediction], library: Sequence[LibraryTime], failed: Sequence[tuple[str, str]], ended: Ended
) -> dict[str, object]:
    """Return {"predictions": [...], "kernels": [...], "library": [...], "failed": [...], "program": {...}}."""
    from tilewright.show.report.document import together

    return {
        "predictions": [document(one) for one in found],
        "kernels": [
            {
                "kernel": name,
                "launches": [found[at].launch for at in rows],
                "seconds": sum(found[at].seconds for at in rows),
            }
            for name, rows in together(found).items()
        ],
        "library": [
            {
                "call": one.call.name,
                "shape": [one.call.m, one.call.n, one.call.k],
                "dtype": one.call.dtype,
                "products": one.count,
                "kernel": one.kernel or None,
                "seconds": one.seconds,
            }
            for one in library
        ],
        "failed": [{"kernel": kernel, "error": error} for kernel, error in failed],
        "program": program.document(ended),
    }


def products(found: Sequence[Predicted], gpu: Gpu) -> Iterator[Block]:
    """Kernels of the catalogue, a row each."""
    shape, mhz = _shape(found[0].product), f"{found[0].time.clock_mhz:,} MHz"
    yield words(
        (gpu.name, f"bold {styles.PLACE}"),
        f" at {mhz}, {shape}",
        (": predicted, nothing was measured", styles.QUIET),
        hang=2,
    )
    key = group(Column("kernel", lambda row: row.name, style="bold"))
    what = group(Column("dtype", lambda row: row.product.dtype))
    rate = group(
        Column("time", lambda row: row.time.seconds, SECONDS),
        Column("GFLOPS", lambda row: row.gflops, RATE),
        Column("of peak", lambda row: _of_peak(row, gpu), PERCENT),
    )
    why = group(
        Column("registers", lambda row: row.time.registers, COUNT),
        Column("blocks", lambda row: row.time.resident_blocks, COUNT, legend="that a multiprocessor holds"),
        Column("limited by", lambda row: row.time.limiter, wrap_at=16),
    )
    yield Table(key, (what, rate, why), found)


def document(found: Prediction) -> dict[str, object]:
    """Return a prediction as JSON values."""
    from tilewright.show.report.document import as_values

    return dict(as_values(found))


def product_document(found: Predicted) -> dict[str, object]:
    """Return a row of the table as JSON values."""
    shape = [found.product.m, found.product.n, found.product.k]
    return {
        "name": found.name,
        "shape": shape,
        "dtype": found.product.dtype,
        "gflops": found.gflops,
        **document(found.time),
    }


def _shape(product: Product) -> str:
    return f"{product.m} x {product.n} x {product.k}"


def _of_peak(row: Predicted, gpu: Gpu) -> float | None:
    rates = ("float32", "float64", "int32")
    return row.gflops / gpu.peak_gflops(row.product.dtype) if row.product.dtype in rates else None
