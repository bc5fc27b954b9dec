"""What a launch did, line by line, and what bounds it on a GPU: :func:`profile`, and its records.

`counts` names what is counted, `record` holds a profile, `gathering` sums instruments' results, `caching` says where
sectors were found, `units` bounds times, `verdict` says what bounds a launch, and `programs` follows whole programs.
"""

from __future__ import annotations

from tilewright.profiling.counts import Counts, Mix, Operations, Sectors, Served, Wavefronts
from tilewright.profiling.launching import instruments, of_run, profile
from tilewright.profiling.programs import Profiles
from tilewright.profiling.record import (
    Cause,
    LineCounts,
    Position,
    Profile,
    SiteCounts,
    Traffic,
    Unit,
    Verdict,
)

__all__ = [
    "Cause",
    "Counts",
    "LineCounts",
    "Mix",
    "Operations",
    "Position",
    "Profile",
    "Profiles",
    "Sectors",
    "Served",
    "SiteCounts",
    "Traffic",
    "Unit",
    "Verdict",
    "Wavefronts",
    "instruments",
    "of_run",
    "profile",
]
