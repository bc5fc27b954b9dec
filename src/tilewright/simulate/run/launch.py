"""Launching a kernel on the simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.errors import ArgumentTypeError, KernelError, LaunchError
from tilewright.ground.lazy_exports import public
from tilewright.simulate.events import Instrument
from tilewright.simulate.launch_request import Extents, LaunchRequest, Limits
from tilewright.simulate.observer import Launch, Observer, Run
from tilewright.simulate.run.memory import Memory
from tilewright.simulate.run.staged_launch import launched


@public
def launch(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    shared_bytes: int = 0,
    instruments: Sequence[Instrument] = (),
    limits: Limits | None = None,
    seed: int | None = None,
    memory: Memory | None = None,
    gpu: str | None = None,
    *,
    cooperative: bool = False,
    cluster: Extents | None = None,
) -> Run:
    """Run a kernel on the simulated GPU and wait for it.

    Parameters
    ----------
    kernel : Program, Python function or numba.cuda.jit object
        The latter two are specialised for the arguments as Numba does.
    grid, block : int or sequence of 1 to 3 int
        Blocks of the grid and threads of a block, x first.
    args : sequence
        NumPy arrays of any strides (copied in, and back unless read-only; views that share elements share memory),
        `DeviceArray`, or numbers; None is a null pointer.
    shared_bytes : int
        Dynamic shared memory of a block.
    instruments : sequence of Instrument
        Observers; their results are in `Run.results` by name.
    limits : Limits, optional
        Limits of instructions and time.
    seed : int, optional
        The order of blocks, and of warps in a block: 0 ascends, as without a seed, and 1 descends. With 2, warps also
        give way to each other before every atomic, volatile, relaxed or stronger access. Others are random. A launch
        with a seed takes one host thread if its threads talk to each other by such accesses, so it repeats exactly.
    memory : Memory, optional
        Global memory to use; by default that of the `with` block or of the `DeviceArray` arguments, or else a fresh
        one. It keeps the variables of C++ and PTX programs from launch to launch.
    gpu : str, optional
        GPU whose limits apply, by its name in `tilewright gpus`; `TILEWRIGHT_GPU`, or the H100, by default.
    cooperative : bool
        Whether the grid's blocks may wait for each other (`cooperative_groups::this_grid().sync()`). Such a grid must
        not have more blocks than the GPU holds at once. Numba kernels that do so are always launched this way.
    cluster : int or sequence of 1 to 3 int, optional
        Blocks of a cluster, at most 16 in all; the grid must be a multiple of it. The default is the kernel's own
        (`__cluster_dims__`).

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
        The kernel failed: an access out of bounds, a deadlock, a limit. NumPy arguments are unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.programs import Program
    >>> text = '''
    ... .version 8.0 .target sm_90 .address_size 64
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
    request = LaunchRequest(kernel, grid, block, args, shared_bytes, limits, seed, memory, gpu, cooperative, cluster)
    return OfCaller(instruments).launched(request)


class OfCaller(Observer):
    """The instruments of a caller: they watch its launch, and not those that its kernel makes."""

    as_given = True

    def __init__(self, instruments: Any) -> None:
        self.results: dict[str, Any] = {}
        self._instruments = _checked(instruments)

    def launched(self, request: LaunchRequest, *, partly: bool = False) -> Run:
        """Run a requested launch with them.

        Raises LaunchError, ArgumentTypeError, PtxError, KernelError: as :func:`launch`.
        """
        try:
            run = launched(request, (self,) if self._instruments else (), partly=partly)
        except KernelError as error:
            error.results = self.results
            raise
        return replace(run, results=self.results) if run.results else run

    def instruments(self, launch: Launch) -> Sequence[Instrument]:
        """The instruments, once."""
        given, self._instruments = self._instruments, ()
        return given

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        """Keep the results of the first launch."""
        found = run.results if run is not None else getattr(error, "results", {})
        self.results = self.results or found


def _checked(instruments: Any) -> tuple[Instrument, ...]:
    """Instruments of different names."""
    if not isinstance(instruments, Sequence):
        raise ArgumentTypeError(
            f"`instruments` must be a sequence (got {instruments!r}); write instruments=(x,) for one"
        )
    for i, instrument in enumerate(instruments):
        if not isinstance(instrument, Instrument):
            raise ArgumentTypeError(
                f"`instruments[{i}]` must be an instrument (got {instrument!r}), as tilewright.instruments.Banks()"
            )
    names = [instrument.name for instrument in instruments]
    if len(set(names)) < len(names):
        raise LaunchError(
            f"`instruments` must have different names, since results are found by name (got {', '.join(names)}); leave "
            "one out, or give it another `name`"
        )
    return tuple(instruments)
