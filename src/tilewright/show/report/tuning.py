"""A tuner's result: the kernels that it timed, the quickest of them marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.show.rates.tuner import Tried, Tuned
from tilewright.show.rates.turns import NOISY
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, words
from tilewright.show.report.tables import PERCENT, SECONDS, Column, Table, group


def blocks(found: Tuned) -> Iterator[Block]:
    """One product: what was timed, and which kernel multiplies from now on."""
    best = found.best

    def slower(one: Tried) -> float | None:
        return None if one.timed is None or best is None else one.timed.seconds / best.seconds - 1

    def style(one: Tried) -> str:
        return styles.GOOD if one.timed is not None and one.timed is best else styles.HEADING

    product = "{:,} x {:,} x {:,}".format(*found.extents)
    yield words((product, f"bold {styles.PLACE}"), f" {found.kind.a}, {found.kind.order}, on {found.device}", hang=2)

    def spread(one: Tried) -> float | None:
        return (one.timed.spread or None) if one.timed else None

    times = group(
        Column("estimated", lambda one: one.ranked.seconds, SECONDS),
        Column("timed", lambda one: one.timed and one.timed.seconds, SECONDS),
        Column("spread", spread, PERCENT),
        Column("over best", slower, PERCENT),
        Column("limited by", lambda one: one.timed.limiter if one.timed else ""),
        Column("", lambda one: "kept before" if one.known else "", style=styles.QUIET),
    )
    yield Table(group(Column("kernel", lambda one: one.ranked.name, style=style)), (times,), found.tried)
    for one in found.tried:
        if one.refused:
            yield words(f"{one.ranked.name} has no time: {one.refused}", hang=2)
    for one in found.tried:
        if one.noisy and one.timed:
            yield words(
                f"{one.ranked.name} is not kept: its quartiles are {figures.percent(one.timed.spread)} of its time "
                f"apart, more than {figures.percent(NOISY)}; tune again on a quieter host, or with --accept-noise",
                hang=2,
            )
    if best is None:
        yield words(("no kernel has a time that is kept; the estimates decide", styles.WARNING))
    elif not found.unkept:
        yield words((best.kernel, f"bold {styles.GOOD}"), " multiplies such products from now on")


def document(found: Tuned) -> dict[str, Any]:
    """Return everything as JSON values; times are seconds."""
    return {
        "device": found.device,
        "extents": list(found.extents),
        "dtype": found.kind.a,
        "order": found.kind.order,
        "algebra": found.kind.algebra.name if found.kind.algebra else None,
        "best": found.best.kernel if found.best else None,
        "kernels": [
            {
                "kernel": one.ranked.name,
                "estimated_seconds": one.ranked.seconds,
                "timed_seconds": one.timed.seconds if one.timed else None,
                "spread": one.timed.spread if one.timed else None,
                "limiter": one.timed.limiter if one.timed else None,
                "kept_before": one.known,
                "refused": one.refused or None,
                "noisy": one.noisy,
            }
            for one in found.tried
        ],
        "unkept": found.unkept or None,
    }
