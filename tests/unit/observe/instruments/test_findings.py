"""The record of a finding, and the table of codes."""

from __future__ import annotations

import json
import re
import string
from dataclasses import FrozenInstanceError, replace

import pytest

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.observe.instruments.findings import Finding, code, codes, merged

FOUND = Finding(
    code="TW301", kernel="k", source="a.py", line=7, opcode="st.shared.f32", ptx_line=41, block=(1, 2, 3),
    thread=(4, 5, 6), count=9, launch=2, details={"others": ["a.py:9"], "address": 64},
)  # fmt: skip


#: Fields of sentences that other data make.
COMPUTED = {"there", "ends", "region", "whose"}


@pytest.mark.parametrize("name", codes())
def test_a_code_has_its_rule_and_what_to_do(name: str) -> None:
    row = codes()[name]
    assert row.severity in ("error", "warning", "note")
    assert (row.severity == "note") == name.startswith("TW7")
    assert not row.title.endswith(".")
    for sentence in (row.rule, row.remedy):
        assert re.match(r"[A-Z`].*\.$", sentence)
        assert ". " not in sentence, "one sentence"


@pytest.mark.parametrize("name", codes())
def test_a_sentence_has_the_fields_of_the_finding_and_without_them_its_title(name: str) -> None:
    row = codes()[name]
    assert Finding(code=name, kernel="k", details={"how": "nonsense"}).message == row.title
    for how, text in row.says.items():
        assert not text.endswith(".")
        fields = {field: spec for _, field, spec, _ in string.Formatter().parse(text) if field not in (None, "opcode")}
        lists = {name for name, spec in fields.items() if (spec and spec[0] not in "*.,") or spec == ", "}
        data = {"how": how} | {name: [7] if name in lists else 7 for name in fields.keys() - COMPUTED}
        data |= {"ends": [[7, 1]]} if "ends" in fields else {}
        data |= {"space": "shared"} if "region" in fields else {}
        found = Finding(code=name, kernel="k", opcode="op", details=data)
        assert found.message != row.title
        assert "{" not in found.message


def test_a_race_names_the_known_other_lines() -> None:
    came = {"access": "write", "other_access": "read", "bytes": 4, "space": "shared"}
    for others, words in (([], "another line"), (["a.py:9", "a.py:7"], "a.py:9 and the same line")):
        found = replace(FOUND, details={**came, "others": others})
        assert found.message == (
            f"write of 4 bytes in shared memory races with a read by another warp at {words}: nothing orders them"
        )


@pytest.mark.parametrize(
    ("name", "said"), [("tw301", "did you mean TW301"), ("nonsense", "the codes are TW101, TW102")]
)
def test_an_unknown_code_is_refused_with_the_known_ones(name: str, said: str) -> None:
    with pytest.raises(ArgumentValueError, match=said):
        code(name)
    with pytest.raises(ArgumentValueError, match=said):
        replace(FOUND, code=name)


def test_a_finding_is_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        FOUND.count = 2  # type: ignore[misc]
    assert len({FOUND, replace(FOUND), replace(FOUND, count=2)}) == 2


def test_json_and_back() -> None:
    document = json.loads(json.dumps(FOUND.to_json()))
    assert document["severity"] == "error"
    assert document["block"] == [1, 2, 3]
    assert Finding.from_json(document) == FOUND
    least = Finding(code="TW502", kernel="k")
    assert Finding.from_json(json.loads(json.dumps(least.to_json()))) == least
    with pytest.raises(ArgumentTypeError, match="colour"):
        Finding.from_json({**document, "colour": "red"})


@pytest.mark.parametrize(("source", "ptx_line", "where"), [("a.py", 3, "a.py:7"), ("", 3, "PTX line 3"), ("", 0, "k")])
def test_where_falls_back_on_known_fields(source: str, ptx_line: int, where: str) -> None:
    assert replace(FOUND, source=source, ptx_line=ptx_line).where == where


def test_the_first_instance_is_the_lowest_block_then_thread_of_the_first_launch() -> None:
    low = replace(FOUND, block=(9, 0, 0), thread=(9, 9, 0), details={"address": 4})
    high = replace(FOUND, block=(0, 1, 0), thread=(0, 0, 0))
    later = replace(FOUND, launch=3, block=(0, 0, 0))
    for order in ([low, high, later], [later, high, low]):
        (one,) = merged(order)
        assert (one.details, one.block, one.launch, one.count) == ({"address": 4}, (9, 0, 0), 2, 27)


def test_instructions_of_a_line_are_one_finding_unless_their_fields_differ() -> None:
    unrolled = replace(FOUND, ptx_line=99)
    assert len(merged([FOUND, unrolled])) == 1
    others = [
        replace(FOUND, line=8),
        replace(FOUND, code="TW302"),
        replace(FOUND, kernel="l"),
        replace(FOUND, details={"others": ["a.py:9"], "array": "b"}),
        replace(FOUND, source="", line=0),
        replace(FOUND, source="", line=0, ptx_line=99),
    ]
    assert len(merged([FOUND, *others])) == 1 + len(others)


def test_a_line_names_every_library_s_line_that_it_calls_once() -> None:
    rows = [
        Finding(code="TW101", kernel="k", source="a.py", line=3, ptx_line=p, details={"inner": [place]})
        for p, place in enumerate(["lib.py:12", "lib.py:7", "lib.py:12"], start=1)
    ]
    (one,) = merged([*rows, Finding(code="TW101", kernel="k", source="a.py", line=3, ptx_line=9)])
    assert (one.count, one.details["inner"]) == (4, ["lib.py:7", "lib.py:12"])


def test_findings_come_in_the_order_of_the_source() -> None:
    lines = [replace(FOUND, source=s, line=n) for s, n in (("b.py", 1), ("a.py", 9), ("a.py", 2))]
    assert [(f.source, f.line) for f in merged(lines)] == [("a.py", 2), ("a.py", 9), ("b.py", 1)]
