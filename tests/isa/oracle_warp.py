"""Values that lanes exchange, lane by lane on lists; independent of the emitter.

Every oracle takes a name, the set of executing lanes, and a list of 32 values for each source. It returns a list of 32
values for each destination; values of inactive lanes are not compared.
"""

from __future__ import annotations

import functools
import math
import operator
import struct

from oracle_integer import number

LANES = range(32)


def named(mask: int) -> set[int]:
    return {lane for lane in LANES if mask >> lane & 1}


def mask_of(lanes) -> int:
    return sum(1 << lane for lane in lanes)


def oracle_shfl(name, executing, a, b, c, members=None):
    mode = name.split(".")[-2]
    values, valid = [], []
    for lane in LANES:
        segment, limit, amount = c[lane] >> 8 & 31, c[lane] & 31, b[lane] & 31
        high = (lane & segment) | (limit & (31 - segment))
        if mode == "up":
            source, ok = lane - amount, lane - amount >= high
        elif mode == "down":
            source, ok = lane + amount, lane + amount <= high
        elif mode == "bfly":
            source, ok = lane ^ amount, lane ^ amount <= high
        else:
            source = (lane & segment) | (amount & (31 - segment))
            ok = source <= high
        values.append(a[lane] if not ok else a[source] if source in executing else 0)
        valid.append(int(ok))
    return values, valid


def groups(executing, members):
    """For each lane, the lanes that take part with it."""
    return [executing & (named(members[lane]) if members else set(LANES)) for lane in LANES]


def oracle_vote(name, executing, a, members=None):
    result = []
    for group in groups(executing, members):
        ayes = [lane for lane in group if a[lane]]
        if ".ballot" in name:
            result.append(mask_of(ayes))
        elif ".all" in name:
            result.append(int(len(ayes) == len(group)))
        elif ".any" in name:
            result.append(int(bool(ayes)))
        else:
            result.append(int(len(ayes) in {0, len(group)}))
    return (result,)


def oracle_activemask(name, executing):
    return ([mask_of(executing)] * 32,)


def oracle_elect(name, executing, members):
    leaders = [min(group, default=32) for group in groups(executing, members)]
    return leaders, [int(lane == leaders[lane]) for lane in LANES]


def oracle_match(name, executing, a, members):
    masks = [
        mask_of(other for other in group if a[other] == a[lane])
        for lane, group in enumerate(groups(executing, members))
    ]
    if ".any" in name:
        return (masks,)
    whole = [mask_of(group) for group in groups(executing, members)]
    same = [int(mask == all_) for mask, all_ in zip(masks, whole, strict=True)]
    return [all_ if ok else 0 for ok, all_ in zip(same, whole, strict=True)], same


def single(pattern: int) -> float:
    return struct.unpack("<f", struct.pack("<I", pattern))[0]


def float_extreme(parts: list[str], patterns: list[int]) -> int:
    if "abs" in parts:
        patterns = [p & 0x7FFFFFFF for p in patterns]
    numbers = [p for p in patterns if not math.isnan(single(p))]
    if not numbers or ("NaN" in parts and len(numbers) < len(patterns)):
        return 0x7FFFFFFF
    choose = max if "max" in parts else min
    return choose(numbers, key=lambda p: (single(p), -(p >> 31)))


def oracle_redux(name, executing, a, members):
    parts = name.split(".")
    kind, t = parts[2], parts[-1]
    result = []
    for lane, group in enumerate(groups(executing, members)):
        values = [a[other] for other in sorted(group)]
        if not values:
            result.append(a[lane])  # undefined: not compared
        elif t == "f32":
            result.append(float_extreme(parts, values))
        elif kind in {"min", "max"}:
            best = {"min": min, "max": max}[kind](number(v, t) for v in values)
            result.append(best % (1 << 32))
        else:
            combine = {"add": operator.add, "and": operator.and_, "or": operator.or_, "xor": operator.xor}[kind]
            result.append(functools.reduce(combine, values) % (1 << 32))
    return (result,)
