"""Launching a kernel on the simulated GPU."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.gpu import extent
from tilewright.gpu.arguments import array_shape
from tilewright.gpu.program import Program, program_for
from tilewright.simt.events import Instrument
from tilewright.simt.run.execution import Execution
from tilewright.simt.run.kernels import ReadyKernel, kernel_store
from tilewright.simt.run.limits import Limits
from tilewright.simt.run.memory import CAPACITY_BYTES, DeviceArray, Memory
from tilewright.simt.translate.layout import align_up, initial_data
from tilewright.simt.translate.special import SMALL, LaunchClass

#: Most shared memory of a block that any current GPU allows: 227 KiB (CUDA C++ Programming Guide, technical
#: specifications, compute capability 9.0 and 10.0).
SHARED_LIMIT_BYTES = 227 << 10
#: Local memory of a thread, from the same table.
LOCAL_LIMIT_BYTES = 512 << 10

#: Copies of arguments from this size on are given back one by one as they are written back.
_GIVEN_BACK_BYTES = 1 << 20


@dataclass(frozen=True)
class Run:
    """What a launch did.

    Attributes
    ----------
    seconds : float
        Host time of the kernel alone. It is the simulator's speed, never a GPU's.
    translate_seconds : float
        Time until the kernel was machine code.
    cached : bool
        Whether a kept translation was used.
    warp_instructions : int
        PTX instructions, counted once a warp.
    printed : str
        What the kernel printed, in order of blocks and threads.
    results : dict
        Each instrument's result, by its name.
    program : Program
    grid, block : (int, int, int)
    """

    seconds: float
    translate_seconds: float
    cached: bool
    warp_instructions: int
    printed: str
    results: dict[str, Any] = field(repr=False)
    program: Program = field(repr=False)
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def launch(
    kernel: Any,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    instruments: Sequence[Instrument] = (),
    limits: Limits | None = None,
    seed: int | None = None,
    memory: Memory | None = None,
) -> Run:
    """Run a kernel on the simulated GPU and wait for it.

    Parameters
    ----------
    kernel : Program, Python function or numba.cuda.jit object
        The latter two are specialised for the arguments as Numba does.
    grid, block : int or sequence of 1 to 3 int
        Blocks of the grid and threads of a block, x first.
    args : sequence
        NumPy arrays of any strides (copied in, and back unless read-only), `DeviceArray`, numbers.
    shared_bytes : int
        Dynamic shared memory of a block.
    instruments : sequence of Instrument
        Observers; their results are in `Run.results` by name.
    limits : Limits, optional
        When to give up.
    seed : int, optional
        Shuffles the order of blocks, and of warps in a block; without it both ascend.
    memory : Memory, optional
        Global memory to use; that of the `DeviceArray` arguments, or a fresh one, by default.

    Returns
    -------
    Run

    Raises
    ------
    LaunchError, ArgumentTypeError
        A launch that no GPU would accept, or arguments that do not fit the kernel.
    PtxError
        The kernel uses an instruction that the machine does not have.
    KernelError
        The kernel went wrong: an access out of bounds, a deadlock, a limit. NumPy arguments are left as they were.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.gpu import Program
    >>> text = '''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry double_it(.param .u64 x) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    ...   ld.global.u32 %r2, [%rd3]; add.s32 %r2, %r2, %r2; st.global.u32 [%rd3], %r2; ret;
    ... }'''
    >>> x = np.arange(4, dtype=np.int32)
    >>> run = launch(Program.from_ptx(text), 1, 4, (x,))
    >>> x.tolist()
    [0, 2, 4, 6]
    """
    limits = limits or Limits()
    program = program_for(kernel, args)
    blocks, threads = extent.checked(program.name, grid, block)
    if not isinstance(shared_bytes, int) or not 0 <= shared_bytes <= SHARED_LIMIT_BYTES:
        raise LaunchError(
            f"{program.name}: `shared_bytes` must be between 0 and {SHARED_LIMIT_BYTES:,} (got {shared_bytes!r})"
        )
    _check_dimensions(program, grid, block)
    observers = [instrument.name for instrument in instruments]
    if len(set(observers)) < len(observers):
        raise LaunchError(
            f"{program.name}: `instruments` must have names of their own, which results are found by (got "
            f"{', '.join(observers)}); leave one out, or give it another `name`"
        )
    memory = _memory_for(program, args, memory)
    mark = memory.used_bytes
    try:
        return _launch(program, blocks, threads, args, shared_bytes, instruments, limits, seed, memory)
    finally:
        memory.release_to(mark)


def _launch(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[Any],
    shared_bytes: int,
    instruments: Sequence[Instrument],
    limits: Limits,
    seed: int | None,
    memory: Memory,
) -> Run:
    staged = _stage(args, memory)
    values = program.marshal(args, lambda value: staged[id(value)].start)
    params = program.pack(values)
    ready = kernel_store().get(program.ptx, program.entry, _launch_class(program, grid, block, values), instruments)
    layout = ready.translation.layout
    total_shared = align_up(layout.shared_bytes, 16) + shared_bytes if shared_bytes else layout.shared_bytes
    if total_shared > SHARED_LIMIT_BYTES:
        raise LaunchError(
            f"{program.name}: shared memory of a block must be at most {SHARED_LIMIT_BYTES:,} bytes "
            f"(got {layout.shared_bytes:,} static and {shared_bytes:,} dynamic)"
        )
    if layout.local_bytes > LOCAL_LIMIT_BYTES:
        raise LaunchError(
            f"{program.name}: local memory of a thread must be at most {LOCAL_LIMIT_BYTES:,} bytes "
            f"(got {layout.local_bytes:,}); put large arrays in global memory"
        )
    execution = Execution(
        program=program, ready=ready, grid=grid, block=block, memory=memory, params=params,
        shared_bytes=total_shared, dynamic_shared_bytes=shared_bytes, instruments=tuple(instruments), limits=limits,
        seed=seed, module_base=_place_module(program, ready, memory),
    )  # fmt: skip
    start = time.perf_counter()
    execution.run()
    seconds = time.perf_counter() - start
    for item in staged.values():
        item.copy_back(memory)
    return Run(
        seconds, ready.seconds, ready.cached, execution.warp_instructions, execution.printed(),
        execution.results(), program, grid, block,
    )  # fmt: skip


def _check_dimensions(program: Program, grid: int | Sequence[int], block: int | Sequence[int]) -> None:
    """Refuse a launch written with one extent of a kernel that reads its y index: it would do one row only."""
    if (isinstance(grid, Sequence) and len(grid) > 1) or (isinstance(block, Sequence) and len(block) > 1):
        return
    for axis, count in (("z", 3), ("y", 2)):
        if re.search(rf"%(tid|ctaid)\.{axis}\b", _entry_text(program)):
            raise LaunchError(
                f"{program.name}: `grid` and `block` must have {count} extents, for the kernel reads its {axis} index "
                f"(got {grid!r} and {block!r}); pass tuples, with 1 where one thread is meant"
            )


@functools.lru_cache(maxsize=64)
def _entry_text(program: Program) -> str:
    """The PTX from a kernel's entry to the end of its body."""
    found = re.search(rf"\.entry\s+{re.escape(program.entry)}(?![\w$])", program.ptx)
    start = found.start() if found else 0
    end = program.ptx.find("\n}", start)
    return program.ptx[start : end if end > 0 else None]


