"""Times the first kernels of a ranking and keeps the times: `matmul` uses the fastest from then on.

A kernel's time on a simulated GPU is a full prediction: the kernel is compiled and profiled, and a multiprocessor
simulated. Each time is kept as soon as it is known, so that a stopped tuner resumes. On the CPU block sizes are timed,
in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends import inventory, ranking, winners
from tilewright.backends.cuda import quick
from tilewright.backends.launched import LaunchedProducts
from tilewright.backends.protocol import Backend, Ranked, require
from tilewright.backends.winners import Extents, Timed
from tilewright.engine.promotion import Order, kind_of, truth_kind, types
from tilewright.errors import ArgumentValueError, CompileError, DeviceError, KernelError, MissingExtraError
from tilewright.machine import Gpu
from tilewright.problem.kind import Kind
from tilewright.settings import Settings
from tilewright.waiting import announced

#: Number of kernels of a ranking that are timed: one of them is near the best (`benchmarks/ranking.py`).
FEW = 5

Measure = Callable[[ranking.Candidate, Extents, Gpu], Timed]


@dataclass(frozen=True, slots=True)
class Tried:
    """A kernel of the ranking."""

    ranked: Ranked  #: Its estimate.
    timed: Timed | None  #: None if the model has no time for it.
    refused: str = ""  #: Why there is no time.
    known: bool = False  #: Whether its time was kept before.


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuner's result for one product."""

    device: str  #: The device's name for reports.
    kind: Kind
    extents: Extents  #: m, n and k.
    tried: tuple[Tried, ...]  #: In the order of the estimates.
    unkept: str = ""  #: Why times could not be kept; "" if they were.

    @property
    def best(self) -> Timed | None:
        """The fastest; None if no kernel has a time."""
        return min((one.timed for one in self.tried if one.timed), key=lambda timed: timed.seconds, default=None)


def predicted(one: ranking.Candidate, extents: Extents, gpu: Gpu) -> Timed:
    """The predicted time of a kernel on a GPU.

    Raises as :func:`tilewright.prediction.products.predict_product`.
    """
    from tilewright.prediction.products import Product, predict_product

    found = predict_product(one.record, Product(*extents, one.dtype), gpu, changes=False)
    return Timed(one.record.name, found.seconds, found.limiter, extents)


def tune(
    device: str, extents: Extents, dtype: np.dtype[Any], order: Order = "canonical", few: int = FEW, *,
    again: bool = False, measure: Measure = predicted,
) -> Tuned:  # fmt: skip
    """Time the first kernels of a product's ranking, and keep the times.

    Parameters
    ----------
    device : str
        A simulated GPU, as `tw.matmul` takes it, or the name of its record; or "cpu".
    extents : tuple of int
        m, n and k.
    dtype : numpy.dtype
        Dtype of A and B, which decides that of C.
    order : {"canonical", "tf32x3", "fast"}
    few : int
        Number of kernels.
    again : bool
        Whether to time kernels again that have a time for these extents.
    measure : callable
        `(candidate, extents, gpu) -> Timed`, for GPUs.

    Raises
    ------
    DeviceError
        The device's kernels are not tuned, it cannot multiply such operands or has only one kernel for them, or the
        cache is off.
    """
    opened = _device(device)
    if dtype == np.bool_ and not opened.refusal(truth_kind(None)):
        raise DeviceError(f"booleans have only one kernel on {opened.name}, so there is nothing to tune (got bool)")
    kind = kind_of(types(dtype, dtype, None, None, "result", order, "same_kind"), extents[-1], None)
    require(opened, kind)
    winners.room()
    if not isinstance(opened, LaunchedProducts):
        return _measured(opened.name, kind, extents, few, again=again)
    found = ranking.chosen(kind, *extents, opened.gpu, opened.cc)
    asked = winners.key(kind, *extents, opened.gpu)
    assert asked is not None, "the kind is plain"
    known = {} if again else winners.kept(asked, Settings.from_environ().cache_dir)
    tried: list[Tried] = []
    unkept = ""
    pairs = list(zip(found.candidates, found.ranking, strict=True))[:few]
    product = "{:,} x {:,} x {:,}".format(*extents)
    with announced("tuning", product, len(pairs), "kernels", lambda: len(tried)):
        for one, ranked in pairs:
            kept = known.get(ranked.name)
            if kept is not None and kept.extents == extents:
                tried.append(Tried(ranked, kept, known=True))
                continue
            made = _timed(one, ranked, extents, opened.gpu, measure)
            tried.append(made)
            if made.timed is not None:
                unkept = _kept(asked, made.timed) or unkept
                quick.forget()
    return Tuned(opened.name, kind, extents, tuple(tried), unkept)


def _measured(device: str, kind: Kind, extents: Extents, few: int, *, again: bool) -> Tuned:
    """Measure the first blocks of the CPU engine."""
    from tilewright.rates import cpu_blocks

    bench = cpu_blocks.Bench(extents, kind)
    some = bench.choices[:few]
    known = {} if again else winners.kept(bench.key, Settings.from_environ().cache_dir)
    kept = {name: one for name, one in known.items() if one.extents == extents}
    wanted = [one for one in some if one.ranked.name not in kept]
    unkept = ""
    with announced("tuning", "{:,} x {:,} x {:,}".format(*extents), len(wanted), "blocks", lambda: 0):
        measured = bench.measured(wanted)
    for one in measured:
        unkept = _kept(bench.key, one) or unkept
    cpu_blocks.forget()
    times = kept | {one.kernel: one for one in measured}
    tried = (Tried(one.ranked, times[one.ranked.name], known=one.ranked.name in kept) for one in some)
    return Tuned(device, kind, extents, tuple(tried), unkept)


def _timed(one: ranking.Candidate, ranked: Ranked, extents: Extents, gpu: Gpu, measure: Measure) -> Tried:
    try:
        return Tried(ranked, measure(one, extents, gpu))
    except MissingExtraError:  # a compiler is missing: no other kernel will have a time
        raise
    except (ArgumentValueError, CompileError, KernelError) as error:  # tensor memory, for example, has no model
        return Tried(ranked, None, str(error).splitlines()[0])


def _kept(asked: winners.Key, timed: Timed) -> str:
    """Keep a time; return why it could not be kept, or "". The tuner continues in both cases."""
    try:
        winners.keep(asked, timed)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _device(name: str) -> Backend:
    row = inventory.row_of(name)
    if row is None or row.tuned:
        return inventory.for_plans(name)
    tuned = " and ".join(row.title for row in inventory.BACKENDS if row.tuned)
    raise DeviceError(
        f"kernels are timed for {tuned} (got {name!r}: no kernel of {row.title} is); try --device simulated:h100"
    )
