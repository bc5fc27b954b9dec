"""Suppressions: findings that the user has looked at and no longer wants to see.

By a comment at the end of the finding's line, in Python or C++::

    total += x[i]  # tilewright: ignore[TW601]
    total += x[i];  // tilewright: ignore[TW601, TW604]

or by code, for all lines.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ArgumentValueError, nearest
from tilewright.observe.instruments.findings import Finding, code, codes
from tilewright.simulate.ptx.frames import package

_COMMENT = re.compile(r"(?:#|//)\s*tilewright:\s*ignore\b(?:\[([^\]]*)\])?")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One suppressed code: at a line of a file, or anywhere if `line` is 0."""

    code: str
    source: str = ""
    line: int = 0

    def covers(self, finding: Finding) -> bool:
        """Whether this suppresses a finding."""
        return finding.code == self.code and (
            not self.line or (finding.source, finding.line) == (self.source, self.line)
        )

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: ignore[{self.code}]" if self.line else f"--ignore {self.code}"


#: Package and group of codes of known defects in a library's own kernels: numba-cuda's reductions name lanes in a mask
#: that are elsewhere. A finding at a library's line has no user's line on the GPU: if a user's kernel calls a library,
#: the finding is at the user's line.
_LIBRARIES = (("numba_cuda", "TW4"),)


@dataclass(frozen=True, slots=True)
class Sifted:
    """Findings, divided by the suppressions."""

    findings: tuple[Finding, ...]  #: Not suppressed.
    suppressed: tuple[Finding, ...]  #: Suppressed.
    unused: tuple[Suppression, ...]  #: Suppressions that match no finding.
    #: Errors of comments without a valid code, each with its line and the form to use.
    wrong: tuple[str, ...] = ()
    held: tuple[Finding, ...] = ()  #: Not suppressed, but reported with `strict` only.


def checked(codes: Sequence[str], where: str = "`ignore`") -> tuple[str, ...]:
    """The given codes, each once.

    Raises ArgumentValueError: one is no code; the message says where it was given, and lists the codes.

    >>> checked(["TW601", " TW604", "TW601"])
    ('TW601', 'TW604')
    """
    names = tuple(dict.fromkeys(name.strip() for name in codes))
    for name in names:
        try:
            code(name)
        except ArgumentValueError as error:
            raise ArgumentValueError(f"{where}: {error}") from None
    return names


def comments(files: Iterable[str]) -> tuple[list[Suppression], list[str]]:
    """The suppressions in comments of the readable files, and the errors of comments without a valid code."""
    found, wrong = [], []
    for file in dict.fromkeys(files):
        for number, line in enumerate(linecache.getlines(file), start=1):
            match = _COMMENT.search(line)
            for name in () if match is None else dict.fromkeys((match[1] or "").split(",")):
                if name.strip() in codes():
                    found.append(Suppression(name.strip(), file, number))
                else:
                    wrong.append(f"{file}:{number}: {_complaint(name.strip())}")
    return found, wrong


def _complaint(name: str) -> str:
    got, near = repr(name) if name else "none", (nearest(name, codes()) or ["TW601"])[0]
    return (
        f"the comment `tilewright: ignore[...]` must name codes of findings, or it suppresses nothing (got {got}); "
        f"name one, such as ignore[{near}], of those that `tilewright check --codes` lists"
    )


def _is_of_a_library(finding: Finding) -> bool:
    """Whether a finding is a known defect of a library's own kernels."""
    name = Path(package(finding.details.get("defined_at", finding.source))).name
    return any(name == library and finding.code.startswith(group) for library, group in _LIBRARIES)


def sift(
    findings: Iterable[Finding], suppressions: Sequence[Suppression], wrong: Sequence[str] = (), *, strict: bool = False
) -> Sifted:
    """Divide findings by the suppressions, and drop those of a library's own kernels, which no user can mend.

    Those of codes that only `strict` reports are held back without it.

    >>> rows = [Finding(code=c, kernel="k", source="a.py", line=3) for c in ("TW601", "TW301")]
    >>> sifted = sift(rows, [Suppression("TW601", "a.py", 3), Suppression("TW101")])
    >>> [f.code for f in sifted.findings], [str(s) for s in sifted.unused]
    (['TW301'], ['--ignore TW101'])
    """
    kept: list[Finding] = []
    suppressed: list[Finding] = []
    held: list[Finding] = []
    used: set[Suppression] = set()
    for finding in findings:
        covering = {one for one in suppressions if one.covers(finding)}
        to = held if codes()[finding.code].strict and not strict else kept
        (suppressed if covering or _is_of_a_library(finding) else to).append(finding)
        used |= covering
    unused = tuple(one for one in suppressions if one not in used)
    return Sifted(tuple(kept), tuple(suppressed), unused, tuple(wrong), tuple(held))
