"""The command that adds an extra, for each way in which an installation can come."""

from __future__ import annotations

import shlex
import shutil
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tilewright.ground import installation

ROOT = Path(__file__).parents[2]
WHEEL = {"url": "file:///tmp/tilewright-1.whl", "archive_info": {}}
GIT = {"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "1f2e"}}


@pytest.mark.parametrize(
    ("origin", "given"),
    [
        ({}, ["tilewright[gpu]"]),
        ({"url": "file:///a%20b/tile", "dir_info": {}}, ["/a b/tile[gpu]"]),
        ({"url": "file:///a/tile", "dir_info": {"editable": True}}, ["-e", "/a/tile[gpu]"]),
        (GIT, ["tilewright[gpu] @ git+https://example.org/t.git@1f2e"]),
        (WHEEL, ["tilewright[gpu] @ file:///tmp/tilewright-1.whl"]),
    ],
)
def test_an_extra_comes_from_where_the_installation_came(origin: dict[str, object], given: list[str]) -> None:
    assert installation.from_origin(origin, "gpu") == given


@pytest.mark.parametrize(
    "damaged",
    ["{", "[]", "null", '{"url": "a", "dir_info": 1}', '{"url": "a", "vcs_info": {"vcs": 1}}'],
)
def test_a_damaged_record_of_the_origin_says_nothing(damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged:
        def read_text(self, name: str) -> str:
            return damaged

    monkeypatch.setattr(metadata, "distribution", lambda name: Damaged())
    assert shlex.split(installation.extra("gpu"))[-1] == "tilewright[gpu]"


def test_paths_are_typed_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [installation.shown(path) for path in (tmp_path, tmp_path / "in", tmp_path.parent)] == [
        ".",
        "./in",
        str(tmp_path.parent),
    ]


def test_the_command_quotes_what_a_shell_would_expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    origin = {"url": (tmp_path / "it's").as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(installation, "_origin", lambda: origin)
    assert shlex.split(installation.extra("gpu"))[-2:] == ["-e", "./it's[gpu]"]
    monkeypatch.setattr(sys, "platform", "win32")
    assert installation.packages("torch", "a[b]").endswith('install torch "a[b]"')


def test_the_command_is_of_this_interpreter_s_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    beside = Path(sys.executable).parent
    monkeypatch.setattr(shutil, "which", lambda _: str(beside / "pip"))
    assert installation.packages("torch") == "pip install torch"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert installation.packages("torch") == f"{shlex.quote(sys.executable)} -m pip install torch"
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _: None)
    assert installation.packages("torch") == f"uv pip install --python {shlex.quote(sys.executable)} torch"


def test_a_checkout_on_the_path_is_installed_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", none)
    assert installation._origin() == {"url": ROOT.as_uri(), "dir_info": {"editable": True}}


def test_what_is_printed_here_names_this_checkout() -> None:
    if not metadata.distribution("tilewright").read_text("direct_url.json"):
        pytest.skip("not run: this installation came from an index")
    folder, _, rest = shlex.split(installation.extra("report"))[-1].partition("[")
    extras = tomllib.loads((Path(folder) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extras["name"] == "tilewright" and rest.removesuffix("]") in extras["optional-dependencies"]
