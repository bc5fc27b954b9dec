"""Public names of a package, and their errors' tracebacks.

Names are imported when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Found = TypeVar("_Found")
_Error = TypeVar("_Error", bound=BaseException)
#: Folders and files whose frames nobody needs who used this package wrongly.
_OURS = __file__.removesuffix("ground/lazy_exports.py"), contextlib.__file__


def publish(
    package: str, homes: Mapping[str, str], synonyms: Mapping[str, str] = MappingProxyType({}), **modules: str
) -> None:
    """Make names of a package's modules its own, imported at first use; set its `__all__` and `__dir__`.

    `homes` maps a module, named relative to the package, to those of its names that the package has too. `modules` maps
    a name of the package to a whole module. `synonyms` maps names of the package to what others call the same.
    """
    home = {name: (module, name) for module, names in homes.items() for name in names.split()}
    home |= {name: (module, "") for name, module in modules.items()}
    namespace, public = vars(sys.modules[package]), sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            from tilewright.errors import near

            meant = next((one for one, other in synonyms.items() if name in other.split()), "")
            hint = f"did you mean {meant}?" if meant else near(name, public, "choose one")
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; {hint} (public names: {', '.join(public)})"
            )
        module, attribute = home[name]
        value: Any = importlib.import_module(f"{package}.{module}")
        namespace[name] = getattr(value, attribute) if attribute else value
        return namespace[name]

    namespace.update(__getattr__=get, __dir__=lambda: public, __all__=public)


def public(function: Callable[_P, _Found]) -> Callable[_P, _Found]:
    """Make a function's errors of ours end at its call: no frame of what it calls in this package is shown."""
    from tilewright.errors import TilewrightError

    @functools.wraps(function)
    def called(*args: _P.args, **options: _P.kwargs) -> _Found:
        try:
            return function(*args, **options)
        except TilewrightError as error:
            raise at_the_call(error) from error.__cause__

    return called


def at_the_call(error: _Error) -> _Error:
    """The error without the frames of this package after those of others, and a wrong argument's without its cause.

    If `TILEWRIGHT_DEBUG` is set it stays as it is.
    """
    from tilewright.errors import ArgumentTypeError, ArgumentValueError
    from tilewright.ground.settings import debugging

    if debugging():
        return error
    if isinstance(error, ArgumentTypeError | ArgumentValueError):
        error.__cause__ = None
    return error.with_traceback(up_to_others(error.__traceback__, _OURS))


def up_to_others(frames: TracebackType | None, folders: tuple[str, ...]) -> TracebackType | None:
    """The frames up to the last one whose code is outside folders; None if none is."""
    every, last = [], 0
    while frames is not None:
        every.append(frames)
        if not frames.tb_frame.f_code.co_filename.startswith(folders):
            last = len(every)
        frames = frames.tb_next
    kept = None
    for frame in reversed(every[:last]):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept
