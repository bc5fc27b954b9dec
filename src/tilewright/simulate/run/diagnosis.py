"""Turns a failed launch into an error that states the place and the reason."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeadlockError, KernelError, LimitError, MemoryAccessError, TrapError
from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.events import Site
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.isa.mbarrier_bits import Mbarrier
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import Launch
from tilewright.simulate.programs.device_runtime import ASSERTION_FORMAT
from tilewright.simulate.ptx.frames import within
from tilewright.simulate.run import barrier_faults, mbarrier_faults, tensor_faults, traps
from tilewright.simulate.run.crew import Budget
from tilewright.simulate.run.grid_barrier import GridBarrier
from tilewright.simulate.run.job import Job, Placed
from tilewright.simulate.translate.translation import Translation

_Extent = tuple[int, int, int]
_Context = npt.NDArray[np.uint64]


#: The rules of `alloca` and `stackrestore`.
_STACK_RULES = {
    state.STACK_FULL: "the bytes do not fit on the thread's stack; allocate fewer, or raise `Limits.stack_bytes` "
    "(in a program cudaLimitStackSize)",
    state.STACK_POINTER: "the pointer must be a value of `stacksave` whose memory is not yet released",
}
#: What else may be wrong in a called function.
_NO_OTHER_WARP = (
    "; a function that is called recursively or through a pointer must not wait for other warps of its block, "
    "because they run only after it"
)


def place_of(linear: int, extents: _Extent) -> _Extent:
    """The (x, y, z) of a block of a grid, or of a thread of a block, by its number.

    >>> place_of(17, (4, 3, 2)), number_of((1, 1, 1), (4, 3, 2))
    ((1, 1, 1), 17)
    """
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


def number_of(place: _Extent, extents: _Extent) -> int:
    """The number of a block or thread: x varies fastest."""
    return place[0] + extents[0] * (place[1] + extents[1] * place[2])


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a thread, and its place."""

    site: Site
    at: str  #: Its block, thread and line.
    about: dict[str, Any]  #: The data of the error.
    field: Callable[[str], int]  #: Reads a field of the context.
    printed: Iterator[traps.PrintRecord]

    def error(self, text: str, fault: str, kind: type[KernelError] = KernelError) -> KernelError:
        """The error of an instruction that broke a rule; `fault` is its name."""
        opcode = f"`{self.site.opcode}`"
        about = self.about | {"fault": fault, "summary": f"{opcode}: {text}"}
        return kind(f"{about['kernel']}: {opcode} {self.at}: {text}", **about)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The data for the errors of one launch."""

    job: Job  #: Its translation's sites give the places of instructions.
    placed: Placed
    budget: Budget  #: The launch's instructions.
    grid_barrier: GridBarrier | None  #: The grid barrier of a cooperative launch.
    deadline_s: float | None  #: Time limit of the launch, in `time.monotonic`'s seconds.
    pauses_in_calls: bool  #: Whether called functions may wait for other warps of their block.

    @property
    def launch(self) -> Launch:
        """The launch."""
        return self.job.launch

    @property
    def translation(self) -> Translation:
        """The translation of its kernel."""
        return self.job.ready.translation

    def fault(self, code: int, context: _Context, records: Any, printed: Iterator[traps.PrintRecord]) -> KernelError:
        """The error that machine code returned.

        `code` is a fault's number in `state`; `context` is the host thread's record, with the fault's place; `records`
        are those of the current cluster's blocks; `printed` is what the thread's blocks printed.
        """

        def field(name: str) -> int:
            return int(context[state.CONTEXT[name] // 8])

        block = place_of(field("fault_block"), self.launch.grid)
        if code == state.DEADLOCK:
            return self._stuck(block, records, field)
        if code == state.STOPPED or field("fault_kind") == state.STOP_REQUEST:
            return self.stopped(field("fault_block"), context)
        site, where = self.translation.sites[field("fault_site")], self._where(field("fault_site"))
        thread = place_of(field("fault_warp") * LANES + field("fault_lane"), self.launch.block)
        inner = self._inner(site)
        at = f"in block {block}, thread {thread}, at {where}" + (f", in {within(inner)}" if inner else "")
        about: dict[str, Any] = {
            "kernel": self.launch.program.name,
            "line": where,
            "inner": inner,
            "block": block,
            "thread": thread,
            "opcode": site.opcode,
            "ptx_line": site.ptx_line,
        }
        return _ERRORS[field("fault_kind")](self, Fault(site, at, about, field, printed))

    def trapped(self, fault: Fault) -> KernelError:
        """`trap`, or an assertion that failed."""
        module, name = self.launch.program.module, self.launch.program.name
        at_barrier = self.grid_barrier is None and traps.at_grid_barrier(module, fault.site, fault.about["inner"])
        failed = self._assertion(fault.printed, fault.about)
        if failed is None and not at_barrier and traps.is_end(module, fault.site.ptx_line):
            return self._undefined(fault)
        return traps.error(name, failed, fault.about, at_grid_barrier=at_barrier)

    def _undefined(self, fault: Fault) -> KernelError:
        """A `trap` in place of undefined code. What line it was is lost, so the kernel's own stands for it."""
        source, line, _ = self.launch.program.definition
        about = fault.about | ({"line": f"{source}:{line}"} if source else {})
        rule = "undefined code, in place of which the compiler ends the kernel"
        message = f"{about['kernel']}: {rule}, in block {about['block']}, thread {about['thread']}, at {about['line']}"
        return TrapError(message, **about, fault="undefined code", summary=rule)

    def _assertion(self, printed: Iterator[traps.PrintRecord], about: dict[str, Any]) -> traps.Assertion | None:
        """The failed assertion of the thread that trapped."""
        place = self.translation.layout.places.get(ASSERTION_FORMAT)
        if place is None:
            return None
        block, thread = number_of(about["block"], self.launch.grid), number_of(about["thread"], self.launch.block)
        return traps.failed_assertion(printed, self.placed.module_base + place[1], block, thread)

    def _stuck(self, block: _Extent, records: Any, field: Callable[[str], int]) -> DeadlockError:
        """No warp of a cluster can run."""
        warps, held = -(-math.prod(self.launch.block) // LANES), field("fault_cluster")
        (record,) = (row for row in records if int(row[state.SLOT["block"] // 8]) == field("fault_block"))
        waits = barrier_faults.waits(record, warps, self.translation.sites)
        others = barrier_faults.cluster_text(records, warps, self.translation.sites[held - 1]) if held else ""
        if field("fault_kind"):
            return self._awaiting(block, [barrier_faults.waits_text(waits), others], field)
        return self._deadlock(block, waits, others)

    def _deadlock(self, block: _Extent, waits: list[barrier_faults.Wait], others: str) -> DeadlockError:
        """No warp of a block can run; the line is that of the first barrier with a waiting warp."""
        name = self.launch.program.name
        about: dict[str, Any] = {"kernel": name, "block": block, "fault": "deadlock"}
        sites = [(w.site.source or f"PTX line {w.site.ptx_line}", w.site.opcode, w.site.ptx_line) for w in waits]
        if waits:
            about |= dict(zip(("line", "opcode", "ptx_line"), sites[0], strict=True))
            about |= {"thread": place_of(waits[0].warps[0] * LANES, self.launch.block), "others": tuple(sites[1:])}
        if len(waits) == 1 and waits[0].counted:
            about["fault"] = "barrier count"
        held = "; ".join(part for part in (barrier_faults.waits_text(waits), others) if part)
        return DeadlockError(
            f"{name}: block {block} cannot go on: every thread that has not exited waits at a barrier that the "
            f"others will not reach: {held}; threads count in whole warps, and those that exited are not waited for "
            "where a barrier names no number of threads",
            **about,
        )

    def _awaiting(self, block: _Extent, more: list[str], field: Callable[[str], int]) -> DeadlockError:
        """All warps of a block wait, some at mbarriers; the line is that of the first such wait."""
        name, site = self.launch.program.name, self.translation.sites[field("fault_site")]
        thread = place_of(field("fault_warp") * LANES + field("fault_lane"), self.launch.block)
        where, count = self._where(field("fault_site")), field("fault_other")
        found = Mbarrier.of(field("fault_object"), field("fault_address"))
        text = mbarrier_faults.awaited_text(field("fault_got"), found)
        others = "".join(f"; {part}" for part in more if part)
        about: dict[str, Any] = {
            "kernel": name,
            "line": where,
            "inner": self._inner(site),
            "block": block,
            "thread": thread,
            "opcode": site.opcode,
            "ptx_line": site.ptx_line,
            "summary": f"`{site.opcode}` {text}, for ever",
            "fault": "mbarrier arrivals" if found.pending else "mbarrier bytes",
        }
        return DeadlockError(
            f"{name}: block {block} cannot go on: no thread can complete what others wait for: thread {thread}, at "
            f"{where}, {text}; {count} warp{'s' * (count != 1)} wait{'s' * (count == 1)} for mbarriers{others}",
            **about,
        )

    def stopped(self, number: int, context: _Context | None = None) -> KernelError:
        """The error that ended the launch in a block; with a thread's context also the loop and its first thread."""
        limits, name, block = self.launch.limits, self.launch.program.name, place_of(number, self.launch.grid)
        about: dict[str, Any] = {"kernel": name, "block": block}
        at, hint = f"in block {block}", "a loop may never end, or needs a higher limit"
        if context is not None and int(context[state.CONTEXT["fault_kind"] // 8]) == state.STOP_REQUEST:
            site, warp, lane = (int(context[state.CONTEXT[f"fault_{x}"] // 8]) for x in ("site", "warp", "lane"))
            about |= {"thread": place_of(warp * LANES + lane, self.launch.block), "line": self._where(site)}
            at += f", thread {about['thread']}, at {about['line']}"
            if role_of(self.translation.sites[site].opcode) is Role.CALL:
                hint += _NO_OTHER_WARP * (math.prod(self.launch.block) > LANES and not self.pauses_in_calls)
        if self.grid_barrier is not None and self.grid_barrier.ended:
            ended = f"{self.grid_barrier.ended:,} of {math.prod(self.launch.grid):,} blocks ended"
            text = f"{ended} without reaching a barrier of the grid, at which the others wait"
            return DeadlockError(f"{name}: {text} {at}", fault="deadlock", summary=text, **about)
        if self.budget.passed:
            reason = f"{limits.instructions:,} warp instructions"
        elif self.deadline_s is not None and time.monotonic() > self.deadline_s:
            reason = f"{limits.seconds:g} seconds"
            if limits.seconds == Limits.default().seconds:
                hint += ", by --limit SECONDS, or `limit` in the project's [tool.tilewright]"
        else:
            return KernelError(f"{name}: stopped {at}", **about)
        return LimitError(f"{name}: passed its limit of {reason} {at}; {hint}", **about)

    def _where(self, site: int) -> str:
        """A site's source position, or its PTX line."""
        found = self.translation.sites[site]
        return found.source or f"PTX line {found.ptx_line}"

    def _inner(self, site: Site) -> str:
        """The source position in a library that the site's own line calls; "" if there is none."""
        inner = self.launch.program.inner_lines.get(site.ptx_line, "")
        return inner if site.source and inner != site.source else ""


def _called_too_deep(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    depth, layout = diagnosis.launch.limits.call_depth, diagnosis.translation.layout
    return LimitError(
        f"{fault.about['kernel']}: calls went deeper than {depth}, or needed more than "
        f"{layout.stack_start - layout.frame_bytes:,} bytes of local memory or the host's stack, {fault.at}; call less "
        "deeply, or raise `Limits.call_depth` and `Limits.stack_bytes` (in a program cudaLimitStackSize)",
        **fault.about,
    )


def _called_nothing(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    what = "indirect call of an address that is not a function"
    return KernelError(f"{fault.about['kernel']}: {what} {fault.at}", **fault.about, fault="call", summary=what)


def _tensor_map(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    """The rule that a tensor map broke, with what was wrong."""
    images = " of images" if "im2col" in fault.site.opcode else ""
    rank, got = fault.field("fault_other"), fault.field("fault_got")
    came = ("other bytes", f"one of {rank}", f"one of images, of {rank}", "elements of a type without the operation")
    made = "as tilewright.simulate.tensor_maps.tensor_map makes it"
    return fault.error(
        f"the tensor map must be one{images} of as many dimensions, {made} (got {came[got]})", "tensor map"
    )


def _stack(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    """An allocation that does not fit on the stack, or a restored pointer that is invalid."""
    return fault.error(_STACK_RULES[fault.field("fault_kind")], "stack", MemoryAccessError)


def _barrier(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    rule, threads = barrier_faults.RULES[fault.field("fault_kind")], math.prod(diagnosis.launch.block)
    text = barrier_faults.rule_text(rule, fault.field("fault_got"), fault.field("fault_other"), threads)
    return fault.error(text, rule.fault, rule.error)


def _mbarrier(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    kind, found = fault.field("fault_kind"), Mbarrier.of(fault.field("fault_object"), fault.field("fault_address"))
    text = mbarrier_faults.rule_text(kind, fault.field("fault_got"), fault.field("fault_other"), found)
    return fault.error(text, mbarrier_faults.fault_of(kind))


def _tensor_memory(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    got, other = fault.field("fault_got"), fault.field("fault_other")
    return fault.error(*tensor_faults.found(fault.field("fault_kind"), got, other))


def _access(diagnosis: Diagnosis, fault: Fault) -> KernelError:
    """An access by some lanes of a warp."""
    site, address, lanes = fault.site, fault.field("fault_address"), fault.field("fault_lanes").bit_count()
    if fault.field("fault_kind") == state.MISALIGNED:
        what = name = "misaligned"
        reason = f"an address must be a multiple of {site.bytes_per_lane & -site.bytes_per_lane}"
    else:
        what, name = "out of bounds", f"bounds {site.space}"
        reason = f"it is outside the {site.space} memory in use"
    access = f"{what} {site.space} {site.access} of {site.bytes_per_lane} bytes at address {address:#x}"
    lanes_text = f"({lanes} lane{'s' * (lanes != 1)} of its warp; {site.opcode}): {reason}"
    about = fault.about | {"address": address, "fault": name, "summary": f"{access} {lanes_text}"}
    return MemoryAccessError(f"{about['kernel']}: {access} {fault.at} {lanes_text}", **about)


#: What a thread did wrong, by `state` -> what makes the error of it.
_ERRORS: Mapping[int, Callable[[Diagnosis, Fault], KernelError]] = {
    state.TRAP: Diagnosis.trapped, state.CALL_DEPTH: _called_too_deep, state.BAD_CALL: _called_nothing,
    state.TENSOR_MAP: _tensor_map, state.OUT_OF_BOUNDS: _access, state.MISALIGNED: _access,
    **dict.fromkeys(_STACK_RULES, _stack), **dict.fromkeys(barrier_faults.RULES, _barrier),
    **dict.fromkeys(mbarrier_faults.RULES, _mbarrier), **dict.fromkeys(tensor_faults.KINDS, _tensor_memory),
}  # fmt: skip
