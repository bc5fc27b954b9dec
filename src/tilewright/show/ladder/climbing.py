"""The climb: every kernel of the catalogue run, verified bit for bit, counted and timed.

A rung is the result of one catalogue record on one pair of operands. There is no list of kernels besides the records: a
kernel added to the catalogue is a rung of the next climb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError, MissingExtraError
from tilewright.ground import installation
from tilewright.ground.progress import announced
from tilewright.multiply.kernels import catalogue
from tilewright.show.ladder.climber import Climber, Device, Pairs
from tilewright.show.ladder.matrices import Array, check_operands
from tilewright.show.ladder.rung import Climb, Product, Rung


def climb(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
) -> Climb:
    """Run every record on one pair of operands.

    Parameters
    ----------
    a : array_like, shape (m, k)
    b : array_like, shape (k, n)
        Same dtype as `a`.
    records : sequence of catalogue.Record, optional
        By default every record of the catalogue that runs there.
    device : str
        Where GPU records run, as `tilewright devices` names it: `simulated`, `cuda`, a device with kernels of its own,
        or `cpu` for none. CPU records always run on the host.
    gpu : str, optional
        GPU to take limits from; the settings' by default.
    seed : int, optional
        Order of warps and blocks on the simulated GPU.

    Returns
    -------
    Climb

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        Operands whose shapes or dtypes do not fit.
    DeviceError
        There is no such device here.
    MissingExtraError
        No record can run because an extra is not installed. If some can, the rungs of the others say so.

    Examples
    --------
    >>> from tilewright.ladder import operands, select
    >>> a, b = operands(8, 8, 8, "float32")
    >>> result = climb(a, b, records=select(catalogue.records(), ["S5"]))
    >>> [(rung.source, rung.verified) for rung in result.rungs]
    [('S5', True)]
    """
    left, right = check_operands(np.asarray(a), np.asarray(b))
    pairs = {left.dtype.name: (left, right)}
    return climb_dtypes(pairs, records=records, device=device, gpu=gpu, seed=seed)


def climb_dtypes(
    pairs: Pairs,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
    counted: bool = True,
    keep: bool = False,
    after: Callable[[Rung], None] = lambda rung: None,
) -> Climb:
    """Run every record in the first of its dtypes that `pairs` has operands for; see `climb`.

    Without `counted`, kernels are verified only. With `keep`, Ctrl-C after the first ends the climb with those so far.
    `after` is called with each rung.
    """
    climber = replace(Climber.on(device, gpu, seed), counted=counted)
    chosen = tuple(r for r in catalogue.records() if climber.row.runs(r)) if records is None else tuple(records)
    rungs: list[Rung] = []
    interrupted = False
    try:
        with announced("verifying", "", len(chosen), "kernels", lambda: len(rungs)):
            for record in chosen:
                rungs.append(climber.rung(record, pairs))
                after(rungs[-1])
            rungs += climber.vendor_rungs(pairs)
    except KeyboardInterrupt:
        if not keep or not rungs:
            raise
        interrupted = True
    if rungs and not interrupted and all(rung.missing for rung in rungs):
        extra = rungs[0].missing
        raise MissingExtraError(
            f"the kernels asked for need the extra `{extra}`, which is not installed; run: {installation.extra(extra)}",
            extra,
        )
    a, b = next(iter(pairs.values()))
    used = tuple(dict.fromkeys(rung.dtype for rung in rungs))
    product = Product(a.shape[0], b.shape[1], a.shape[1], used, seed)
    return Climb(climber.machine(), product, tuple(rungs), interrupted)


def multiply(record: catalogue.Record, a: Array, b: Array, *, gpu: str | None = None) -> Array:
    """Multiply with one record, on the simulated GPU or, for a CPU record, on the host.

    Raises
    ------
    ArgumentValueError
        The record does not take these operands.
    """
    a, b = check_operands(a, b)
    reason = record.accepts(a.shape[0], b.shape[1], a.shape[1], a.dtype.name)
    if reason:
        raise ArgumentValueError(
            f"kernel {record.name!r} must be given operands it takes (got others: {reason}); see `tilewright kernels`"
        )
    if record.backend == "cpu":
        from tilewright.multiply.backends.cpu import host_kernels

        return host_kernels.run(record, a, b)
    if record.form:
        climber = Climber.on(record.backend, None, None)
        return climber.own_product(record, a, b)[0]
    climber = Climber.on("simulated", gpu, None)
    return climber.launch(record, record.program(a.dtype.name, climber.backend.cc), a, b)[0]
