"""A failure of the translator is reported as Tilewright's error, not as an error in the PTX."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.errors import PtxError, TranslatorError
from tilewright.simt import launch
from tilewright.simulate.translate import translation
from tilewright.simulate.translate.analysis import webs
from tilewright.simulate.translate.lowering import emit


@pytest.mark.parametrize("error", [KeyError("u7"), TypeError("add: i32 and i64"), IndexError(3)])
def test_a_defect_of_the_translator_is_reported_as_such(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*asked: object) -> None:
        raise error

    monkeypatch.setattr(emit, "emit_op", broken)
    with pytest.raises(
        TranslatorError, match=r"'ld.param.u64' could not be translated .*defect of Tilewright"
    ) as raised:
        launch(kernel("st.global.u32 [%at], 7;"), 1, 2, (np.zeros(2, np.uint32),))
    assert not isinstance(raised.value, PtxError)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("defective", [(webs, "split"), (translation, "Shapes"), (emit, "emit_function")])
def test_a_defect_of_a_pass_is_reported_as_such(
    defective: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*asked: object) -> None:
        raise KeyError("u7")

    monkeypatch.setattr(*defective, broken)
    with pytest.raises(TranslatorError, match=r"'k' could not be translated \(KeyError: 'u7'\); this is a defect"):
        launch(kernel("st.global.u32 [%at], 7;"), 1, 2, (np.zeros(2, np.uint32),))
