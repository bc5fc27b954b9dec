"""CUDA C++ classes for a kernel's algebra and epilogue, made from traced expressions.

An epilogue becomes the class `Finish`, which is called with a sum and its place in C. An algebra becomes `Algebra`,
with the start value and a step of sums. Their text is that of OpenCL's kernels (`problem.c_text`) with CUDA's type
names; `expressions.cuh` defines OpenCL's functions. Only `fma` is fused: `OPTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.c_text import algebra, function, helpers
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression

Array = npt.NDArray[Any]
#: NVRTC's options: a product and a sum stay two roundings.
OPTIONS = ("--fmad=false",)
#: Without this option NVRTC 13.0 takes a generic lambda for a function of the host, and refuses it.
GENERIC = "--device-as-default-execution-space"
#: CUDA C++ names for OpenCL C's types, with the same sizes and signs on every system, and for function qualifiers.
_NAMES = {
    "inline": "__device__ inline", "char": "signed char", "uchar": "unsigned char", "ushort": "unsigned short",
    "uint": "unsigned", "long": "long long", "ulong": "unsigned long long", "half": "half_bits",
}  # fmt: skip
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b")


def renamed(text: str) -> str:
    """OpenCL C with CUDA's type names.

    >>> renamed("inline ulong f(char x)")
    '__device__ inline unsigned long long f(signed char x)'
    """
    return _NAME.sub(lambda found: _NAMES[found[0]], text)


def source(finish: Expression | None, semiring: Semiring | None) -> str:
    """The classes of a kernel, which precede its text."""
    made = "\n".join(([] if semiring is None else _algebra(semiring)) + ([] if finish is None else _finish(finish)))
    needed = map(renamed, helpers(made))
    return "\n".join(('#include "finish.cuh"', '#include "expressions.cuh"', *needed, made, ""))


def arguments(finish: Expression | None, batch: str = "") -> tuple[str, ...]:
    """Further template arguments of a kernel: C's element type, the class, and types of its members.

    `batch` is C's type, where `finish` is None, of a kernel for many products; "alone" if it takes no epilogue.
    """
    of_batch = ("int", "int", *("long long",) * 6) if batch else ()
    if finish is None:
        plain = () if not batch else ("InBatch<Alone>",) if batch == "alone" else (batch, f"InBatch<Rounded<{batch}>>")
        return *plain, *of_batch
    operands = (f"const {renamed(element(name).c_memory)} *" for _, name in finish.parameters[1:])
    more = (text for operand in operands for text in (operand, *("long long",) * 4))
    return _stored(finish.dtype), "InBatch<Finish>" if batch else "Finish", *of_batch, *more


def _stored(name: str) -> str:
    """The C++ type of an element of C; a class for floats that are stored as bits."""
    made = renamed(element(name).c_memory)
    return made if element(name).carried is None else f"Stored<{made}>"


def operands(more: Sequence[Array]) -> tuple[Any, ...]:
    """Arguments of a launch for the operands of an epilogue, each of C's shape: arrays and strides in elements.

    >>> row = np.broadcast_to(np.ones(3, np.float32), (2, 3))
    >>> [int(step) for step in operands([row])[1:]]
    [0, 0, 0, 1]
    """
    found: list[Any] = []
    for given in more:
        x = given.copy() if any(stride % given.itemsize for stride in given.strides) else given
        steps = [stride // x.itemsize for stride in x.strides]
        found += [x, *(np.int64(step) for step in (*(0,) * (4 - len(steps)), *steps))]
    return tuple(found)


def batch(a: Array, b: Array, c: Array, in_boxes: bool = False) -> tuple[Any, ...]:
    """Arguments of a launch for products along the two axes before the last two of A, B and C.

    `in_boxes` says that tensor maps have A's and B's distances.

    >>> a, b = np.zeros((3, 2, 4, 5), np.float32), np.broadcast_to(np.zeros((5, 4), np.float32), (3, 2, 5, 4))
    >>> [int(one) for one in batch(a, b, np.zeros((3, 2, 4, 4), np.float32))]
    [3, 2, 40, 20, 0, 0, 32, 16]
    """
    of_operands = [stride // x.itemsize for x in (a, b) for stride in x.strides[:2]]
    steps = [int(step != 0) for step in of_operands] if in_boxes else of_operands
    return *map(np.int32, c.shape[:2]), *(
        np.int64(step) for step in (*steps, *(x // c.itemsize for x in c.strides[:2]))
    )


def _algebra(semiring: Semiring) -> list[str]:
    made = renamed(element(semiring.dtype).c)
    functions, step = algebra(semiring)
    return [
        *map(renamed, functions),
        f"""struct Algebra {{
    __device__ static {made} start() {{ return zero(); }}
    __device__ static {made} step({made} c, {made} a, {made} b) {{ return {step}; }}
}};""",
    ]


def _finish(finish: Expression) -> list[str]:
    total, *rest = (name for _, name in finish.parameters)
    types = [renamed(element(name).c_memory) for name in rest]
    members = "".join(
        f"    const {made} *x{i};\n    long long outer{i}, inner{i}, row{i}, column{i};\n"
        for i, made in enumerate(types)
    )
    moves = "".join(f" x{i} += y * outer{i} + x * inner{i};" for i in range(len(types)))
    read = "".join(
        f", read_within(x{i} + (y * row{i} + x * column{i}), inside){' != 0' * (name == 'bool')}"
        for i, name in enumerate(rest)
    )
    return [
        renamed(function("finish", finish)),
        f"""struct Finish {{
{members}    __device__ void advance(int y, int x) {{{moves} }}
    __device__ {_stored(finish.dtype)} operator()({renamed(element(total).c)} sum, int y, int x, bool inside) const {{
        return {{finish(sum{read})}};
    }}
}};""",
    ]
