"""Whether a lane stores what came of a shuffle from a lane that its mask does not name, or that is not there.

What such a lane gives is undefined, and harmless where nobody uses it: the upper lanes of a sum by `shfl_down` read
from beyond their half warp, and only the lowest lane's sum is stored. So each warp keeps a mask of the lanes that hold
such a value, one mask for each chain of shuffles that take each other's results. A finding is made where one of these
lanes stores.

Source: PTX ISA, 9.7.9.6 (shfl.sync: a source lane that is inactive or not in `membermask` gives an undefined result).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.instruments.convergence import FACTS, report
from tilewright.instruments.findings import Finding
from tilewright.instruments.shadow import records
from tilewright.instruments.shadow.words import place_of
from tilewright.simt.events import (
    VALUES_STRIDE_BYTES,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    parameters,
)

#: Chains of a kernel that are followed, and bytes of one: of each warp the lanes, and the shuffle that was the first.
CHAINS = 8
_CHAIN_BYTES, _WARP_SHIFT = 256, 3
_KIND = 1


@dataclass(frozen=True, slots=True)
class Link:
    """A shuffle whose result is used by every lane that gets it.

    Attributes
    ----------
    chain : int
        The chain that it belongs to, below CHAINS.
    fresh : bool
        Whether what it moves comes of no shuffle: nothing of it is undefined.
    """

    chain: int
    fresh: bool


class Shuffles(Instrument):
    """Find shuffles from lanes outside of their mask whose results are stored.

    Parameters
    ----------
    kernel : str
        The kernel's name, for findings.
    links : dict of int to Link
        Shuffles by their PTX line.
    stores : dict of int to tuple of int
        PTX lines of stores and atomics, and the chains that what they store comes of.
    """

    def __init__(self, kernel: str, links: dict[int, Link], stores: dict[int, tuple[int, ...]]) -> None:
        self.name = "shuffles"
        self._kernel, self._links, self._stores = kernel, links, stores

    def key(self) -> Any:
        """What the code depends on."""
        return sorted(self._links.items()), sorted(self._stores.items())

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Shuffles, and stores of their results."""
        if site.kind is EventKind.VALUE and site.ptx_line in self._links and site.opcode.startswith("shfl."):
            link = self._links[site.ptx_line]
            parts = site.opcode.split(".")
            mode, sync = parts[-2], "sync" in parts
            symbol = f"tw.shuffles.{mode}.{int(sync)}.{link.chain}.{int(link.fresh)}"
            return _handler(symbol, parameters(site.kind), _shuffle(mode, link, sync=sync))
        if site.kind is EventKind.ACCESS and site.access != "load" and site.ptx_line in self._stores:
            chains, pattern = self._stores[site.ptx_line], offsets is not None
            symbol = f"tw.shuffles.store.{int(pattern)}.{'.'.join(map(str, chains))}"
            return _handler(symbol, parameters(site.kind, pattern=pattern), _store(chains), pattern=pattern)
        return None

    def begin(self, facts: Facts) -> Storage:
        """No lane of any warp has anything undefined."""
        self._facts = facts
        self._table = records.empty()
        return Storage(records.launch_words(self._table, facts), np.zeros(CHAINS * _CHAIN_BYTES, np.uint8))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[Finding, ...]:
        """Findings, at the shuffles."""
        return tuple(self._finding(one, sites[one.row]) for one in records.read(self._table))

    def _finding(self, record: records.Record, site: Site) -> Finding:
        message = (
            f"`{site.opcode}` takes the value of a lane that its mask does not name, or that is not there, "
            "and what comes of it is stored"
        )
        return Finding(
            code="TW405", message=message, kernel=self._kernel, opcode=site.opcode, ptx_line=site.ptx_line,
            count=record.count, **place_of(record, site, self._facts),
        )  # fmt: skip


def _handler(symbol: str, signature: str, body: str, *, pattern: bool = False) -> Handler:
    text = f"{records.REPORT}\ndefine void @{symbol}({signature}) {{\nentry:\n{FACTS}{body}}}\n"
    return Handler(symbol, text, pattern=pattern)


def _operand(name: str, index: int) -> str:
    return f"""
  %{name}.p = getelementptr i8, ptr %values, i64 {index * VALUES_STRIDE_BYTES}
  %{name}.wide = load <32 x i64>, ptr %{name}.p, align 8
  %{name} = trunc <32 x i64> %{name}.wide to <32 x i32>
"""


