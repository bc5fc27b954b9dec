"""Results of warp instructions for each lane, from the sources of all lanes that take part."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from meanings import MEANINGS, decode, encode

_Lanes = Mapping[int, tuple[int, ...]]


def collective(name: str, lanes: _Lanes) -> dict[int, tuple[int, ...]]:
    """Results by lane; `KeyError` where a shuffle reads a lane that does not take part."""
    first, *rest = name.split(".")
    if first == "shfl":
        return {lane: _shuffled(rest[1], lane, lanes) for lane in lanes}
    if first == "vote":
        return _voted(rest[1], lanes)
    if first == "match":
        return _matched(rest[0], lanes)
    if first == "redux":
        meaning = MEANINGS[".".join(rest[1:])].function
        values = [decode(sources[0], rest[2]) for sources in lanes.values()]
        return dict.fromkeys(lanes, (encode(functools.reduce(meaning, values), rest[2]),))
    return dict.fromkeys(lanes, ())  # bar.warp


def _voted(kind: str, lanes: _Lanes) -> dict[int, tuple[int, ...]]:
    said = [sources[0] for sources in lanes.values()]
    ballot = sum(1 << lane for lane, sources in lanes.items() if sources[0])
    found = {"all": all(said), "any": any(said), "uni": len(set(said)) == 1, "ballot": ballot}[kind]
    return dict.fromkeys(lanes, (int(found),))


def _matched(kind: str, lanes: _Lanes) -> dict[int, tuple[int, ...]]:
    alike = {a: sum(1 << i for i, (b,) in lanes.items() if a == b) for (a,) in lanes.values()}
    if kind == "any":
        return {lane: (alike[a],) for lane, (a,) in lanes.items()}
    whole = len(alike) == 1
    return dict.fromkeys(lanes, (next(iter(alike.values())) if whole else 0, int(whole)))


def _shuffled(mode: str, lane: int, lanes: _Lanes) -> tuple[int, ...]:
    """The manual's pseudocode; a lane without a source keeps its own value."""
    _, b, c = lanes[lane]
    clamp, segment = c & 31, c >> 8 & 31
    least, b = lane & segment, b & 31
    most = least | clamp & ~segment
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | b & ~segment & 31}[mode]
    inside = source >= most if mode == "up" else source <= most
    return lanes[source if inside else lane][0], int(inside)
