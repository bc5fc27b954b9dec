"""What the model knows of machine instructions, by opcode: one row each, read from `opcodes.toml`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.native.once import once


@dataclass(frozen=True, slots=True, kw_only=True)
class Opcode:
    """A row of the table."""

    pipe: str  #: What takes it.
    access: str = ""  #: Of memory: `shared_load`, `shared_store`, `load`, `store` or `copy`.
    elements: str = ""  #: Of tensor cores: the format of what is multiplied, where no modifier says another.
    group: str = ""  #: Of asynchronous copies: `commit` ends a group, `wait` waits for some.
    deed: bool = False  #: Whether it changes or tests an mbarrier, or is a bulk copy.
    flow: str = (
        ""  #: Where a warp goes on, if not behind it: `branch`, `indirect`, `call`, `return`, `exit`, `barrier`.
    )
    of: frozenset[str] = frozenset()  #: Opcodes of PTX of which each instruction is one of these.


#: What an instruction is taken as of which there is no row.
OTHER = Opcode(pipe="integer")


def row(name: str) -> Opcode:
    """What is known of an opcode, without modifiers.

    Examples
    --------
    >>> row("FFMA").pipe, row("LDS").access, row("NEWOP") is OTHER
    ('float32', 'shared_load', True)
    """
    return _rows().get(name, OTHER)


def unknown(names: Iterable[str]) -> tuple[str, ...]:
    """Those of which there is no row, each once."""
    return tuple(dict.fromkeys(name for name in names if name not in _rows()))


@once
def _rows() -> MappingProxyType[str, Opcode]:
    import tomllib

    text = resources.files(__package__).joinpath("opcodes.toml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = tomllib.loads(text)
    rows = {name: Opcode(**{**fields, "of": frozenset(fields.get("of", ()))}) for name, fields in data.items()}
    return MappingProxyType(rows)
