"""The counts of a launch, line by line, and its bound on a GPU: :func:`profile` and its records.

`counts` defines what is counted, `record` holds a profile, `gathering` sums the results of instruments, `caching`
computes where sectors are found, `units` bounds times, `products` covers tensor cores, `verdict` names the bound of a
launch, and `programs` profiles whole programs.
"""

from __future__ import annotations

from tilewright.observe.profiling.counts import (
    Counts as Counts,
    Mix as Mix,
    Operations as Operations,
    Sectors as Sectors,
    Served as Served,
    Wavefronts as Wavefronts,
)
from tilewright.observe.profiling.launching import instruments as instruments, of_run as of_run, profile as profile
from tilewright.observe.profiling.programs import Footprints as Footprints, Profiles as Profiles, named as named
from tilewright.observe.profiling.record import (
    Cause as Cause,
    LineCounts as LineCounts,
    Position as Position,
    Profile as Profile,
    SiteCounts as SiteCounts,
    Traffic as Traffic,
    Unit as Unit,
    Verdict as Verdict,
)
