"""What nvcc made is used again for the same program, and for no other."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright import machine
from tilewright.errors import TilewrightWarning
from tilewright.frontends.programs import executables

SETTLED = 0.05  #: Seconds after which a file counts as older than a compilation.


class Compiler:
    """A compiler whose output is what it read; it lists this in nvcc's form."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "a program.cu"
        self.header = folder / "include" / "scale.h"
        self.header.parent.mkdir(parents=True, exist_ok=True)
        self.header.write_text("#define SCALE 2\n")
        self.source.write_text('#include "include/scale.h"\n')
        self.runs = 0
        self.while_running: Callable[[], object] = int
        time.sleep(SETTLED)

    def __call__(self, *command: str) -> bytes:
        return executables.kept(self.source, ("nvcc", *command), ["release 13.5"], [], self._make)

    def _make(self, listed: Path) -> bytes:
        self.runs += 1
        names = [str(path).replace(" ", "\\ ") for path in (self.source, self.header)]
        made = b"".join(path.read_bytes() for path in (self.source, self.header))
        if str(listed) != os.devnull:
            listed.write_text("program : " + " \\\n    ".join(names) + "\n")
        self.while_running()
        return made

    def runs_again(self, *command: str) -> bool:
        """Whether the compiler runs for the program as it is now."""
        before = self.runs
        assert self(*command) == self.source.read_bytes() + self.header.read_bytes()
        return self.runs > before


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NVCC_APPEND_FLAGS", raising=False)
    made = Compiler(tmp_path / "code")
    assert made.runs_again()
    assert not made.runs_again()
    return made


def entry(folder: Path) -> Path:
    (found,) = (folder / "cache" / "programs").glob("*.bin")
    return found


@pytest.mark.parametrize("changed", ["source", "header"])
def test_a_changed_file_is_compiled(compiler: Compiler, changed: str) -> None:
    path = getattr(compiler, changed)
    path.write_text(path.read_text() + "// more\n")
    time.sleep(SETTLED)
    assert compiler.runs_again()
    assert not compiler.runs_again()


def test_a_header_of_the_same_length_and_time_is_compiled(compiler: Compiler) -> None:
    before = compiler.header.stat()
    compiler.header.write_text("#define SCALE 3\n")
    os.utime(compiler.header, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert compiler.runs_again()


def test_a_removed_header_is_compiled(compiler: Compiler) -> None:
    compiler.header.unlink()
    with pytest.raises(FileNotFoundError):
        compiler()


def test_another_option_is_compiled(compiler: Compiler) -> None:
    assert compiler.runs_again("-arch=compute_80")
    assert not compiler.runs_again("-arch=compute_80")
    assert not compiler.runs_again()


def test_a_header_that_a_header_would_find_first_is_compiled(compiler: Compiler) -> None:
    nearer = compiler.header.parent / "include" / "scale.h"
    nearer.parent.mkdir()
    nearer.write_text("#define SCALE 5\n")
    assert compiler.runs_again()
    assert not compiler.runs_again()


@pytest.mark.parametrize(
    ("name", "value"),
    [("NVCC_APPEND_FLAGS", "-G"), ("NVCC_PREPEND_FLAGS", "-DN=4"), ("CPATH", "elsewhere"), ("GCC_EXEC_PREFIX", "/x")],
)
def test_another_environment_is_compiled(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert compiler.runs_again()
    assert not compiler.runs_again()
    monkeypatch.delenv(name)
    assert not compiler.runs_again()


def test_another_working_folder_is_compiled(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compiler.runs_again()


@pytest.mark.parametrize("flags", ["-I {}", "-I{}", "-isystem {}", "-isystem={}"])
def test_a_header_that_may_be_found_first_is_compiled(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    first = tmp_path / "first"
    (first / "include").mkdir(parents=True)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", flags.format(first))
    assert compiler.runs_again()
    (first / "include" / "other.h").touch()
    assert not compiler.runs_again()
    (first / "include" / "scale.h").touch()
    assert compiler.runs_again()


@pytest.mark.parametrize("flags", ["part.o", "-lpart", "-Xlinker part.o", "-optf options", "'", "-include part.h"])
def test_options_that_name_files_are_compiled_each_time(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", flags)
    assert compiler.runs_again()
    assert compiler.runs_again()


@pytest.mark.parametrize("text", ["__DATE__", '#if __has_include("x.h")', "#include_next <x.h>"])
def test_text_that_depends_on_more_is_compiled_each_time(compiler: Compiler, text: str) -> None:
    compiler.header.write_text(f"// {text}\n" if "DATE" in text else f"{text}\n")
    time.sleep(SETTLED)
    assert compiler.runs_again()
    assert compiler.runs_again()


def test_a_header_that_changes_while_the_compiler_runs_is_compiled_again(compiler: Compiler) -> None:
    compiler.source.write_text("// new\n")
    time.sleep(SETTLED)
    compiler.while_running = lambda: compiler.header.write_text("#define SCALE 9\n")
    compiler()
    compiler.while_running = int
    assert compiler.runs_again()


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda raw: raw[:-1] + b"x", lambda raw: b"", lambda raw: raw[:60]]
)
def test_a_damaged_entry_is_compiled(compiler: Compiler, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(TilewrightWarning, match="damaged"):
        assert compiler.runs_again()
    assert not compiler.runs_again()


def test_an_entry_that_others_could_have_written_is_not_used(compiler: Compiler, tmp_path: Path) -> None:
    entry(tmp_path).chmod(0o666)
    with pytest.warns(TilewrightWarning, match="another user could have written"):
        assert compiler.runs_again()


def test_ctrl_c_while_compiling_keeps_nothing(compiler: Compiler, tmp_path: Path) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    before = entry(tmp_path).read_bytes()
    compiler.while_running = stopped
    compiler.source.write_text("// new\n")
    with pytest.raises(KeyboardInterrupt):
        compiler()
    assert entry(tmp_path).read_bytes() == before
    compiler.while_running = int
    assert compiler.runs_again()


def _many(folder: Path, again: int) -> None:
    compiler = Compiler(folder)
    for number in range(again):
        compiler(f"-DN={number % 3}")


def test_processes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=_many, args=(tmp_path / "code", 20)) for _ in range(3)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert [one.exitcode for one in others] == [0, 0, 0]
    time.sleep(SETTLED)
    compiler = Compiler(tmp_path / "code")
    for number in range(3):
        assert compiler(f"-DN={number}") == compiler.source.read_bytes() + compiler.header.read_bytes()
    assert not list((tmp_path / "cache" / "programs").glob(".new-*"))


@pytest.mark.skipif(shutil.which("g++") is None, reason="not run: the host has no C++ compiler")
def test_nvcc_runs_again_only_for_a_changed_header_of_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    from tilewright.frontends.programs import process, source

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    path, header = tmp_path / "program.cu", tmp_path / "device.h"
    path.write_text('#ifdef __CUDA_ARCH__\n#include "device.h"\n#endif\n__global__ void k() {}\nint main() {}\n')
    runs: list[object] = []
    run = source._run

    def counted(*given: Any) -> None:
        runs.append(given)
        run(*given)

    monkeypatch.setattr(source, "_run", counted)
    library = process.library()
    for number, text in enumerate(("// one\n", "// one\n", "// two\n")):
        if number != 1:
            header.write_text(text)
            time.sleep(SETTLED)
        folder = tmp_path / str(number)
        folder.mkdir()
        made = source.compiled(path, machine.gpu("h100"), library, folder)
        assert os.access(made, os.X_OK)
    assert len(runs) == 2
