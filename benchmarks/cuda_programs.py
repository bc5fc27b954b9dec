"""Runs a folder of CUDA programs, unmodified, on the simulated GPU, and says which end well.

    python benchmarks/cuda_programs.py FOLDER [FOLDER ...] [--seconds 120] [--only NAME] [--skip NAME] [--flags "..."]

Each folder below that has a `.cu` file is a program. One file alone is given to `tilewright run` as it is; several are
built by NVIDIA's compiler first, and the binary is run. A program ends well when its exit status is 0. NVIDIA's samples
leave with 2 where they find that they do not apply.

For example, NVIDIA's own samples: `git clone https://github.com/NVIDIA/cuda-samples`, then its folder `Samples`; Debian
has them as the package `nvidia-cuda-samples`. Folders named `Common` above a program are searched for headers.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.programs.optional import vendor_program

_WAIVED = 2
_SOURCES = (".cu", ".cpp", ".c")


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    name: str
    status: str
    seconds: float
    reason: str


def programs(folders: Sequence[Path]) -> Iterator[tuple[str, Path, list[Path]]]:
    """Name, folder and sources of each program; of a folder of programs of one file each, every file."""
    for folder in folders:
        for place in sorted({file.parent for file in folder.rglob("*.cu")}):
            sources = sorted(file for file in place.iterdir() if file.suffix in _SOURCES)
            mains = [file for file in sources if " main(" in file.read_text("utf-8", "replace")]
            if len(mains) > 1:
                yield from ((f"{place.name}/{file.stem}", place, [file]) for file in mains if file.suffix == ".cu")
            elif mains:
                yield place.name, place, sources


def ran(place: Path, sources: Sequence[Path], flags: Sequence[str], seconds: float) -> tuple[str, str]:
    """Status and the last words of a program."""
    commons = [f"-I{parent / 'Common'}" for parent in place.parents if (parent / "Common").is_dir()]
    environment = {**os.environ, "NVCC_APPEND_FLAGS": shlex.join([*commons, f"-I{place}", *flags])}
    with tempfile.TemporaryDirectory() as work:
        try:
            program = str(sources[0]) if len(sources) == 1 else built(sources, Path(work), environment)
            command = [sys.executable, "-m", "tilewright", "run", program]
            done = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, text=True, errors="replace", timeout=seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "too long", f"more than {seconds:.0f} s"
        except subprocess.CalledProcessError as error:
            return "not built", next(
                (line for line in error.stderr.splitlines() if "error" in line), error.stderr[-200:]
            )
    words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or [""]
    if done.returncode == 0:
        return "well", ""
    if any("nvcc refused" in line or line.startswith("error: ") for line in words):
        return "refused", next((line for line in words if "error: " in line and "nvcc refused" not in line), words[0])
    return ("waived" if done.returncode == _WAIVED else f"status {done.returncode}"), words[-1]


def built(sources: Sequence[Path], work: Path, environment: dict[str, str]) -> str:
    """A binary of several sources."""
    nvcc = str(vendor_program("nvcc", "NVIDIA's compiler", "Building programs"))
    lib = Path(nvcc).parents[1] / "lib"
    if not (lib / "libcudart.so").exists():  # a wheel has the library by its version alone
        (work / "libcudart.so").symlink_to(next(lib.glob("libcudart.so.*")))
    command = [
        nvcc, "-arch=compute_90", "-lineinfo", "-cudart", "shared", f"-L{work}", f"-L{lib}",
        "-o", str(work / "program"), *map(str, sources),
    ]  # fmt: skip
    subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return str(work / "program")


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--flags", default="-std=c++17")
    options = parser.parse_args()
    outcomes = []
    for name, place, sources in programs([folder.absolute() for folder in options.folders]):
        if name in options.skip or (options.only and name not in options.only):
            continue
        start = time.monotonic()
        status, reason = ran(place, sources, shlex.split(options.flags), options.seconds)
        outcomes.append(Outcome(name, status, time.monotonic() - start, reason))
        print(f"{name:32} {status:10} {outcomes[-1].seconds:6.1f} s  {reason[:150]}", flush=True)
    well = sum(outcome.status == "well" for outcome in outcomes)
    print(f"{well} of {len(outcomes)} ended well")


if __name__ == "__main__":
    main()
