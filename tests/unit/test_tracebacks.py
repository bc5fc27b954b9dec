"""An error of wrong use shows the user's lines, and one of ours: the function that was called."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CompileError, TilewrightError

A, B = np.ones((8, 8), np.float32), np.ones((7, 8), np.float32)
OURS = str(Path(tw.__file__).parent)
#: A wrong use of each public function that has errors of ours.
WRONG: dict[str, Callable[[], Any]] = {
    "matmul": lambda: tw.matmul(A, B),
    "matmul of a dtype": lambda: tw.matmul(A, A, dtype="fp16"),
    "matmul of a file": lambda: tw.matmul("none.npy", A),
    "matmul of a device": lambda: tw.matmul(A, A, device="abacus"),
    "plan": lambda: tw.plan((3, 4), (5, 6)),
    "plan of dtypes": lambda: tw.plan((3, 4), (4, 6), "colour"),
    "check": lambda: tw.check(1, 1, 1, ()),
    "predict": lambda: tw.predict(1, 1, 1, ()),
    "profile": lambda: tw.profile(1, 1, 1, ()),
    "tune": lambda: tw.tune((8, 8), (8, 8), device="abacus"),
    "simulated_gpu": lambda: tw.simulated_gpu("abacus"),
    "exp": lambda: tw.exp("a"),
    "simt.launch": lambda: tw.simt.launch(1, 1, 1, ()),
    "machine.gpu": lambda: tw.machine.gpu("abacus"),
    "catalogue.find": lambda: tw.catalogue.find("abacus"),
    "Program.from_ptx": lambda: tw.programs.Program.from_ptx(Path("none.ptx")),
    "Program.from_cuda": lambda: tw.programs.Program.from_cuda(Path("none.cu"), entry="k"),
}


def frames(wrong: BaseException) -> list[bool]:
    """Whether each frame is of our package, from this file's call on."""
    return [one.filename.startswith(OURS) for one in traceback.extract_tb(wrong.__traceback__)][1:]


@pytest.mark.parametrize("use", WRONG)
def test_it_ends_at_the_call(use: str) -> None:
    with pytest.raises(TilewrightError) as wrong:
        WRONG[use]()
    assert frames(wrong.value) == [False, True]
    assert wrong.value.__cause__ is None and (wrong.value.__context__ is None or wrong.value.__suppress_context__)


@pytest.mark.parametrize("use", WRONG)
def test_it_is_whole_for_a_developer(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    with pytest.raises(TilewrightError) as wrong:
        WRONG[use]()
    assert len(frames(wrong.value)) > 2


def test_a_user_s_function_that_is_called_within_stays_visible() -> None:
    def epilogue(total: Any) -> Any:
        raise CompileError("mine")

    with pytest.raises(CompileError) as wrong:
        tw.matmul(A, A, epilogue=epilogue)
    assert traceback.extract_tb(wrong.value.__traceback__)[-1].name == "epilogue"


def test_a_small_product_pays_no_call_for_it() -> None:
    """`tw.matmul` has a handler of its own, which costs nothing until an error comes, and no wrapper."""
    code = tw.matmul.__code__
    assert (code.co_name, bool(code.co_exceptiontable)) == ("matmul", True)
