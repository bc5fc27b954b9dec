"""Compiling ahead: where the cache is cold, a second process makes what a climb needs later, from the other end.

A climb compiles and translates one kernel after another, which takes nearly all of its time. The second process begins
with the predictions of the steps, which come last, and goes on with the last kernel. What one process has made the
other finds in the cache on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from tilewright.errors import TilewrightError
from tilewright.ground.native import out_of_process
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.record import Record
from tilewright.show.ladder.climber import Climber, Pairs
from tilewright.show.ladder.matrices import operands
from tilewright.show.ladder.rung import Rung
from tilewright.show.ladder.steps import step_times
from tilewright.simulate import machine
from tilewright.simulate.machine import Gpu

#: A kernel that took longer to translate was not in the cache.
_COLD_SECONDS = 0.5


class Ahead:
    """The second process of a climb, if it needs one; as a context manager it ends the process."""

    def __init__(self, records: Sequence[Record], pairs: Pairs, gpu: Gpu, *, counted: bool) -> None:
        a, b = next(iter(pairs.values()))
        names = [record.name for record in records if record.backend == "gpu"]
        self._work = json.dumps([gpu.key, names, (a.shape[0], b.shape[1], a.shape[1]), counted])
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            out_of_process.end(self._process)

    def after(self, rung: Rung) -> None:
        """Start the process after the first kernel that had to be translated."""
        if self._process is None and rung.device != "cpu" and (rung.translate_seconds or 0) > _COLD_SECONDS:
            with contextlib.suppress(OSError):  # a limit of processes: this one does all
                self._process = out_of_process.begun(__name__, self._work, packages=True)


def main() -> None:
    """The second process's work, whose results nobody reads."""
    key, names, (m, n, k), counted = json.loads(sys.argv[3])
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        with contextlib.suppress(TilewrightError):
            list(step_times(machine.gpu(key)))
        climber = replace(Climber.on("simulated", key, None), counted=counted)
        for name in reversed(names):
            dtype = catalogue.find(name).dtypes[0]
            climber.rung(catalogue.find(name), {dtype: operands(m, n, k, dtype)})
