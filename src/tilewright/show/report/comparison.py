"""The comparison of two sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tilewright.show.rates.compare import Compared, Comparison, Verdict
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Gap, words
from tilewright.show.report.rates import failures, work
from tilewright.show.report.tables import FACTOR, RIGHT, SECONDS, TEXT, Column, Table, group

_STYLES: dict[Verdict, str] = {
    "slower": styles.ERROR,
    "wrong": styles.ERROR,
    "failed": styles.ERROR,
    "faster": styles.GOOD,
    "same": "",
    "unclear": styles.WARNING_COLOUR,
}


def _interval(row: Compared) -> str:
    if row.verdict == "failed":
        return ""
    if row.old.kind == "predicted":
        return "exact"
    return "-" if math.isinf(row.most) else f"{row.least:.2f} - {row.most:.2f}"


_KEY = group(*work(lambda row: row.new.point))
_GROUPS = (
    group(Column("", lambda row: row.verdict, TEXT, style=lambda row: _STYLES[row.verdict])),
    group(
        Column(
            "new / old",
            lambda row: None if row.verdict == "failed" else row.ratio,
            FACTOR,
            legend="of times over the yardstick's, where there is one",
        ),
        Column("interval", _interval, RIGHT),
    ),
    group(
        Column("old", lambda row: None if row.old.failed else row.old.seconds, SECONDS),
        Column("new", lambda row: None if row.new.failed else row.new.seconds, SECONDS),
        Column("yardstick", lambda row: row.yardstick),
    ),
)


def blocks(found: Comparison) -> Iterator[Block]:
    """Every point, then notes on all."""
    yield Table(_KEY, _GROUPS, found.points)
    yield Gap()
    verdicts = [one.verdict for one in found.points]
    counted = ", ".join(f"{verdicts.count(name)} {name}" for name in _STYLES if name in verdicts)
    yield words((counted, "bold"), f" of {figures.amount(len(found.points), 'point')}", hang=2)
    yield from failures([one.new for one in found.points])
    if any(one.old.kind == "measured" for one in found.points):
        yield words(
            f"slower: the whole interval is above {1 + found.threshold:g}; unclear: only a part of it is, or only the "
            f"yardstick's time differs. All intervals together hold with 99 %.",
            hang=2,
        )
    if any(one.verdict in ("slower", "unclear") and _stands_alone(one) for one in found.points):
        yield words(
            "Without a steady yardstick a busier host may count as slower: see --against, on a host at rest.", hang=2
        )
    for text, points in (("only in the old sweep", found.only_old), ("only in the new one", found.only_new)):
        if points:
            yield words(f"{figures.amount(len(points), 'point')} {text}", hang=2)
    if found.differing:
        yield words((f"Measured on something else: {', '.join(found.differing)}", styles.WARNING_COLOUR), hang=2)


def _stands_alone(one: Compared) -> bool:
    return one.old.kind == "measured" and not one.yardstick


def document(found: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; an open end of an interval is null."""
    return {
        "threshold": found.threshold,
        "points": [
            {
                **asdict(one.new.point),
                "kind": one.new.kind,
                "old_seconds": None if one.old.failed else one.old.seconds,
                "new_seconds": None if one.new.failed else one.new.seconds,
                "ratio": None if one.verdict == "failed" else one.ratio,
                "least": one.least or None,
                "most": None if math.isinf(one.most) else one.most,
                "yardstick": one.yardstick,
                "verdict": one.verdict,
                "failed": one.new.failed,
            }
            for one in found.points
        ],
        "only_old": [asdict(point) for point in found.only_old],
        "only_new": [asdict(point) for point in found.only_new],
        "differing": list(found.differing),
    }
