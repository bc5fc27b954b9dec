"""The end of a checked or profiled program, as JSON values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.frontends.script import Ended


def document(ended: Ended) -> dict[str, Any]:
    """How a program ended, as JSON values.

    >>> document(Ended(3))
    {'status': 3, 'interrupted': False, 'children_launched': False, 'exception': None}
    >>> document(Ended(1, ValueError("no data")))["exception"]
    {'type': 'ValueError', 'message': 'no data', 'file': '', 'line': 0}
    """
    return {
        "status": ended.status,
        "interrupted": ended.interrupted,
        "children_launched": ended.children_launched,
        "exception": _exception(ended),
    }


def _exception(ended: Ended) -> dict[str, Any] | None:
    """The exception that ended the program, with the last line of user code in its traceback; "" and 0 if none."""
    if ended.error is None:
        return None
    file, line = ended.place or ("", 0)
    where = {"file": str(Path(file).absolute()) if file else "", "line": line}
    message = "\n".join([str(ended.error), *getattr(ended.error, "__notes__", [])])
    return {"type": kind(ended.error), "message": message, **where}


def kind(error: BaseException) -> str:
    """An exception's type, named as in tracebacks."""
    of = type(error)
    return of.__qualname__ if of.__module__ in ("builtins", "__main__") else f"{of.__module__}.{of.__qualname__}"
