"""Runs a program with an observer, for the commands that report on its kernels."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.frontends.children import in_children
from tilewright.frontends.programs.binary import is_cuda
from tilewright.frontends.script import Ended, run_program
from tilewright.frontends.session import simulated_gpu
from tilewright.frontends.target import Target
from tilewright.ground import garbage
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import Observer


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
    """Run a program on a simulated GPU; the processes that it starts get one too.

    `observer`, if any, follows everything that the program does on its GPU. At the end it gets the reports of the
    observers in those processes, if it takes reports. `quiet` redirects the program's standard output to
    standard error.

    Returns and raises: as :func:`~tilewright.frontends.script.run_program`, or for a CUDA program as
    :func:`~tilewright.frontends.programs.following.run_followed`.
    """
    garbage.collect()
    if is_cuda(target):
        from tilewright.frontends.programs.following import run_followed

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
    """Redirect standard output to standard error, also for C code and child processes."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # one of them is closed: nothing writes there
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield
