"""The programs of kernels: a function for each language compiles a record's."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.multiply.kernels import functors
from tilewright.multiply.problem.dtypes import element

if TYPE_CHECKING:
    from tilewright.multiply.problem.algebra import Semiring
    from tilewright.multiply.problem.expression import Expression
    from tilewright.simulate.programs.program import Program


@functools.lru_cache(maxsize=256)
def python(module: str, kernel: str, dtype: str, cc: tuple[int, int], made: bool) -> Program:
    """Compile a Python kernel for row-major matrices; `made` says that it is a factory over dtypes."""
    from tilewright.simulate.programs.optional import require
    from tilewright.simulate.programs.program import Program

    require("numba.cuda", "Compiling Python kernels")
    function = getattr(require(module, "The kernel"), kernel)
    matrix = f"{dtype}[:, ::1]"
    return Program.from_python(function(dtype) if made else function, f"void({matrix}, {matrix}, {matrix})", cc)


@functools.lru_cache(maxsize=256)
def cuda(
    file: str,
    entry: str,
    dtype: str,
    cc: tuple[int, int],
    family: bool = False,
    finish: Expression | None = None,
    algebra: Semiring | None = None,
    batch: str = "",
) -> Program:
    """Compile a template instance of a CUDA C++ kernel; `TYPE` in `entry` stands for the element type.

    With `family` the code may use instructions that newer GPUs lack. Code made from expressions precedes the kernel's
    text. `batch` is as in :func:`tilewright.multiply.kernels.functors.arguments`.
    """
    from tilewright.simulate.programs.program import Program

    path = Path(__file__).parent / file
    options = (functors.GENERIC, *(f"--gpu-architecture=compute_{cc[0]}{cc[1]}a",) * family)
    entry = entry.replace("TYPE", element(dtype).cuda)
    entry = entry if algebra is None else re.sub("PlusTimes<.*?>", "Algebra", entry)
    entry = f"{', '.join((entry.removesuffix('>'), *functors.arguments(finish, batch)))}>"
    if finish is None and algebra is None:
        return Program.from_cuda(path, entry, cc, options)
    text = f'{functors.source(finish, algebra)}#line 1 "{path}"\n{path.read_text()}'
    return Program.from_cuda(text, entry, cc, (*options, *functors.OPTIONS), path=str(path))


def bits(
    dtype: str,
    cc: tuple[int, int],
    *,
    finish: Expression | None = None,
    algebra: Semiring | None = None,
    batch: str = "",
) -> Program:
    """Compile the kernel for booleans for one of its algebras."""
    parity = algebra is not None and algebra.name == "xor-and"
    return cuda("tensor_core_bits.cu", f"tensor_core_bits<{str(parity).lower()}>", dtype, cc, batch=batch)
