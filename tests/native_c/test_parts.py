"""The C parts without Python: each `test_*.c` is a program that includes the files it tests, and must end with 0.

The system's compiler builds them here, with one group of sanitizers after the other; `make sanitize` adds the
compiler that makes the bitcode.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.ground.native.clang import WARNINGS, ziglang

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "tilewright"
PROGRAMS = sorted(HERE.glob("test_*.c"))
#: A program without threads has no races, so `make sanitize` alone has the thread sanitizer look at it.
RUNS = [
    pytest.param(
        program,
        sanitizers,
        marks=[pytest.mark.volume] if sanitizers == "thread" and "pthread_create" not in program.read_text() else [],
        id=f"{program.stem}-{sanitizers}",
    )
    for program in PROGRAMS
    for sanitizers in ("address,undefined", "thread")
]
SYSTEM = shutil.which("cc")
#: A sanitizer's findings end the program.
FLAGS = (
    "-std=c11",
    "-O1",
    "-g1",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-sanitize-recover=all",
    "-Wno-psabi",
    "-pthread",
    "-lm",
)


@functools.cache
def fixed_layout() -> tuple[str, ...]:
    """The thread sanitizer wants its memory where a randomised layout may have put something else."""
    prefix = ("setarch", os.uname().machine, "-R")
    if shutil.which(prefix[0]) is None or subprocess.run([*prefix, "true"], check=False).returncode:
        return ()
    return prefix


def run(program: Path, compiler: list[str], sanitizers: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile and run."""
    binary = folder / "program"
    command = [*compiler, *FLAGS[:-1], *WARNINGS[:-1], f"-fsanitize={sanitizers}", f"-I{SOURCE}", f"-I{HERE}"]
    made = subprocess.run([*command, program, "-o", binary, FLAGS[-1]], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return subprocess.run(
        [*(fixed_layout() if sanitizers == "thread" else ()), binary],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.skipif(SYSTEM is None, reason="there is no C compiler")
@pytest.mark.parametrize(("program", "sanitizers"), RUNS)
def test_program(program: Path, sanitizers: str, tmp_path: Path) -> None:
    assert SYSTEM is not None
    done = run(program, [SYSTEM], sanitizers, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.volume
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="`make runtime` installs the compiler")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program_with_the_compiler_of_the_bitcode(program: Path, tmp_path: Path) -> None:
    done = run(program, ziglang(), "undefined", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(SYSTEM is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("sanitizers", "body"),
    [
        ("address,undefined", "int *x = calloc(2, 4); return x[2];"),
        ("address,undefined", "int x = 40; return 1 << x;"),
        ("address,undefined", "CHECK(1 == 2); return 0;"),
        ("thread", "pthread_t t; pthread_create(&t, 0, add, 0); add(0); pthread_join(t, 0); return 0;"),
    ],
)
def test_the_sanitizers_see(sanitizers: str, body: str, tmp_path: Path) -> None:
    assert SYSTEM is not None
    program = tmp_path / "wrong.c"
    adds = "static int n; static void *add(void *x) { for (int i = 0; i < 1000; i++) n++; return x; }"
    program.write_text(f'#include <pthread.h>\n#include "check.h"\n{adds}\nint main(void) {{ (void)add; {body} }}\n')
    assert run(program, [SYSTEM], sanitizers, tmp_path).returncode != 0
