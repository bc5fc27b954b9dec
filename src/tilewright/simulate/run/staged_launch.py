"""Runs a requested launch: stages its arguments, runs it once with all observers, copies its results back.

`tilewright.simt.launch`, `check`, `profile` and `predict` all come here. How arrays are staged depends on the observers
in two ways. If an observer requests red zones, there are unused bytes after every allocation, and device arrays are
copied so that they have red zones too. Every allocation starts at a multiple of 256 bytes in any case, so sectors and
bank conflicts do not change. If also no observer needs the original arrays (`Observer.as_given`, as the caller's own
instruments do), a Python kernel gets arrays with unused bytes after each row, and is compiled for them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.simulate.installed_device import completed, installed_device
from tilewright.simulate.launch_request import LaunchRequest, Limits
from tilewright.simulate.machine import launch_limits
from tilewright.simulate.observer import BlocksAlone, Launch, Observer, Run
from tilewright.simulate.programs.array_arguments import StagedArguments
from tilewright.simulate.programs.launch_rules import (
    Broken,
    broken,
    broken_extents,
    cluster_extents,
    given_extents,
    too_many,
    waits_for_grid,
)
from tilewright.simulate.programs.program import Program
from tilewright.simulate.run.allocations import ALIGNMENT_BYTES
from tilewright.simulate.run.job import Placed, Prepared, check_variables
from tilewright.simulate.run.memory import Memory, module_bytes
from tilewright.simulate.run.nested import Device, room_bytes, run_with_launches
from tilewright.simulate.run.observed_launch import ended, unobserved
from tilewright.simulate.run.staging import Scene, argument_facts, given_memory, needed_bytes, spaced
from tilewright.simulate.state import GLOBAL_BASE

_T = TypeVar("_T")
_NUMBERS = (int, type(None))
#: Launches that a program keeps for later ones.
_MOST_KEPT = 64


def launched(request: LaunchRequest, observers: Sequence[Observer] = (), *, partly: bool = False) -> Run:
    """Run a requested launch once, with these observers and those of the installed device.

    `partly`: as of :func:`run_request`, but only one of these observers may say so.

    Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`tilewright.simt.launch`.
    """
    request.check_options()
    device = installed_device()
    if device is None:
        return run_request(request, observers, partly=partly)
    request = completed(request, device)
    with device.lock if device.observers else contextlib.nullcontext():
        partly = partly and not any(observer.leaves_out for observer in device.observers)
        return run_request(request, (*device.observers, *observers), device.numbered, partly=partly)


def run_request(
    request: LaunchRequest,
    observers: Sequence[Observer],
    numbered: Callable[[str], tuple[int, str]] | None = None,
    *,
    partly: bool = False,
) -> Run:
    """Run a requested launch once, with these observers alone.

    `numbered` gives the number and the source line of the launch, by the kernel's name. `partly`: it is enough to run
    some blocks if an observer says so; then the arguments do not change.

    Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`tilewright.simt.launch`.
    """
    red_zones = any(observer.red_zones for observer in observers)
    args: Sequence[Any]
    if red_zones and not any(observer.as_given for observer in observers):
        program, args = spaced(request.kernel, request.args, request.cc)
    else:
        program, args = request.program, request.args
    key = _key(request)
    prepared: Prepared | None = None if observers or key is None else program.kept.get(key)
    if prepared is not None and prepared.launch.gpu is not request.target:
        prepared = None
    about = _about(request, program) if prepared is None else prepared.launch
    if numbered is not None:
        index, line = numbered(program.name)
        about = replace(about, index=index, source_line=line)
    if prepared is None:
        _refuse_wrong(about, observers)
    memory = given_memory(program.name, args, request.memory)
    with _staged(about, args, memory, observers, red_zones=red_zones) as (about, values, device, staged):
        if observers or program.launches_kernels:
            run = run_with_launches(about, values, replace(device, partly=partly))
        else:
            prepared = prepared or _prepared(about, key)
            run = unobserved(prepared.job(program.pack(values)), program.pack(values), device.placed)
        if run.part is None:
            staged.copy_back(device.memory.clear)
        return run


def _key(request: LaunchRequest) -> Any:
    """What a requested launch is, without its kernel and arguments; None if it is written in an unusual way."""
    numbers = request.grid, request.block, request.shared_bytes, request.seed, request.cluster
    for one in numbers:
        if type(one) not in _NUMBERS and not (type(one) is tuple and set(map(type, one)) == {int}):
            return None
    return (*numbers, request.limits, request.cooperative)


def _prepared(about: Launch, key: Any) -> Prepared:
    """A launch that later ones of its kernel may repeat."""
    made, kept = Prepared(about), about.program.kept
    if key is not None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[key] = made
    return made


def looked_at(request: LaunchRequest, look: Callable[[BlocksAlone], _T]) -> _T:
    """The result of a function that runs some blocks of a launch by themselves; the arguments stay unchanged.

    Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`tilewright.simt.launch`.
    """
    looking = _Looking(look)
    run_request(request, (looking,), partly=True)
    return looking.found[0]


class _Looking(Observer, Generic[_T]):
    """Runs a function with some blocks of a launch, and needs no more."""

    def __init__(self, look: Callable[[BlocksAlone], _T]) -> None:
        self.found: list[_T] = []
        self._look = look

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        """Run it."""
        if alone is not None:
            self.found.append(self._look(alone))
        return True


def _about(request: LaunchRequest, program: Program) -> Launch:
    """The requested launch, with extents of three numbers each that may break rules."""
    blocks, threads = given_extents(program.name, request.grid, request.block)
    return Launch(
        program.name,
        program,
        blocks,
        threads,
        _whole(program.name, request.shared_bytes),
        gpu=request.target,
        limits=request.limits or Limits(),
        seed=request.seed,
        cooperative=request.cooperative or waits_for_grid(program),
        cluster=cluster_extents(program.name, request.cluster),
        written=(request.grid, request.block),
    )


def _whole(name: str, shared_bytes: Any) -> int:
    """A block's dynamic shared memory, which must be a number of bytes."""
    if not isinstance(shared_bytes, int | np.integer) or isinstance(shared_bytes, bool) or shared_bytes < 0:
        raise LaunchError(f"{name}: `shared_bytes` must be a whole number from 0 on (got {shared_bytes!r})")
    return int(shared_bytes)


