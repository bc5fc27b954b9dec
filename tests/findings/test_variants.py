"""Ways to write a kernel that mean the same; `variants.py` runs `check` on what they make of the corpus."""

from __future__ import annotations

from pathlib import Path

import corpus
import pytest
import variants

PATH = Path(__file__).with_name("verdicts") / "named_barriers.py"


@pytest.mark.parametrize("way", [way for way, (_, options) in variants.WAYS.items() if not options])
def test_a_way_changes_the_text_and_no_line(way: str) -> None:
    made = [variants.variant(PATH, case, way) for case in corpus.cases(PATH)]
    assert all(one is not None and one.case.kernel.text != case.kernel.text
               for one, case in zip(made, corpus.cases(PATH), strict=True))  # fmt: skip


def test_a_lost_defect_and_a_false_finding_are_told() -> None:
    named = {case.name: case for case in corpus.cases(PATH)}
    planted, clean = (variants.variant(PATH, named[name], "called") for name in ("pairs_1", "pairs_0"))
    assert planted is not None
    assert clean is not None
    assert [variants.wrong(one) for one in (planted, clean)] == ["", ""]
    swapped = [variants.Variant("called", PATH, case) for case in (planted.case, clean.case)]
    lost, false = (
        variants.wrong(variants.Variant("called", PATH, type(one.case)(**{**vars(one.case), "codes": codes})))
        for one, codes in zip(swapped, ((), ("TW301",)), strict=True)
    )
    assert (lost, false) == ("found TW301", "due TW301, found nothing")


def test_as_many_of_each_way_are_drawn_and_the_same_again() -> None:
    every = [one for case in corpus.cases(PATH) for way in variants.WAYS if (one := variants.variant(PATH, case, way))]
    some = variants.chosen(every, 22, 0)
    assert some == variants.chosen(every, 22, 0) != variants.chosen(every, 22, 1)
    assert sum(bool(one.codes) for one in some) == 22
    ways = [one.way for one in some if one.codes]
    assert {ways.count(way) for way in ways} == {2}
