"""How many of a corpus of 96 launches of Triton's kernels run, are right, and have no findings under `check`.

Each kernel of `speed_kernels/triton_corpus.py` is compiled for each of the compute capabilities that it is written for,
and runs as the GPU of that capability; results are compared with NumPy's. `triton` must be importable; it compiles
without a GPU. Findings and errors are printed when they occur. The corpus names true defects; such a kernel
passes if `check` finds its defects and no others.

    python benchmarks/triton_corpus.py [--check] [--capabilities 75,80,90,100] [--kernels matmul] [--json]
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import measuring
import numpy as np

import tilewright as tw
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.programs import Program

#: The GPU that stands for a compute capability.
GPUS = {75: "t4", 80: "a100", 90: "h100", 100: "b200"}
#: Bytes of the driver's numbers of swizzles.
SWIZZLES = (0, 32, 64, 128)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one launch: `wrong` says what failed, or is empty; `findings` are those of `check`."""

    kernel: str
    capability: int
    seconds: float  #: Processor time, without compilation by Triton.
    wrong: str
    findings: tuple[str, ...]  #: As `CODE line: what was found`.
    expected: bool  #: Whether they are the defects that the kernel has.
    instructions: frozenset[str]  #: Asynchronous copies, and those of matrices.


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--check", action="store_true", help="check each launch too")
    parser.add_argument("--capabilities", default="75,80,90,100", help="separated by commas")
    parser.add_argument("--kernels", default="", help="kernels whose names begin so, separated by commas")
    options = parser.parse_args()
    from speed_kernels.triton_corpus import CORPUS

    found = [
        outcome(kernel, capability, check=options.check)
        for capability in map(int, options.capabilities.split(","))
        for kernel in CORPUS
        if kernel.least <= capability and kernel.name.startswith(tuple(options.kernels.split(",")))
    ]
    measuring.publish(
        {"launches": [asdict(one) | {"instructions": sorted(one.instructions)} for one in found]},
        [table(found, checked=options.check)], as_json=options.json, packages=("triton",),
    )  # fmt: skip


def outcome(kernel: Any, capability: int, *, check: bool) -> Outcome:
    """Compile a kernel, run it, compare, and check it; a failure is reported, and stops nothing."""
    name, wrong, findings, seconds, program = f"{kernel.name}, sm_{capability}", "", (), 0.0, None
    codes: set[str] = set()
    try:
        made = compiled(kernel, capability)
        program = Program.from_ptx(made.asm["ptx"])
        given, launch = kernel.given(), {"gpu": GPUS[capability], "shared_bytes": made.metadata.shared}
        shape = given.grid, 32 * made.metadata.num_warps, arguments(kernel, given, made.metadata)
        start = time.process_time()
        tw.simt.launch(program, *shape, **launch)
        seconds = time.process_time() - start
        wrong = difference(given)
        if check:
            again = arguments(kernel, kernel.given(), made.metadata)
            all_found = tw.check(program, *shape[:2], again, **launch)
            codes = {one.code for one in all_found}
            findings = tuple(f"{one.code} {one.line}: {one.opcode}, {one.count} times" for one in all_found)
    except Exception as error:  # whatever it is, the next kernel runs
        wrong = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    for line in (wrong, *findings):
        if line:
            print(f"{name}: {line}", file=sys.stderr)
    expected = codes == set(kernel.defects)
    return Outcome(kernel.name, capability, seconds, wrong, findings, expected, instructions(program))


def compiled(kernel: Any, capability: int) -> Any:
    """Triton's compiled kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(
        fn=kernel.function,
        signature=kernel.types | dict.fromkeys(kernel.constants, "constexpr"),
        constexprs=kernel.constants,
        attrs={(kernel.function.arg_names.index(name),): [["tt.divisibility", 16]] for name in kernel.aligned},
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=kernel.options)


def arguments(kernel: Any, given: Any, metadata: Any) -> tuple[Any, ...]:
    """Arguments as the compiled kernel takes them: descriptors with extents and strides, scratch memory at the end."""
    maps = iter(metadata.tensordesc_meta or ())
    passed: list[Any] = []
    for name, value in zip(kernel.types, given.args, strict=True):
        if name not in kernel.boxes:
            passed.append(value)
            continue
        said = next(maps)
        passed.append(TensorMap(value, tuple(said["block_size"]), SWIZZLES[said["swizzle"]]))
        passed += [np.int32(extent) for extent in value.shape]
        passed += [np.int64(step // value.itemsize) for step in value.strides]
    blocks = int(np.prod(given.grid))
    scratch = metadata.global_scratch_size * blocks
    return (*passed, np.zeros(scratch, np.uint8) if scratch else None, None)


def difference(given: Any) -> str:
    """How far the results are from the expected ones, if too far."""
    for result, truth in zip(given.results, given.truths, strict=True):
        found, true = result.astype(np.float64), np.asarray(truth, np.float64)
        most = np.abs(found - true).max()
        if not most <= given.tolerance * max(np.abs(true).max(), 1):
            return f"results differ by {most:.3g} of {np.abs(true).max():.3g}"
    return ""


def instructions(program: Program | None) -> frozenset[str]:
    """Instructions of newer GPUs, by the beginnings of their names."""
    words = (
        "mma.sync", "wgmma", "tcgen05", "ldmatrix", "stmatrix",
        "cp.async.bulk", "cp.async.c", "mbarrier", "tensormap",
    )  # fmt: skip
    return frozenset(word.removesuffix(".c") for word in words if program and f"{word}" in program.ptx)


def table(found: list[Outcome], *, checked: bool) -> Any:
    """A row for each compute capability, and one for all."""
    rows = []
    asked = sorted({one.capability for one in found})
    for title, ones in [
        *((f"sm_{cc}", [one for one in found if one.capability == cc]) for cc in asked), ("all", found)
    ]:  # fmt: skip
        right = [one for one in ones if not one.wrong]
        used = sorted({name for one in ones for name in one.instructions})
        rows.append((title, len(ones), len(right), *judged(right, checked=checked),
                     ", ".join(used), f"{sum(one.seconds for one in ones):.1f}"))  # fmt: skip
    columns = ("compiled for", "kernels", "right", "of these silent", "defect found", "they use", "processor time, s")
    return measuring.table("Kernels compiled by Triton on the simulated GPU", columns, rows)


def judged(right: list[Outcome], *, checked: bool) -> tuple[object, object]:
    """How many kernels have no findings, and how many have only true ones; none without `--check`."""
    if not checked:
        return "not asked", "not asked"
    as_they_are = [one for one in right if one.expected]
    return sum(not one.findings for one in as_they_are), sum(bool(one.findings) for one in as_they_are)


if __name__ == "__main__":
    main()
