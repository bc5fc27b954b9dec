"""The model's facts of machine instructions: one row for each opcode, from `opcodes.toml`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.ground.native.memo import memo


@dataclass(frozen=True, slots=True, kw_only=True)
class Opcode:
    """A row of the table."""

    pipe: str  #: The pipe that takes it.
    access: str = ""  #: Kind of memory access: `shared_load`, `shared_store`, `load`, `store` or `copy`.
    local: bool = False  #: Whether it is for local memory only.
    elements: str = ""  #: For tensor cores, the element format unless a modifier gives another.
    group: str = ""  #: For asynchronous copies: `commit` ends a group, `wait` waits for some.
    operation: bool = False  #: Whether it is for an mbarrier, a bulk copy, or an order to tensor memory.
    flow: str = ""  #: How it ends a block: `branch`, `indirect`, `call`, `return`, `exit`, `barrier`.
    of: frozenset[str] = frozenset()  #: PTX opcodes that translate to exactly this opcode.


#: The row for an opcode without one.
OTHER = Opcode(pipe="integer")


def row(name: str) -> Opcode:
    """The row of an opcode without modifiers.

    >>> row("FFMA").pipe, row("LDS").access, row("NEWOP") is OTHER
    ('float32', 'shared_load', True)
    """
    return _rows().get(name, OTHER)


def unknown(names: Iterable[str]) -> tuple[str, ...]:
    """The opcodes without a row, each once."""
    return tuple(dict.fromkeys(name for name in names if name not in _rows()))


@memo
def _rows() -> MappingProxyType[str, Opcode]:
    import tomllib

    text = resources.files(__package__).joinpath("opcodes.toml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = tomllib.loads(text)
    rows = {name: Opcode(**{**fields, "of": frozenset(fields.get("of", ()))}) for name, fields in data.items()}
    return MappingProxyType(rows)
