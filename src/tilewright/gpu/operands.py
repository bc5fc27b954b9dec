"""What the operands of an intrinsic are, and what a record of one states. Plain data: nothing here knows a compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: What PTX calls the type of a register; `pred` is a predicate, which Python sees as a bool.
Type = Literal["b32", "b64", "u32", "u64", "s32", "f32", "f64", "pred"]


@dataclass(frozen=True, slots=True)
class Registers:
    """Values of a thread, passed and returned as one number, or as a tuple where there are several.

    A type that begins with `b` takes any value of its width, so two halves go as one register of `b32`.
    """

    name: str  #: As the record's form has it.
    type: Type
    count: int = 1
    like: str = ""  #: A result only: the array whose elements it has the type of, where their width is the register's.
    words: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """An element of an array: two arguments, the array and its index, as those of `cuda.atomic.add`."""

    name: str
    space: Literal["global", "shared", "generic"]  #: Generic: of an array in global memory too.
    alignment: int  #: In bytes, of the element's address.
    words: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that must be known when the kernel is compiled."""

    name: str
    least: int
    most: int
    words: str = ""


Operand = Registers | Address | Constant


@dataclass(frozen=True, slots=True)
class Record:
    """One intrinsic."""

    name: str  #: What Python calls it.
    #: The PTX instruction as the manual prints it, vectors in braces; its operands have the names of the record's.
    form: str
    cc: tuple[int, int]  #: Least compute capability that has it.
    operands: tuple[Operand, ...]  #: In the order of the call.
    words: str  #: What it does, for its documentation.
    section: str  #: Heading of its documentation.
    result: Registers | None = None  #: What it returns.
    #: Whether its result follows from its operands alone: a compiler may then move it, and leave it out.
    pure: bool = False
    #: The operand in whose registers the result comes to be, which the form does not name; "" for none.
    updates: str = ""

    @property
    def opcode(self) -> str:
        """The instruction's name; of several, the last's.

        Examples
        --------
        >>> from tilewright.gpu.intrinsics import find
        >>> find("wgmma_descriptor").opcode
        'or.b64'
        """
        return self.form.strip("{} ;").split(";")[-1].split()[0]

    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments, an index behind each array.

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
        """How it is called.

        Examples
        --------
        >>> from tilewright.gpu.intrinsics import find
        >>> find("cp_async_wait_group").call()
        'cp_async_wait_group(pending)'
        """
        return f"{self.name}({', '.join(self.parameters())})"

    def with_operands(self, texts: dict[str, str]) -> str:
        """The form with other texts in place of its operands' names."""
        if not texts:
            return self.form
        names = "|".join(map(re.escape, texts))
        return re.sub(rf"(?<![\w.:%])({names})(?![\w.:])", lambda found: texts[found[1]], self.form)
