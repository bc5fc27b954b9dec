"""Kernels that Numba compiled in an earlier process, or for an earlier dispatcher."""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from numba import cuda
from numba.cuda import dispatcher

import tilewright as tw
from tilewright.simulate.programs import numba_cache

FACTOR = 3


def scale(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= FACTOR


@pytest.fixture(autouse=True)
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that Numba compiles; the cache starts empty."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    if numba_cache._extended():  # by another test of this process
        monkeypatch.setattr(numba_cache, "_extended", lambda: False)
    found: list[str] = []
    original = dispatcher.compile_cuda

    def noted(function: Any, *arguments: Any, **named: Any) -> Any:
        found.append(function.__name__)
        return original(function, *arguments, **named)

    monkeypatch.setattr(dispatcher, "compile_cuda", noted)
    return found


def launched(**options: Any) -> tuple[Any, Any]:
    """A new dispatcher of the same function, launched, and its kernel."""
    kernel, x = cuda.jit(**options)(scale), np.arange(40, dtype=np.float32)
    kernel[2, 32](x)
    assert x.tolist() == [3 * i for i in range(40)]
    return kernel, next(iter(kernel.overloads.values()))


def test_a_kept_kernel_is_like_a_compiled_one(compiled: list[str]) -> None:
    with tw.simulated_gpu() as gpu:
        _, first = launched()
        dispatcher_, second = launched()
        assert compiled == ["scale"] and gpu.launches == 2
        for name in ("entry_name", "signature", "argument_types", "cooperative", "lineinfo", "regs_per_thread",
                     "shared_mem_per_block", "launch_bounds", "max_threads_per_block"):  # fmt: skip
            assert getattr(first, name) == getattr(second, name), name
        assert first.inspect_asm((9, 0, "a")) == second.inspect_asm((9, 0, "a"))
        assert second._codelibrary.get_cubin().ptx == first._codelibrary.get_cubin().ptx
        assert compiled == ["scale"]
        assert isinstance(second, type(first)) and len(dispatcher_.overloads) == 1
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        second.nothing  # noqa: B018


@pytest.mark.parametrize(
    "asked",
    [
        lambda kernel: kernel.inspect_llvm(),
        lambda kernel: kernel.inspect_types(io.StringIO()),
        lambda kernel: kernel.inspect_asm((8, 0)),
        lambda kernel: kernel.target_context,
        lambda kernel: kernel._reduce_states(),
    ],
)
def test_what_only_the_compiler_knows_is_compiled_when_asked_for(
    compiled: list[str], asked: Callable[[Any], object]
) -> None:
    with tw.simulated_gpu():
        launched()
        kernel, kept = launched()
        assert compiled == ["scale"]
        asked(kept)
        assert compiled == ["scale", "scale"]
        x = np.ones(4, np.float32)
        kernel[1, 4](x)
        assert x.tolist() == [3] * 4 and compiled == ["scale", "scale"]


def test_a_kept_kernel_has_its_ptx_of_link_time_optimisation(compiled: list[str]) -> None:
    with tw.simulated_gpu():
        launched(lto=True)
        _, kept = launched(lto=True)
        assert compiled == ["scale"]
        assert ".entry" in kept.inspect_lto_ptx((9, 0, "a"))


def test_a_kept_kernel_is_one_of_numba_s_when_pickled() -> None:
    with tw.simulated_gpu():
        _, first = launched()
        _, second = launched()
        assert second._reduce_class() is type(first)
        assert pickle.dumps(second.__reduce__()[0]) == pickle.dumps(first.__reduce__()[0])


@pytest.mark.parametrize("options", [{"debug": True, "opt": False}, {"extensions": [object()]}])
def test_what_a_text_does_not_describe_is_compiled_each_time(compiled: list[str], options: Any) -> None:
    with tw.simulated_gpu():
        if options.get("extensions"):
            options = {"extensions": [Extension()]}
        launched(**options)
        launched(**options)
        assert compiled == ["scale", "scale"]


class Extension:
    """Leaves arguments as they are."""

    def prepare_args(self, kind: Any, value: Any, **more: Any) -> Any:
        return kind, value


def test_a_name_that_two_kernels_would_have_is_only_one_s(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.cuda.core.bytecode import FunctionIdentity

    def made(value: int) -> Any:
        def kernel(x: Any) -> None:
            x[0] = value

        return cuda.jit(kernel)

    def value_of(kernel: Any) -> Any:
        x = np.zeros(1)
        kernel[1, 1](x)
        return x[0], next(iter(kernel.overloads.values())).entry_name

    for order in ((1, 2), (2, 1)):
        for value in order:
            monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(900))
            with tw.simulated_gpu():
                value_of(made(value))  # both are kept, with one name
        with tw.simulated_gpu():
            monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(900))
            found = [value_of(made(value)) for value in (*order, 3)]
    assert [value for value, _ in found] == [2, 1, 3]
    assert len({name for _, name in found}) == 3


def test_findings_of_a_kept_kernel_are_the_same() -> None:
    def beyond(x: Any) -> None:
        x[cuda.grid(1)] += 1

    def found() -> Any:
        with tw.simulated_gpu(check=True) as gpu:
            cuda.jit(beyond)[1, 64](np.zeros(40, np.float32))
            return [(one.code, one.line, one.count, one.message) for one in gpu.findings]

    first, second = found(), found()
    assert first == second and first
