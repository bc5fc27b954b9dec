"""How options are stated that take a text, which the command itself reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def option(
    metavar: str,
    text: str,
    default: str | bool = True,
    *,
    names: tuple[str, ...] = (),
    complete: Callable[..., Any] | None = None,
) -> Any:
    """An option with a placeholder for its value and its help, for `Annotated[str | None, option(...)]`.

    `default` says in words what holds without it; `names` are other names than the parameter's; `complete` gives a
    shell what may follow.
    """
    return typer.Option(*names, metavar=metavar, help=text, show_default=default, autocompletion=complete)
