"""Other schedules of a launch: where findings can depend on which of its warps comes first, some more orders run.

A launch qualifies if its kernel has a read that decides (`static/deciding.py`), and two warps met at such a place. The
extra runs start from the memory that the launch began with, and leave no trace but their findings, which name the seed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tilewright.errors import ArgumentValueError, KernelError, LimitError, TilewrightError
from tilewright.observe.checking import faults
from tilewright.observe.checking.static import deciding, values
from tilewright.observe.instruments.convergence import Convergence
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.shadow.states import States
from tilewright.simulate.code import LANES
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import Launch, LaunchAgain, Run

#: Extra schedules of a launch by default: descending, in turn, and one that is random; see `simulate/run/plan.py`.
SCHEDULES = 3
#: Launches of one kernel and shape that run in other orders. Programs launch a kernel many times.
_LAUNCHES = 3
#: Instructions of an extra run, beside so many times those of the first one: some orders make warps wait for long.
_INSTRUCTIONS, _TIMES = 100_000, 2
#: A launch with more memory in use does not run again, because that memory is copied.
_KEPT_BYTES = 1 << 28


class Schedules:
    """The extra runs of a program's launches, at most `most` for each; None: `SCHEDULES`.

    Raises ArgumentValueError: `most` is no such number.
    """

    def __init__(self, most: int | None = None) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise ArgumentValueError(f"`schedules` must be a whole number from 0 on (got {most!r})")
        self.most = SCHEDULES if most is None else most
        self._seen: Counter[Any] = Counter()
        self._before: States | None = None

    def _concern(self, launch: Launch) -> bool:
        """Whether a launch may have to run in other orders."""
        warps = math.prod(launch.grid) * -(-math.prod(launch.block) // LANES)
        key = launch.program.ptx, launch.program.entry, launch.grid, launch.block
        if not self.most or warps < 2 or self._seen[key] >= _LAUNCHES:
            return False
        return _decides(launch.program.ptx, launch.program.entry)

    def begin(self, launch: Launch, states: States, size_bytes: int) -> None:
        """Keep the states of memory, of `size_bytes`, if the launch that begins may have to run in other orders."""
        self._before = states.copied(size_bytes) if size_bytes <= _KEPT_BYTES and self._concern(launch) else None

    @property
    def begun(self) -> bool:
        """Whether the launch may run in other orders."""
        return self._before is not None

    def findings(
        self, launch: Launch, run: Run, again: LaunchAgain, check: Callable[[States], MemoryCheck]
    ) -> list[Finding]:
        """The findings of other orders, each with its `seed`; of one line and group, those of the first such order."""
        before, self._before = self._before, None
        if before is None or not run.results["memory"].contested:
            return []
        self._seen[launch.program.ptx, launch.program.entry, launch.grid, launch.block] += 1
        found: dict[tuple[Any, ...], list[Finding]] = {}
        spent_s = run.seconds
        for seed in itertools.islice((n for n in itertools.count() if n != (launch.seed or 0)), self.most):
            limits = _limits(launch, run, spent_s)
            if limits is None:
                break
            try:
                rows, seconds = _of_order(launch, again, seed, limits, check(before.copied(before.size_bytes)))
            except LimitError:  # its warps wait for each other for long, as they would in further orders
                break
            spent_s += seconds
            known = set(found)
            for row in rows:
                if place(row) not in known:
                    details = row.details | {"seed": seed}
                    found.setdefault(place(row), []).append(replace(row, details=details))
        return [row for rows in found.values() for row in rows]


def place(finding: Finding) -> tuple[Any, ...]:
    """The line of a finding, and its group: a line that races in several ways in several orders is reported for one."""
    return finding.code[:3], finding.source, finding.line or finding.ptx_line


@functools.lru_cache(maxsize=256)
def _decides(ptx: str, entry: str) -> bool:
    try:
        return deciding.decides(values.of_kernel(ptx, entry))
    except TilewrightError:
        return False


def _limits(launch: Launch, run: Run, spent_s: float) -> Limits | None:
    """The limits of one more run; None if the launch's time is used up."""
    most, given = _INSTRUCTIONS + _TIMES * run.warp_instructions, launch.limits
    left_s = None if given.seconds is None else given.seconds - spent_s
    if left_s is not None and left_s <= 0:
        return None
    return replace(given, instructions=min(given.instructions or most, most), seconds=left_s)


def _of_order(
    launch: Launch, again: LaunchAgain, seed: int, limits: Limits, memory: MemoryCheck
) -> tuple[list[Finding], float]:
    """The findings of a launch in one order, and its seconds.

    Raises LimitError: the order comes to a limit.
    """
    instruments = (memory, Convergence(launch.name))
    try:
        run = again.run(seed, instruments, limits)
    except LimitError:
        raise
    except KernelError as error:
        rows = list(_rows(error.results))
        return [*rows, *faults.findings(error, launch, rows)], 0.0
    except TilewrightError:
        return [], 0.0
    return list(_rows(run.results)), run.seconds


def _rows(results: Any) -> Iterator[Finding]:
    """The findings among the results of instruments."""
    for result in results.values():
        rows = getattr(result, "findings", result)
        if isinstance(rows, Sequence):
            yield from (row for row in rows if isinstance(row, Finding))
