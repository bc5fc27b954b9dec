"""The climb: every kernel of the catalogue run, verified bit for bit, counted and timed.

A rung is what one catalogue record did with one pair of operands. The records are the only list there is: a kernel
added to the catalogue is a rung of the next climb.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tilewright import catalogue
from tilewright.climber import Array, Climber, Device, Pairs
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rung import Climb, Product, Rung

#: Called before each rung with (rungs done, rungs in all, name of the next), and once at the end.
Progress = Callable[[int, int, str], None]


def operands(m: int, n: int, k: int, dtype: str, seed: int = 0) -> tuple[Array, Array]:
    """Return random operands of shapes (m, k) and (k, n); the same for the same arguments everywhere.

    Floats are uniform in [-1, 1), so sums cancel and round at every step; integers are uniform in [-1000, 1000).

    Examples
    --------
    >>> a, b = operands(2, 3, 4, "int32")
    >>> a.shape, b.shape, a.dtype.name
    ((2, 4), (4, 3), 'int32')
    """
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)

    def one(shape: tuple[int, int]) -> Array:
        if kind.kind == "f":
            return random.uniform(-1, 1, shape).astype(kind)
        return random.integers(-1000, 1000, shape).astype(kind)

    return one((m, k)), one((k, n))


def select(records: Sequence[catalogue.Record], patterns: Iterable[str]) -> tuple[catalogue.Record, ...]:
    """Return the records that any pattern names: a kernel's name, a source row (`S9`), or either with `*` and `?`.

    Raises
    ------
    ArgumentValueError
        A pattern names nothing.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        names = {
            r.name
            for r in records
            if fnmatch.fnmatchcase(r.name, pattern) or fnmatch.fnmatchcase(r.source.lower(), pattern.lower())
        }
        if not names:
            near = difflib.get_close_matches(pattern, [r.name for r in records], n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "see `tilewright kernels`"
            raise ArgumentValueError(f"kernels must name records of the catalogue (got {pattern!r}); {hint}")
        chosen |= names
    return tuple(r for r in records if r.name in chosen)


def climb(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Climb:
    """Run every record on one pair of operands.

    Parameters
    ----------
    a : array_like, shape (m, k)
    b : array_like, shape (k, n)
        Same dtype as `a`.
    records : sequence of catalogue.Record, optional
        Every record of the catalogue by default.
    device : {"simulated", "cuda"}
        Where GPU records run. CPU records always run on the host.
    gpu : str, optional
        GPU to take limits from; the settings' by default.
    seed : int, optional
        Order of warps and blocks on the simulated GPU.
    progress : callable, optional
        See `Progress`.

    Returns
    -------
    Climb

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        Operands whose shapes or dtypes do not fit.
    DeviceError
        Device `cuda` without a GPU.

    Examples
    --------
    >>> a, b = operands(8, 8, 8, "float32")
    >>> result = climb(a, b, records=select(catalogue.records(), ["S5"]))
    >>> [(rung.source, rung.verified) for rung in result.rungs]
    [('S5', True)]
    """
    left, right = check_operands(np.asarray(a), np.asarray(b))
    pairs = {left.dtype.name: (left, right)}
    return climb_dtypes(pairs, records=records, device=device, gpu=gpu, seed=seed, progress=progress)


def climb_dtypes(
    pairs: Pairs,
    *,
    records: Sequence[catalogue.Record] | None = None,
    device: Device = "simulated",
    gpu: str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Climb:
    """Run every record in the first of its dtypes that `pairs` has operands for; see `climb`."""
    chosen = catalogue.records() if records is None else tuple(records)
    climber = Climber.on(device, gpu, seed)
    rungs: list[Rung] = []
    for index, record in enumerate(chosen):
        if progress:
            progress(index, len(chosen), record.name)
        rungs.append(climber.rung(record, pairs))
    rungs += climber.vendor_rungs(pairs)
    if progress:
        progress(len(chosen), len(chosen), "")
    a, b = next(iter(pairs.values()))
    used = tuple(dict.fromkeys(rung.dtype for rung in rungs))
    return Climb(climber.machine(), Product(a.shape[0], b.shape[1], a.shape[1], used, seed), tuple(rungs))


def check_operands(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the operands, in native byte order, if they can be multiplied.

    Raises
    ------
    ArgumentValueError
        Not matrices, an extent is 0, or the inner extents differ.
    ArgumentTypeError
        A dtype that is no number, or two different ones.
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.ndim != 2:
            raise ArgumentValueError(
                f"`{name}` must be a matrix, of 2 dimensions (got {operand.ndim}, shape {operand.shape}); "
                f"reshape it, for example to (rows, columns)"
            )
        if operand.dtype.kind not in "fiu":
            raise ArgumentTypeError(
                f"`{name}.dtype` must be a real number's (got {operand.dtype}); convert it with .astype"
            )
        if 0 in operand.shape:
            raise ArgumentValueError(f"`{name}.shape` must have no extent of 0 (got {operand.shape})")
    if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        raise ArgumentTypeError(
            f"`b.dtype` must equal `a.dtype` (got {b.dtype} and {a.dtype}); convert one of them with .astype"
        )
    if a.shape[1] != b.shape[0]:
        raise ArgumentValueError(
            f"`b.shape[0]` must equal `a.shape[1]` (got {b.shape[0]} and {a.shape[1]}); "
            f"shapes were {a.shape} and {b.shape}"
        )
    native = a.dtype.newbyteorder("=")
    return a.astype(native, copy=False), b.astype(native, copy=False)


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
        raise ArgumentValueError(f"kernel {record.name!r} does not take these operands: {reason}")
    if record.backend == "cpu":
        return record.run_cpu(a, b)
    climber = Climber.on("simulated", gpu, None)
    return climber.launch(record, record.program(a.dtype.name, climber.cc), a, b)[0]


def choose(records: Sequence[catalogue.Record], a: Array, b: Array, name: str | None = None) -> catalogue.Record:
    """Return the record of that name or, without a name, the first trusted CPU record that takes the operands.

    Raises
    ------
    ArgumentValueError
        No record has the name, or none takes the operands.
    """
    if name is not None:
        found = select(records, [name])
        if len(found) > 1:
            listed = ", ".join(record.name for record in found)
            raise ArgumentValueError(f"a kernel must be named by one record's name (got {name!r}: {listed})")
        return found[0]
    a, b = check_operands(a, b)
    reasons: list[str] = []
    for record in records:
        if record.backend != "cpu" or record.published:
            continue
        reason = record.accepts(a.shape[0], b.shape[1], a.shape[1], a.dtype.name)
        if not reason:
            return record
        reasons.append(f"{record.name}: {reason}")
    raise ArgumentValueError(f"no CPU kernel takes these operands ({'; '.join(reasons) or 'there are none'})")
