"""Calls of C functions from Python."""

from __future__ import annotations

import ctypes
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tilewright.ground.native import functions as module
from tilewright.ground.native.compiler import Compiler, compiler
from tilewright.ground.native.functions import functions

TEXT = """
define internal i32 @twice(i32 %x) {
  %y = add i32 %x, %x
  ret i32 %y
}
define i32 @tw_test_add(i32 %x, ptr %to, double %z) {
  %y = call i32 @twice(i32 %x)
  store double %z, ptr %to
  ret i32 %y
}
define void @tw_test_nothing() {
  ret void
}
define i64 @tw_other(i64 %x) {
  ret i64 %x
}
"""


def part(folder: Path, text: str = TEXT) -> Path:
    folder.mkdir(exist_ok=True)
    source = folder / "part.c"
    source.with_suffix(".bc").write_bytes(llvm.parse_assembly(text).as_bitcode())
    return source


def test_parameters_are_those_of_the_bitcode(tmp_path: Path) -> None:
    code, to = functions("tw_test_", part(tmp_path)), ctypes.c_double()
    assert code.add(1 << 31 | 3, ctypes.addressof(to), 0.5) == 6
    assert to.value == 0.5
    assert code.nothing() is None
    assert not hasattr(code, "other") and not hasattr(code, "twice")


def test_machine_code_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    made = module._made("tw_test_", (part(tmp_path),), compiler())
    assert len(list(tmp_path.rglob("*.bin"))) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", None)
        assert module._made("tw_test_", (part(tmp_path),), compiler()) == made
    module._made("tw_test_", (part(tmp_path / "another", TEXT.replace("add i32", "mul i32")),), compiler())
    assert len(list(tmp_path.rglob("*.bin"))) == 2
