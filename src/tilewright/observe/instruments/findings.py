"""The record of what is wrong with a kernel, and the table of codes.

A finding is data: what was found, where, how often, and where first. Its text comes from its code's record.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from tilewright.errors import ArgumentTypeError, ArgumentValueError, near
from tilewright.ground.native.memo import memo
from tilewright.observe.instruments.sentences import sentence

Severity = Literal["error", "warning", "note"]
Place = tuple[int, int, int]
#: Keys of `Finding.details` by which two findings of one line are told apart. The other lines of a race are not among
#: them: which of them are known depends on the order of execution.
DISTINGUISHING = ("array", "ptx_line")


@dataclass(frozen=True, slots=True)
class Code:
    """The meaning of a code."""

    code: str  #: `TW101` and the like; never changes its meaning.
    title: str  #: What was found, as a heading.
    rule: str  #: What is required, in one sentence.
    advice: str  #: What to do, with fields for words of the kernel's language.
    severity: Severity  #: error: wrong on any GPU; warning: right on some, slow or lossy; note: costs time.
    found_by: str  #: The module that reports it, below `src/tilewright`.
    #: What happened, one sentence for each `Finding.details["how"]` ("" where that is missing), filled with the data.
    says: Mapping[str, str]
    remedies: Mapping[str, str]  #: What to do where that follows from `Finding.details["how"]`.
    clauses: Mapping[str, str]  #: Text after the sentence, by the key of `Finding.details` that must be present.
    faults: tuple[str, ...] = ()  #: Values of `KernelError.fault` that are this finding.
    refines: str = ""  #: The code whose finding at the same line this one makes more precise; "" for none.
    #: What findings with one cause share: "race", "mask" and "guard" at a line, "kernel" in a kernel; "" for none.
    one_cause: str = ""
    follows: tuple[str, ...] = ()  #: Codes in the same kernel that cause this one.
    strict: bool = False  #: Whether only `--strict` reports it.

    @property
    def remedy(self) -> str:
        """The remedy, in Numba's words."""
        return self.remedy_in("numba")

    def remedy_in(self, language: str) -> str:
        """The remedy, in the words of a language of `[words]`.

        >>> codes()["TW301"].remedy_in("cuda")
        'Put `__syncthreads()` between the two accesses; where both update one element, make the update atomic.'
        """
        return self.advice.format_map(words(language))


