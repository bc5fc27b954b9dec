"""Declares options whose text the command itself parses."""

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

    `default` describes the default in words; `names` replaces the name made from the parameter; `complete` gives a
    shell the possible values.
    """
    return typer.Option(*names, metavar=metavar, help=text, show_default=default, autocompletion=complete)
