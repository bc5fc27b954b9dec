"""Times the first configurations of a product and keeps the times: `matmul` uses the fastest from then on.

A configuration is a kernel of a GPU, a tile of an OpenCL device, or block sizes of the CPU. On a simulated GPU its time
is a full prediction: the kernel is compiled and profiled, and a multiprocessor simulated. Each prediction is kept as
soon as it is known, so that a stopped tuner resumes. On other devices the configurations are measured in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError, CompileError, DeviceError, KernelError, MissingExtraError
from tilewright.ground.progress import announced
from tilewright.ground.settings import Settings
from tilewright.multiply.backends import estimates, inventory, tuning_db
from tilewright.multiply.backends.launched import LaunchedProducts
from tilewright.multiply.backends.protocol import Backend, Choices, Tunable, require
from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.backends.tuning_db import Extents, Timed
from tilewright.multiply.engine import known_layouts
from tilewright.multiply.engine.promotion import Order, kind_of, truth_kind
from tilewright.multiply.engine.request import Request
from tilewright.multiply.problem.algebra import Algebra
from tilewright.multiply.problem.kind import Kind
from tilewright.show.ladder import operands
from tilewright.show.rates.turns import NOISY, Ready, Spread, turns
from tilewright.simulate.machine import Gpu

#: Number of configurations of a ranking that are timed: one of them is near the best (`benchmarks/ranking.py`).
FEW = 5
#: The errors of a configuration that cannot be timed, although others can.
_REFUSED = (ArgumentValueError, CompileError, DeviceError, KernelError)
#: Samples of each configuration.
_SAMPLES = 7

Measure = Callable[[estimates.Candidate, Extents, Gpu], Timed]
Race = Callable[[Sequence[Ready]], Sequence[Spread]]


@dataclass(frozen=True, slots=True)
class Tried:
    """A kernel of the ranking."""

    ranked: Ranked  #: Its estimate.
    timed: Timed | None  #: None if it has no time.
    refused: str = ""  #: Why there is no time.
    known: bool = False  #: Whether its time was kept before.
    noisy: bool = False  #: Whether its time is too noisy to be kept.


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
        """The fastest; None if no kernel has a time that is kept."""
        return min(
            (one.timed for one in self.tried if one.timed and not one.noisy),
            key=lambda timed: timed.seconds,
            default=None,
        )


def predicted(one: estimates.Candidate, extents: Extents, gpu: Gpu) -> Timed:
    """The predicted time of a kernel on a GPU, with the estimated one of launches that split its operands.

    Raises as :func:`tilewright.observe.prediction.products.predict_product`.
    """
    from tilewright.observe.prediction.products import Product, predict_product

    found = predict_product(one.record, Product(*extents, one.dtype, one.finish), gpu, changes=False)
    seconds = found.seconds + estimates.splitting(one, *extents, gpu)
    return Timed(one.record.name, seconds, found.limiter, extents)


def in_turns(contenders: Sequence[Ready]) -> list[Spread]:
    """The time of each contender, measured in turns."""
    return [Spread.of(samples) for samples in turns(contenders, _SAMPLES).samples]


def tune(
    device: str,
    extents: Extents,
    dtype: np.dtype[Any],
    order: Order = "canonical",
    few: int = FEW,
    *,
    algebra: str | Algebra = "plus-times",
    again: bool = False,
    accept_noise: bool = False,
    measure: Measure = predicted,
    race: Race = in_turns,
) -> Tuned:
    """Time the first configurations of a product's ranking, and keep the times.

    Parameters
    ----------
    device : str
        As `tw.matmul` takes it, or the name of a simulated GPU's record.
    extents : tuple of int
        m, n and k.
    dtype : numpy.dtype
        Dtype of A and B, which decides that of C.
    order : {"canonical", "tf32x3", "fast"}
    few : int
        Number of configurations.
    algebra : str or Algebra
        As for `tw.matmul`.
    again : bool
        Whether to time configurations again that have a time for these extents.
    accept_noise : bool
        Whether to keep a time whose quartiles differ by more than :data:`tilewright.show.rates.turns.NOISY` of it.
    measure : callable
        `(candidate, extents, gpu) -> Timed`, for simulated GPUs.
    race : callable
        `(contenders) -> a Spread of each`, for other devices.

    Raises
    ------
    DeviceError
        The device cannot multiply such operands, it has only one configuration for them, or the cache is off.
    """
    opened = inventory.for_plans(device)
    kind = _kind(opened, dtype, order, algebra, extents[-1])
    require(opened, kind)
    tuning_db.room()
    if not isinstance(opened, Tunable):
        raise DeviceError(f"{opened.name} has one kernel for each product (got {device!r}); nothing is tuned")
    choices = opened.choices(kind, extents)
    known = {} if again else tuning_db.kept(choices.key, Settings.from_environ().cache_dir)
    some = choices.ranking[:few]
    tried = {
        at: Tried(one, kept, known=True)
        for at, one in enumerate(some)
        if (kept := known.get(one.name)) is not None and kept.extents == extents
    }
    wanted = [at for at in range(len(some)) if at not in tried]
    unkept = ""
    with announced("tuning", "{:,} x {:,} x {:,}".format(*extents), len(some), "kernels", lambda: len(tried)):
        if isinstance(opened, LaunchedProducts) and choices.prepare is None:
            found = _predicted(choices, wanted, extents, opened.gpu, measure)
        else:
            found = _measured(choices, wanted, extents, kind, race)
        for at, made in found:
            if isinstance(made, str):
                tried[at] = Tried(some[at], None, made)
                continue
            if made.spread > NOISY and not accept_noise:
                tried[at] = Tried(some[at], made, noisy=True)
                continue
            tried[at] = Tried(some[at], made)
            unkept = _kept(choices.key, made) or unkept
            choices.forget()
            known_layouts.forget()
    return Tuned(opened.name, kind, extents, tuple(tried[at] for at in sorted(tried)), unkept)


def _kind(opened: Backend, dtype: np.dtype[Any], order: Order, algebra: str | Algebra, k: int) -> Kind:
    """The kind of a device's product of operands of one dtype.

    Raises DeviceError: its booleans have only one kernel.
    """
    asked = Request(algebra=algebra, order=order)
    types = asked.types(dtype, dtype)
    steps = asked.semiring(types)
    if types.lowering == "words" or (types.lowering == "bool" and not opened.refusal(truth_kind(steps))):
        raise DeviceError(f"booleans have only one kernel on {opened.name}, so there is nothing to tune (got bool)")
    return kind_of(types, k, steps)


def _predicted(
    choices: Choices, wanted: Sequence[int], extents: Extents, gpu: Gpu, measure: Measure
) -> Iterator[tuple[int, Timed | str]]:
    """The predicted time of each kernel, one after the other, or why it has none."""
    for at in wanted:
        try:
            yield at, measure(choices.candidates[at], extents, gpu)
        except MissingExtraError:  # a compiler is missing: no other kernel will have a time
            raise
        except _REFUSED as error:  # tensor memory, for example, has no model
            yield at, _line(error)


def _measured(
    choices: Choices, wanted: Sequence[int], extents: Extents, kind: Kind, race: Race
) -> Iterator[tuple[int, Timed | str]]:
    """The time of each configuration, measured in turns, so that disturbances affect all; or why it has none."""
    if not wanted or choices.prepare is None:
        return
    a, b = operands(*extents, kind.a)
    ready: dict[int, Ready] = {}
    for at in wanted:
        try:
            ready[at] = _ready(choices.prepare(at, a, b))
        except MissingExtraError:
            raise
        except _REFUSED as error:  # a driver refuses a tile, for example
            yield at, _line(error)
    for at, taken in zip(ready, race(list(ready.values())), strict=True):
        one, spread = choices.ranking[at], (taken.high - taken.low) / taken.median
        yield at, Timed(one.name, taken.median, one.limiter, extents, spread)


def _ready(run: Callable[[], Any]) -> Ready:
    """A product, by the device's clock if it has one; its first run may compile."""
    return Ready(run, run, run if run() is not None else None)


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _kept(asked: tuning_db.Key, timed: Timed) -> str:
    """Keep a time; return why it could not be kept, or "". The tuner continues in both cases."""
    try:
        tuning_db.keep(asked, timed)
    except OSError as error:
        return error.strerror or str(error)
    return ""
