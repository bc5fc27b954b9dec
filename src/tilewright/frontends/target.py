"""The program that a command line names, as for Python itself: a file, a folder or archive, a module, or code.

Each kind gives the code to run as `__main__`, and the values of `__main__`, `sys.argv[0]` and `sys.path[0]`.

Source: Python, "Command line and environment", 1.1.1 (Interface options); "The import system", 5.8.2 (`__main__`).
"""

from __future__ import annotations

import importlib.util
import io
import linecache
import marshal
import pkgutil
import sys
import types
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from typing import Literal

from tilewright.errors import ArgumentValueError

STDIN = "-"


class NoProgramError(ArgumentValueError):
    """There is no such program that can run; nothing of it has run."""


@dataclass(frozen=True, slots=True)
class Target:
    """A program."""

    text: str  #: A path (`-` is standard input), a module's name, or code.
    kind: Literal["script", "module", "code"] = "script"  #: Which of these `text` is.

    @property
    def name(self) -> str:
        """The value of `sys.argv[0]`; for a module, its name until it is found."""
        return {"script": self.text, "module": "-m", "code": "-c"}[self.kind]

    @property
    def source(self) -> str | None:
        """The text of the program itself; None if it has several files, or cannot be read again."""
        if self.kind == "code":
            return self.text
        try:
            return Path(self.text).read_text(errors="replace") if self.kind == "script" else None
        except (OSError, ValueError):
            return None

    @property
    def folder(self) -> str:
        """The value of `sys.path[0]`."""
        if self.kind == "module":
            return str(Path.cwd())
        if self.kind == "code" or self.text == STDIN:
            return ""
        return str(Path(self.text).absolute() if self._container else Path(self.text).resolve().parent)

    @property
    def _container(self) -> bool:
        """Whether it is a folder or an archive, which contains its program."""
        return self.kind == "script" and self.text != STDIN and pkgutil.get_importer(self.text) is not None

    def load(self, main: types.ModuleType) -> types.CodeType:
        """Compile the program, and give its module the attributes that the interpreter would give it.

        Raises NoProgramError: there is no such program, or it cannot be read; SyntaxError: its source is wrong.
        Exceptions of the packages that contain a module are passed on.
        """
        if self.kind == "module":
            return _of_module(self.text, main)
        if self._container:
            return _of_container(self.text, main)
        if self.kind == "code" or self.text == STDIN:
            return _of_text(self.text if self.kind == "code" else None, main)
        return _of_file(self.text, main)


def _of_text(given: str | None, main: types.ModuleType) -> types.CodeType:
    """Code from the command line, or from standard input, whose lines are kept for messages."""
    vars(main).update(__loader__=BuiltinImporter)
    if given is not None:
        return compile(given, "<string>", "exec")
    code = sys.stdin.buffer.read()
    lines = code.decode(errors="replace").splitlines(keepends=True)
    vars(main).update(__file__="<stdin>")
    linecache.cache["<stdin>"] = (len(code), None, lines, "<stdin>")
    return compile(code, "<stdin>", "exec")


def _of_file(path: str, main: types.ModuleType) -> types.CodeType:
    """A file of source, or of compiled bytecode."""
    try:
        with io.open_code(path) as stream:
            read = stream.read()
    except OSError as error:
        remedy = "name a file in it" if Path(path).is_dir() else "name a file that is there"
        raise NoProgramError(
            f"SCRIPT must be a Python program that can be read (got {path}: {error.strerror}); {remedy}"
        ) from error
    file = f"{Path.cwd()}/{path}" if not path.startswith("/") else path  # as Python joins it
    compiled_before = read.startswith(importlib.util.MAGIC_NUMBER)
    loader = SourcelessFileLoader if compiled_before else SourceFileLoader
    vars(main).update(__file__=file, __loader__=loader("__main__", file))
    try:
        if compiled_before:
            compiled: types.CodeType = marshal.loads(read[16:])
            return compiled
        return compile(read, path, "exec")
    except (EOFError, TypeError, ValueError, SyntaxError) as error:
        if isinstance(error, SyntaxError) and b"\0" not in read:
            raise
        raise NoProgramError(
            f"SCRIPT must be a Python program, a .cu file or a program for this host (got {path}: {error}); name "
            "another file"
        ) from None


def _of_container(path: str, main: types.ModuleType) -> types.CodeType:
    """The `__main__` of a folder or archive, which is now first on `sys.path`."""
    spec = PathFinder.find_spec("__main__", [str(Path(path).absolute())])
    if spec is None:
        kind = "Is a directory" if Path(path).is_dir() else "an archive"
        raise NoProgramError(
            f"SCRIPT must be a Python program that can be read (got {path}: {kind} without __main__.py); "
            "name a file in it"
        )
    return _of_spec(spec, main)


def _of_module(name: str, main: types.ModuleType) -> types.CodeType:
    """A module, or the `__main__` of a package; imports its packages."""
    if name.endswith(".py") and Path(name).exists():
        raise NoProgramError(f"-m must name a module (got {name!r}, a file); a file has no -m before it: {name}")
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the package exists; something that it imports does not
        spec = None
    except (ValueError, ImportError):  # a relative name, or none
        spec = None
    if spec is not None and spec.submodule_search_locations is not None:
        if name.endswith("__main__"):
            raise NoProgramError(f"-m must name a module that can be run (got {name!r}, a package); name one in it")
        return _of_module(f"{name}.__main__", main)
    if spec is None or not hasattr(spec.loader, "get_code"):
        package = name.removesuffix(".__main__")
        had = f"{package!r}, a package without __main__" if package != name else f"{name!r}, which is not there"
        raise NoProgramError(f"-m must name a module that can be imported (got {had}); see sys.path, or PYTHONPATH")
    sys.argv[0] = spec.origin or name
    return _of_spec(spec, main)


def _of_spec(spec: ModuleSpec, main: types.ModuleType) -> types.CodeType:
    """The code of a module that was found, with the name `__main__`."""
    code: types.CodeType | None = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise NoProgramError(f"-m must name a module in Python (got {spec.name!r}, which has no code); name another")
    vars(main).update(
        __spec__=spec, __package__=spec.parent, __loader__=spec.loader, __file__=spec.origin, __cached__=spec.cached
    )
    linecache.lazycache(code.co_filename, vars(main))  # only an archive's loader can read its lines
    return code
