"""Ranks the catalogue's kernels for a product, by estimates of their times (`estimates`): compiles nothing."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import DeviceError
from tilewright.multiply.backends.estimates import Candidate, estimate, rows_of
from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import identity
from tilewright.multiply.problem.kind import Kind
from tilewright.simulate.machine import Gpu

#: The error bound that an order of summation allows; an order that is not here allows only the canonical bits.
ALLOWED = {"tf32x3": Bound(1, 64), "fast": Bound(math.inf, math.inf)}
#: Rows and columns for which the order of sums is chosen: an element's bits must not depend on m and n.
_LARGE = 4096


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernels that can multiply a product, the fastest first: at least one."""

    candidates: tuple[Candidate, ...]
    ranking: tuple[Ranked, ...]  #: The estimate of each.

    @property
    def best(self) -> Candidate:
        """The fastest."""
        return self.candidates[0]


def summed(kind: Kind) -> str:
    """The dtype of the kernel for the sums: sums modulo 2^32 have the same bits signed and unsigned."""
    plain = kind.algebra is None and kind.finish is None
    return "int32" if plain and kind.accumulator == "uint32" else kind.accumulator


@functools.lru_cache(maxsize=1024)
def chosen(
    kind: Kind,
    m: int,
    n: int,
    k: int,
    gpu: Gpu,
    cc: tuple[int, int],
    columns: tuple[bool, bool] = (False, False),
    batch: int = 1,
) -> Choice:
    """The kernels for a batch of matrices of C, of shape (m, n), the fastest estimate first.

    `columns` says for A and B whether columns are contiguous: of kernels that differ only in this, the one that copies
    least is kept. All kernels have the same order of sums, which `k` alone decides: an element's bits do not depend on
    m, n and the batch.

    Raises DeviceError: no kernel takes the product.

    Examples
    --------
    >>> from tilewright.simulate.machine import gpu
    >>> single = Kind(*["float32"] * 4)
    >>> [chosen(single, m, m, m, gpu("h100"), (9, 0)).best.record.name for m in (40, 2000)]
    ['shared_memory_16', 'warp_tiled']
    """
    allowed = _allowed(kind, cc)
    chain = _chain(allowed, k, gpu)
    found = [
        (one, estimate(one, m, n, k, gpu, batch))
        for one in allowed
        if one.record.chain == chain and one.record.accepts(rows_of(one.record, m), n, k, one.dtype) is None
    ]
    if not found:
        raise DeviceError(
            f"extents for a kernel of the catalogue must fit its grid (got {m}, {n}, {k} in {summed(kind)})"
        )
    found = [each for each in found if not _copies_more(each[0].record, columns, [one.record for one, _ in found])]
    found.sort(key=lambda each: each[1].seconds)
    return Choice(tuple(one for one, _ in found), tuple(ranked for _, ranked in found))


def _copies_more(record: Record, columns: tuple[bool, bool], others: Sequence[Record]) -> bool:
    """Whether another record differs only in the layout of operands, and copies fewer of them."""

    def copied(one: Record) -> int:
        return sum(wanted != lies for wanted, lies in zip(one.columns, columns, strict=True))

    def rest(one: Record) -> tuple[object, ...]:
        return one.operands, one.chain, one.tile, one.stages, one.cluster

    return record.operands == "boxes" and any(
        rest(one) == rest(record) and copied(one) < copied(record) for one in others
    )


def by_columns(strides: Sequence[int]) -> bool:
    """Whether a column's elements are nearer to each other than a row's, by a matrix's strides.

    >>> by_columns((400, 4)), by_columns((4, 400))
    (False, True)
    """
    return abs(strides[-2]) < abs(strides[-1])


@functools.lru_cache(maxsize=256)
def _allowed(kind: Kind, cc: tuple[int, int]) -> tuple[Candidate, ...]:
    """The kernels that an order of summation and a compute capability allow, the top of the ladder first."""
    found = []
    for record in reversed(catalogue.records()):
        if record.backend != "gpu" or record.published or not record.chain or record.unfit(cc):
            continue
        one = _candidate(record, kind)
        if one is not None and (record.bound is None or record.bound.within(ALLOWED.get(kind.order))):
            found.append(one)
    return tuple(found)


def _candidate(record: Record, kind: Kind) -> Candidate | None:
    """A kernel for operands of a kind; None if it does not take them.

    It takes operands in their own dtype, or tensor cores in one that holds both, if its sums are those of the kind.
    Else they are converted to the dtype of the sums; only canonical kernels give the same sums then.
    """
    if record.algebras:
        fits = kind.algebra is not None and kind.finish is None and record.has(kind.algebra)
        own = fits and kind[:4] == (kind.a,) * 4 and kind.a in record.dtypes
        return Candidate(record, kind.a) if own else None
    asked = {"algebra": kind.algebra, "epilogue": kind.finish}
    if not {name for name, given in asked.items() if given is not None}.issubset(record.takes):
        return None
    if (name := _read_as(record, kind)) and _right(record.sums(name), kind):
        if kind.finish is not None or element(name).product == kind.out:
            return Candidate(record, name, finish=kind.finish)
        if "epilogue" in record.takes:
            return Candidate(record, name, finish=identity(record.sums(name), kind.out))
    total = summed(kind)
    exact = kind.finish is None or record.sums(total) == total
    if record.bound is None and total in record.dtypes and exact:
        return Candidate(record, total, 1 if kind.algebra is None else kind.algebra.cost, kind.finish)
    return None


def _read_as(record: Record, kind: Kind) -> str:
    """The dtype in which a kernel reads operands, without a loss; "" if there is none."""
    if kind.algebra is not None:
        return ""
    if kind.a == kind.b and kind.a in record.dtypes:
        return kind.a
    both = [element(name) for name in (kind.a, kind.b)]
    wider = (name for name in record.dtypes if record.tensor and all(element(name).holds(one) for one in both))
    return next(wider, "")


def _right(sums: str, kind: Kind) -> bool:
    """Whether C is the same from sums in another dtype: integers are, if C has no more bits and nothing precedes it."""
    if sums == kind.accumulator:
        return True
    integers = not any(element(name).is_float for name in (sums, kind.accumulator, kind.out))
    return kind.finish is None and integers and element(kind.out).bytes <= element(sums).bytes


def lacks_bits(kind: Kind, cc: tuple[int, int]) -> str:
    """Why no kernel multiplies booleans as bytes by their algebra; "" if one does."""
    return "" if _allowed(kind, cc) else "no kernel for this GPU multiplies booleans by this algebra unpacked"


def dtypes_of_sums() -> tuple[str, ...]:
    """The dtypes in which canonical kernels sum on every GPU."""
    kinds = (record for record in catalogue.records() if record.backend == "gpu" and record.chain == "canonical")
    return tuple(
        dict.fromkeys(
            name for record in kinds for name in record.dtypes if name == record.sums(name) and not record.algebras
        )
    )


def _chain(allowed: tuple[Candidate, ...], k: int, gpu: Gpu) -> str:
    """The order of sums of the fastest kernel for a product so large that its shape does not matter."""
    if len({one.record.chain for one in allowed}) == 1:
        return allowed[0].record.chain
    best = min(allowed, key=lambda one: estimate(one, _LARGE, _LARGE, k, gpu).seconds, default=None)
    return best.record.chain if best else ""
