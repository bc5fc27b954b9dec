"""Handlers in C that do not match their event are refused; the error shows the expected C."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import ArgumentValueError
from tilewright.simulate.events import WHERE, CFunction, EventKind, Handler, Instrument, Site

BODY = "st.global.u32 [%at], 1;"


def defining(symbol: str, listed: str, result: str = "void") -> bytes:
    """Bitcode of an empty function, as a C compiler would make it."""
    text = f"define {result} @{symbol}({listed}) {{ ret {result} {'0' * (result != 'void')} }}"
    return bytes(llvm.parse_assembly(text, context=llvm.context.create_context()).as_bitcode())


class Given(Instrument):
    """Answers every site of a kind with one handler."""

    def __init__(self, kind: EventKind, handler: Handler) -> None:
        self.name, self.kind, self.given = "given", kind, handler

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        return self.given if site.kind is self.kind else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> Any:
        return len(sites)


def observed(kind: EventKind, handler: Handler) -> Any:
    return run(kernel(BODY), np.zeros(32, np.uint32), instruments=[Given(kind, handler)]).results["given"]


def test_a_name_that_the_bitcode_lacks() -> None:
    handler = Handler("tw_given_runn", needs=(defining("tw_given_run", f"{WHERE}, i32 %mask"),))
    with pytest.raises(ArgumentValueError, match="must be a function that its bitcode defines") as caught:
        observed(EventKind.RUN, handler)
    assert "got 'tw_given_runn'; defined are tw_given_run);" in str(caught.value)
    assert "define `void tw_given_runn(TW_WHERE, uint32_t mask)`" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "listed", "result", "wanted", "came"),
    [
        (EventKind.RUN, WHERE, "void", "void tw_given_f(TW_WHERE, uint32_t mask)", "void tw_given_f(TW_WHERE)"),
        (
            EventKind.ACCESS, f"{WHERE}, i32, i64, i32", "void",
            "void tw_given_f(TW_WHERE, uint32_t mask, const void *addresses, uint32_t bytes)",
            "void tw_given_f(TW_WHERE, uint32_t, uint64_t, uint32_t)",
        ),
        (EventKind.EXIT, "i32", "void", "void tw_given_f(TW_WHERE, uint32_t mask)", "void tw_given_f(uint32_t)"),
        (
            EventKind.EXIT, f"{WHERE}, i32", "i32",
            "void tw_given_f(TW_WHERE, uint32_t mask)", "uint32_t tw_given_f(TW_WHERE, uint32_t)",
        ),
    ],
)  # fmt: skip
def test_parameters_that_the_event_does_not_pass(
    kind: EventKind, listed: str, result: str, wanted: str, came: str
) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        observed(kind, Handler("tw_given_f", needs=(defining("tw_given_f", listed, result),)))
    assert f"passes, `{wanted}`, got `{came}`;" in str(caught.value)


def test_constants_count_as_parameters() -> None:
    code = defining("tw_given_f", f"{WHERE}, i32, i32, ptr")
    function = CFunction("tw_given_f", EventKind.EXIT, (code,))
    assert observed(EventKind.EXIT, function.handler("tw.given", ["i32 4", "ptr null"])) == 1
    with pytest.raises(ArgumentValueError) as caught:
        function.handler("tw.given", ["i64 4", "ptr null"])
    assert "`void tw_given_f(TW_WHERE, uint32_t mask, uint64_t, const void *)`, got" in str(caught.value)


def test_a_matching_handler_is_called() -> None:
    assert observed(EventKind.EXIT, Handler("tw_given_f", needs=(defining("tw_given_f", f"{WHERE}, i32"),))) == 1


def test_a_function_that_two_instruments_define_is_refused() -> None:
    """In optimised code one of them would not be called; in quick code both would."""

    def given(name: str, helper: str, listed: str) -> Given:
        needs = defining(f"tw_{name}", f"{WHERE}, i32"), defining(helper, listed)
        found = Given(EventKind.EXIT, Handler(f"tw_{name}", needs=needs))
        found.name = name
        return found

    one, other, renamed = given("one", "help", "i32"), given("other", "help", "i64"), given("other", "more", "i64")
    with pytest.raises(ArgumentValueError, match=r"must be defined once \(got 'help' in two files"):
        run(kernel(BODY), np.zeros(32, np.uint32), instruments=[one, other])
    assert run(kernel(BODY), np.zeros(32, np.uint32), instruments=[one, renamed]).results == {"one": 1, "other": 1}