def _refuse_wrong(about: Launch, observers: Sequence[Observer]) -> None:
    """Refuse a launch that no GPU, or not its GPU, accepts; observers get it first.

    Raises LaunchError: it breaks a rule.
    """
    wrong = next((one.sentence for one in _broken(about)), "")
    if not wrong and about.cooperative:
        wrong = too_many(about.program, about.gpu, about.grid, about.block, about.shared_bytes)
        wrong = f"{wrong}; launch fewer, and let each do several parts in a loop" if wrong else ""
    if not wrong:
        return
    error = LaunchError(f"{about.name}: {wrong}")
    for observer in observers:
        observer.launching(about, None)
    ended(about, observers, None, error)
    raise error


def _broken(about: Launch) -> Iterator[Broken]:
    """The rules that a launch breaks: first those of all GPUs."""
    yield from broken_extents(launch_limits(), about.grid, about.block)
    yield from broken(about.gpu, about.grid, about.block, about.program.shared_bytes, about.shared_bytes)


@contextlib.contextmanager
def _staged(
    about: Launch, args: Sequence[Any], memory: Memory | None, observers: Sequence[Observer], *, red_zones: bool = False
) -> Iterator[tuple[Launch, Sequence[bytes], Device, StagedArguments]]:
    """A launch with its arguments copied in, in a new memory if none is given; and the device that it runs on."""
    program = about.program
    check = functools.partial(program.marshal, args, lambda value: GLOBAL_BASE)
    if memory is not None or observers:  # a wrong argument is refused before memory is allocated
        check()
    size = max(program.param_bytes, 1)
    if variable_bytes := module_bytes(program):
        check_variables(about, variable_bytes)
    kept = memory is not None or red_zones
    own = memory is None and not red_zones
    if own:
        needed = needed_bytes(args) + variable_bytes + room_bytes(program)
        memory = Memory(needed + size + ALIGNMENT_BYTES * 5)
    memory = memory or Memory()
    with contextlib.ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer.in_memory(memory.limit_bytes))
        scene = stack.enter_context(Scene(memory, observers, red_zones=red_zones, own=own))
        # Arrays come last, so that an access past the last one is outside the memory in use.
        module_base = scene.variables(program, kept=kept)
        workspace = scene.workspace(about.cooperative)
        placed = Placed(memory, module_base, scene.parameters(size), workspace)
        try:
            staged = scene.stage(args)
        except ArgumentTypeError:
            check()
            raise
        if observers:
            about = replace(about, arguments=tuple(argument_facts(program, args, staged)))
        device = Device(
            placed,
            observers,
            functools.partial(Program.from_ptx, program.ptx),
            functools.partial(scene.allocate, written=False),
            scene.free,
        )
        yield about, program.marshal(args, staged.address_of), device, staged
