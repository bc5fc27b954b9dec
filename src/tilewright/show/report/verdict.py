"""A kernel's verdict in a few lines: the limit and its cause, the line, the edit, and the predicted time."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling.record import Verdict
from tilewright.observe.profiling.verdict import NOTHING
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, words
from tilewright.show.report.places import path
from tilewright.simulate.machine.limiters import STALLS, phrase

#: What profiles say of their counts.
PTX_LEVEL = "Counts are of PTX; the assembler may merge accesses."


def blocks(found: Verdict | None, time: Prediction | None) -> Iterator[Block]:
    """Two to four lines."""
    if found is None:
        yield words("Nothing ran.")
        return
    yield words((f"{heading(found)}: ", styles.HEADING), found.sentence, hang=2)
    for cause in found.causes[:1]:
        where = path(f"{cause.file}:{cause.line}") if cause.file else f"PTX line {cause.line}"
        text = f": {cause.text}" if cause.text else ""
        yield words("at ", (where, styles.PLACE), f" ({figures.percent(cause.share)})", text, indent=2, hang=2)
    then = f"; then {figures.seconds(found.mended_seconds)}" if found.mended_seconds else ""
    yield words(("to mend: " if found.rule != NOTHING else "to gain: "), found.edit, then, indent=2, hang=2)
    if time is not None:
        band = f"{figures.seconds(time.least_seconds)} to {figures.seconds(time.most_seconds)}"
        said = f"{figures.seconds(time.seconds)} ({band}) at {time.clock_mhz:,} MHz"
        yield words(("predicted: ", styles.HEADING), said, hang=2)


def heading(found: Verdict) -> str:
    """The limit, what it is, and its share.

    >>> heading(Verdict("L1/TEX", 0.87, "", "", "", ())), heading(Verdict("DRAM", None, "", "", "", ()))
    ('L1/TEX (shared memory and L1) works 87 % of the time', 'DRAM (memory) is the longest limit, at PTX level')
    """
    name = f"{found.bound} ({phrase(found.bound)})"
    if found.share is None:
        return f"{name} is the longest limit, at PTX level"
    return f"{name} {'takes' if found.bound in STALLS else 'works'} {figures.percent(found.share)} of the time"
