"""LLVM text that reads and writes fields of the records of `state`, for the runtime's functions.

Each gives whole lines, and names what it defines after the field, so one function must not read a field twice under
one name.
"""

from __future__ import annotations

from tilewright.simt.translate.state import CONTEXT


def field(name: str, record: str, offset: int, type_: str = "i64") -> str:
    """Load `%name` from `%record` at a byte offset; `%name.p` is its address."""
    return (
        f"  %{name}.p = getelementptr i8, ptr %{record}, i64 {offset}\n"
        f"  %{name} = load {type_}, ptr %{name}.p, align 4\n"
    )


def set_field(record: str, offset: int, value: str, unique: str) -> str:
    """Store a typed value in `%record` at a byte offset; `unique` names the address."""
    return f"  %{unique}.q = getelementptr i8, ptr %{record}, i64 {offset}\n  store {value}, ptr %{unique}.q, align 4\n"


def context_field(name: str, field_name: str, type_: str = "i64") -> str:
    """Load `%name` from the context record."""
    return field(name, "context", CONTEXT[field_name], type_)


def set_context(field_name: str, value: str, unique: str) -> str:
    """Store a typed value in the context record."""
    return set_field("context", CONTEXT[field_name], value, unique)
