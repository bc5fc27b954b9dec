"""Handlers that count: adding to counters, and accesses whose pattern is known when code is made.

Most accesses of a kernel have constant offsets between lanes and run with all lanes. What such an access adds to the
counters depends on no more than its base's alignment; so it is worked out in Python when the handler is made, and the
handler adds a row of a small table. With lanes switched off it calls the handler that takes addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from tilewright.simt.events import EventKind, Handler, parameters

LANES = 32
FULL = (1 << LANES) - 1


def added(amounts: Sequence[str | int], *, name: str = "sum") -> str:
    """LLVM text that adds i64 values to the counters from `%counters` on, several at a time; `name` keeps it apart.

    Examples
    --------
    >>> print(added([1, "%lanes"]))
      %sum.0 = load i64, ptr %counters, align 8
      %sum.new.0 = add i64 %sum.0, 1
      store i64 %sum.new.0, ptr %counters, align 8
      %sum.at.1 = getelementptr i64, ptr %counters, i64 1
      %sum.1 = load i64, ptr %sum.at.1, align 8
      %sum.new.1 = add i64 %sum.1, %lanes
      store i64 %sum.new.1, ptr %sum.at.1, align 8
    """
    lines = []
    for slot, amount in enumerate(amounts):
        at = f"%{name}.at.{slot}" if slot else "%counters"
        if slot:
            lines.append(f"  {at} = getelementptr i64, ptr %counters, i64 {slot}")
        lines += [
            f"  %{name}.{slot} = load i64, ptr {at}, align 8",
            f"  %{name}.new.{slot} = add i64 %{name}.{slot}, {amount}",
            f"  store i64 %{name}.new.{slot}, ptr {at}, align 8",
        ]
    return "\n".join(lines)


def vector(items: Sequence[int]) -> str:
    """A constant vector of i64, without its type.

    Examples
    --------
    >>> vector([1, 2])
    '<i64 1, i64 2>'
    """
    return f"<{', '.join(f'i64 {item}' for item in items)}>"


def by_pattern(
    slow: Handler,
    offsets: Sequence[int],
    size: int,
    modulus: int,
    counts: Callable[[int], Sequence[int]],
    also: Callable[[str], tuple[str, str]] | None = None,
) -> Handler:
    """A handler that takes the base of a pattern, made from one that takes addresses.

    Parameters
    ----------
    slow : Handler
        For lanes that are switched off; its functions are `weak_odr`, for its text is a part of this one.
    offsets : sequence of int
        The lanes' byte offsets from the base.
    size : int
        Bytes of a lane's access.
    modulus : int
        A power of two: what is counted depends on the base modulo this.
    counts : callable
        What an access of all lanes adds to each counter, for a base below `modulus`.
    also : callable, optional
        What else is done for all lanes: of the handler's symbol, LLVM text of globals named after it, and of code.
    """
    rows = [list(counts(base)) for base in range(modulus)]
    symbol = f"{slow.symbol}.{_digest((tuple(offsets), size, rows))}"
    slots = f"<{len(rows[0])} x i64>"
    table, found, row = "", "", vector(rows[0])
    if any(other != rows[0] for other in rows):
        items = ", ".join(f"{slots} {vector(each)}" for each in rows)
        table = f"@{symbol}.rows = private constant [{modulus} x {slots}] [{items}], align 64\n"
        row = "%known"
        found = f"""
  %low = and i64 %base, {modulus - 1}
  %known.p = getelementptr {slots}, ptr @{symbol}.rows, i64 %low
  %known = load {slots}, ptr %known.p, align 8"""
    globals_, code = also(symbol) if also else ("", "")
    listed = parameters(EventKind.ACCESS, pattern=True)
    lanes = f"<{LANES} x i64>"
    text = f"""{slow.text}
{table}{globals_}
define internal void @{symbol}.part({listed}) noinline cold {{
  %addresses = alloca {lanes}, align 64
  %one = insertelement {lanes} poison, i64 %base, i32 0
  %all = shufflevector {lanes} %one, {lanes} poison, <{LANES} x i32> zeroinitializer
  %each = add {lanes} %all, {vector(offsets)}
  store {lanes} %each, ptr %addresses, align 64
  call void @{slow.symbol}({_passed(parameters(EventKind.ACCESS), bytes=size)})
  ret void
}}

define void @{symbol}({listed}) alwaysinline {{
  %full = icmp eq i32 %mask, -1
  br i1 %full, label %whole, label %part, !prof !{{!"branch_weights", i32 2000, i32 1}}
whole:{found}
  %counted = load {slots}, ptr %counters, align 8
  %more = add {slots} %counted, {row}
  store {slots} %more, ptr %counters, align 8{code}
  ret void
part:
  call void @{symbol}.part({_passed(listed)})
  ret void
}}
"""
    return Handler(symbol, text, pattern=True)


def _passed(listed: str, **literals: int) -> str:
    """Parameters as the arguments of a call, some of them literals."""
    arguments = (parameter.strip().split(" %") for parameter in listed.split(","))
    return ", ".join(f"{type_} {literals.get(name, f'%{name}')}" for type_, name in arguments)


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
