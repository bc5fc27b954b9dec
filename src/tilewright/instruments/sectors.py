"""Distinct sectors and bytes of one warp's request, as LLVM text and in plain Python.

A lane's access is a few *pieces*, each the number of a sector; a mask tells its bytes there. Leaders are taken piece by
piece and lane by lane; all lanes on the leader's sector are served with it. A request adds to five counters: requests,
lanes, sectors, bytes used and ideal sectors, the fewest that hold the bytes used.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.instruments.counting import LANES, added

#: Source: CUDA C++ Best Practices Guide, 13.2.1 "Coalesced Access to Global Memory": 32-byte transactions.
SECTOR_BYTES = 32
#: Counters of a site.
SLOTS = 5
_V64, _V32, _V1 = f"<{LANES} x i64>", f"<{LANES} x i32>", f"<{LANES} x i1>"


def core(symbol: str, pieces: int) -> str:
    """The function `SYMBOL(ptr counters, ptr ids, ptr bytes, i32 mask)`.

    `ids` holds a vector of 32 i64 sector numbers a piece, `bytes` the lanes' byte masks in a sector, 32 i32, which are
    the same for all pieces.
    """
    nexts = "".join(
        f"""
  %id.{p}.p = getelementptr {_V64}, ptr %ids, i64 {p}
  %id.{p} = load {_V64}, ptr %id.{p}.p, align 64"""
        for p in range(pieces)
    )
    phis = "".join(f"\n  %left.{p} = phi i32 [ %mask, %start ], [ %less.{p}, %serve ]" for p in range(pieces))
    choose, candidates, chosen = "", "%left.0", "%id.0"
    for p in range(1, pieces):
        choose += f"""
  %none.{p} = icmp eq i32 {candidates}, 0
  %candidates.{p} = select i1 %none.{p}, i32 %left.{p}, i32 {candidates}
  %chosen.{p} = select i1 %none.{p}, {_V64} %id.{p}, {_V64} {chosen}"""
        candidates, chosen = f"%candidates.{p}", f"%chosen.{p}"
    serve = "".join(
        f"""
  %same.{p} = icmp eq {_V64} %id.{p}, %leader.all
  %same.bits.{p} = bitcast {_V1} %same.{p} to i32
  %taken.bits.{p} = and i32 %same.bits.{p}, %left.{p}
  %taken.{p} = bitcast i32 %taken.bits.{p} to {_V1}
  %touched.{p} = select {_V1} %taken.{p}, {_V32} %each, {_V32} zeroinitializer
  %less.{p} = xor i32 %left.{p}, %taken.bits.{p}"""
        for p in range(pieces)
    )
    touched, left = "%touched.0", "%less.0"
    unite = ""
    for p in range(1, pieces):
        unite += f"\n  %touched.to.{p} = or {_V32} {touched}, %touched.{p}\n  %left.to.{p} = or i32 {left}, %less.{p}"
        touched, left = f"%touched.to.{p}", f"%left.to.{p}"
    sums = added([1, "%active", "%sectors.wide", "%used.wide", "%ideal"])
    return f"""
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.vector.reduce.or.v{LANES}i32({_V32})

define weak_odr void @{symbol}(ptr %counters, ptr %ids, ptr %bytes, i32 %mask) {{
start:{nexts}
  %each = load {_V32}, ptr %bytes, align 64
  br label %serve
serve:{phis}
  %sectors = phi i32 [ 0, %start ], [ %sectors.next, %serve ]
  %used = phi i32 [ 0, %start ], [ %used.next, %serve ]{choose}
  %lane = call i32 @llvm.cttz.i32(i32 {candidates}, i1 true)
  %leader = extractelement {_V64} {chosen}, i32 %lane
  %leader.one = insertelement {_V64} poison, i64 %leader, i32 0
  %leader.all = shufflevector {_V64} %leader.one, {_V64} poison, <{LANES} x i32> zeroinitializer{serve}{unite}
  %here = call i32 @llvm.vector.reduce.or.v{LANES}i32({_V32} {touched})
  %count = call i32 @llvm.ctpop.i32(i32 %here)
  %used.next = add i32 %used, %count
  %sectors.next = add i32 %sectors, 1
  %more = icmp ne i32 {left}, 0
  br i1 %more, label %serve, label %done
done:
  %lanes = call i32 @llvm.ctpop.i32(i32 %mask)
  %active = zext i32 %lanes to i64
  %sectors.wide = zext i32 %sectors.next to i64
  %used.wide = zext i32 %used.next to i64
  %up = add i64 %used.wide, {SECTOR_BYTES - 1}
  %ideal = udiv i64 %up, {SECTOR_BYTES}
{sums}
  ret void
}}
"""


def counted(touched: Iterable[int]) -> list[int]:
    """What a request of all lanes adds to the counters, by the addresses of the bytes it touches.

    Examples
    --------
    >>> counted(range(1024, 1152))
    [1, 32, 4, 128, 4]
    """
    touched = set(touched)
    return [1, LANES, len({byte // SECTOR_BYTES for byte in touched}), len(touched), -(-len(touched) // SECTOR_BYTES)]
