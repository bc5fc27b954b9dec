"""Handlers that count the distinct sectors and bytes of one warp's request, and may write the sectors down.

A lane's access is a few *pieces*, each the number of a sector; a mask tells its bytes there. Leaders are taken piece by
piece and lane by lane; all lanes on the leader's sector are served with it. A request adds to five counters: requests,
lanes, sectors, bytes used and ideal sectors, the fewest that hold the bytes used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.instruments import requests
from tilewright.instruments.counting import LANES, added, by_pattern, vector
from tilewright.simt.events import EventKind, Handler, parameters

#: Source: CUDA C++ Best Practices Guide, 13.2.1 "Coalesced Access to Global Memory": 32-byte transactions.
SECTOR_BYTES = 32
#: Source: Nsight Compute, Profiling Guide: a cache line is 128 bytes, four sectors of 32.
LINE_SECTORS = 4
#: Source: CUDA C++ Programming Guide, "Local Memory": consecutive 32-bit words belong to consecutive threads.
WORD_BYTES = 4
ROW_BYTES = WORD_BYTES * LANES
#: Counters of a site; where requests are written down, one more, which the first row uses.
SLOTS = 5
_V64, _V32, _V1 = f"<{LANES} x i64>", f"<{LANES} x i32>", f"<{LANES} x i1>"


def core(symbol: str, pieces: int) -> str:
    """The function `i64 SYMBOL(ptr counters, ptr ids, ptr bytes, i32 mask, ptr out)`.

    `ids` holds a vector of 32 i64 sector numbers a piece, `bytes` the lanes' byte masks in a sector, 32 i32, which are
    the same for all pieces. The distinct sectors are written to `out`; the result is how many they are. Sectors are
    compared by 32 bits: memory of one space lies within 128 GiB.
    """
    nexts = "".join(
        f"""
  %ids.{p} = getelementptr {_V64}, ptr %ids, i64 {p}
  %id.wide.{p} = load {_V64}, ptr %ids.{p}, align 64
  %id.{p} = trunc {_V64} %id.wide.{p} to {_V32}"""
        for p in range(pieces)
    )
    phis = "".join(f"\n  %left.{p} = phi i32 [ %mask, %start ], [ %less.{p}, %serve ]" for p in range(pieces))
    choose, candidates, chosen = "", "%left.0", "%ids"
    for p in range(1, pieces):
        choose += f"""
  %none.{p} = icmp eq i32 {candidates}, 0
  %candidates.{p} = select i1 %none.{p}, i32 %left.{p}, i32 {candidates}
  %chosen.{p} = select i1 %none.{p}, ptr %ids.{p}, ptr {chosen}"""
        candidates, chosen = f"%candidates.{p}", f"%chosen.{p}"
    serve = "".join(
        f"""
  %same.{p} = icmp eq {_V32} %id.{p}, %leader.all
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

