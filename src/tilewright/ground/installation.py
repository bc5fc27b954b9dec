"""How this installation came to be, the command that adds to it, and modules that an extra installs.

Source: PyPA specifications, "Recording the Direct URL Origin of installed distributions" (`direct_url.json`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import MissingExtraError

_NAME = "tilewright"


def extra(name: str) -> str:
    """The command that adds an extra to this installation, to be typed where this process runs.

    `name`: an extra of `pyproject.toml`.

    >>> extra("gpu")  # doctest: +SKIP
    "pip install -e '.[gpu]'"
    """
    try:
        wanted = from_origin(_origin(), name)
    except (ValueError, KeyError, TypeError, AttributeError):  # a damaged file says nothing
        wanted = from_origin({}, name)
    return _pip(*wanted)


def require(module: str, needing: str, name: str) -> Any:
    """Import a module of another package, which an extra installs.

    `needing` starts the message, as in "zarr arrays need the package".

    Raises MissingExtraError: the package is not installed.

    >>> require("json", "JSON needs", "report").loads("[1]")
    [1]
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = f"{needing} {module}, which is not installed ({error}); run: {extra(name)}"
        raise MissingExtraError(missing, name) from error


def packages(*requirements: str) -> str:
    """The command that installs other packages beside this one, to be typed where this process runs."""
    return _pip(*requirements)


def from_origin(origin: Mapping[str, Any], name: str) -> list[str]:
    """The requirement that makes pip install an extra from where this installation came from.

    `origin`: the content of `direct_url.json`; empty for an installation from a package index. `name`: the extra.

    >>> from_origin({}, "gpu")
    ['tilewright[gpu]']
    >>> from_origin({"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "1f2e"}}, "gpu")
    ['tilewright[gpu] @ git+https://example.org/t.git@1f2e']
    """
    url = str(origin.get("url", ""))
    if not url:
        return [f"{_NAME}[{name}]"]
    if "dir_info" in origin:
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        editable = ["-e"] if origin["dir_info"].get("editable") else []
        return [*editable, f"{shown(Path(url2pathname(urlsplit(url).path)))}[{name}]"]
    if version := origin.get("vcs_info"):
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    return [f"{_NAME}[{name}] @ {url}"]


def shown(path: Path) -> str:
    """A path as one types it in the working folder: relative to it where it lies within, else absolute."""
    try:
        inside = path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return str(path)
    return "." if inside == Path() else f"./{inside.as_posix()}"


def _origin() -> Mapping[str, Any]:
    """The installation's `direct_url.json`; {} where it came from an index; a checkout on PYTHONPATH is editable."""
    import importlib.metadata

    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        checkout = Path(__file__).parents[3]
        found = (checkout / "pyproject.toml").exists()
        return {"url": checkout.as_uri(), "dir_info": {"editable": True}} if found else {}
    origin: Mapping[str, Any] = json.loads(text) if text else {}
    return origin


def _pip(*arguments: str) -> str:
    """A command of the pip that installs into this interpreter's environment."""
    here = Path(sys.executable)
    found = shutil.which("pip")
    if found and Path(found).parent == here.parent:
        start = ["pip", "install"]
    elif importlib.util.find_spec("pip") is None and shutil.which("uv"):
        start = ["uv", "pip", "install", "--python", shown(here)]
    else:
        start = [shown(here), "-m", "pip", "install"]
    return " ".join(_quoted(word) for word in [*start, *arguments])


def _quoted(word: str) -> str:
    """A word as the shell takes it: Windows' knows double quotes alone."""
    quoted = shlex.quote(word)
    return f'"{word}"' if quoted != word and sys.platform == "win32" else quoted
