"""What `check` finds of the labelled kernels, by kind: `python tests/findings/precision.py [KIND ...]`.

The kernels are those of `verdicts/`, the litmus tests, and those of `defects/` whose kind (the first word of the file's
name) is about races, barriers, copies, mbarriers or unset memory. A kernel with a defect is found if `check` gives one
of the codes that its label names. A correct one with any finding is false, and so is a finding beside the label's on a
kernel with a defect. Cases whose wrong verdict is known are counted as the others, and listed with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import corpus
import litmus
from case import Case

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import Memory

#: Kinds of `defects/` that are counted.
KINDS = frozenset("barrier box bulk call cluster copy mask matrix mbarrier race tensor unset wgmma".split())
_RACES = ("TW301", "TW302", "TW303", "TW304", "TW306", "TW308", "TW310", "TW411", "TW412")


@dataclass(frozen=True)
class Verdict:
    """A labelled kernel, and what `check` says of it."""

    kind: str
    name: str
    codes: frozenset[str]  #: The codes of which one is right; none for a correct kernel.
    found: frozenset[str]
    why: str
    known: str

    @property
    def hit(self) -> bool:
        """Whether a defect is found."""
        return bool(self.codes & self.found)

    @property
    def false(self) -> bool:
        """Whether there is a finding that the label does not name."""
        return bool(self.found - self.codes)

    @property
    def right(self) -> bool:
        """Whether the verdict is the label's."""
        return not self.false and self.hit == bool(self.codes)


def found_by_check(case: Case) -> frozenset[str]:
    """The codes of what `check` finds of a case; TW7xx are `profile`'s."""
    arguments, _ = case.device_arguments(Memory())
    findings = tw.check(
        case.launchable(), case.grid, case.block, arguments, shared_bytes=case.shared_bytes, gpu=case.gpu,
        cooperative=case.cooperative, strict=case.strict,
    )  # fmt: skip
    return frozenset(one.code for one in findings)


def of_case(path: Path, case: Case) -> Verdict:
    """The verdict on a case of `verdicts/` or `defects/`."""
    if path.parent.name == "verdicts":
        return Verdict(path.stem, case.name, frozenset(case.codes), found_by_check(case), case.why, case.known)
    codes = frozenset(code for _, code in corpus.expected(case))
    return Verdict(path.stem.split("_")[0], case.name, codes, found_by_check(case), path.stem, "")


def of_cases(kinds: frozenset[str] = frozenset()) -> Iterator[Verdict]:
    """The verdicts on `verdicts/` and on `defects/`, of some kinds or all."""
    defects = [path for path in corpus.files("defects") if path.stem.split("_")[0] in KINDS]
    for path in [*corpus.files("verdicts"), *defects]:
        kind = path.stem if path.parent.name == "verdicts" else path.stem.split("_")[0]
        if not kinds or kind in kinds:
            yield from (of_case(path, case) for case in corpus.cases(path))


def of_litmus(kinds: frozenset[str] = frozenset()) -> Iterator[Verdict]:
    """The verdicts on the litmus tests."""
    for row in litmus.rows() if not kinds or "litmus" in kinds else ():
        text = litmus.module(litmus.placed(row))
        for test in litmus.placed(row):
            found, _ = litmus.codes(Program.from_ptx(text, test.name), test)
            codes = frozenset(_RACES if test.racy else ())
            yield Verdict("litmus", test.name, codes, frozenset(found), row.why, row.missed or row.mistaken)


def table(verdicts: list[Verdict]) -> Iterator[str]:
    """A line for each kind, and one for all."""
    yield f"{'kind':16} kernels defects found missed false precision recall"
    kinds = list(dict.fromkeys(one.kind for one in verdicts))
    for kind in [*kinds, "all"]:
        some = [one for one in verdicts if kind in (one.kind, "all")]
        defects, hits = sum(bool(one.codes) for one in some), sum(one.hit for one in some)
        false = sum(one.false for one in some)
        precision, recall = hits / (hits + false or 1), hits / (defects or 1)
        missed = defects - hits
        yield f"{kind:16} {len(some):7} {defects:7} {hits:5} {missed:6} {false:5} {precision:9.3f} {recall:6.3f}"


def main(kinds: list[str]) -> None:
    """Print the table, and every verdict that is not the label's."""
    asked = frozenset(kinds)
    verdicts = [*of_cases(asked), *of_litmus(asked)]
    print("\n".join(table(verdicts)))
    for one in verdicts:
        if not one.right:
            due = " or ".join(sorted(one.codes)) or "nothing"
            print(f"{one.kind}/{one.name}: due {due}, found {', '.join(sorted(one.found)) or 'nothing'}. {one.why}")
            print(f"    known: {one.known}" if one.known else "    not known")
        elif one.known:
            print(f"{one.kind}/{one.name}: right now, though known as wrong: {one.known}")


if __name__ == "__main__":
    main(sys.argv[1:])
