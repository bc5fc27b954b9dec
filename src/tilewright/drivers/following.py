"""Running a program with an observer, as the commands do that report what its kernels did."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.drivers.children import in_children
from tilewright.drivers.cuda_programs.following import run_followed
from tilewright.drivers.script import Ended, run_program
from tilewright.drivers.session import simulated_gpu
from tilewright.drivers.target import Target
from tilewright.simt.observer import Observer
from tilewright.simt.run.limits import Limits


def follow(
    target: Target,
    argv: Sequence[str],
    observer: Observer | None,
    gpu: str,
    *,
    seed: int | None = None,
    limits: Limits | None = None,
    quiet: bool = False,
) -> Ended:
    """Run a program on a simulated GPU; the processes that it starts have one too.

    `observer` hears of all that the program does on its GPU, if there is one, and in the end of what its like saw in
    those processes, where it wants that. `quiet` sends what it prints to standard
    error.
    Returns and raises what :func:`~tilewright.drivers.script.run_program` does, or of a CUDA program
    :func:`~tilewright.drivers.cuda_programs.following.run_followed`.
    """
    if target.is_cuda:
        with _output_as_errors() if quiet else contextlib.nullcontext():
            return run_followed(target.text, argv, gpu, (observer,) if observer else (), seed=seed, limits=limits)
    with in_children(gpu, seed, limits, observer) as others:
        with (
            _output_as_errors() if quiet else contextlib.nullcontext(),
            simulated_gpu(gpu, observers=(observer, others) if observer else (), seed=seed, limits=limits),
        ):
            ended = run_program(target, argv)
        for report in others.reports:
            assert observer is not None
            observer.take_report(report)
        return replace(ended, children_launched=others.any)


@contextlib.contextmanager
def _output_as_errors() -> Iterator[None]:
    """Let all that is written to standard output go to standard error, also by C code and by child processes."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # one of them is closed: nobody writes there
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield
