"""The SIMT machine: it runs the PTX that compilers emit, on the host's processor.

>>> from tilewright.simt import launch, Limits, Memory, Variables
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ground.lazy_exports import publish

if TYPE_CHECKING:
    from tilewright.simulate.launch_request import Limits as Limits
    from tilewright.simulate.observer import Run as Run
    from tilewright.simulate.run.launch import launch as launch
    from tilewright.simulate.run.memory import DeviceArray as DeviceArray, Memory as Memory, Variables as Variables

publish(
    __name__,
    {
        "observer": "Run",
        "run.launch": "launch",
        "launch_request": "Limits",
        "run.memory": "DeviceArray Memory Variables",
    },
)
