"""The corpus of kernels by which the checker is judged.

`correct/` holds correct kernels of many kinds, one a file. `defects/` holds, in each file, one mistake that people make
and its clean twin. Every file is read alone and leaves `CASES`, a tuple of :class:`case.Case`.

`verdicts/` holds, in each file, kernels of one kind, made of few sources and many arguments, each with a verdict and
its argument; no reference and no line. `precision.py` counts what `check` finds of these, of `defects/` and of the
litmus tests.

To add a case, add a file: nothing else names it. Write the kernel in Python with `numba.cuda`, or in CUDA C++ or PTX as
a raw string given to `case.cuda_cpp(__file__, SOURCE, "entry")` or `case.ptx(...)`. State the launch, the arguments and
a NumPy reference. In `defects/` mark the defective case with `defective=True`, and end each line that must be reported
with a comment `finds: TW301` or `finds: TW101, TW602` (after `#`, or `//` in C++ and PTX). What counts as the line:

- of an access, a barrier or an operation: the line it stands on;
- of a race: the line of the write, or the later line where both write (an atomic does); two lines that race in several
  ways have one finding, the widest: between blocks, between warps, between lanes;
- of a read of what was never set: the line of the read;
- of threads that left before a barrier, or do not come to it: the barrier;
- of a launch (TW5xx): the line that launches in `scripts/`; elsewhere that of the kernel's `def`, or its name in C++.

Keep one mistake a file and the rest of the kernel clean, sums in the arrays' own dtype included.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path

from case import Case

HERE = Path(__file__).resolve().parent
_FINDS = re.compile(r"(?:#|//) finds: (TW\d{3}(?:, TW\d{3})*)$")


def files(folder: str) -> list[Path]:
    """The files of `correct`, `defects` or `scripts`, in order."""
    return sorted((HERE / folder).glob("*.py"))


def cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file; it is imported once."""
    name = f"corpus_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Numba looks a kernel's module up by name
        spec.loader.exec_module(module)
    found: tuple[Case, ...] = sys.modules[name].CASES
    return found


def commented(path: Path) -> frozenset[tuple[int, str]]:
    """(line, code) of each `finds:` comment of a file."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    marks = ((number, _FINDS.search(line)) for number, line in lines)
    return frozenset((number, code) for number, mark in marks if mark for code in mark[1].split(", "))


def expected(case: Case) -> frozenset[tuple[int, str]]:
    """(line, code) of each finding that a case must give; none where it is not defective."""
    if not case.defective:
        return frozenset()
    if not case.finds:
        return commented(case.path)
    lines, first = inspect.getsourcelines(case.kernel.py_func)
    return frozenset(
        (number, code) for number, line in enumerate(lines, first) for code in case.finds.get(line.strip(), ())
    )