def _at(prefix: str, chain: int) -> str:
    """`%PREFIX.p`: where a warp's lanes of a chain are kept, and `%PREFIX.row.p`, where its first shuffle is."""
    return f"""
  %{prefix}.w = shl i32 %w, {_WARP_SHIFT}
  %{prefix}.off = add i32 %{prefix}.w, {chain * _CHAIN_BYTES}
  %{prefix}.p = getelementptr i8, ptr %block, i32 %{prefix}.off
  %{prefix}.row.p = getelementptr i8, ptr %{prefix}.p, i64 4
"""


def _bits(name: str, mask: str) -> str:
    """`%NAME`: for each lane whether its source lane `%j` is in a mask, a vector."""
    return f"""
  %{name}.at = lshr <32 x i32> {mask}, %j
  %{name} = trunc <32 x i32> %{name}.at to <32 x i1>
"""


def _splat(name: str, value: str) -> str:
    return f"""
  %{name}.one = insertelement <32 x i32> poison, i32 {value}, i32 0
  %{name} = shufflevector <32 x i32> %{name}.one, <32 x i32> poison, <32 x i32> zeroinitializer
"""


#: How each mode computes the source lane. Source: PTX ISA, 9.7.9.6, Semantics.
_SOURCE = {
    "up": "sub <32 x i32> %lane, %bval", "down": "add <32 x i32> %lane, %bval", "bfly": "xor <32 x i32> %lane, %bval",
    "idx": "or <32 x i32> %first, %b.out",
}  # fmt: skip


def _shuffle(mode: str, link: Link, *, sync: bool) -> str:
    """Which lanes read from one that gives nothing defined."""
    lanes = ", ".join(f"i32 {lane}" for lane in range(32))
    low = "splat (i32 31)"
    kept = "and i32 %bad, %not.here" if link.fresh else "or i32 %bad, 0"
    return f"""{_operand("b", 1)}{_operand("c", 2)}{_operand("m", 3) if sync else ""}
  %lane = add <32 x i32> zeroinitializer, <{lanes}>
  %bval = and <32 x i32> %b, {low}
  %seg.at = lshr <32 x i32> %c, splat (i32 8)
  %seg = and <32 x i32> %seg.at, {low}
  %out = xor <32 x i32> %seg, {low}
  %first = and <32 x i32> %lane, %seg
  %c.low = and <32 x i32> %c, {low}
  %c.out = and <32 x i32> %c.low, %out
  %last = or <32 x i32> %first, %c.out
  %b.out = and <32 x i32> %bval, %out
  %j.any = {_SOURCE[mode]}
  %valid = icmp {"sge" if mode == "up" else "sle"} <32 x i32> %j.any, %last
  %j = and <32 x i32> %j.any, {low}
{_splat("here.all", "%mask")}{_splat("were.all", "%initial")}{_bits("here", "%here.all")}{_bits("were", "%were.all")}
{_bits("named", "%m") if sync else "  %named = or <32 x i1> zeroinitializer, splat (i1 true)"}
  %there = or <32 x i1> %here, {"%were" if sync else "zeroinitializer"}
  %good.other = and <32 x i1> %named, %there
  %own = icmp eq <32 x i32> %j, %lane
  %good = or <32 x i1> %good.other, %own
  %wrong = xor <32 x i1> %good, splat (i1 true)
  %wrong.read = and <32 x i1> %wrong, %valid
  %wrong.bits = bitcast <32 x i1> %wrong.read to i32
  %undefined = and i32 %wrong.bits, %mask
{_at("chain", link.chain)}
  %bad = load i32, ptr %chain.p
  %not.here = xor i32 %mask, -1
  %kept = {kept}
  %now = or i32 %kept, %undefined
  store i32 %now, ptr %chain.p
  %some = icmp ne i32 %undefined, 0
  %before = and i32 %kept, %mask
  %none = icmp eq i32 %before, 0
  %first.one = and i1 %some, %none
  br i1 %first.one, label %note, label %leave
note:
  store i32 %row, ptr %chain.row.p
  br label %leave
leave:
  ret void
"""


def _store(chains: tuple[int, ...]) -> str:
    text = ""
    for chain in chains:
        text += f"""
{_at(f"c{chain}", chain)}
  %c{chain}.bad = load i32, ptr %c{chain}.p
  %c{chain}.here = and i32 %c{chain}.bad, %mask
  %c{chain}.some = icmp ne i32 %c{chain}.here, 0
  br i1 %c{chain}.some, label %tell{chain}, label %next{chain}
tell{chain}:
  %c{chain}.row = load i32, ptr %c{chain}.row.p
{report(_KIND, f"%c{chain}.here", f"chain{chain}", f"%c{chain}.row")}
  br label %next{chain}
next{chain}:
"""
    return text + "  ret void\n"
