"""The text of an intrinsic's inline assembly, and which arguments its operands have: the same for every compiler."""

from __future__ import annotations

from typing import Any

from tilewright.gpu.operands import Address, Operand, Record, Registers


def by_operand(record: Record, arguments: Any) -> list[tuple[Operand, tuple[Any, ...]]]:
    """Each operand with its arguments: an array and its index, or one."""
    left, found = list(arguments), []
    for operand in record.operands:
        count = 2 if isinstance(operand, Address) else 1
        found.append((operand, tuple(left[:count])))
        del left[:count]
    return found


def with_predicates(record: Record, texts: dict[str, str]) -> str:
    """The instruction with its operands' texts; predicates, which assembly cannot take or give, are numbers outside."""
    result, before, behind = record.result, "", ""
    for operand in record.operands:
        if isinstance(operand, Registers) and operand.type == "pred":
            before += f".reg .pred %{operand.name}; setp.ne.u32 %{operand.name}, {texts[operand.name]}, 0; "
            texts[operand.name] = f"%{operand.name}"
    if result is not None and result.type == "pred":
        before, behind = f"{before}.reg .pred %{result.name}; ", f" selp.u32 $0, 1, 0, %{result.name};"
        texts[result.name] = f"%{result.name}"
    elif result is not None:
        texts[result.name] = numbered(0, result.count)
    text = record.with_operands(texts)
    return f"{{ {before}{text}{behind} }}" if before else text


def numbered(first: int, count: int) -> str:
    """Operands of inline assembly."""
    return ", ".join(f"${number}" for number in range(first, first + count))
