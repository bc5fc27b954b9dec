"""PTX instructions as functions for kernels of numba-cuda, on a real or the simulated GPU.

`from tilewright.gpu.intrinsics import ldmatrix_x4` needs numba-cuda, which is imported only then. `docs/intrinsics.md`
lists the functions, their arguments and the GPUs that have them; `help` shows this for one.

Examples
--------
>>> import numpy as np
>>> from numba import cuda
>>> import tilewright as tw
>>> from tilewright.gpu.intrinsics import ld_global_v4_b32
>>> def sums(x, out):
...     i = cuda.grid(1)
...     a, b, c, d = ld_global_v4_b32(x, 4 * i)
...     out[i] = a + b + c + d
>>> out = np.zeros(2, np.float32)
>>> kernel = tw.programs.Program.from_python(sums, "void(float32[::1], float32[::1])")
>>> _ = tw.simt.launch(kernel, 1, 2, (np.arange(8, dtype=np.float32), out))
>>> out.tolist()
[6.0, 22.0]
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.simulate.intrinsics import asynchronous, matrices, tensors, vectors, warpgroups
from tilewright.simulate.intrinsics.operands import Record
from tilewright.simulate.intrinsics.warpgroups import matrix_layout
from tilewright.simulate.programs.optional import require

__all__ = ["find", "matrix_layout", "records"]
_PURPOSE = "Intrinsics of kernels"


def records() -> tuple[Record, ...]:
    """All intrinsics, in the order of the documentation.

    Examples
    --------
    >>> records()[0].form
    'ld.global.v2.b32 {value}, [source];'
    """
    return tuple(record for of in (vectors, asynchronous, tensors, matrices, warpgroups) for record in of.RECORDS)


def find(name: str) -> Record:
    """The record of an intrinsic.

    Raises
    ------
    ArgumentValueError
        There is no such intrinsic.

    Examples
    --------
    >>> find("ldmatrix_x4").cc
    (7, 5)
    """
    for record in records():
        if record.name == name:
            return record
    raise ArgumentValueError.of_name("an intrinsic", name, [record.name for record in records()])


def __getattr__(name: str) -> Any:
    """An intrinsic, made for numba-cuda at its first use."""
    if name.startswith("_") or not any(record.name == name for record in records()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; docs/intrinsics.md lists the intrinsics")
    require("numba.cuda", _PURPOSE)
    made = require("tilewright.simulate.intrinsics.numba_cuda", _PURPOSE).intrinsic_of(find(name))
    return globals().setdefault(name, made)


def __dir__() -> list[str]:
    return sorted({*__all__, *(record.name for record in records())})
