"""The points of a sweep, in order, from the request."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends import inventory
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.show.ladder import select
from tilewright.show.rates.peers import peer
from tilewright.show.rates.record import Caches, Point
from tilewright.show.rates.tables import table
from tilewright.simulate import machine

#: The contender that is not a kernel: :func:`tilewright.matmul`, on every measured device.
MATMUL = "matmul"
#: Default sizes.
SIZES = ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024))
SAMPLES = 31


@dataclass(frozen=True, slots=True)
class Asked:
    """The request for a sweep; each field is an option of `tilewright bench`, empty for the default."""

    kernels: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int, int], ...] = ()
    blocks: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    against: tuple[str, ...] = ()
    caches: tuple[Caches, ...] = ("warm",)
    table: str = ""
    samples: int = SAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Contender:
    name: str
    device: str
    predicted: bool = False
    record: Record | None = None

    @property
    def own_dtype(self) -> str:
        return "" if self.record is None else self.record.dtypes[0]

    def refuses(self, dtype: str, extents: tuple[int, int, int]) -> str | None:
        """Why the contender does not take such a product; `matmul` and peers take all."""
        return None if self.record is None else self.record.accepts(*extents, dtype)

    def point(self, dtype: str, extents: tuple[int, int, int], caches: Caches) -> Point:
        """The contender's points."""
        tiled = self.record if self.record is not None and self.record.tile != (0, 0) else None
        edge, count = (tiled.tile[0], tiled.results[0] * tiled.results[1]) if tiled else (0, 0)
        return Point(self.name, self.device, dtype, *extents, edge, count, caches)


def is_predicted(device: str) -> bool:
    """Whether a device is a GPU of `tilewright gpus`, whose times are predicted.

    Raises ArgumentValueError: it is in no list, or the simulated GPU, whose times are the host's.

    >>> is_predicted("cpu"), is_predicted("a6000")
    (False, True)
    """
    row = inventory.row_of(device)
    if row is not None and row.name != "simulated" and row.kernels:
        return False
    if row is None and device in machine.names():
        return True
    hint = "a simulated launch takes the host's time; name its GPU, as `tilewright gpus` has it" if row else "see both"
    raise ArgumentValueError(
        f"`device` must be of `tilewright devices`, or of `tilewright gpus` for a prediction (got {device!r}); {hint}"
    )


def record_of(point: Point) -> Record | None:
    """The kernel of a point, with its block size; None for `matmul` and peers."""
    found = next((record for record in catalogue.records() if record.name == point.contender), None)
    return found if found is None or not point.block else found.in_blocks(point.block)


def points(asked: Asked) -> tuple[Point, ...]:
    """All points in order: by dtype, extents and caches; points that are timed in turns are adjacent.

    Raises ArgumentValueError, ArgumentTypeError: a part of the request is unknown, or has no device or point.

    >>> [point.contender for point in points(Asked(kernels=("S9",), sizes=((64, 64, 64),), devices=("a6000",)))]
    ['shared_memory_8', 'shared_memory_16', 'shared_memory_32']
    """
    asked = _of_table(asked)
    found = _points(asked)
    kernels = [point for point in found if not _is_peer(point)]
    if not kernels:
        raise ArgumentValueError(
            f"a sweep must have a point (got none: no kernel of {_listed(asked.kernels)} takes these dtypes, sizes, "
            f"blocks and results); see `tilewright kernels`"
        )
    works = {point.work for point in kernels}
    return tuple(point for point in found if point.work in works)


def without_rows(asked: Asked) -> Iterator[str]:
    """Yields the reason for each device, name of kernels and peer without a point, if the sweep has others.

    >>> sizes = ((64, 64, 64),)
    >>> list(without_rows(Asked(kernels=("S9",), sizes=sizes, devices=("cpu", "a6000"), against=("numpy",))))
    ['cpu: runs no kernel of S9', 'numpy: no product is measured that it could take turns with']
    """
    known, asked = points(asked), _of_table(asked)
    ran, names = {point.device for point in known if not _is_peer(point)}, {point.contender for point in known}
    running = {contender.device for contender in _contenders(replace(asked, against=(), blocks=(), results=()))}
    for device in (device for device in asked.devices if device not in ran):
        if device in running:
            yield f"{device}: no kernel of {_listed(asked.kernels)} takes these dtypes, sizes, blocks and results there"
        else:
            yield f"{device}: runs no kernel of {_listed(asked.kernels)}"
    for name in asked.kernels:
        if not _points(replace(asked, kernels=(name,), against=())):
            yield f"{name}: takes none of these dtypes, sizes, blocks and results"
    for name in asked.against:
        if name not in names:
            yield f"{name}: no product is measured that it could take turns with"


def left_out(asked: Asked) -> tuple[tuple[Point, str], ...]:
    """The requested products that a sweep leaves out, with reasons.

    >>> asked = Asked(kernels=("tiled*",), sizes=((64, 64, 64),), dtypes=("int32",), devices=("a6000",))
    >>> [(point.contender, reason) for point, reason in left_out(asked)]
    [('tiled_published', 'takes float32 only, not int32')]
    """
    return tuple((point, reason) for point, reason in _judged(_of_table(asked)) if reason is not None)


