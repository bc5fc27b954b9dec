"""Checks: what follows a program on the simulated GPU and gathers what is wrong with its kernels."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright import machine
from tilewright.checking import copies, faults, finite, hosts, launches, suppressions
from tilewright.checking.coverage import Coverage
from tilewright.checking.suppressions import Sifted, Suppression
from tilewright.checking.text import indices, loads, precision, products, reach, shuffling, unset, values
from tilewright.checking.text.values import Values
from tilewright.errors import KernelError, LaunchError, PtxError
from tilewright.instruments.convergence import Convergence
from tilewright.instruments.findings import Finding, merged
from tilewright.instruments.nonfinite import Nonfinite
from tilewright.instruments.shadow.cells import READABLE, ROW_GAP
from tilewright.instruments.shadow.found import UNSET
from tilewright.instruments.shadow.memory import MemoryCheck
from tilewright.instruments.shadow.states import States
from tilewright.instruments.tensor_memory import TensorMemory
from tilewright.instruments.touched import Touched
from tilewright.instruments.wraparound import Wraparound
from tilewright.simt.events import GLOBAL_BASE, Instrument
from tilewright.simt.isa import Role
from tilewright.simt.observer import ArgumentFact, HostRace, Launch, Observer, Rows
from tilewright.simt.run.launch import Run
from tilewright.simt.run.memory import red_zone_bytes

#: Groups of findings from which values that are not finite, or never written, follow.
_CAUSES = ("TW1", "TW2", "TW3", "TW4")


class Checks(Observer):
    """Gathers findings over all launches of a program.

    Parameters
    ----------
    gpu : str, optional
        GPU whose limits hold, as `tilewright gpus` lists it; `TILEWRIGHT_GPU`, or the H100, by default.
    ignore : sequence of str
        Codes that are not wanted.

    Attributes
    ----------
    launches : int
        Launches so far, those refused included.
    unchecked : dict of str to int
        Launches that did not run, or not to their end, for a reason that is no finding: how many of each kernel.

    Raises
    ------
    ArgumentValueError
        There is no such GPU, or no such code.

    Examples
    --------
    >>> checks = Checks(ignore=["TW601"])
    >>> checks.findings
    ()
    """

    red_zones = True
    row_gaps = True
    host_races = True
    hears = True

    def __init__(self, *, gpu: str | None = None, ignore: Sequence[str] = ()) -> None:
        self.launches = 0
        self.unchecked: Counter[str] = Counter()
        self._gpu = machine.chosen(gpu)
        self._ignored = [Suppression(code) for code in suppressions.checked(ignore)]
        self._found: list[Finding] = []
        self._kernels: dict[str, None] = {}
        self._files: dict[str, None] = {}
        self._coverage = Coverage()
        self._raised: list[Finding] = []  # of those found, what came to the program as an exception
        self._given = 0, 0  # how many of those found, and of those not reached, `fresh` has given
        self._states = States(0)
        self._looked_at: set[Any] = set()
        self._lost: dict[tuple[str, str], list[Finding]] = {}  # what a kernel that writes nothing loses, if it ends
        self._signs: dict[tuple[str, str], dict[int, bool]] = {}  # of a kernel, see `indices.lines`

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far and is not suppressed, in the order of the source; warns of wrong suppressions."""
        sifted = self.sifted
        for wrong in sifted.wrong:
            warnings.warn(wrong, stacklevel=2)
        return sifted.findings

    @property
    def sifted(self) -> Sifted:
        """The findings, those that are suppressed, and suppressions that nothing was found for or that are wrong."""
        found = merged(self._all)
        files = dict.fromkeys([*self._files, *(finding.source for finding in found if finding.source)])
        comments, wrong = suppressions.comments(files)
        return suppressions.sift(found, [*self._ignored, *comments], wrong)

    @property
    def _all(self) -> list[Finding]:
        unreached = self._coverage.so_far()
        known = {finding.details.get("address") for finding in unreached}  # by the launch that left them out
        copies = [one for one in self._found if one.code != "TW205" or one.details["address"] not in known]
        return [*copies, *unreached]

    @contextmanager
    def elsewhere(self) -> Iterator[Checks]:
        """Checks for a launch in another memory, whose findings are of these too in the end."""
        other = Checks(gpu=self._gpu.key)
        other._looked_at, other._lost, other._signs = self._looked_at, self._lost, self._signs
        try:
            yield other
        finally:
            self.launches += other.launches
            self.unchecked += other.unchecked
            self._kernels.update(other._kernels)
            self._files.update(other._files)
            self._found += other._all
            self._raised += other._raised

    def told(self) -> dict[str, Any]:
        """Launches, kernels, files and findings; these are merged here too, so that the next time takes no longer."""
        self._found = [*merged(self._found)]
        return {
            "launches": self.launches, "unchecked": self.unchecked,
            "kernels": [*self._kernels], "files": [*self._files],
            "findings": [finding.to_json() for finding in merged(self._all)],
        }  # fmt: skip

    def hear(self, told: dict[str, Any]) -> None:
        """Those of another process."""
        self.launches += told["launches"]
        self.unchecked += Counter(told["unchecked"])
        self._kernels.update(dict.fromkeys(told["kernels"]))
        self._files.update(dict.fromkeys(told["files"]))
        self._found += map(Finding.from_json, told["findings"])

    def fresh(self, *, raised: bool = True, ended: bool = False) -> Sifted:
        """What was found since this was asked last.

        `raised`: with what a launch has raised as an exception. `ended`: arrays that are not freed yet have had their
        last launch too.
        """
        unreached = self._coverage.findings() if ended else self._coverage.settled
        rows = [*self._found[self._given[0] :], *unreached[self._given[1] :]]
        self._given = len(self._found), len(self._coverage.settled)
        self._looked_at.clear()  # what a kernel's text shows is found again where it is launched next
        if not raised:
            rows = [row for row in rows if all(row is not other for other in self._raised)]
        comments, wrong = suppressions.comments(finding.source for finding in rows if finding.source)
        return suppressions.sift(merged(rows), [*self._ignored, *comments], wrong)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that were launched."""
        return tuple(self._kernels)

    def add(self, findings: Sequence[Finding]) -> None:
        """Findings that came another way."""
        self._found += findings

    # -- what the simulated GPU reports ---------------------------------------------------------------------------

    def started(self, limit_bytes: int) -> None:
        """Nothing is known yet of memory of a GPU."""
        if limit_bytes > self._states.size_bytes:
            self._states = States(limit_bytes)

    def row_gaps_at(self, gaps: Rows) -> None:
        """Bytes between the rows of an array, which no kernel must touch."""
        gaps.of(self._states.bytes_)[...] = ROW_GAP

    def copied(self, source: Rows, target: Rows) -> None:
        """What was written of the source is written of the copy."""
        into = target.of(self._states.bytes_)
        into[...] = (into & ~np.uint8(READABLE)) | (source.of(self._states.bytes_) & READABLE)

    def allocated(self, address: int, size_bytes: int) -> None:
        """Bytes that nothing has been written to."""
        self._states.allocated(address, size_bytes, red_zone_bytes(size_bytes))

    def freed(self, address: int, size_bytes: int) -> None:
        """Arrays there have had their last launch."""
        self._states.freed(address, size_bytes)
        self._coverage.freed(address, size_bytes)

    def host_wrote(self, address: int, size_bytes: int) -> None:
        """Bytes that a kernel may read."""
        self._states.host_wrote(address, size_bytes)

    def used_before(self, address: int, size_bytes: int, kernels: frozenset[str]) -> None:
        """What other kernels have done to arrays there is not known."""
        self._coverage.used_before(address, size_bytes, kernels)

    def host_reads(self, array: ArgumentFact, source_line: str) -> None:
        """An array of which the host may get elements that nobody has written."""
        self._found += copies.unwritten(array, source_line, self._states)

    def used(self, run: Run, address: int, size_bytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """As the launch's maps say."""
        start, touched = address - GLOBAL_BASE, run.results["touched"]
        read, written = (map_[start : start + size_bytes].view(np.bool_) for map_ in (touched.read, touched.written))
        return read, written

    def host_raced(self, race: HostRace) -> None:
        """A line of the program that comes too early."""
        self._found.append(hosts.finding(race))

    def streams_raced(self, launch: Launch, other: Launch, *, writes: bool, other_writes: bool) -> None:
        """Two launches that should wait for each other."""
        self._found.append(launches.between_streams(launch, other, writes=writes, other_writes=other_writes))

    def launching(self, launch: Launch) -> None:
        """Look at the launch and the kernel's text."""
        self.launches += 1
        self._kernels[launch.name] = None
        self._files.update(dict.fromkeys(place.rpartition(":")[0] for place in launch.program.source_lines.values()))
        dtypes = [a.dtype for a in launch.arguments if a.dtype is not None]
        key = (launch.program.ptx, launch.program.entry, tuple(map(str, dtypes)))
        read = values_of(launch)
        if key not in self._looked_at and read is not None:
            self._looked_at.add(key)
            file = launches.definition(launch.program)[0]
            found = [*unset.findings(read, launch.name), *precision.findings(read, launch.name, dtypes, file)]
            found += products.findings(read, launch.name) + loads.findings(read, launch.name)
            self._found += self._of_launch(found, launch, read)
            self._lost[launch.program.ptx, launch.program.entry] = reach.without_result(launch, read)

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """Fresh ones for the launch."""
        read, kernel = values_of(launch), (launch.program.ptx, launch.program.entry)
        if kernel not in self._signs:
            self._signs[kernel] = indices.lines(read) if read is not None else {}
        signs = self._signs[kernel]
        memory = MemoryCheck(launch.program.module, launch.name, self._states)
        convergence = Convergence(launch.name)
        found: list[Instrument] = [memory, convergence, Touched(), Nonfinite(finite.arrays(launch))]
        shuffles = shuffling.instrument(read, launch.name) if read is not None else None
        tensor = read is not None and any(op.form.row.role is Role.TENSOR_MEMORY for op in read.ops)
        alone = tensor and launch.cluster in (None, (1, 1, 1))
        more = [Wraparound(signs)] if signs else []
        return [*found, *more, *([shuffles] if shuffles else []), *([TensorMemory(launch.name)] if alone else [])]

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Gather what instruments saw, and what the machine refused."""
        raised_before = len(self._raised)
        results = run.results if run is not None else error.results if isinstance(error, KernelError) else {}
        for sentence in results["memory"].not_judged if "memory" in results else ():
            warnings.warn(f"{launch.name}: {sentence}", stacklevel=2)
        read = values_of(launch)
        found = list(self._from_instruments(launch, read, results))
        if isinstance(error, KernelError):
            self._raised += self._of_launch(faults.findings(error, launch, found), launch, read)
        if isinstance(error, LaunchError):
            self._raised += self._refused(launch)
        if error is not None and not self.explains(launch, error):
            self.unchecked[launch.name] += 1
        if run is not None:  # of one that never ends compilers leave out what it writes
            found += self._lost.pop((launch.program.ptx, launch.program.entry), ())
            self._coverage.add(launch, results["touched"], read)
            found += copies.findings(launch, results["touched"])
            if read is not None and not any(finding.code.startswith(_CAUSES) for finding in found):
                nonfinite = finite.findings(launch, read, results["nonfinite"], results["touched"])
                found += self._of_launch(nonfinite, launch, read)
        self._found += [*found, *self._raised[raised_before:]]

    def explains(self, launch: Launch, error: Exception) -> bool:
        """Whether what ended a launch, or refused it, is a finding."""
        if isinstance(error, KernelError):
            return faults.code_of(error) is not None
        return isinstance(error, LaunchError) and bool(self._refused(launch))

    def _of_launch(self, found: Sequence[Finding], launch: Launch, read: Values | None) -> list[Finding]:
        return launches.of_launch(found, launch, read, self._states.is_freed)

    def _refused(self, launch: Launch) -> list[Finding]:
        return launches.of_refused(launch, self._gpu)

    def _from_instruments(self, launch: Launch, read: Values | None, results: Any) -> Iterator[Finding]:
        """What instruments found: those whose result is findings, or has them, and those that count."""
        for result in results.values():
            rows = getattr(result, "findings", result)
            if isinstance(rows, Sequence) and rows and all(isinstance(row, Finding) for row in rows):
                yield from self._of_launch([row for row in rows if not _loaded_ahead(row, read)], launch, read)
        if read is not None and "wraparound" in results:
            signs = self._signs[launch.program.ptx, launch.program.entry]
            found = indices.findings(read, launch.name, results["wraparound"], signs)
            yield from self._of_launch(found, launch, read)


def _loaded_ahead(finding: Finding, read: Values | None) -> bool:
    """Whether a read of unset memory is one whose result may not be used."""
    return finding.code in UNSET and read is not None and unset.speculated(read, finding.ptx_line)


def values_of(launch: Launch) -> Values | None:
    """The kernel's text, where the machine can read it; where not, the launch itself fails."""
    try:
        return values.of_kernel(launch.program.ptx, launch.program.entry)
    except PtxError:
        return None
