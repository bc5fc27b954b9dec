"""The ladder: every kernel of the catalogue, from three loops to tiles of warps, run and compared.

`matrices` makes and checks operands, `choice` picks records, a `climber` runs one record on one machine, `climbing`
runs them all, and `rung` holds what they found. `steps` has the steps of the first screen, `story` what it shows.
"""

from __future__ import annotations

from tilewright.show.ladder.choice import choose as choose, select as select
from tilewright.show.ladder.climbing import climb as climb, climb_dtypes as climb_dtypes, multiply as multiply
from tilewright.show.ladder.matrices import check_operands as check_operands, operands as operands
from tilewright.show.ladder.rung import (
    Climb as Climb,
    Counts as Counts,
    Footprint as Footprint,
    Machine as Machine,
    OffMultiples as OffMultiples,
    Product as Product,
    Rung as Rung,
)
from tilewright.show.ladder.steps import (
    STEPS as STEPS,
    HostTime as HostTime,
    Step as Step,
    StepTime as StepTime,
    host_time as host_time,
    step_times as step_times,
    steps_of as steps_of,
)
from tilewright.show.ladder.story import Story as Story, tell as tell