def _memory_for(program: Program, args: Sequence[Any], memory: Memory | None) -> Memory:
    """The one memory that holds all device arrays of a launch."""
    for index, arg in enumerate(args):
        if isinstance(arg, DeviceArray):
            if memory is not None and arg.memory is not memory:
                raise ArgumentTypeError(
                    f"{program.name}: argument {index} lies in another Memory than the launch's; "
                    "make all arrays of a launch with one Memory"
                )
            memory = arg.memory
    if memory is not None:
        return memory
    needed = sum(arg.nbytes for arg in args if isinstance(arg, np.ndarray))
    return Memory(max(CAPACITY_BYTES, 2 * needed))


@dataclass(slots=True)
class _Staged:
    """A NumPy argument's copy in simulated memory; `start` is the address of its element [0, 0, ...]."""

    start: int
    host: npt.NDArray[Any] | None = None
    device: npt.NDArray[Any] | None = None
    span: tuple[int, int] = (0, 0)  # the copy's address and bytes

    def copy_back(self, memory: Memory) -> None:
        """Write the host's array; the copy's memory is given up first come, first gone, so that the peak stays low."""
        if self.host is not None and self.device is not None:
            self.host[...] = self.device
        if self.span[1] >= _GIVEN_BACK_BYTES:
            memory.clear(*self.span)


