"""Calls that are inlined: which functions are recursive, and texts whose inlining would not end."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import PtxError
from tilewright.simulate.translate.analysis import inline


def graph(calls: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(inline, "_callees", lambda function: iter(function.calls))
    return SimpleNamespace(functions={name: SimpleNamespace(calls=called) for name, called in calls.items()})


def reaches_itself(calls: dict[str, list[str]], name: str) -> bool:
    reached, fresh = set[str](), set(calls[name])
    while fresh:
        reached |= fresh
        fresh = {c for one in fresh for c in calls.get(one, ())} - reached
    return name in reached


@pytest.mark.parametrize("seed", range(40))
def test_recursive_functions_are_those_that_reach_themselves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    names = [f"f{i}" for i in range(draw.randint(1, 12))]
    calls = {name: draw.choices([*names, "unknown"], k=draw.choice((0, 1, 1, 2))) for name in names}
    expected = {name for name in names if reaches_itself(calls, name)}
    assert inline.recursive_functions(graph(calls, monkeypatch)) == expected


def test_a_long_chain_is_searched_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of what each function reaches would have 200 million members."""
    calls = {f"f{i}": [f"f{i + 1}"] for i in range(20_000)}
    start = time.process_time()
    assert inline.recursive_functions(graph(calls, monkeypatch)) == set()
    calls["f19999"] = ["f0"]
    assert len(inline.recursive_functions(graph(calls, monkeypatch))) == 20_000
    assert time.process_time() - start < 20


CALL = "{ .param .u32 a; .param .u32 b; st.param.u32 [a], %r1; call (b), NAME, (a); ld.param.u32 %r1, [b]; }"


def functions(count: int, body: str = "", calls: int = 1) -> str:
    """Functions of which each calls the one before some times; the first has a body."""
    made = []
    for i in range(count):
        inner = CALL.replace("NAME", f"f{i - 1}") * calls if i else f"{body} add.u32 %r1, %r1, 1;"
        made.append(
            f".func (.param .u32 r) f{i}(.param .u32 x) {{ .reg .u32 %r<3>; ld.param.u32 %r1, [x]; {inner} "
            "st.param.u32 [r], %r1; ret; }"
        )
    return "\n".join(made)


def launch_last(module: str, count: int) -> int:
    out = np.zeros(1, np.uint32)
    body = f"mov.u32 %r1, 5; {CALL.replace('NAME', f'f{count - 1}')} st.global.u32 [%at], %r1;"
    run(kernel(body, 1, module=module), out, grid=1, block=1)
    return int(out[0])


def test_calls_are_inlined_up_to_a_depth() -> None:
    assert launch_last(functions(256), 256) == 6
    with pytest.raises(PtxError, match=r"must be nested at most 256 deep \(got 'f0'\); merge functions"):
        launch_last(functions(257), 257)


def test_the_names_of_inlined_functions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ".reg .b32 " + ", ".join(f"a{i}" for i in range(100)) + ";"
    module = functions(6, names, calls=2)
    assert launch_last(module, 6) == 37
    monkeypatch.setattr(inline, "_NAMES_MAX", 2_000)
    with pytest.raises(PtxError, match=r"at most 2,000 registers and variables after inlining \(got 2,[\d,]+\); call"):
        launch_last(f"// not translated before\n{module}", 6)
