"""Settings from environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.ground.settings import Settings


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    settings = Settings.from_environ({})
    assert settings.cache_dir == Path.home() / ".cache" / "tilewright"
    assert settings.threads >= 1
    assert (settings.gpu, settings.debug, settings.cache_bytes) == ("h100", False, 512 * 2**20)


def test_every_variable() -> None:
    settings = Settings.from_environ(
        {
            "TILEWRIGHT_CACHE_DIR": "~/kept",
            "TILEWRIGHT_THREADS": "7",
            "TILEWRIGHT_GPU": "a100",
            "TILEWRIGHT_DEBUG": "1",
            "TILEWRIGHT_AMX": "0",
            "TILEWRIGHT_QUICK_CODE": "0",
            "TILEWRIGHT_CACHE_BYTES": "1000000",
        }
    )
    assert settings == Settings(
        Path.home() / "kept", 7, "a100", True, amx=False, quick_code=False, cache_bytes=1_000_000
    )


def test_the_cache_is_among_those_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Settings.from_environ({}).cache_dir == tmp_path / "tilewright"
    for unused in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unused)
        assert Settings.from_environ({}).cache_dir == Path.home() / ".cache" / "tilewright"
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert Settings.from_environ({}).cache_dir is None


def test_empty_means_unset() -> None:
    empty = dict.fromkeys(("TILEWRIGHT_CACHE_DIR", "TILEWRIGHT_THREADS", "TILEWRIGHT_GPU", "TILEWRIGHT_DEBUG"), "")
    assert Settings.from_environ(empty) == Settings.from_environ({})
    assert not Settings.from_environ({"TILEWRIGHT_DEBUG": "0"}).debug


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²", "1025", "9" * 30])
def test_threads_are_a_whole_number(text: str) -> None:
    with pytest.raises(ArgumentValueError, match="TILEWRIGHT_THREADS"):
        Settings.from_environ({"TILEWRIGHT_THREADS": text})


@pytest.mark.parametrize("text", ["-1", "1M", "1e9", "0x10", "²", "9" * 30])
def test_bytes_of_the_cache_are_a_whole_number(text: str) -> None:
    with pytest.raises(ArgumentValueError, match=r"TILEWRIGHT_CACHE_BYTES must be .*\(got .*\); unset it"):
        Settings.from_environ({"TILEWRIGHT_CACHE_BYTES": text})


def test_the_process_environment_is_read_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_THREADS", "3")
    assert Settings.from_environ().threads == 3
    monkeypatch.setenv("TILEWRIGHT_THREADS", "4")
    assert Settings.from_environ().threads == 4
