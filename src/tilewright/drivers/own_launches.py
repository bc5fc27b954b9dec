"""Launches by `tilewright.simt.launch` in a program with a simulated GPU: its observers follow these too."""

from __future__ import annotations

from dataclasses import replace

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.drivers.internal_code import source_line
from tilewright.simt.following import Asked, tighter
from tilewright.simt.run.launch import run_apart


class OwnLaunches:
    """Runs each launch for the observers of a simulated GPU first; arguments and memory are restored afterwards.

    The launch has a memory of its own, of which observers of the GPU's memory know nothing; checks treat each one
    apart.
    """

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu

    def bounded(self, asked: Asked) -> Asked:
        """The launch with the GPU's name, seed and limits."""
        gpu = self._gpu
        return replace(
            asked, gpu=asked.gpu or gpu.record.key, seed=gpu.seed if asked.seed is None else asked.seed,
            limits=tighter(asked.limits, gpu.limits),
        )  # fmt: skip

    def before(self, asked: Asked) -> None:
        """Report a launch to observers.

        Raises: what the launch itself would raise.
        """
        from tilewright.checking import Checks
        from tilewright.checking.single import checked

        gpu = self._gpu
        with gpu.lock:
            index, line = gpu.launches, source_line()
            gpu.launches += 1
            checks = [observer for observer in gpu.observers if isinstance(observer, Checks)]
            for one in checks:
                with one.elsewhere() as apart:
                    checked(asked, apart, index=index, source_line=line, apart=True)
            others = [observer for observer in gpu.observers if observer not in checks]
            if others:
                run_apart(asked, others, index=index, source_line=line)
