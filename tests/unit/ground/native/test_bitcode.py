"""Bitcode agrees with the C beside it, and any host can link it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tilewright.errors import CompileError
from tilewright.ground.native.bitcode import bitcode, module_name, sources
from tilewright.ground.native.clang import compile_c

PACKAGE = Path(__file__).parents[4] / "src" / "tilewright"
PARTS = sorted(PACKAGE.rglob("*.c"))
COMPILER = importlib.util.find_spec("ziglang") is not None
needs_compiler = pytest.mark.skipif(not COMPILER, reason="`make runtime` installs the compiler")


def text_of(code: bytes) -> str:
    """Its LLVM text; a separate context keeps structs of other modules from taking its names."""
    return str(llvm.parse_bitcode(code, context=llvm.context.create_context()))


@pytest.mark.parametrize("source", PARTS, ids=lambda p: p.name)
def test_bitcode_was_made_from_its_source(source: Path) -> None:
    assert f'source_filename = "{module_name(source)}"' in text_of(bitcode(source)), "run: make runtime"


def test_all_bitcode_has_a_source() -> None:
    assert [p for p in PACKAGE.rglob("*.bc") if p.with_suffix(".c") not in PARTS] == []
    assert len(PARTS) > 0


@needs_compiler
@pytest.mark.parametrize("source", PARTS, ids=lambda p: p.name)
def test_bitcode_is_what_the_compiler_makes(source: Path) -> None:
    assert text_of(compile_c(source)) == text_of(bitcode(source)), "run: make runtime"


@pytest.mark.parametrize("edited", ["scheduler.c", "records.h", "lanes.h"])
def test_an_edit_of_a_source_or_header_is_seen(edited: str, tmp_path: Path) -> None:
    runtime = PACKAGE / "simulate" / "runtime"
    shutil.copytree(runtime, tmp_path / "runtime")
    source = tmp_path / "runtime" / "scheduler.c"
    assert module_name(source) == module_name(runtime / "scheduler.c")
    (tmp_path / "runtime" / edited).write_text((runtime / edited).read_text("utf-8") + "\n", "utf-8")
    assert module_name(source) != module_name(runtime / "scheduler.c")


def test_headers_of_headers_are_sources() -> None:
    names = {path.name for path in sources(PACKAGE / "simulate" / "runtime" / "scheduler.c")}
    assert {"scheduler.c", "runtime.h", "records.h", "lanes.h"} <= names


@pytest.mark.parametrize("source", PARTS, ids=lambda p: p.name)
def test_bitcode_names_no_target(source: Path) -> None:
    text = text_of(bitcode(source))
    for word in ("target-cpu", "target-features", "target triple", "datalayout", "zeroext", "!dbg", "tbaa"):
        assert word not in text


@needs_compiler
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int f(unsigned x) { return __builtin_ctz(x); }", "must mean one thing on"),
        ("long double f(long double x) { return x; }", "must mean one thing on"),
        ("int f(int x) { return y; }", "does not compile for x86_64"),
        ("char f(int x) { return x; }", "does not compile for x86_64"),
    ],
)
def test_code_that_depends_on_the_target_is_refused(text: str, message: str, tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text(text)
    with pytest.raises(ValueError, match=message):
        compile_c(source)


@needs_compiler
def test_a_user_s_bitcode_that_is_older_than_its_source_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text("int mine(int x)\n{\n    return x;\n}\n")
    source.with_suffix(".bc").write_bytes(compile_c(source))
    other = tmp_path / "other.c"  # the process keeps bitcode that it has read
    other.write_bytes(source.read_bytes())
    other.with_suffix(".bc").write_bytes(compile_c(other))
    assert bitcode(source) == source.with_suffix(".bc").read_bytes()
    other.write_text("int mine(int x)\n{\n    return x + 1;\n}\n")
    with pytest.raises(CompileError, match=r"other\.bc must be made from the C file beside it .* run: python -m"):
        bitcode(other)
