"""The operands of intrinsics, and the record of an intrinsic: plain data, independent of compilers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: Register types by their PTX names; `pred` is a predicate, a bool in Python.
Type = Literal["b32", "b64", "u32", "u64", "s32", "f32", "f64", "pred"]


@dataclass(frozen=True, slots=True)
class Registers:
    """Values of a thread, passed and returned as one number, or as a tuple of several.

    A type that begins with `b` takes any value of its width, so two halves are one register of `b32`.
    """

    name: str  #: The operand's name in the record's form.
    type: Type
    count: int = 1
    like: str = ""  #: For a result: the array whose element type it has, if that has the register's width.
    words: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """An element of an array: two arguments, the array and its index, as in `cuda.atomic.add`."""

    name: str
    space: Literal["global", "shared", "generic"]  #: Generic: also for an array in global memory.
    alignment: int  #: Alignment of the element's address, in bytes.
    words: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that must be known at compile time."""

    name: str
    least: int
    most: int
    words: str = ""


Operand = Registers | Address | Constant


@dataclass(frozen=True, slots=True)
class Record:
    """One intrinsic."""

    name: str  #: Its name in Python.
    #: The PTX instruction as in the manual, vectors in braces, with the names of the record's operands.
    form: str
    cc: tuple[int, int]  #: Least compute capability.
    operands: tuple[Operand, ...]  #: In the order of the call.
    words: str  #: What it does, for the documentation.
    section: str  #: Its section of the documentation.
    result: Registers | None = None  #: The value that it returns.
    #: Whether its result depends only on its operands: a compiler may then move or remove it.
    pure: bool = False
    #: The operand that shares the result's registers, which the form does not name; "" for none.
    updates: str = ""

    @property
    def opcode(self) -> str:
        """The instruction's opcode; of several instructions, the last one's.

        Examples
        --------
        >>> from tilewright.gpu.intrinsics import find
        >>> find("wgmma_descriptor").opcode
        'or.b64'
        """
        return self.form.strip("{} ;").split(";")[-1].split()[0]

    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments, with an index after each array.

        Examples
        --------
        >>> from tilewright.gpu.intrinsics import find
        >>> find("ldmatrix_x4").parameters()
        ('row', 'row_index')
        """
        found: list[str] = []
        for operand in self.operands:
            found += [operand.name, f"{operand.name}_index"] if isinstance(operand, Address) else [operand.name]
        return tuple(found)

    def call(self) -> str:
        """The call, with its arguments.

        Examples
        --------
        >>> from tilewright.gpu.intrinsics import find
        >>> find("cp_async_wait_group").call()
        'cp_async_wait_group(pending)'
        """
        return f"{self.name}({', '.join(self.parameters())})"

    def with_operands(self, texts: dict[str, str]) -> str:
        """The form with its operands' names replaced by these texts."""
        if not texts:
            return self.form
        names = "|".join(map(re.escape, texts))
        return re.sub(rf"(?<![\w.:%])({names})(?![\w.:])", lambda found: texts[found[1]], self.form)
