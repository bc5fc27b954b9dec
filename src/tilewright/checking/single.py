"""Checks one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from tilewright.checking import launches, suppressions
from tilewright.checking.found import Findings
from tilewright.checking.gathering import Checks, values_of
from tilewright.checking.rows import SpacedArray, spaced
from tilewright.errors import KernelError, LaunchError
from tilewright.instruments.findings import Finding
from tilewright.programs import extent, residency
from tilewright.programs.host_arrays import flat
from tilewright.programs.staging import Staged, StagedArguments, stage
from tilewright.public import public
from tilewright.simt.following import Asked, Extents, LaunchOptions
from tilewright.simt.observer import Launch, Run
from tilewright.simt.run.job import Placed
from tilewright.simt.run.launch import check_options, observed
from tilewright.simt.run.limits import Limits
from tilewright.simt.run.memory import DeviceArray, Memory
from tilewright.simt.run.nested import device_of, run_with_launches
from tilewright.simt.run.staging import Scene, argument_facts, given_memory
from tilewright.simt.run.variables import keeps_variables, loaded

#: Memory for a launch besides its arrays and the unused memory between them, with some margin.
_ROOM_BYTES = 1 << 20


@public
def check(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    *,
    ignore: Sequence[str] = (),
    **options: Unpack[LaunchOptions],
) -> Findings:
    """Run a kernel on the simulated GPU and report its defects.

    Parameters
    ----------
    kernel, grid, block
        As for :func:`tilewright.simt.launch`.
    args : sequence
        NumPy arrays, `DeviceArray`, numbers. Arrays are copied in, and back if the kernel ran to its end, so that
        there is unused memory around each. A `DeviceArray` stays in place if its memory has no room for a copy. One
        from `Memory.empty` counts as never written until something is stored in it.
    ignore : sequence of str
        Codes to suppress.
    **options
        `shared_bytes`, `gpu`, `seed`, `limits`, `memory`, `cooperative` and `cluster`, as for
        :func:`tilewright.simt.launch`. Findings do not depend on `seed`.

    Returns
    -------
    Findings
        A tuple of :class:`Finding`, in source order; empty if nothing was found. `str()` and notebooks show it as
        `tilewright check` does. Comments `tilewright: ignore[CODE]` apply.

    Raises
    ------
    ArgumentValueError
        There is no such code or GPU.
    TilewrightError
        As :func:`tilewright.simt.launch`, if the error is no finding: a limit, `trap`, arguments that do not fit.

    Examples
    --------
    >>> from tilewright.programs import Program
    >>> fill = Program.from_cuda('extern "C" __global__ void fill(int *x) { x[threadIdx.x] = 1; }', "fill")
    >>> [f.code for f in check(fill, 1, 32, (np.zeros(32, np.int32),))]
    []
    >>> [f.code for f in check(fill, 1, 33, (np.zeros(32, np.int32),))]
    ['TW101']
    """
    suppressions.checked(ignore)
    asked = Asked.by("check", kernel, grid, block, args, options)
    checks = Checks(gpu=asked.gpu, ignore=ignore)
    checked(asked, checks)
    return Findings(checks.findings)


def checked(asked: Asked, checks: Checks, *, index: int = 0, source_line: str = "", apart: bool = False) -> None:
    """Check one launch of a program, with its number and source line; a rejected one does not run.

    With `apart`, arguments and memory are restored, and an error that is a finding is raised like any other.

    Raises TilewrightError: as :func:`check`.
    """
    check_options(asked)
    program, given = spaced(asked.kernel, asked.args, asked.cc)
    blocks, threads = _shape(program.name, asked.grid, asked.block)
    memory = given_memory(program.name, given, asked.memory) or Memory()
    if keeps_variables(program):
        loaded(program.ptx, memory)
    checks.started(memory.limit_bytes)
    zones, memory.red_zones = memory.red_zones, checks.red_zones
    scene = _CheckedScene(checks, memory)
    try:
        staged = scene.stage(given)
        about = Launch(
            program.name, program, blocks, threads, asked.shared_bytes, tuple(argument_facts(program, given, staged)),
            source_line, index, gpu=asked.target, limits=asked.limits or Limits(), seed=asked.seed,
            cooperative=asked.cooperative or residency.waits_for_grid(program),
            cluster=extent.cluster(program.name, asked.cluster),
        )  # fmt: skip
        if wrong := _refused(about, asked):
            checks.launching(about)
            checks.add(wrong)
        elif apart:
            with memory.restored():
                scene.launch(about, given, staged)
        else:
            scene.launch_to_end(about, given, staged)
    finally:
        scene.close()
        memory.red_zones = zones


def _refused(about: Launch, asked: Asked) -> list[Finding]:
    """The defects of a launch that are known before it runs."""
    wrong = launches.findings(about, about.gpu)
    wrong += launches.fewer_dimensions(about, asked.grid, asked.block, values_of(about))
    if about.cooperative and not wrong:
        wrong = launches.too_many_to_wait(about, about.gpu)
    return wrong


def _shape(name: str, grid: Extents, block: Extents) -> tuple[extent.Extent, extent.Extent]:
    """Extents as three numbers each, even if a GPU would reject their size."""
    try:
        return extent.checked(name, grid, block)
    except LaunchError:
        three = [(*(value if isinstance(value, Sequence) else (value,)), 1, 1)[:3] for value in (grid, block)]
        if any(not isinstance(part, int | np.integer) or part < 0 for extents in three for part in extents):
            raise
        (gx, gy, gz), (bx, by, bz) = three
        return (int(gx), int(gy), int(gz)), (int(bx), int(by), int(bz))


class _CheckedScene(Scene):
    """The memory of one launch, whose events go to the checks."""

    def __init__(self, checks: Checks, memory: Memory) -> None:
        super().__init__(memory)
        self.checks = checks
        for address, size in memory.allocations():
            checks.allocated(address, size)

    def stage(self, args: Sequence[Any]) -> StagedArguments:
        """Copy arguments into memory; the result is keyed by the argument's id."""
        plain = [arg for arg in flat(args) if not isinstance(arg, SpacedArray)]
        on_device = [arg for arg in plain if isinstance(arg, DeviceArray)]
        held = {}
        for address, size in self.memory.allocations():
            within = [arg for arg in on_device if 0 <= arg.address - address < max(size, 1)]
            written = not within or any(arg.host_written for arg in within)
            if written:
                self.checks.host_wrote(address, size)
            held[address, size] = within, written
        staged = stage(plain, self)
        for place, (arrays, written) in held.items():
            if arrays and place[0] not in self.memory.modules.values():  # variables stay where kernels name them
                self._guard(staged, arrays, place, written=written)
        for arg in args:
            if isinstance(arg, SpacedArray) and id(arg) not in staged:
                staged[id(arg)] = self._spaced(arg)
        return staged

    def _guard(
        self, staged: StagedArguments, arrays: list[DeviceArray], place: tuple[int, int], *, written: bool
    ) -> None:
        """Copy arrays of one allocation together, with unused memory around the copy, if there is room."""
        if self.memory.allocated_bytes + 2 * place[1] + _ROOM_BYTES > self.memory.capacity_bytes:
            return
        copy = self.allocate(place[1], written=written)
        host, device = self.memory.view(*place), self.memory.view(copy, place[1])
        device[...] = host
        for arg in arrays:
            staged[id(arg)] = Staged(copy + arg.address - place[0])
        first = arrays[0]
        staged[id(first)] = Staged(staged[id(first)].start, host, device, (copy, place[1]))

    def _spaced(self, arg: SpacedArray) -> Staged:
        written = not isinstance(arg.source, DeviceArray) or arg.source.host_written
        address = self.allocate(arg.span_bytes, written=written)
        device = arg.elements(self.memory.view(address, arg.span_bytes))
        device[...] = np.asarray(arg.source)
        self.checks.row_gaps_at(arg.rows.gaps(address))
        host = arg.source.view() if isinstance(arg.source, DeviceArray) else None if arg.readonly else arg.source
        return Staged(address, host, device, (address, arg.span_bytes))

    def allocate(self, size_bytes: int, *, written: bool = True) -> int:
        """Memory for this launch only; `written`: the host has written it."""
        address = super().allocate(size_bytes)
        self.checks.allocated(address, size_bytes)
        if written:
            self.checks.host_wrote(address, size_bytes)
        return address

    def launch(self, about: Launch, args: Sequence[Any], staged: StagedArguments) -> None:
        """Run the kernel; the results stay in simulated memory."""
        values = about.program.marshal(args, staged.address_of)
        base = self.variables(about.program)
        placed = Placed(self.memory, base, 0, self.workspace(about.cooperative))

        def run(one: Launch, given: Sequence[bytes]) -> Run:
            return observed(one, given, self.memory, base, [self.checks], placed.workspace if one is about else 0)

        run_with_launches(about, values, device_of(placed, about.program.ptx, run, [self.checks]))

    def launch_to_end(self, about: Launch, args: Sequence[Any], staged: StagedArguments) -> None:
        """Run the kernel and copy results back; suppress an error that is a finding."""
        try:
            self.launch(about, args, staged)
        except (KernelError, LaunchError) as error:
            if not self.checks.explains(about, error):
                raise
        else:
            staged.copy_back(self.memory.clear)
