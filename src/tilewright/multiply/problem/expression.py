"""Elementwise expressions as data: an epilogue or a semiring's operation, traced from a Python function.

An :class:`Expression` is a list of instructions over the rows of `primitives.PRIMITIVES`; operands are earlier
instructions. Its text is its identity: equal texts are equal expressions, and the text is part of the key of machine
code on disk.

Examples
--------
>>> from tilewright.problem.functions import trace
>>> halved = trace(lambda x, y: x * 0.5 + y, {"x": "float32", "y": "float32"})
>>> print(halved)
x:float32 y:float32 -> %3 = multiply(x, 0.5:float32); add(%3, y)
>>> halved.evaluate(np.float32([2, 4]), np.float32(1))
array([2., 3.], dtype=float32)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.problem.dtypes import dtype
from tilewright.multiply.problem.primitives import PRIMITIVES, bits, cast, letter

Array = npt.NDArray[Any]
Number = bool | int | float
#: Operations with an explicit result dtype: functions of an array and that dtype's name.
STATED: dict[str, Callable[[Array, str], Array]] = {"cast": cast, "bits": bits, "copy": lambda values, _: values}

#: Longest expression, in steps, that is shown in full.
_BRIEF_STEPS = 12


class Instruction(NamedTuple):
    """One step."""

    op: str  #: A primitive, or `parameter`, `constant`, `cast`, `bits`, `copy`.
    args: tuple[int, ...]  #: Earlier instructions.
    dtype: str  #: Dtype of the value.
    text: str = ""  #: A parameter's name; a constant's value (floats in Python's hexadecimal form).


@dataclass(frozen=True, slots=True)
class Expression:
    """An elementwise function of some arrays."""

    text: str  #: The expression in full: parameters, then a step for every further instruction.
    #: Parameters first; the last instruction is the result.
    instructions: tuple[Instruction, ...] = field(compare=False, repr=False)
    arity: int = field(compare=False, repr=False)  #: How many parameters.

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Names and dtypes."""
        return tuple((x.text, x.dtype) for x in self.instructions[: self.arity])

    @property
    def dtype(self) -> str:
        """Dtype of the result."""
        return self.instructions[-1].dtype

    @property
    def cost(self) -> int:
        """Operations, constants and parameters not counted."""
        return sum(bool(x.args) for x in self.instructions)

    def evaluate(self, *values: npt.ArrayLike) -> Array:
        """The value, computed by NumPy, an instruction at a time.

        The values, one for each parameter, broadcast against each other, and are cast to the parameters' dtypes.
        """
        arrays = [np.asarray(v) for v in values]
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        found: list[Array] = []
        with np.errstate(all="ignore"):
            for step in self.instructions:
                args = [found[i] for i in step.args]
                if step.op == "parameter":
                    native = np.asarray(arrays[len(found)]).astype(as_numpy(step.dtype), copy=False)
                    found.append(np.atleast_1d(native))
                elif step.op == "constant":
                    found.append(np.array([number(step)]).astype(as_numpy(step.dtype)))
                elif step.op in STATED:
                    found.append(STATED[step.op](args[0], step.dtype))
                else:
                    found.append(np.asarray(PRIMITIVES[step.op].meaning(*args)))
        return np.array(np.broadcast_to(found[-1], shape or (1,))).reshape(shape)

    def __str__(self) -> str:
        return self.text


def brief(text: str) -> str:
    """An expression's text if it is short, else its parameters and its number of operations.

    >>> brief("sum:float32 -> add(sum, 1.0:float32)")
    'sum:float32 -> add(sum, 1.0:float32)'
    """
    taken, _, steps = text.partition(" -> ")
    count = steps.count(";") + 1
    return text if count <= _BRIEF_STEPS else f"{taken} -> {count} operations"


