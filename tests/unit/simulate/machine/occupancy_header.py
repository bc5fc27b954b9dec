"""The vendor's occupancy header as a function: NVRTC compiles it to PTX, which the simulated GPU runs, a thread a case.

It needs no C compiler, and answers a hundred thousand cases in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tilewright import simt
from tilewright.programs import Program
from tilewright.simulate.machine.gpu import Gpu, gpus

INT_MAX = 2**31 - 1
#: Fields of a question about a kernel, in the order in which the reference reads them.
FIELDS = (
    "block", "dynamic", "most_threads", "registers", "static", "dynamic_limit", "optin", "partitioned", "barriers",
    "virtual", "carveout", "preference",
)  # fmt: skip
#: A kernel whose only limits are those that a test changes. -1 is the header's "no preference".
PLAIN = dict.fromkeys(FIELDS, 0) | {
    "block": 32, "most_threads": INT_MAX, "optin": 1, "dynamic_limit": 1 << 20, "carveout": -1,
}  # fmt: skip
#: `cudaOccCacheConfig`, by our names.
CACHE_CONFIG = {None: 0, "shared": 1, "l1": 2, "equal": 3}
#: Cases of one launch: with more, the kernel would be translated again for larger numbers.
CHUNK = 1 << 14
#: Answers to each question.
ANSWERS = {"occupancy": 12, "suggestion": 3, "room": 2}
#: One product of each compute capability; nothing else matters to the header.
ONE_EACH = tuple({record.compute_capability: record for record in gpus().values()}.values())

Answer = Callable[[Gpu, Sequence[dict[str, int]]], list[list[int]]]


def name(record: Gpu) -> str:
    """The name of a test's case."""
    return "{}.{}".format(*record.compute_capability)


def header(question: str, folder: Path, only: Gpu | None = None) -> Answer:
    """One of the header's functions: (gpu, cases) to a row of answers a case, the status first.

    With `only`, one GPU, there is less to compile: the header's loops over blocks would take minutes to translate.
    """
    for file, text in (("stddef.h", ""), ("string.h", ""), ("limits.h", f"#define INT_MAX {INT_MAX}")):
        folder.joinpath(file).write_text(text + "\n")  # of the host's headers, which NVRTC lacks, it uses no more
    source = Path(__file__).with_name("occupancy_reference.cu")
    options = [f"-I{folder}"]
    if only:
        major, minor = only.compute_capability
        options += [f"-DMAJOR={major}", f"-DMINOR={minor}"]
    program = Program.from_cuda(source, question, options=options, lineinfo=False)

    def answer(record: Gpu, cases: Sequence[dict[str, int]]) -> list[list[int]]:
        device = (
            *record.compute_capability,
            record.launch.threads_per_block,
            record.threads_per_multiprocessor,
            record.registers_per_block,
            record.registers_per_multiprocessor,
            record.launch.shared_per_block_bytes,
            record.shared_per_multiprocessor_bytes,
            record.multiprocessors,
            record.shared_per_block_optin_bytes,
            record.shared_reserved_bytes,
        )
        found: list[list[int]] = []
        for start in range(0, len(cases), CHUNK):
            chunk = cases[start : start + CHUNK]
            rows = np.empty((len(device) + len(FIELDS), len(chunk)), np.int32)
            rows[: len(device)] = np.array(device)[:, None]
            rows[len(device) :] = np.array([[case[field] for field in FIELDS] for case in chunk], np.int32).T
            out = np.full((ANSWERS[question], len(chunk)), -1, np.int32)
            simt.launch(program, -(-len(chunk) // 128), 128, (rows, out, len(chunk)))
            found += out.T.tolist()
        return found

    return answer
