"""The inline assembly of an intrinsic, and which arguments each operand gets: the same for every compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilewright.simulate.intrinsics.operands import Address, Constant, Operand, Record, Registers

#: State space -> LLVM's number for it, address bits.
SPACES: Mapping[str, tuple[int, int]] = MappingProxyType({"generic": (0, 64), "global": (1, 64), "shared": (3, 32)})


def by_operand(record: Record, arguments: Any) -> list[tuple[Operand, tuple[Any, ...]]]:
    """Each operand with its arguments: an array and its index, or one value."""
    left, found = list(arguments), []
    for operand in record.operands:
        count = 2 if isinstance(operand, Address) else 1
        found.append((operand, tuple(left[:count])))
        del left[:count]
    return found


def assembled(
    record: Record,
    results: Sequence[str],
    types: Any,
    arguments: Any,
    registers: Callable[[Operand, Any, Any], list[tuple[Any, str]]],
) -> tuple[str, list[Any], str]:
    """The instruction's text, the values of its inputs, and LLVM's constraints.

    `results` are the constraints of the results; `registers` makes an operand's values, each with its constraint, from
    the types and values of its arguments.
    """
    texts, inputs, constraints = {}, [], [f"={constraint}" for constraint in results]
    for (operand, kinds), (_, given) in zip(by_operand(record, types), by_operand(record, arguments), strict=True):
        if isinstance(operand, Constant):
            texts[operand.name] = str(kinds[0].literal_value)
            continue
        values = registers(operand, kinds, given)
        texts[operand.name] = numbered(len(constraints), len(values))
        inputs += [value for value, _ in values]
        tied = operand.name == record.updates  # tied to the results, which come first
        constraints += [str(index) if tied else one for index, (_, one) in enumerate(values)]
    if not record.pure:
        constraints.append("~{memory}")
    return with_predicates(record, texts), inputs, ",".join(constraints)


def with_predicates(record: Record, texts: dict[str, str]) -> str:
    """The instruction with its operands' texts; assembly takes no predicates, so these are numbers outside."""
    result, before, after = record.result, "", ""
    for operand in record.operands:
        if isinstance(operand, Registers) and operand.type == "pred":
            before += f".reg .pred %{operand.name}; setp.ne.u32 %{operand.name}, {texts[operand.name]}, 0; "
            texts[operand.name] = f"%{operand.name}"
    if result is not None and result.type == "pred":
        before, after = f"{before}.reg .pred %{result.name}; ", f" selp.u32 $0, 1, 0, %{result.name};"
        texts[result.name] = f"%{result.name}"
    elif result is not None:
        texts[result.name] = numbered(0, result.count)
    text = record.with_operands(texts)
    return f"{{ {before}{text}{after} }}" if before else text


def numbered(first: int, count: int) -> str:
    """Operands of inline assembly, as `$0, $1`."""
    return ", ".join(f"${number}" for number in range(first, first + count))
