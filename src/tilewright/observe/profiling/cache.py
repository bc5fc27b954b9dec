"""The levels that serve the sectors of a launch: a deterministic model of a GPU's two levels of cache.

No part of the model is fitted to a measurement:

- **Order.** Blocks start in order, one on each multiprocessor in turn, until each holds as many as its occupancy
  allows. The next block takes the place of one that has ended. Multiprocessors take turns. In a turn each live warp
  makes one request, the lowest warp first, so warps advance together. Barriers and time are not modelled.
- **First level**, one for each multiprocessor: the part of the unified data cache that shared memory leaves, where
  shared memory takes the smallest size that holds the resident blocks. `L1_SETS` sets. A cached load that misses fills
  its sector. A store writes through, allocates nothing and keeps a present sector. An atomic runs at the second level
  and invalidates the sector in the first.
- **Second level**, shared by all: `L2_WAYS` ways. Loads and atomics that miss read their sector from memory. A store
  allocates without reading. Dirty sectors are written back when their line is replaced.
- **Both**: lines of 128 bytes, filled by sectors of 32. A line's set is its number modulo the sets, without hashing.
  Replacement is least recently used. Both levels are empty when the launch begins.

Known differences: hardware hashes addresses, uses unpublished replacement, divides the second level of large GPUs in
two halves, and schedules warps by latency.

Sources: CUDA Programming Guide, appendix "Compute Capabilities", on each architecture's unified data cache and on how
the driver chooses its split; Nsight Compute, Profiling Guide, "Memory Tables" (lines, sectors, and caches flushed
before a kernel, `--cache-control all`); Khairy, Shen, Aamodt, Rogers, Accel-Sim, ISCA 2020: four sets of the first
level measured, a sectored write-back second level, 16 ways assumed; Hill, Smith, IEEE Trans. Computers 38(12), 1989:
compulsory, capacity and conflict misses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.native.functions import functions
from tilewright.ground.native.header import header
from tilewright.observe.instruments.requests import LINE_BYTES, LINE_SECTORS, SECTOR_BYTES
from tilewright.simulate.machine.gpu import Gpu
from tilewright.simulate.machine.occupancy import allocated_shared, shared_memory

L1_SETS, L2_WAYS = 4, 16

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("cache.c", "cache_requests.c"))
_SHARED = header(_SOURCES[0].with_suffix(".h"))
_NUMBERS = _SHARED.numbers
_LAUNCH, _CACHES, _LINE, _MULTIPROCESSOR, _REGION, _REQUESTS, _REQUEST, _WARP, _HINT, _BLOCK = (
    _SHARED.structs[f"tw_{name}"].dtype
    for name in (
        "cache_launch",
        "caches",
        "cache_line",
        "multiprocessor",
        "cache_region",
        "cache_requests",
        "cache_request",
        "cache_warp",
        "cache_hint",
        "cache_block",
    )
)
#: Kinds of site: a load through the first level, a load past it, a store, an atomic.
LOAD, LOAD_L2, STORE, ATOMIC = (_NUMBERS[f"TW_CACHE_{name}"] for name in ("LOAD", "LOAD_L2", "STORE", "ATOMIC"))
#: Columns of the counts. All but the first are sectors.
OUTCOMES = tuple(_SHARED.structs["tw_cache_counts"].offsets)

#: Bits for the number of a line's set: `SET_SHIFT` of `cache.c`.
_MOST_SETS = 1 << 24
_MOST_WARPS, _LANES = _NUMBERS["TW_CACHE_WARPS"], _NUMBERS["TW_CACHE_LANES"]
_REGION_LINES = 1 << _NUMBERS["TW_CACHE_REGION_BITS"]
#: Words between two checks for Ctrl-C: less than a tenth of a second.
_SLICE = 1 << 20
#: Initial places of the directory of regions; half full, each holds 2 MiB of addresses.
_DIRECTORY = 1 << 12
#: Most bytes of the first levels, at one byte for each line, per requested word.
_PRESENT_BYTES = 16

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Caches:
    """The model's parameters for a GPU.

    >>> from tilewright.simulate.machine import gpu
    >>> Caches.of(gpu("a100"), shared_bytes=20_000, resident_blocks=3).l1_bytes >> 10
    128
    """

    multiprocessors: int
    #: `l1_bytes`, `l1_sets`: the first level of one multiprocessor.
    l1_bytes: int
    #: `l2_bytes`, `l2_ways`: the second level.
    l2_bytes: int
    l1_sets: int = L1_SETS
    l2_ways: int = L2_WAYS

    def __post_init__(self) -> None:
        for name, lines in (("l1", self.l1_bytes // LINE_BYTES), ("l2", self.l2_bytes // LINE_BYTES)):
            ways = self.l1_sets if name == "l1" else self.l2_ways
            if not 1 <= ways <= lines:
                raise ArgumentValueError(
                    f"`{name}_bytes` must hold a line of {LINE_BYTES} bytes for each of its sets or ways (got "
                    f"{lines} lines, and {ways}); give it more bytes"
                )
        sets = max(self.multiprocessors * self.l1_sets, self.l2_bytes // LINE_BYTES // self.l2_ways)
        if sets >= _MOST_SETS:
            raise ArgumentValueError(
                f"caches must have fewer than {_MOST_SETS:,} sets in all (got {sets:,}); give fewer, or more ways"
            )

    @classmethod
    def of(cls, gpu: Gpu, *, shared_bytes: int, resident_blocks: int) -> Caches:
        """A GPU's caches while a kernel runs.

        `shared_bytes`: shared memory of one block, static and dynamic. `resident_blocks`: blocks that a multiprocessor
        holds, from the occupancy.
        """
        taken = shared_memory(gpu, resident_blocks * allocated_shared(gpu, shared_bytes), carveout=0)
        return cls(gpu.multiprocessors, gpu.unified_bytes - taken, gpu.l2_bytes)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The levels that serve the sectors of a launch."""

    counts: Words
    written_sectors: int  #: Sectors written back to memory during the launch.
    #: Sectors of the second level that are still dirty when the launch ends.
    dirty_sectors: int

    def of(self, site: int, outcome: str) -> int:
        """One site's count of one of `OUTCOMES`."""
        return int(self.counts[site, OUTCOMES.index(outcome)])

    def total(self, outcome: str) -> int:
        """The sum over all sites of one of `OUTCOMES`."""
        return int(self.counts[:, OUTCOMES.index(outcome)].sum())

    @property
    def dram_read_bytes(self) -> int:
        """Bytes read from memory."""
        return SECTOR_BYTES * sum(self.total(name) for name in OUTCOMES if name.startswith("dram_"))


