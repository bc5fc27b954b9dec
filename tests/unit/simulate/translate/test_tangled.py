"""Functions whose lanes wait in many places: registers are in memory, because LLVM is slow where many values join."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_graphs import wrong_threads

from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.run import kernels
from tilewright.simulate.run.compiler import host
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.lowering import flow
from tilewright.simulate.translate.translation import translate

VALUES = 12


def early_exits(count: int) -> str:
    """PTX in which lanes leave a chain of blocks one after the other, past double-precision values that all use."""
    values = range(VALUES)
    load = "".join(f"ld.global.f64 %d{i}, [%rd2+{8 * i}];\n" for i in values)
    links = "".join(
        f"ld.global.u32 %r2, [%rd2+{4 * i}]; setp.gt.u32 %p1, %r2, {i}; @%p1 bra L{(i * 7) % count};\n"
        f"L{i}: add.f64 %d{i % VALUES}, %d{i % VALUES}, %d{(i + 1) % VALUES};\n"
        for i in range(count)
    )
    total = "".join(f"add.f64 %d0, %d0, %d{i};\n" for i in values)
    return (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>;\n"
        f".reg .b64 %rd<4>;\n.reg .f64 %d<{VALUES}>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n"
        f"mul.wide.u32 %rd3, %r1, 8; add.u64 %rd2, %rd1, %rd3;\n{load}{links}{total}st.global.f64 [%rd2], %d0;\nret; }}"
    )


def code_bytes(text: str) -> int:
    launch = LaunchClass.of((32, 1, 1), (1, 1, 1))
    made = translate(parse(text), "k", launch)
    return len(host().compile_kernel(made.ir, made.handlers, made.symbol))


def test_code_grows_with_the_text_not_with_values_times_places() -> None:
    short, long = code_bytes(early_exits(12)), code_bytes(early_exits(48))
    assert long < 4 * short


@pytest.mark.parametrize("quantum", [None, 3], ids=["plain", "yielding"])
def test_registers_in_memory_give_the_same_results(
    quantum: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Random flow graphs against one thread at a time; with almost no fuel a warp leaves at every back edge."""
    monkeypatch.setattr(flow, "TANGLED", 0)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    if quantum:
        monkeypatch.setattr("tilewright.simulate.run.execution.QUANTUM", quantum)
    kernels.kernel_store.cache_clear()
    try:
        for seed in range(200, 212):
            assert wrong_threads(seed) == []
    finally:
        kernels.kernel_store.cache_clear()