def _stage(args: Sequence[Any], memory: Memory) -> dict[int, _Staged]:
    """Copy NumPy arguments to simulated memory, laid out with their own strides; by the argument's id."""
    staged: dict[int, _Staged] = {}
    for arg in args:
        if id(arg) in staged:  # the same array twice is one array on the GPU too
            continue
        if isinstance(arg, DeviceArray):
            staged[id(arg)] = _Staged(arg.address)
        elif isinstance(arg, np.ndarray):
            if arg.dtype.hasobject:  # its elements are host addresses, which a kernel must never hold
                raise ArgumentTypeError(f"array arguments must have a plain dtype (got {arg.dtype})")
            low, high = np.lib.array_utils.byte_bounds(arg) if arg.size else (0, 0)
            address = memory.allocate(max(high - low, 1))
            lead = arg.__array_interface__["data"][0] - low if arg.size else 0
            buffer = memory.view(address, max(high - low, 1))
            device = np.ndarray(arg.shape, arg.dtype, buffer.data, lead, arg.strides) if arg.size else None
            if device is not None:
                device[...] = arg
            writable = arg.flags.writeable and device is not None and not _overlaps_itself(arg)
            host = arg if writable else None
            staged[id(arg)] = _Staged(address + lead, host, device, (address, max(high - low, 1)))
        elif array_shape(arg) is not None:
            raise ArgumentTypeError(
                f"array arguments of a simulated launch must be NumPy arrays or tilewright.simt.DeviceArray "
                f"(got {type(arg).__name__}); copy it with `numpy.asarray` or `Memory.array` first"
            )
    return staged


def _overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Whether elements share bytes (broadcast views): such an array is an input only."""
    return any(stride == 0 and extent > 1 for stride, extent in zip(array.strides, array.shape, strict=True))


def _launch_class(
    program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], values: Sequence[bytes]
) -> LaunchClass:
    """What the translation may assume of this launch."""
    small, offset = set(), 0
    for parameter, value in zip(program.parameters, values, strict=True):
        offset = align_up(offset, parameter.align)
        if parameter.bytes == 4 and parameter.kind == "integer" and int.from_bytes(value, "little") <= SMALL:
            small.add(offset)
        offset += parameter.bytes
    fits = tuple(g * b <= SMALL for g, b in zip(grid, block, strict=True))
    return LaunchClass(block, (fits[0], fits[1], fits[2]), frozenset(small))


def _place_module(program: Program, ready: ReadyKernel, memory: Memory) -> int:
    """Copy module-scope variables into the arena; returns their device address."""
    layout = ready.translation.layout
    base = memory.allocate(max(layout.module_bytes, 1))
    if layout.module_bytes:
        from tilewright.simt.run.kernels import parsed

        module = parsed(program.ptx)
        for offset, data in initial_data(module, module.functions[program.entry], layout, base):
            memory.view(base + offset, len(data))[:] = np.frombuffer(data, np.uint8)
    return base