@memo
def _tables() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("codes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


#: Tables beside the codes.
_OTHERS = ("clauses", "words", "races")


@memo
def codes() -> Mapping[str, Code]:
    """Every code by its name, in order.

    >>> codes()["TW101"].title
    'out-of-bounds global access'
    """
    rows = {code: dict(row) for code, row in _tables().items() if code not in _OTHERS}
    return MappingProxyType({code: _read(code, row, _tables()["clauses"]) for code, row in rows.items()})


def words(language: str) -> Mapping[str, str]:
    """A language's names of barriers and the like.

    >>> words("cuda")["barrier"], words("triton")["fence"]
    ('`__syncthreads()`', '`cuda.threadfence()`')
    """
    known: dict[str, dict[str, str]] = _tables()["words"]
    return known["numba"] | known.get(language, {})


def of_races() -> Mapping[str, Mapping[str, str]]:
    """The sentences on where a race's barrier goes, and on which access overtakes which."""
    known: Mapping[str, Mapping[str, str]] = _tables()["races"]
    return known


def _read(code: str, row: dict[str, Any], clauses: dict[str, dict[str, str]]) -> Code:
    """The record of a row of the table."""
    says, row["advice"] = row.pop("says"), row.pop("remedy")
    follow = clauses.get(row.pop("also", ""), {}) | clauses["every"]
    faults, follows = tuple(row.pop("faults", ())), tuple(row.pop("follows", ()))
    sentences = says if isinstance(says, dict) else {"": says}
    remedies = row.pop("remedies", {})
    return Code(code, says=sentences, remedies=remedies, clauses=follow, faults=faults, follows=follows, **row)


def code(name: str) -> Code:
    """The meaning of one code.

    Raises ArgumentValueError: there is no such code; the message lists the nearest, or all.

    >>> code("TW502").severity
    'error'
    """
    found = codes().get(name)
    if found is None:
        meant = near(name, codes(), "choose one;")
        raise ArgumentValueError(f"{name!r} must be the code of a finding; {meant} the codes are {', '.join(codes())}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with one line of a kernel, in one launch or several.

    Attributes
    ----------
    code : str
        A key of :func:`codes`.
    kernel : str
        The kernel's name.
    source : str
        File of the user's source, or "" where there is no line table.
    line : int
        Line of it, from 1; 0 where unknown.
    opcode : str
        The PTX instruction, such as `ld.global.f32`; "" for a finding about a launch.
    ptx_line : int
        Its line in the PTX text, from 1; 0 for a finding about a launch.
    block, thread : (int, int, int) or None
        Of the first instance, x first: the lowest block, then its lowest thread, where z counts most and x least.
    count : int
        Instances: lanes that did it, summed over all launches merged into this finding.
    launch : int
        Number of the launch in the program, from 0: the first one that has the finding.
    details : dict
        The data of the code's sentence, also for programs to read; JSON values only. `how` selects the code's sentence,
        `array` is the argument concerned, `others` the `file:line` of the other accesses of a race, `address` a byte
        address, `ptx_line` the instruction if that is not the finding's, `inner` the `file:line` of each library line
        in which it happened (for a finding at the call), `called_at` the `file:line` of each call through which the
        line was reached or inlined, the innermost first. `language` is the kernel's where its remedy has words of it,
        `remedy` replaces the code's.

    Examples
    --------
    >>> came = {"access": "load", "bytes": 4, "space": "global"}
    >>> found = Finding(code="TW101", kernel="copy", line=7, count=3, details=came)
    >>> found.message
    'load of 4 bytes outside every allocation'
    >>> found.severity, Finding.from_json(found.to_json()) == found
    ('error', True)
    """

    code: str
    kernel: str
    source: str = ""
    line: int = 0
    opcode: str = ""
    ptx_line: int = 0
    block: Place | None = None
    thread: Place | None = None
    count: int = 1
    launch: int = 0
    details: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        code(self.code)

    @property
    def severity(self) -> Severity:
        """The severity of its code."""
        return codes()[self.code].severity

    @property
    def message(self) -> str:
        """The event, in one sentence without a full stop; the code's title if data for a sentence are missing."""
        row = codes()[self.code]
        text = row.says.get(self.details.get("how", ""), "")
        data = {"opcode": self.opcode, **self.details}
        return (text and sentence(text, row.clauses, data, self.where)) or row.title

    @property
    def remedy(self) -> str:
        """The remedy: where the barrier of this race goes, or else what the code says, in the kernel's language."""
        own: str = self.details.get("remedy", "")
        text = codes()[self.code].remedies.get(self.details.get("how", ""), "")
        return (
            own or text.format_map(self.details) or codes()[self.code].remedy_in(self.details.get("language", "numba"))
        )

    @property
    def where(self) -> str:
        """`file:line`, `PTX line N` without a line table, or the kernel's name without either."""
        if self.source:
            return f"{self.source}:{self.line}"
        return f"PTX line {self.ptx_line}" if self.ptx_line else self.kernel

    @property
    def same(self) -> tuple[Any, ...]:
        """The key by which findings are merged: two instructions of one source line have the same."""
        place = (self.source, self.line) if self.source else ("", self.ptx_line)
        return (self.code, self.kernel, *place, *(self.details.get(key) for key in DISTINGUISHING))

    @property
    def first(self) -> tuple[Any, ...]:
        """Order of instances: by launch, then block, then thread; an instance without a place comes first."""
        return (self.launch, _linear(self.block), _linear(self.thread), self.ptx_line)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, the code's severity, and the sentence."""
        return {**asdict(self), "severity": self.severity, "message": self.message, "remedy": self.remedy}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """The inverse of :meth:`to_json`, also through JSON text; other `places` of a cause are ignored.

        Raises ArgumentTypeError: a field is missing or unknown.
        """
        fields = {key: value for key, value in document.items() if key not in _DERIVED}
        for key in ("block", "thread"):
            if fields.get(key) is not None:
                fields[key] = tuple(fields[key])
        try:
            return cls(**fields)
        except TypeError as error:
            raise ArgumentTypeError(f"a finding must have the fields of Finding ({error})") from None


#: Keys of a finding's JSON that follow from its fields, and the other places of its cause.
_DERIVED = ("severity", "message", "remedy", "places")


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding a line and code: counts are added; the place and data are those of the first instance.

    The order is that of the source: by file, line and code, with files in the order of their launches.

    >>> late = Finding(code="TW101", kernel="k", ptx_line=9, block=(1, 0, 0), count=2, details={"address": 4})
    >>> early = replace(late, block=(0, 0, 0), count=3, details={"address": 0})
    >>> [(f.details["address"], f.count) for f in merged([late, early])]
    [(0, 5)]
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(json.dumps(finding.same), []).append(finding)
    kept = [_as_one(group) for group in groups.values()]
    return tuple(sorted(kept, key=lambda one: (one.source, one.line, one.ptx_line, one.kernel, one.code, one.message)))


def _as_one(group: Sequence[Finding]) -> Finding:
    """The first of some findings, with the library lines and calls of all of them."""
    first = min(group, key=lambda one: one.first)
    details = first.details
    for key in ("inner", "called_at"):
        places = dict.fromkeys(place for one in (first, *group) for place in one.details.get(key, ()))
        if places:
            details = details | {key: sorted(places, key=split) if key == "inner" else list(places)}
    return replace(first, count=sum(one.count for one in group), details=details)


def split(place: str) -> tuple[str, int]:
    """The parts of `file:line`; line 0 if there is none.

    >>> split("C:/k.py:12"), split("PTX line 3")
    (('C:/k.py', 12), ('', 0))
    """
    file, _, line = place.rpartition(":")
    return file, int(line) if line.isdigit() else 0


def _linear(place: Place | None) -> tuple[int, ...]:
    return () if place is None else place[::-1]