@functools.lru_cache(maxsize=64)
def as_numpy(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an expression's dtype."""
    return np.dtype(np.bool_) if name == "bool" else dtype(name).numpy


def number(step: Instruction) -> Number:
    """A constant's value."""
    if step.dtype == "bool":
        return step.text == "True"
    return float.fromhex(step.text) if letter(step.dtype) == "f" else int(step.text)


def constant_text(value: Number, name: str) -> str:
    """A constant's text, rounded to its dtype; equal texts are equal values."""
    exact, kind = as_numpy(name).type(value), letter(name)
    if kind == "b":
        return str(bool(exact))
    return float(exact).hex() if kind == "f" else str(int(exact))


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that take traced values, as the values find them."""

    names: frozenset[str] = frozenset()
    #: The counterpart of a NumPy function, and of a torch function by its name; None if there is none.
    of_numpy: Callable[[Any], Callable[..., Any] | None] = lambda _: None
    of_torch: Callable[[str], Callable[..., Any] | None] = lambda _: None


class Builder:
    """Instructions under construction; equal instructions are shared."""

    def __init__(self, functions: Functions = Functions()) -> None:
        self.functions = functions
        self.instructions: list[Instruction] = []
        self._known: dict[Instruction, int] = {}

    def add(self, op: str, args: tuple[int, ...], name: str, text: str = "") -> int:
        """The number of an instruction."""
        step = Instruction(op, args, name, text)
        found = self._known.get(step)
        if found is None:
            found = self._known[step] = len(self.instructions)
            self.instructions.append(step)
        return found

    def constant(self, value: Number, name: str) -> int:
        """The number of a constant."""
        return self.add("constant", (), name, constant_text(value, name))

    def finished(self, result: int, arity: int) -> Expression:
        """The expression of a result, without unused instructions."""
        needed, waiting = set(range(arity)), [result]
        while waiting:
            i = waiting.pop()
            if i >= arity and i not in needed:
                needed.add(i)
                waiting.extend(self.instructions[i].args)
        if result < arity - 1:
            result = self.add("copy", (result,), self.instructions[result].dtype)
            needed.add(result)
        order = sorted(needed)
        place = {old: new for new, old in enumerate(order)}
        kept = [self.instructions[i] for i in order]
        steps = tuple(Instruction(x.op, tuple([place[a] for a in x.args]), x.dtype, x.text) for x in kept)
        return Expression(_text(steps, arity), steps, arity)

    def insert(self, expression: Expression, arguments: Sequence[int]) -> int:
        """The number of an expression's result for these parameters."""
        place = list(arguments)
        for step in expression.instructions[expression.arity :]:
            place.append(self.add(step.op, tuple([place[a] for a in step.args]), step.dtype, step.text))
        return place[-1]


def in_words(expression: Expression, word: str, ops: Mapping[str, str]) -> Expression:
    """An expression of booleans as one of words of booleans, by renaming its operations."""
    steps = tuple(x._replace(dtype=word, op=ops.get(x.op, x.op)) for x in expression.instructions)
    return Expression(_text(steps, expression.arity), steps, expression.arity)


def _text(steps: tuple[Instruction, ...], arity: int) -> str:
    """Constants where they are used, and every other step by its number."""

    def name(i: int) -> str:
        step = steps[i]
        if step.op == "constant":
            return f"{number(step)!r}:{step.dtype}"
        return step.text if i < arity else f"%{i}"

    parts = []
    for i, step in enumerate(steps[arity:], arity):
        if step.op == "constant" and i + 1 < len(steps):
            continue
        if step.op in ("constant", "copy"):
            parts.append(name(step.args[0] if step.args else i))
            continue
        stated = f" as {step.dtype}" if step.op in STATED else ""
        label = f"%{i} = " if i + 1 < len(steps) else ""
        parts.append(f"{label}{step.op}({', '.join(name(a) for a in step.args)}{stated})")
    header = " ".join(f"{step.text}:{step.dtype}" for step in steps[:arity])
    return f"{header} -> {'; '.join(parts) if parts else name(arity - 1)}"


def check_arity(function: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise if a function does not take `values` by position and `named` by name.

    Raises ArgumentTypeError.
    """
    try:
        inspect.signature(function).bind(*values, **named)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise ArgumentTypeError(
            f"{name} must take its arguments, {len(values)} by position and {', '.join(named) or 'none'} by name "
            f"(got {error}); an epilogue takes the sum and `epilogue_args`"
        ) from error
    except ValueError:  # a builtin without a signature
        return


@functools.lru_cache(maxsize=256)
def identity(name: str, to: str) -> Expression:
    """A value as another dtype."""
    builder = Builder()
    value = builder.add("parameter", (), name, "x")
    return builder.finished(value if name == to else builder.add("cast", (value,), to), 1)