define weak_odr i64 @{symbol}(ptr %counters, ptr %ids, ptr %bytes, i32 %mask, ptr %out) {{
start:{nexts}
  %each = load {_V32}, ptr %bytes, align 64
  br label %serve
serve:{phis}
  %sectors = phi i32 [ 0, %start ], [ %sectors.next, %serve ]
  %used = phi i32 [ 0, %start ], [ %used.next, %serve ]{choose}
  %lane = call i32 @llvm.cttz.i32(i32 {candidates}, i1 true)
  %leader.p = getelementptr i64, ptr {chosen}, i32 %lane
  %leader = load i64, ptr %leader.p, align 8
  %out.p = getelementptr i64, ptr %out, i32 %sectors
  store i64 %leader, ptr %out.p, align 8
  %leader.low = trunc i64 %leader to i32
  %leader.one = insertelement {_V32} poison, i32 %leader.low, i32 0
  %leader.all = shufflevector {_V32} %leader.one, {_V32} poison, <{LANES} x i32> zeroinitializer{serve}{unite}
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
  ret i64 %sectors.wide
}}
"""


@dataclass(frozen=True, slots=True)
class Space:
    """How a state space is cut into sectors.

    Attributes
    ----------
    name : str
    pieces : callable
        Sectors that one lane's access of so many bytes touches at most.
    modulus : int
        What the sectors of a pattern are beside those of its base depends on the base modulo this.
    place : callable
        Where a byte at an address of a lane lies, for sectors and bytes.
    line : int
        Bits of an address below the number of its line, by which the lines of a pattern are told from that of its base.
    numbers : callable
        LLVM text that stores the sectors of `%address` to `%ids`, for accesses of so many bytes and, of local
        memory, the sector at which the warp's begins.
    shift : str
        LLVM text that sets `%shift`, the lanes' first byte in its sector, from `%low`, the addresses' low halves.
    """

    name: str
    pieces: Callable[[int], int]
    modulus: int
    place: Callable[[int, int], int]
    line: int
    numbers: Callable[[int, str], str]
    shift: str


def local_place(address: int, lane: int) -> int:
    """Where a byte of a lane's local memory lies in that of its warp.

    Local memory is laid out so that the same 32-bit word of neighbouring threads lies side by side.
    Source: CUDA C++ Programming Guide, "Local Memory".

    Examples
    --------
    >>> local_place(0, 1), local_place(4, 0), local_place(6, 31)
    (4, 128, 254)
    """
    return address // WORD_BYTES * ROW_BYTES + WORD_BYTES * lane + address % WORD_BYTES


def _local_numbers(size: int, first: str) -> str:
    """Each word of an access lies in the sector of that word and of the lane's group of eight."""
    eights = vector([WORD_BYTES * lane // SECTOR_BYTES for lane in range(LANES)])
    head = f"""  %first.one = insertelement {_V64} poison, i64 {first}, i32 0
  %first = shufflevector {_V64} %first.one, {_V64} poison, <{LANES} x i32> zeroinitializer
  %eight = add {_V64} %first, {eights}
  %word = lshr {_V64} %address, splat (i64 2)"""
    return head + "".join(
        f"""
  %word.{w} = add {_V64} %word, splat (i64 {w})
  %row.{w} = shl {_V64} %word.{w}, splat (i64 2)
  %id.{w} = add {_V64} %row.{w}, %eight
  %id.p.{w} = getelementptr {_V64}, ptr %ids, i64 {w}
  store {_V64} %id.{w}, ptr %id.p.{w}, align 64"""
        for w in range(max(1, size // WORD_BYTES))
    )


SPACES = {
    "global": Space(
        name="global",
        pieces=lambda size: 1,  # accesses are naturally aligned: the machine refuses others
        modulus=SECTOR_BYTES,
        place=lambda address, lane: address,
        line=7,
        numbers=lambda size, first: (
            f"""  %id = lshr {_V64} %address, splat (i64 5)
  store {_V64} %id, ptr %ids, align 64"""
        ),
        shift=f"  %shift = and {_V32} %low, splat (i32 {SECTOR_BYTES - 1})",
    ),
    "local": Space(
        name="local",
        pieces=lambda size: max(1, size // WORD_BYTES),
        modulus=WORD_BYTES,
        place=local_place,
        line=2,  # a word is a row of 32 lanes: a line
        numbers=_local_numbers,
        shift=f"""  %within = and {_V32} %low, splat (i32 {WORD_BYTES - 1})
  %shift = add {_V32} %within, <{", ".join(f"i32 {WORD_BYTES * (lane % 8)}" for lane in range(LANES))}>""",
    ),
}


def by_address(space: Space, size: int, *, record: bool) -> Handler:
    """The handler of accesses of one width that takes addresses; with `record` it writes their sectors down."""
    pieces = space.pieces(size)
    symbol = f"tw.coalescing.access.{space.name}.{size}" + ".recorded" * record
    request, most = f"tw.coalescing.request.{pieces}", LANES * pieces
    of_local = record and space.name == "local"
    each = (1 << min(size, WORD_BYTES if space.name == "local" else SECTOR_BYTES)) - 1
    rising, counted_at = (
        ("  br label %any", "") if space.name == "local" else (_rising(size, record=record), "rise.end")
    )
    counts = "[ %count.any, %any ]" + f", [ %changes.wide, %{counted_at} ]" * bool(counted_at)
    text = f"""{core(request, pieces)}{requests.TEXT if record else ""}
define weak_odr void @{symbol}({parameters(EventKind.ACCESS)}) {{
entry:
  %ids = alloca [{pieces} x {_V64}], align 64
  %bytes.each = alloca {_V32}, align 64
  %scratch = alloca [{most} x i64], align 64
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %start
start:
  %address = load {_V64}, ptr %addresses, align 8
{requests.LOCAL if of_local else ""}
{requests.room(most, SLOTS + 1) if record else "  %out = getelementptr i64, ptr %scratch, i64 0"}
{space.numbers(size, "%local" if of_local else "0")}
{rising}
any:
  %low = trunc {_V64} %address to {_V32}
{space.shift}
  %touched = shl {_V32} splat (i32 {each}), %shift
  store {_V32} %touched, ptr %bytes.each, align 64
  %count.any = call i64 @{request}(ptr %counters, ptr %ids, ptr %bytes.each, i32 %mask, ptr %out)
  br label %counted
counted:
  %count = phi i64 {counts}
{_kept() if record else ""}
  br label %leave
leave:
  ret void
}}
"""
    return Handler(symbol, text)


def _kept() -> str:
    """LLVM text that makes words of the sectors at `%out` and keeps the request."""
    return f"""  %words = call i64 @tw.requests.lines(ptr %out, i64 %count)
{requests.keep("%words")}"""


def _rising(size: int, *, record: bool) -> str:
    """A quicker way for all lanes, where none's address is below that of the lane before it and no two overlap in part.

    Then sectors are distinct where they change from one lane to the next. Ends in the block `rise.end`, with their
    number in `%changes.wide`; leads to `any` where this does not hold.
    """
    before = f"<{LANES} x i32> <{', '.join(f'i32 {max(lane - 1, 0)}' for lane in range(LANES))}>"
    write = """  br label %write
write:
  %rest = phi i32 [ %changes, %rise ], [ %rest.less, %write ]
  %to = phi ptr [ %out, %rise ], [ %to.next, %write ]
  %which = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %from = getelementptr i64, ptr %ids, i32 %which
  %number = load i64, ptr %from, align 8
  store i64 %number, ptr %to, align 8
  %to.next = getelementptr i64, ptr %to, i64 1
  %lower = add i32 %rest, -1
  %rest.less = and i32 %rest, %lower
  %rest.more = icmp ne i32 %rest.less, 0
  br i1 %rest.more, label %write, label %rise.end"""
    return f"""  %address.before = shufflevector {_V64} %address, {_V64} poison, {before}
  %step = sub {_V64} %address, %address.before
  %still = icmp eq {_V64} %step, zeroinitializer
  %apart = icmp sge {_V64} %step, splat (i64 {size})
  %fine = or {_V1} %still, %apart
  %fine.bits = bitcast {_V1} %fine to i32
  %fine.here = and i32 %fine.bits, %mask
  %quick = icmp eq i32 %fine.here, -1
  br i1 %quick, label %rise, label %any
rise:
  %id.before = shufflevector {_V64} %id, {_V64} poison, {before}
  %change = icmp ne {_V64} %id, %id.before
  %change.bits = bitcast {_V1} %change to i32
  %changes = or i32 %change.bits, 1
  %changes.count = call i32 @llvm.ctpop.i32(i32 %changes)
  %changes.wide = zext i32 %changes.count to i64
  %apart.bits = bitcast {_V1} %apart to i32
  %apart.count = call i32 @llvm.ctpop.i32(i32 %apart.bits)
  %apart.wide = zext i32 %apart.count to i64
  %elements = add i64 %apart.wide, 1
  %used = mul i64 %elements, {size}
  %used.up = add i64 %used, {SECTOR_BYTES - 1}
  %ideal = udiv i64 %used.up, {SECTOR_BYTES}
{write if record else "  br label %rise.end"}
rise.end:
{added([1, LANES, "%changes.wide", "%used", "%ideal"])}
  br label %counted"""


def handler(space: Space, size: int, offsets: Sequence[int] | None, *, record: bool) -> Handler:
    """The handler of an access, by its pattern where that is known."""
    slow = by_address(space, size, record=record)
    if offsets is None:
        return slow

    def touched(base: int) -> set[int]:
        return {space.place(base + at + byte, lane) for lane, at in enumerate(offsets) for byte in range(size)}

    also = _recorded(space, offsets, size) if record else None
    return by_pattern(slow, offsets, size, space.modulus, lambda base: counted(touched(base)), also)


def _words(space: Space, offsets: Sequence[int], size: int, base: int) -> list[int]:
    """The words of a request of all lanes by a pattern: lines beside that of its base, `line << 4 | sectors` each.

    Examples
    --------
    >>> [(word >> 4, word & 15) for word in _words(SPACES["global"], [4 * lane for lane in range(32)], 4, 64)]
    [(0, 12), (1, 3)]
    """
    lines: dict[int, int] = {}
    for lane, at in enumerate(offsets):
        for byte in range(0, size, WORD_BYTES):
            line, sector = divmod(space.place(base + at + byte, lane) // SECTOR_BYTES, LINE_SECTORS)
            lines[line] = lines.get(line, 0) | 1 << sector
    return [line << LINE_SECTORS | lines[line] for line in sorted(lines)]


def _recorded(space: Space, offsets: Sequence[int], size: int) -> Callable[[str], tuple[str, str]]:
    """For the whole warp's access by a pattern: a table of its words by the base's place in a line, and their writing.

    A row of the table is its number of words and then those, filled up; what is written past the number is written
    over by the next request. Accesses are naturally aligned, and so is the base.
    """
    step = min(size, 1 << space.line)
    rows = [_words(space, offsets, size, base) for base in range(0, 1 << space.line, step)]
    most = max(map(len, rows))
    words, row = f"<{most} x i64>", f"{{ i64, <{most} x i64> }}"
    of_local = space.name == "local"

    def text(symbol: str) -> tuple[str, str]:
        items = (f"{row} {{ i64 {len(r)}, {words} {vector(r + r[:1] * (most - len(r)))} }}" for r in rows)
        table = f"@{symbol}.words = private constant [{len(rows)} x {row}] [{', '.join(items)}], align 64\n"
        body = f"""
{requests.LOCAL if of_local else "  %local = add i64 0, 0"}
  %local.line = lshr i64 %local, 2
  %base.line = lshr i64 %base, {space.line}
  %line = add i64 %base.line, %local.line
  %begin = shl i64 %line, {LINE_SECTORS}
  %begin.one = insertelement {words} poison, i64 %begin, i32 0
  %begin.all = shufflevector {words} %begin.one, {words} poison, <{most} x i32> zeroinitializer
  %place = lshr i64 %base, {step.bit_length() - 1}
  %which = and i64 %place, {len(rows) - 1}
  %count.p = getelementptr {row}, ptr @{symbol}.words, i64 %which
  %count = load i64, ptr %count.p, align 8
  %beside.p = getelementptr {row}, ptr %count.p, i64 0, i32 1
  %beside = load {words}, ptr %beside.p, align 8
  %all = add {words} %beside, %begin.all
{requests.room(most, SLOTS + 1)}
  store {words} %all, ptr %out, align 8
{requests.keep("%count")}"""
        return table, body

    return text


def counted(touched: Iterable[int]) -> list[int]:
    """What a request of all lanes adds to the counters, by the places of the bytes it touches.

    Examples
    --------
    >>> counted(range(1024, 1152))
    [1, 32, 4, 128, 4]
    """
    touched = set(touched)
    sectors = {place // SECTOR_BYTES for place in touched}
    return [1, LANES, len(sectors), len(touched), -(-len(touched) // SECTOR_BYTES)]
