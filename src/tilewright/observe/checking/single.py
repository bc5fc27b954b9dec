"""Checks one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from tilewright.errors import KernelError, LaunchError
from tilewright.ground.lazy_exports import public
from tilewright.observe.checking import suppressions
from tilewright.observe.checking.causes import Findings
from tilewright.observe.checking.checker import Checks
from tilewright.simulate.launch_request import Extents, LaunchOptions, LaunchRequest
from tilewright.simulate.run.staged_launch import run_request


@public
def check(
    kernel: Any,
    grid: Extents,
    block: Extents,
    args: Sequence[Any],
    *,
    ignore: Sequence[str] = (),
    strict: bool = False,
    schedules: int = 3,
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
    strict : bool
        Whether to report races that today's GPUs get right, too: lanes of a warp in lockstep through volatile memory
        (TW311), threads that write one value (TW312), and volatile data of warps and blocks that nothing orders
        (TW313). Without it the report counts them in a line.
    schedules : int
        More orders of blocks and warps in which the kernel runs, each on the memory that it began with, if its findings
        can depend on the order: where it reads a flag without waiting for it, takes tickets, or tries a lock. What only
        another order shows is reported with its seed. Results in arrays are those of the first run.
    **options
        `shared_bytes`, `gpu`, `seed`, `limits`, `memory`, `cooperative` and `cluster`, as for
        :func:`tilewright.simt.launch`. Findings do not depend on `seed` where those orders show all that can happen;
        they are a few of many, so a rare one may need another `seed`, or more `schedules`.

    Returns
    -------
    Findings
        A tuple of :class:`Finding`, in source order; empty if nothing was found. `str()` and notebooks show it as
        `tilewright check` does. Comments `tilewright: ignore[CODE]` apply.

    Raises
    ------
    ArgumentValueError
        There is no such code or GPU, or `schedules` is negative.
    TilewrightError
        As :func:`tilewright.simt.launch`, if the error is no finding: a limit, `__trap()`, arguments that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from tilewright.programs import Program
    >>> fill = Program.from_cuda('extern "C" __global__ void fill(int *x) { x[threadIdx.x] = 1; }', "fill")
    >>> [f.code for f in check(fill, 1, 32, (np.zeros(32, np.int32),))]
    []
    >>> [f.code for f in check(fill, 1, 33, (np.zeros(32, np.int32),))]
    ['TW101']
    """
    suppressions.checked(ignore)
    request = LaunchRequest.by("check", kernel, grid, block, args, options)
    request.check_options()
    checks = Checks(gpu=request.gpu, ignore=ignore, strict=strict, schedules=schedules)
    try:
        run_request(request, (checks,))
    except (KernelError, LaunchError):
        if checks.unchecked or not checks.launches:  # no finding explains it
            raise
    return Findings(checks.findings, held=checks.sifted.held)