def simulate(
    buffers: Sequence[Words],
    kinds: npt.ArrayLike,
    caches: Caches,
    *,
    blocks: int,
    warps_per_block: int,
    resident_blocks: int,
) -> Traffic:
    """Simulate every sector that a launch requests.

    Parameters
    ----------
    buffers : sequence of ndarray of uint64
        Requests. Those of one warp must be in order, within a buffer and from one buffer to the next. A request is
        a header `warp << 24 | site << 8 | words`, then that many words `line << 4 | sectors`: the number of a line
        (address divided by 128), and a bit for each of its sectors. `warp` is `block * warps_per_block +` the warp
        of the block.
    kinds : array_like of int, shape (sites,)
        `LOAD`, `LOAD_L2`, `STORE` or `ATOMIC` for each site.
    caches : Caches
    blocks : int
        Blocks of the grid, numbered x first.
    warps_per_block, resident_blocks : int
        Together at most 64 warps on a multiprocessor.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        The buffers hold no requests of these warps and sites, or a number is out of range.

    Examples
    --------
    Two warps of a block read the same four sectors; the second one hits.

    >>> words = np.array([0 << 24 | 1, 2 << 4 | 15, 1 << 24 | 1, 2 << 4 | 15], np.uint64)
    >>> traffic = simulate([words], [LOAD], Caches(1, 4096, 65536), blocks=1, warps_per_block=2, resident_blocks=1)
    >>> traffic.total("sectors"), traffic.total("l1_hits"), traffic.total("dram_compulsory"), traffic.dram_read_bytes
    (8, 4, 4, 128)
    """
    sites = _checked_kinds(kinds)
    words = [_checked_words(buffer) for buffer in buffers]
    if blocks < 0 or warps_per_block < 1 or not 1 <= resident_blocks * warps_per_block <= _MOST_WARPS:
        raise ArgumentValueError(
            f"`resident_blocks` of `warps_per_block` warps must be 1 to {_MOST_WARPS} warps, of 0 or more `blocks` "
            f"(got {resident_blocks} of {warps_per_block}, and {blocks}); take them from the occupancy"
        )
    asked = _linked(words, blocks * warps_per_block, len(sites))
    many = min(caches.multiprocessors, blocks)
    fields = {
        "asked": asked,
        "kinds": sites,
        "many": many,
        "block_count": blocks,
        "warps": warps_per_block,
        "resident": resident_blocks,
        "heap": np.empty(many * resident_blocks, np.uint64),
    }
    return _followed(caches, asked, sum(map(len, words)), fields)


