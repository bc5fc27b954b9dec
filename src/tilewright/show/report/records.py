"""The reports of records, which `str()` and notebooks show."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rich.console import Console

from tilewright.multiply.engine.planning import Plan
from tilewright.observe.checking.causes import Findings
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling import Profile
from tilewright.show.ladder.rung import Climb
from tilewright.show.report import climb, findings, occupancy, page, prediction, profile, terminal
from tilewright.show.report.blocks import Block, Facts
from tilewright.show.report.console import PROSE_WIDTH
from tilewright.simulate.machine.alternatives import Alternatives
from tilewright.simulate.machine.occupancy import Occupancy

#: Class of a record -> the blocks of its report.
REPORTS: Mapping[type, Callable[[Any], Iterable[Block]]] = MappingProxyType(
    {
        Alternatives: occupancy.blocks,
        Climb: climb.blocks,
        Findings: lambda found: findings.blocks(
            Sifted(tuple(found), (), (), held=found.held),
            launches=found.launches,
            kernels=found.kernels,
            option="strict=True",
        ),
        Occupancy: occupancy.alone,
        Plan: lambda record: [Facts(tuple(record.facts.items()))],
        Prediction: prediction.blocks,
        Profile: profile.blocks,
    }
)


def blocks(record: Any) -> Iterable[Block]:
    """The blocks of a record's report."""
    return REPORTS[type(record)](record)


def text(record: Any) -> str:
    """The report as text without colour."""
    return text_of(blocks(record))


def text_of(parts: Iterable[Block]) -> str:
    """Blocks as text without colour."""
    stream = io.StringIO()
    terminal.show(parts, Console(file=stream, width=PROSE_WIDTH, color_system=None, force_jupyter=False))
    return stream.getvalue().rstrip("\n")


def html(record: Any) -> str:
    """The report as HTML."""
    return page.html_of(blocks(record))
