"""C functions of instruments that quick code calls: compiled once, made again if missing, with any calls."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from ptx_kernels import kernel, run

import tilewright.instruments
from tilewright.errors import ArgumentValueError
from tilewright.ground.native import secure_files, store
from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.calls import calls
from tilewright.instruments import Mix
from tilewright.simulate.handlers import check_names
from tilewright.simulate.run import kernels
from tilewright.simulate.run.compiler import Host
from tilewright.simulate.run.parts import _units

INSTRUMENTS = Path(tilewright.instruments.__file__).parent


def parts(*names: str) -> list[bytes]:
    """Bitcode of the checks' shadow memory."""
    return [bitcode(INSTRUMENTS / "shadow" / f"{name}.c") for name in names]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    found = store.room(secure_files.TRANSLATIONS)
    assert found is not None
    return found


@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], Host]:
    """Empty the memory's cache, as in another process."""

    def begin() -> Host:
        compiler, kept = Host(), kernels.KernelStore()
        monkeypatch.setattr(kernels, "host", lambda: compiler)
        monkeypatch.setattr("tilewright.simulate.run.job.kernel_store", lambda: kept)
        return compiler

    return begin


def counted(lanes: int) -> int:
    """Thread instructions of a kernel in which this many lanes store; with inactive lanes, `Mix` counts in C."""
    body = f"mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {lanes}; @!%p1 bra E; st.global.u32 [%at], %r1; E:"
    found = run(kernel(body), np.zeros(1024, np.uint32), instruments=(Mix(),))
    return int(found.results["mix"].thread_instructions)


def test_a_part_comes_after_parts_that_it_calls_and_cycles_come_together() -> None:
    order = ("bulk", "mbarriers", "records", "sent", "clocks", "clusters")
    names = dict(zip(parts(*order), order, strict=True))
    units = [sorted(names[part] for part in unit) for unit in _units(list(names))]
    assert units == [["records"], ["sent"], ["clocks", "clusters"], ["bulk", "mbarriers"]]


def assembled(text: str) -> bytes:
    """Bitcode of LLVM assembly."""
    return calls().run(lambda check: llvm.parse_assembly(text, llvm.create_context()).as_bitcode())


COUNTING = "@count = {} i64{}\ndefine i64 @{}() {{ %n = load i64, ptr @count\n %m = add i64 %n, 1\n"
COUNTING += " store i64 %m, ptr @count\n ret i64 %m }}\n"


def test_parts_that_share_a_variable_have_one_copy_of_it() -> None:
    one, other = (
        assembled(COUNTING.format(*x)) for x in (("global", " 5", "first"), ("external global", "", "second"))
    )
    apart = assembled(COUNTING.format("global", " 9", "apart").replace("@count", "@own"))
    _, libraries = Host().parts.made([one, other, apart])
    assert len(libraries) == 2
    addresses = {name: at for library in libraries for name, at in library.addresses.items()}
    called = [ctypes.CFUNCTYPE(ctypes.c_uint64)(addresses[name])() for name in ("first", "second", "apart")]
    assert called == [6, 7, 10]


@pytest.mark.parametrize(("variable", "function", "twice"), [("count", "other", "count"), ("own", "first", "first")])
def test_a_name_that_two_parts_define_is_refused(variable: str, function: str, twice: str) -> None:
    one = assembled(COUNTING.format("global", " 5", "first"))
    other = COUNTING.format("global", " 5", function).replace("@count", f"@{variable}")
    with pytest.raises(ArgumentValueError, match=rf"must be defined once \(got '{twice}' in two files"):
        check_names([one, "; text", assembled(other)])
    check_names([one, assembled(other.replace(f"@{twice}", "@renamed"))])


def test_a_part_is_compiled_once_for_all_kernels_and_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = parts("sent", "records")
    first, second = Host(), Host()
    keys, libraries = first.parts.made([*code, "; text", code[0]])
    monkeypatch.setattr(Host, "compile", None)
    assert len(keys) == 2 and first.parts.made(code) == (keys, libraries)
    assert second.parts.made(code[::-1])[0] == keys
    assert first.parts.found(keys) == libraries and first.parts.found(keys[:1]) == libraries[:1]


def test_libraries_of_a_kernel_exist_until_it_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    kept = Host().parts
    kept._libraries.capacity = 1
    keys, libraries = kept.made(parts("sent", "records"))
    assert kept.found(keys) is None
    assert all(library.addresses for library in libraries) and len(libraries) == 2


def test_a_kernel_keeps_the_libraries_that_it_calls_loaded(folder: Path) -> None:
    compiler = Host()
    _, libraries = compiler.parts.made(parts("sent", "records"))
    code = compiler.compile_kernel("define void @k() {\n  ret void\n}", (), "k", optimise=False)
    library = compiler.link_kernel(code, "k", libraries)
    living = [weakref.ref(part) for part in libraries]
    compiler.parts._libraries.clear()
    del libraries
    gc.collect()
    assert all(part() for part in living)
    del library
    gc.collect()
    assert not any(part() for part in living)


def test_quick_code_of_two_kernels_has_one_copy(another: Callable[[], Host], monkeypatch: pytest.MonkeyPatch) -> None:
    another()
    made, compile_ = [], Host.compile

    def compile(self: Host, ir: str | bytes, handlers: Any = (), **options: Any) -> bytes:
        made.extend(part for part in (ir, *handlers) if isinstance(part, bytes))
        return compile_(self, ir, handlers, **options)

    monkeypatch.setattr(Host, "compile", compile)
    assert counted(9) == counted(7) + 2
    assert made.count(bitcode(INSTRUMENTS / "mix.c")) == 1


def test_a_kernel_with_a_missing_part_is_made_again(another: Callable[[], Host], folder: Path) -> None:
    keys, _ = another().parts.made([bitcode(INSTRUMENTS / "mix.c")])
    five = counted(5)
    for key in keys:
        (folder / f"{key}.bin").unlink()
    assert another().parts.found(keys) is None
    assert counted(5) == five
    assert all((folder / f"{key}.bin").exists() for key in keys)
