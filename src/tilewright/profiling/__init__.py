"""What a launch did, line by line, and what bounds it on a GPU: :func:`profile`, and its records.

`counts` names what is counted, `record` holds a profile, `gathering` sums instruments' results, `caching` says where
sectors were found, `units` bounds times, `products` says what tensor cores do, `verdict` says what bounds a launch, and
`programs` follows whole programs.
"""

from __future__ import annotations

from tilewright.profiling.counts import (
    Counts as Counts,
    Mix as Mix,
    Operations as Operations,
    Sectors as Sectors,
    Served as Served,
    Wavefronts as Wavefronts,
)
from tilewright.profiling.launching import instruments as instruments, of_run as of_run, profile as profile
from tilewright.profiling.programs import Profiles as Profiles
from tilewright.profiling.record import (
    Cause as Cause,
    LineCounts as LineCounts,
    Position as Position,
    Profile as Profile,
    SiteCounts as SiteCounts,
    Traffic as Traffic,
    Unit as Unit,
    Verdict as Verdict,
)
