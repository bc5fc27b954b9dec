"""Runs 70 public CUDA programs, unmodified, on the simulated GPU, and says which run and report success.

    python benchmarks/cuda_programs.py FOLDER [--kept FOLDER] [--seconds 300] [--only NAME] [--skip NAME] [--gpu h100]

`cuda_programs.toml` names the programs, where each is below the folder, and how it is built and started. The files
belong to their authors: put NVIDIA's samples (Debian's package `nvidia-cuda-samples` 12.5, or release 12.5 of
github.com/NVIDIA/cuda-samples) and Thrust's examples (Debian's source package `rocthrust` 6.4, which has
them unchanged) into it, unpacked, at any depth.

NVIDIA's compiler builds each program for PTX, as the program's makefile does, and the binary is run. `--kept` keeps the
binaries for the next time. Seconds are of processor time. A program succeeds if its status is 0 and it prints the words
that its row expects.
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.frontends.programs import process, source
from tilewright.simulate.programs.toolkits import vendor_program

_LIST = Path(__file__).with_suffix(".toml")
_SOURCES = (".cu", ".cpp", ".c")


@dataclass(frozen=True)
class Program:
    """One row of the list."""

    name: str
    place: str  #: Its folder, below the given one.
    sources: tuple[str, ...] = ()  #: Files that are compiled together; none for all of the folder.
    flags: tuple[str, ...] = ()  #: The compiler's, beside those of all programs.
    modules: tuple[tuple[str, str], ...] = ()  #: Fat binaries that it loads, and the source of each.
    arguments: tuple[str, ...] = ()
    says: str = ""  #: What it prints on success.

    @classmethod
    def of(cls, row: dict[str, Any]) -> Program:
        """A row as TOML has it."""
        row = {**row, "modules": tuple(row.get("modules", {}).items())}
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})

    def folder(self, top: Path) -> Path:
        """Its folder. Raises FileNotFoundError: it is not there."""
        found = next((path for path in sorted(top.glob(f"**/{self.place}")) if path.is_dir()), None)
        if found is None:
            raise FileNotFoundError(f"{self.place} must lie below {top}")
        return found

    def built(self, top: Path, kept: Path, environment: dict[str, str]) -> Path:
        """Its binary, in its own folder.

        Raises CalledProcessError: the compiler refuses it.
        """
        folder, made = self.folder(top), kept / self.name.replace("/", "_")
        made.mkdir(parents=True, exist_ok=True)
        program = made / folder.name if not self.sources else made / Path(self.sources[0]).stem
        files = [folder / name for name in self.sources] or [
            file for file in sorted(folder.iterdir()) if file.suffix in _SOURCES
        ]
        commons = [parent / "Common" for parent in folder.parents if (parent / "Common").is_dir()]
        include = [f"-I{path}" for path in (folder, *commons)]
        for module, text in self.modules:
            _compile(["-fatbin", *include, "-o", made / module, folder / text], environment)
        if not program.exists():
            _compile([*include, *self.flags, "-o", program, *files], environment)
        return program

    def ran(self, program: Path, top: Path, gpu: str, seconds: float, environment: dict[str, str]) -> str:
        """Why it failed; empty if it succeeded."""
        command = [sys.executable, "-m", "tilewright", "run", "--gpu", gpu, str(program), *self.arguments]
        place = program.parent if self.modules else self.folder(top)
        try:
            done = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, text=True, errors="replace",
                timeout=10 * seconds, check=False, preexec_fn=functools.partial(_limited, int(seconds)),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"more than {10 * seconds:.0f} s"
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"more than {seconds:.0f} s of processor time"
        if done.returncode == 0 and self.says in done.stdout:
            return ""
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or [""]
        refused = next((line for line in words if line.startswith("tilewright: ")), words[-1])
        return f"status {done.returncode}: {refused}"


def _limited(seconds: int) -> None:
    """Limit a child's processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _used() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compile(words: Sequence[str | Path], environment: dict[str, str]) -> None:
    """Call NVIDIA's compiler. Raises CalledProcessError: with what it says."""
    nvcc = vendor_program("nvcc", "NVIDIA's compiler", "Building programs")
    libraries = nvcc.parents[1] / "lib"
    with tempfile.TemporaryDirectory() as work:
        for file in libraries.glob("libnv*.so.*"):  # a wheel has only versioned names of libraries
            (Path(work) / f"{file.name.partition('.so')[0]}.so").symlink_to(file)
        process.library().placed(Path(work))
        command = [
            str(nvcc), "-std=c++17", "-arch=compute_90", "-lineinfo", "-cudart", "shared", f"-L{work}",
            f"-L{libraries}",
            *(() if "-fatbin" in words else ("-lcuda",)), *source.HEADERS, *map(str, words),
        ]  # fmt: skip
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    top, counts = options.folder.absolute(), Counter[str]()
    libraries = vendor_program("nvcc", "NVIDIA's compiler", "Building programs").parents[1] / "lib"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    with tempfile.TemporaryDirectory() as temporary:
        kept = options.kept.absolute() if options.kept else Path(temporary)
        for row in tomllib.loads(_LIST.read_text("utf-8"))["program"]:
            program = Program.of(row)
            if program.name in options.skip or (options.only and program.name not in options.only):
                continue
            start = _used()
            try:
                binary = program.built(top, kept, environment)
            except subprocess.CalledProcessError as error:
                why = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr[-200:])
                why = f"not built: {why}"
            else:
                start = _used()
                why = "" if options.build_only else program.ran(binary, top, options.gpu, options.seconds, environment)
            counts["failed" if why else "well"] += 1
            print(f"{program.name:26} {_used() - start:6.1f} s  {why[:180] or 'well'}", flush=True)
    print(f"{counts['well']} of {counts.total()} ran to their own end")


if __name__ == "__main__":
    main()
