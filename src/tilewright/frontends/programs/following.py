"""Runs a CUDA program, from source or as a binary, with observers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tilewright.frontends.programs import binary, process, source
from tilewright.frontends.script import Ended
from tilewright.frontends.target import NoProgramError
from tilewright.frontends.this_process import ThisProcess
from tilewright.ground.native import secure_files
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import Observer


def run_followed(
    text: str,
    argv: Sequence[str],
    gpu: str,
    observers: Sequence[Observer] = (),
    *,
    seed: int | None = None,
    limits: Limits | None = None,
) -> Ended:
    """Run a program on its own simulated GPU, and wait for it. Words for its compiler may come before its arguments.

    Raises NoProgramError: it cannot be read, or cannot run here; MissingExtraError, CompileError: it cannot be
    compiled.
    """
    path = Path(text)
    if not path.is_file():
        raise NoProgramError(f"SCRIPT must be a CUDA program (got {path}, which is no file); name a file")
    library = process.library()
    device = SimulatedGpu(ThisProcess(), gpu, observers, seed, limits, process.shared_addresses())
    device.line = str  # the program's lines are not known, and those of this process are not its
    try:
        with secure_files.working_folder() as folder:
            if path.suffix == ".cu":
                options, argv = source.compiler_words(argv)
                made, name = source.compiled(path, device.record, library, folder, options), str(path.with_suffix(""))
                device.with_arrays = functools.partial(source.with_arrays, path, device.record, folder, options)
            else:
                for reason in binary.check(path):
                    process.report(f"{path} uses {reason}: its calls will fail")
                made, name = path, text
            return process.run(library, made, argv, device, name)
    finally:
        device.close()
        device.addresses.addresses.arena.close()