def _followed(caches: Caches, asked: _Filled, words: int, fields: dict[str, Any]) -> Traffic:
    """Run the multiprocessors until the launch has ended."""
    lines, many = int(asked.record["lines"]), fields["many"]
    # Most launches fill no first level. If one is filled, the run starts again with a replacement order.
    roomy = many * lines <= _PRESENT_BYTES * words
    while True:
        levels = _Levels(caches, many, int(asked.record["regions"]), words, roomy=roomy)
        counts = np.zeros((len(fields["kinds"]), len(OUTCOMES)), np.uint64)
        launch = _Filled(
            _LAUNCH,
            **fields,
            **levels.fields(lines),
            counts=counts,
            known=np.zeros(lines, np.uint8),
            multiprocessors=np.zeros(many, _MULTIPROCESSOR),
            blocks=np.empty(fields["block_count"], _BLOCK),
        )
        code().schedule(launch.address)
        while (end := code().run(launch.address, _SLICE)) == _NUMBERS["TW_CACHE_MORE"]:
            pass
        if end == _NUMBERS["TW_CACHE_ENDED"]:
            break
        roomy = False
    counts[:, OUTCOMES.index("sectors")] = counts[:, OUTCOMES.index("sectors") + 1 :].sum(axis=1)
    written, dirtied = levels.written(int(launch.record["dirtied"]))
    return Traffic(counts, written, dirtied - written)


def code() -> Any:
    """The compiled functions of the model."""
    return functions("tw_cache_", *_SOURCES)


def _checked_kinds(kinds: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    given = np.asarray(kinds)
    if given.ndim != 1 or len(given) > 1 << 16 or not {LOAD, LOAD_L2, STORE, ATOMIC}.issuperset(given.tolist()):
        raise ArgumentValueError(
            f"`kinds` must be LOAD, LOAD_L2, STORE or ATOMIC for each of at most 65,536 sites (got shape {given.shape})"
        )
    return np.ascontiguousarray(given, np.uint8)


def _checked_words(buffer: Any) -> Words:
    if not isinstance(buffer, np.ndarray) or buffer.dtype != np.uint64 or buffer.ndim != 1:
        got = f"{buffer.dtype} of shape {buffer.shape}" if isinstance(buffer, np.ndarray) else type(buffer).__name__
        raise ArgumentTypeError(f"`buffers` must be one-dimensional arrays of uint64 (got {got}); convert them")
    return np.ascontiguousarray(buffer)


def _linked(buffers: Sequence[Words], warps: int, sites: int) -> _Filled:
    """All requests, linked by warp, and their lines, numbered by region."""
    slots, most = _DIRECTORY, sum(map(len, buffers)) // 2  # a request has at least two words
    while True:
        asked = _Filled(
            _REQUESTS,
            requests=np.empty(1 + most, _REQUEST),
            warps=np.zeros(warps, _WARP),
            warp_count=warps,
            hints=np.zeros(sites, _HINT),
            sites=sites,
            directory=np.zeros(slots, _REGION),
            mask=slots - 1,
            homes=np.zeros(slots // 2, np.uint64),
        )
        ends = {code().link(asked.address, buffer.ctypes.data, len(buffer)) for buffer in buffers}
        if _NUMBERS["TW_CACHE_WRONG"] in ends:
            raise ArgumentValueError(
                f"`buffers` must hold requests of {warps:,} warps and {sites:,} sites, each with its lines (got "
                "others); give as many `blocks`, `warps_per_block` and `kinds` as the launch had"
            )
        if _NUMBERS["TW_CACHE_FULL"] not in ends:
            return asked
        slots *= 4


class _Filled:
    """A record of `cache.h` in memory, and the arrays that its pointers refer to."""

    def __init__(self, kind: np.dtype[Any], **fields: Any) -> None:
        self.record, self._held = np.zeros((), kind), fields
        self.address = self.record.ctypes.data
        for name, value in fields.items():
            held: Any = value.ctypes.data if isinstance(value, np.ndarray) else value
            self.record[name] = held.address if isinstance(held, _Filled) else held


class _Levels:
    """The caches: first levels, second level and its shadow; none has more lines than the launch has words."""

    def __init__(self, caches: Caches, multiprocessors: int, regions: int, words: int, *, roomy: bool) -> None:
        l1_ways = caches.l1_bytes // LINE_BYTES // caches.l1_sets
        l2_lines = caches.l2_bytes // LINE_BYTES
        l2_sets = l2_lines // caches.l2_ways
        # A region gives a set at most this many lines. If every set has room, no line is ever replaced, and the model
        # only needs to know what was touched.
        self.endless = regions * -(-_REGION_LINES // l2_sets) <= caches.l2_ways
        self.roomy = roomy and self.endless and _LANES % caches.l1_sets == 0
        self.first = _caches(0 if self.roomy else multiprocessors, caches.l1_sets, l1_ways, words)
        self.second = None if self.endless else _caches(1, l2_sets, caches.l2_ways, words)
        self.shadow = None if self.endless else _caches(1, 1, l2_sets * caches.l2_ways, words)

    def fields(self, lines: int) -> dict[str, Any]:
        """Fields of the launch's record, for this many lines in all regions."""
        levels = {"first": self.first, "second": self.second, "shadow": self.shadow}
        found: dict[str, Any] = {name: level for name, level in levels.items() if level}
        if self.roomy:
            found["present"] = np.empty(lines + _LANES, np.uint8)  # zero after the lines
            found["present"][lines:] = 0
        if self.endless:
            found["touches"] = np.full(lines * LINE_SECTORS, np.iinfo(np.int64).max)
        return found

    def written(self, dirtied: int) -> tuple[int, int]:
        """Sectors written back, and sectors still dirty; a second level without replacement counts the latter apart."""
        return (int(self.second.record["written"]), int(self.second.record["dirtied"])) if self.second else (0, dirtied)


def _caches(many: int, sets: int, ways: int, words: int) -> _Filled:
    """The record of equal caches, all empty."""
    heads, lines = many * sets, min(many * sets * ways, words)
    bits = max(1, (lines - 1).bit_length())
    room = np.empty(heads + lines, _LINE)  # a line is written whole when it is allocated
    room[:heads] = 0
    room["prev"][:heads] = room["next"][:heads] = np.arange(heads)
    mask = sets - 1 if sets & (sets - 1) == 0 and sets <= _REGION_LINES else (1 << 64) - 1
    return _Filled(
        _CACHES,
        lines=room,
        buckets=np.zeros(1 << bits, np.uint32),
        sets=sets,
        mask=mask,
        ways=ways,
        shift=64 - bits,
        taken=heads,
    )
