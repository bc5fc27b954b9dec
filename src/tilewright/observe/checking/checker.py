"""Checks: the observer that follows a program on the simulated GPU and gathers the defects of its kernels."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import KernelError, LaunchError, PtxError
from tilewright.observe.checking import (
    faults,
    folded,
    launches,
    mending,
    outcome,
    passed,
    signatures,
    statements,
    suppressions,
)
from tilewright.observe.checking.coverage import Coverage, is_whole
from tilewright.observe.checking.schedules import Schedules, place
from tilewright.observe.checking.static import (
    carried,
    deciding,
    early,
    fences,
    idle,
    indices,
    loads,
    precision,
    products,
    reach,
    shuffling,
    unset,
    values,
)
from tilewright.observe.checking.static.values import Values
from tilewright.observe.checking.suppressions import Sifted, Suppression
from tilewright.observe.instruments.convergence import Convergence
from tilewright.observe.instruments.findings import Finding, codes, merged
from tilewright.observe.instruments.nonfinite import Nonfinite
from tilewright.observe.instruments.shadow.cells import READABLE, ROW_GAP
from tilewright.observe.instruments.shadow.found import UNSET
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.shadow.states import States
from tilewright.observe.instruments.shuffles import Link, Shuffles
from tilewright.observe.instruments.tensor_memory import TensorMemory
from tilewright.observe.instruments.touched import Touched, TouchedResult
from tilewright.observe.instruments.wraparound import Wraparound
from tilewright.simulate import machine
from tilewright.simulate.events import GLOBAL_BASE, Instrument
from tilewright.simulate.isa import Role
from tilewright.simulate.observer import (
    ArgumentFact,
    BlocksAlone,
    HostRace,
    Launch,
    LaunchAgain,
    Observer,
    Rows,
    Run,
    StreamRace,
)
from tilewright.simulate.programs.clusters import cluster_of
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.allocations import red_zone_bytes

#: Directives of kernels whose blocks are in clusters.
_OF_CLUSTERS = {".reqnctapercluster", ".explicitcluster"}
#: Kernels whose text's findings are remembered.
_KERNELS = 256
#: Groups of findings that can cause non-finite or unset values.
_CAUSES = ("TW1", "TW2", "TW3", "TW4")
#: Checks of the kernel's text alone.
_OF_TEXT: tuple[Callable[[Values, str], Iterable[Finding]], ...] = (
    unset.findings,
    products.findings,
    loads.findings,
    fences.findings,
)


class Checks(Observer):
    """Gathers findings over all launches of a program.

    `gpu`: GPU whose limits apply, as `tilewright gpus` lists it; by default `TILEWRIGHT_GPU`, or else the H100.
    `ignore`: codes to suppress. `strict`: whether to report races that are right on today's GPUs, or meant, too.
    `schedules`: other orders in which a launch runs if its findings can depend on the order; by default 3.

    Raises ArgumentValueError: there is no such GPU, no such code, or not such a number of orders.

    >>> checks = Checks(ignore=["TW601"])
    >>> checks.findings
    ()
    """

    red_zones = True
    host_races = True

    def __init__(
        self,
        *,
        gpu: str | None = None,
        ignore: Sequence[str] = (),
        strict: bool = False,
        schedules: int | None = None,
    ) -> None:
        self.launches = 0  #: Launches so far, with the rejected ones.
        #: For each kernel, how many of its launches did not run to their end for a reason that is no finding.
        self.unchecked: Counter[str] = Counter()
        self.folded: dict[str, None] = {}  #: Kernels whose local arrays are in registers, and could not be checked.
        self._waiting: dict[str, None] = {}  # kernels whose local arrays are to be checked at this launch
        self._of_arrays: list[Finding] = []  # what that has found, until the launch has ended
        self._gpu = machine.chosen(gpu)
        self._ignored = [Suppression(code) for code in suppressions.checked(ignore)]
        self._strict = strict
        self._schedules = Schedules(schedules)
        self._of_orders: list[Finding] = []  # what other orders of a launch have found, until it has ended
        self._found: list[Finding] = []
        self._kernels: dict[str, None] = {}
        self._files: dict[str, None] = {}
        self._coverage = Coverage()
        self._raised: list[Finding] = []  # findings that the program also got as an exception
        self._given = 0, 0  # how many findings, and how many of those not reached, `fresh` has returned
        self._states = States(0)
        self._looked_at: set[Any] = set()
        self._before: tuple[Launch, TouchedResult] | None = None  # the launch before, and what it has touched
        self._lost: dict[tuple[str, str], list[Finding]] = {}  # if a kernel without writes ends
        self._misfits: list[Finding] = []  # this launch's arguments that are not the kernel's
        self._lacking: list[Finding] = []  # and its dimensions, unless it turns out that they are meant

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings so far without the suppressed ones, in source order; warns of wrong suppressions."""
        sifted = self.sifted
        for wrong in sifted.wrong:
            warnings.warn(wrong, stacklevel=2)
        return sifted.findings

    @property
    def sifted(self) -> Sifted:
        """The findings, the suppressed ones, and suppressions that match nothing or are wrong."""
        found = merged(self._all)
        files = dict.fromkeys([*self._files, *(finding.source for finding in found if finding.source)])
        comments, wrong = suppressions.comments(files)
        return suppressions.sift(found, [*self._ignored, *comments], wrong, strict=self._strict)

    @property
    def _all(self) -> list[Finding]:
        return _together(self._found, self._coverage.so_far())

    @contextmanager
    def in_memory(self, limit_bytes: int) -> Iterator[None]:
        """Keep the state of the GPU's memory in this context; elements that launches leave out are final at its end."""
        states, coverage, first = self._states, self._coverage, len(self._found)
        self._states, self._coverage = States(limit_bytes), Coverage()
        try:
            yield
        finally:
            self._found[first:] = _together(self._found[first:], self._coverage.findings())
            self._states, self._coverage = states, coverage

    def for_child(self) -> Checks:
        """Checks for a child process."""
        return Checks(gpu=self._gpu.key, schedules=self._schedules.most)

    def report(self) -> dict[str, Any]:
        """Launches, kernels, files and findings; merges these findings, so that the next call takes no longer."""
        self._found = [*merged(self._found)]
        return {
            "launches": self.launches,
            "unchecked": self.unchecked,
            "kernels": [*self._kernels],
            "folded": [*self.folded],
            "files": [*self._files],
            "findings": [finding.to_json() for finding in merged(self._all)],
        }

    def take_report(self, report: dict[str, Any]) -> None:
        """Add the report of another process."""
        self.launches += report["launches"]
        self.unchecked += Counter(report["unchecked"])
        self._kernels.update(dict.fromkeys(report["kernels"]))
        self.folded.update(dict.fromkeys(report["folded"]))
        self._files.update(dict.fromkeys(report["files"]))
        self._found += map(Finding.from_json, report["findings"])

    def fresh(self, *, raised: bool = True, ended: bool = False) -> Sifted:
        """Findings since the last call.

        `raised` includes findings that the program got as an exception. `ended` includes what is still pending for
        arrays that are not freed.
        """
        unreached = self._coverage.findings() if ended else self._coverage.settled
        rows = [*self._found[self._given[0] :], *unreached[self._given[1] :]]
        self._given = len(self._found), len(self._coverage.settled)
        self._looked_at.clear()  # a kernel's PTX is analysed again at its next launch
        if not raised:
            rows = [row for row in rows if all(row is not other for other in self._raised)]
        comments, wrong = suppressions.comments(finding.source for finding in rows if finding.source)
        return suppressions.sift(merged(rows), [*self._ignored, *comments], wrong, strict=self._strict)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that were launched."""
        return tuple(self._kernels)

    # -- events of the simulated GPU ---------------------------------------------------------------------------

    def started(self, limit_bytes: int, used: Sequence[tuple[int, int, frozenset[str]]] = ()) -> None:
        """Nothing is known of the GPU's memory, nor of what kernels did there before."""
        if limit_bytes > self._states.size_bytes:
            self._states = States(limit_bytes)
        for address, size, kernels in used:
            self._coverage.used_before(address, size, kernels)

    def row_gaps_at(self, gaps: Rows) -> None:
        """Mark the gaps between the rows of an array: no kernel may touch them."""
        gaps.of(self._states.bytes_)[...] = ROW_GAP

    def copied(self, source: Rows, target: Rows) -> None:
        """Copy which bytes were written from the source to the copy."""
        into = target.of(self._states.bytes_)
        into[...] = (into & ~np.uint8(READABLE)) | (source.of(self._states.bytes_) & READABLE)

    def allocated(self, address: int, size_bytes: int) -> None:
        """Mark the bytes as unwritten."""
        self._states.allocated(address, size_bytes, red_zone_bytes(size_bytes))

    def freed(self, address: int, size_bytes: int) -> None:
        """Settle the arrays there: no later launch can use them."""
        self._states.freed(address, size_bytes)
        self._coverage.freed(address, size_bytes)

    def host_wrote(self, address: int, size_bytes: int) -> None:
        """Mark the bytes as written."""
        self._states.host_wrote(address, size_bytes)

    def host_reads(self, array: ArgumentFact, source_line: str) -> None:
        """Report elements of an array that the host reads although nobody wrote them."""
        self._found += outcome.unwritten(array, source_line, self._states)

    def used(self, run: Run, address: int, size_bytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """From the launch's maps of touched bytes."""
        start, touched = address - GLOBAL_BASE, run.results["touched"]
        read, written = (map_[start : start + size_bytes].view(np.bool_) for map_ in (touched.read, touched.written))
        return read, written

    def raced(self, race: HostRace | StreamRace) -> None:
        """Report a host line that uses memory too early, or two unordered launches."""
        if isinstance(race, HostRace):
            self._found += mending.mended([launches.with_host(race)], None)
        else:
            self._found.append(launches.between_streams(race))

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """Check the launch's parameters, the kernel's PTX, and the local arrays that the PTX does not have any more."""
        self.launches += 1
        self._kernels[launch.name] = None
        self._files.update(dict.fromkeys(place.rpartition(":")[0] for place in launch.program.source_lines.values()))
        dtypes = [a.dtype for a in launch.arguments if a.dtype is not None]
        key = (launch.program.ptx, launch.program.entry, tuple(map(str, dtypes)))
        read = values_of(launch)
        self._lacking = launches.fewer_dimensions(launch) if read is not None else []
        self._misfits = passed.findings(launch, launch.passed) if launch.passed is not None else []
        self._found += self._misfits
        if key not in self._looked_at and read is not None:
            self._looked_at.add(key)
            if _holds_arrays(launch.program):
                self._waiting[launch.name] = None
            file = launch.program.definition[0]
            found = _of_text(*key[:2], launch.name, file, tuple(dtypes))
            self._found += self._of_launch(found, launch, read)
            self._lost[key[:2]] = [] if reach.has_result(*key[:2]) else reach.without_result(launch)
        if alone is not None:
            self._schedules.begin(launch, self._states, alone.memory_bytes)
        if alone is not None and launch.name in self._waiting:
            del self._waiting[launch.name]
            of_arrays, whole = folded.findings(launch, alone)
            self._of_arrays = self._of_launch(of_arrays, launch, None)
            if not whole and not of_arrays:
                self.folded[launch.name] = None
        return False

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """New instruments for the launch."""
        read, kernel = values_of(launch), (launch.program.ptx, launch.program.entry)
        found: list[Instrument] = [
            self._memory_of(launch).on(self._states),
            Convergence(launch.name),
            Touched(),
            Nonfinite(outcome.float_arrays(launch)),
        ]
        if read is None:
            return found
        if signs := _signs(*kernel):
            found.append(Wraparound(signs))
        if self._before is not None and launch.overlaps == self._before[0].index:
            found += early.instruments(read)
        if followed := _followed(*kernel):
            found.append(Shuffles(launch.name, *followed))
        asked = launch.program, launch.cluster, launch.grid, launch.gpu
        if _uses_tensor_memory(*kernel) and cluster_of(*asked) in (None, (1, 1, 1)):
            found.append(TensorMemory(launch.name))
        return found

    def repeats(self, launch: Launch) -> bool:
        """Whether the launch's findings can depend on the order of its warps."""
        return not self._misfits and not self._lacking and self._schedules.begun

    def again(self, launch: Launch, run: Run, other: LaunchAgain) -> None:
        """Run the launch in other orders, and keep what these find."""
        found = self._schedules.findings(launch, run, other, lambda states: self._memory_of(launch).on(states))
        read = values_of(launch)
        self._of_orders = self._of_launch([row for row in found if not _loaded_ahead(row, read)], launch, read)

    def _memory_of(self, launch: Launch) -> MemoryCheck:
        """The check of the launch's memory, without its states."""
        block, program = launch.block if values_of(launch) is not None else None, launch.program
        clusters = launch.cluster not in (None, (1, 1, 1))
        return _memory_check(program.ptx, program.entry, launch.name, block, clusters, program.definition[:2])

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Gather the findings of the instruments, and of the machine's error."""
        raised_before = len(self._raised)
        if run is None or not is_whole(launch.arguments, run.results["touched"]):
            self._found += self._lacking
            self._misfits += self._lacking
        if self._misfits:  # what it does then does not matter
            self._found += self._refused(launch) if isinstance(error, LaunchError) else ()
            return
        results = run.results if run is not None else error.results if isinstance(error, KernelError) else {}
        for sentence in results["memory"].not_judged if "memory" in results else ():
            warnings.warn(f"{launch.name}: {sentence}", stacklevel=2)
        read = values_of(launch)
        found = list(self._from_instruments(launch, read, results))
        if read is not None and self._before is not None and launch.overlaps == self._before[0].index:
            found += self._of_launch(early.findings(launch, read, results, *self._before), launch, read)
        self._before = (launch, results["touched"]) if "touched" in results else None
        if isinstance(error, KernelError):
            self._raised += self._of_launch(faults.findings(error, launch, found), launch, read)
        if isinstance(error, LaunchError):
            self._raised += self._refused(launch)
        if error is not None and not self.explains(launch, error):
            self.unchecked[launch.name] += 1
        if run is not None:  # compilers leave out the writes of a kernel that never ends
            found += self._lost.pop((launch.program.ptx, launch.program.entry), ())
            self._coverage.add(launch, results["touched"], read)
            found += outcome.lost(launch, results["touched"])
            if read is not None and not any(map(_may_spread, found)):
                nonfinite = outcome.nonfinite(launch, read, results["nonfinite"], results["touched"])
                found += self._of_launch(nonfinite, launch, read)
        found += self._raised[raised_before:]
        known = {(one.code, one.source, one.line) for one in found}
        places = set(map(place, found))
        of_orders = [one for one in self._of_orders if place(one) not in places]
        of_arrays = [one for one in self._of_arrays if (one.code, one.source, one.line) not in known]
        self._found += [*found, *of_orders, *of_arrays]
        self._of_arrays, self._of_orders = [], []

    def explains(self, launch: Launch, error: Exception) -> bool:
        """Whether a finding explains the error that ended or rejected a launch."""
        if isinstance(error, KernelError):
            return faults.code_of(error) is not None
        return isinstance(error, LaunchError) and bool(self._refused(launch))

    def _of_launch(self, found: Sequence[Finding], launch: Launch, read: Values | None) -> list[Finding]:
        return launches.of_launch(found, launch, read, self._states.is_freed) if found else []

    def _refused(self, launch: Launch) -> list[Finding]:
        return launches.of_refused(launch, self._gpu)

    def _from_instruments(self, launch: Launch, read: Values | None, results: Any) -> Iterator[Finding]:
        """The findings of instruments whose results are, hold or count findings."""
        for result in results.values():
            rows = getattr(result, "findings", result)
            if isinstance(rows, Sequence) and rows and all(isinstance(row, Finding) for row in rows):
                yield from self._of_launch([row for row in rows if not _loaded_ahead(row, read)], launch, read)
        if read is not None and results.get("wraparound"):
            signs = _signs(launch.program.ptx, launch.program.entry)
            found = indices.findings(read, launch.name, results["wraparound"], signs)
            yield from self._of_launch(found, launch, read)


@functools.lru_cache(maxsize=_KERNELS)
def _of_text(ptx: str, entry: str, name: str, file: str, dtypes: tuple[np.dtype[Any], ...]) -> tuple[Finding, ...]:
    """The findings of a kernel's text, defined in a file and launched with arrays of these dtypes."""
    read = values.of_kernel(ptx, entry)
    of_all = (one for check in _OF_TEXT for one in check(read, name))
    return (*precision.findings(read, name, dtypes, file), *of_all)


def _holds_arrays(program: Program) -> bool:
    """See `folded.holds_arrays`; a program's source is read once."""
    if _holds_arrays not in program.kept:
        program.kept[_holds_arrays] = folded.holds_arrays(program)
    return bool(program.kept[_holds_arrays])


@functools.lru_cache(maxsize=_KERNELS)
def _signs(ptx: str, entry: str) -> dict[int, bool]:
    """See `indices.lines`."""
    return indices.lines(values.of_kernel(ptx, entry))


@functools.lru_cache(maxsize=_KERNELS)
def _followed(ptx: str, entry: str) -> tuple[dict[int, Link], dict[int, tuple[int, ...]]] | None:
    """See `shuffling.followed`."""
    return shuffling.followed(values.of_kernel(ptx, entry))


@functools.lru_cache(maxsize=_KERNELS)
def _memory_check(
    ptx: str, entry: str, name: str, block: tuple[int, int, int] | None, clusters: bool, place: tuple[str, int]
) -> MemoryCheck:
    """The check of memory of a kernel, without the states of a launch; `block` is None if its PTX is malformed.

    `place` is the file and line of its definition.
    """
    function = parsed(ptx).functions.get(entry)
    clusters |= function is not None and not _OF_CLUSTERS.isdisjoint(function.directives)
    if block is None:
        return MemoryCheck(parsed(ptx), name, clusters=clusters)
    read = values.of_kernel(ptx, entry)
    unused, copied, useless = idle.threads(read, block), carried.of(read), deciding.unused(read)
    data, whole = deciding.data(read), unset.whole(read, _number_bytes(ptx, entry, name, place))
    return MemoryCheck(parsed(ptx), name, None, unused, copied, useless, data, whole, clusters)


def _number_bytes(ptx: str, entry: str, name: str, place: tuple[str, int]) -> dict[str, int]:
    """The parameters of a kernel in C++ that point to numbers, with the bytes of one."""
    known = signatures.declared(statements.cpp_of(place[0]), name, place[1])
    return {
        parameter.name: np.dtype(one.type.dtype).itemsize
        for parameter, one in zip(parsed(ptx).functions[entry].params, known, strict=False)
        if one.type.pointer and one.type.dtype
    }


@functools.lru_cache(maxsize=_KERNELS)
def _uses_tensor_memory(ptx: str, entry: str) -> bool:
    """Whether a kernel uses tensor memory."""
    return any(op.form.row.role is Role.TENSOR_MEMORY for op in values.of_kernel(ptx, entry).ops)


def _together(found: Sequence[Finding], unreached: Sequence[Finding]) -> list[Finding]:
    """Findings of launches, with those of arrays that they have left unreached, each reported once."""
    known = {finding.details.get("address") for finding in unreached}  # reported for the launch that left them out
    copies = [one for one in found if one.code != "TW205" or one.details["address"] not in known]
    return [*copies, *unreached]


def _may_spread(finding: Finding) -> bool:
    """Whether a finding can cause non-finite values."""
    return finding.code.startswith(_CAUSES) and not codes()[finding.code].strict


def _loaded_ahead(finding: Finding, read: Values | None) -> bool:
    """Whether a finding is a read of unset memory whose result may not be used."""
    return finding.code in UNSET and read is not None and unset.speculated(read, finding.ptx_line)


def values_of(launch: Launch) -> Values | None:
    """The analysis of the kernel's PTX; None if the machine cannot read it, in which case the launch itself fails."""
    try:
        return values.of_kernel(launch.program.ptx, launch.program.entry)
    except PtxError:
        return None