def together(points: Sequence[Point]) -> list[tuple[Point, ...]]:
    """Points in groups: measured points of one work, which take turns, and each predicted point alone."""

    def group(place: int) -> object:
        point = points[place]
        return place if is_predicted(point.device) else point.work

    return [tuple(points[i] for i in places) for _, places in itertools.groupby(range(len(points)), group)]


def document(asked: Asked) -> dict[str, Any]:
    """The request as JSON values, for the file of a sweep."""
    values = {name: getattr(asked, name) for name in Asked.__dataclass_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _of_table(asked: Asked) -> Asked:
    """The request with the points of a source's table, if one is named."""
    if not asked.table:
        return asked
    source = table(asked.table)
    return replace(
        asked,
        kernels=source.kernels,
        sizes=tuple((w, w, w) for w in source.widths),
        dtypes=(source.dtype,),
        blocks=source.values if source.columns == "block" else (),
        results=source.values if source.columns == "results" else (),
    )


def _points(asked: Asked) -> tuple[Point, ...]:
    """The points of every contender, including peers without another contender."""
    found = tuple(point for point, refused in _judged(asked) if refused is None)
    if not asked.table:
        return found
    source = table(asked.table)
    return tuple(point for point in found if source.has(point) or _is_peer(point))


def _judged(asked: Asked) -> Iterator[tuple[Point, str | None]]:
    """Every contender with every dtype and extents, and the reason if it does not take them."""
    contenders = list(_contenders(asked))
    for dtype, extents in itertools.product(_dtypes(asked, contenders), asked.sizes or SIZES):
        for contender, caches in _in_turn(contenders, asked.caches):
            if asked.dtypes or contender.own_dtype in ("", dtype):
                yield contender.point(dtype, extents, caches), contender.refuses(dtype, extents)


def _is_peer(point: Point) -> bool:
    return point.contender != MATMUL and record_of(point) is None


def _contenders(asked: Asked) -> Iterator[_Contender]:
    """The contenders on each device, then the peers."""
    devices = {device: is_predicted(device) for device in dict.fromkeys(asked.devices)}
    measured = [device for device, predicted in devices.items() if not predicted]
    wanted = tuple(name for name in asked.kernels if name != MATMUL)
    records = select(catalogue.records(), wanted) if wanted else ()
    alone = [*([MATMUL] if MATMUL in asked.kernels else []), *(record.name for record in records)]
    placed: set[str] = set()
    for device, predicted in devices.items():
        row = inventory.row_of(device)
        if row is not None and (MATMUL in asked.kernels or not asked.kernels):
            placed.add(MATMUL)
            yield _Contender(MATMUL, device)
        backends = {"gpu"} if row is None else {*row.kernels} - ({"cpu"} if row.name != "cpu" else set())
        for record in records or _by_default(asked, predicted):
            if record.backend in backends:
                placed.add(record.name)
                yield from (_Contender(cut.name, device, predicted, cut) for cut in _cut(record, asked))
    if lost := [name for name in alone if name not in placed]:
        raise ArgumentValueError(
            f"each of `kernels` must run on one of `device` (got {', '.join(lost)} for {_listed(asked.devices)}); "
            f"`tilewright kernels` lists what each runs on"
        )
    yield from _peers(asked, measured)


def _by_default(asked: Asked, predicted: bool) -> Sequence[Record]:
    """The default: `matmul` on measured devices, and every kernel for GPUs except the published specimens."""
    if asked.kernels or not predicted:
        return ()
    return [record for record in catalogue.records() if not record.published]


def _cut(record: Record, asked: Asked) -> Iterator[Record]:
    """A kernel with the requested block sizes; kernels of the host have none."""
    if record.tile == (0, 0):
        yield record
        return
    if asked.results and record.results[0] * record.results[1] not in asked.results:
        return
    for edge in asked.blocks or (record.tile[0],):
        cut = record.in_blocks(edge)
        if cut is not None:
            yield cut


def _peers(asked: Asked, measured: Sequence[str]) -> Iterator[_Contender]:
    """Each peer once: on the GPU if kernels run there and the peer can, else on the processor."""
    for name in asked.against:
        row = peer(name)
        here = {"cuda" if device == "cuda" else "cpu" for device in measured}
        device = next((device for device in ("cuda", "cpu") if device in row.devices and device in here), None)
        if device is None:
            raise ArgumentValueError(
                f"`against` {name} must be measured beside a device (got {_listed(asked.devices)}); it runs on "
                f"{' and '.join(row.devices)}"
            )
        yield _Contender(name, device)


def _dtypes(asked: Asked, contenders: Sequence[_Contender]) -> tuple[str, ...]:
    """The requested dtypes, or each kernel's own; float32 without kernels."""
    known = [name for name in catalogue.find("cpu_engine").dtypes if not name.startswith("complex")]
    for name in asked.dtypes:
        if name not in known:
            raise ArgumentTypeError(f"`dtypes` must be of {', '.join(known)} (got {name!r})")
    own = dict.fromkeys(contender.own_dtype for contender in contenders if contender.own_dtype)
    return asked.dtypes or tuple(own) or ("float32",)


def _in_turn(contenders: Sequence[_Contender], caches: Sequence[Caches]) -> Iterator[tuple[_Contender, Caches]]:
    """Measured devices with each state of the caches, then predicted ones with empty caches."""
    for state in caches:
        yield from ((contender, state) for contender in contenders if not contender.predicted)
    yield from ((contender, "cold") for contender in contenders if contender.predicted)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "the catalogue"
