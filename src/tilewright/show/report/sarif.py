"""Findings as SARIF 2.1.0, which code hosts show beside the lines of a change.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 3.13 (sarifLog) to 3.49
(reportingDescriptor).
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tilewright.frontends.script import Ended
from tilewright.observe.checking.causes import causes
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.instruments.findings import Code, Finding, codes, split
from tilewright.show.report import program
from tilewright.show.report.findings import more
from tilewright.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: The base of relative paths: `places.repository`.
ROOT = "SRCROOT"


def text(sifted: Sifted, root: Path, ended: Ended) -> str:
    """A SARIF log of one run, in ASCII.

    Suppressed findings are in the log, marked as such. Paths in `root` are relative to it. If the program did not run
    to its end, the log marks the check as unsuccessful.
    """
    return json.dumps(log(sifted, root, ended), indent=2)


def log(sifted: Sifted, root: Path, ended: Ended) -> dict[str, Any]:
    """The log as JSON values."""
    results = [_result(cause.finding, root, cause.others) for cause in causes(sifted.findings)]
    results += [_result(finding, root) | {"suppressions": [{"kind": "inSource"}]} for finding in sifted.suppressed]
    driver = {
        "name": "Tilewright",
        "version": __version__,
        "informationUri": "https://github.com/tilewright/tilewright",
        "rules": [_rule(code) for code in codes().values()],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The repository, or the folder of the check."}}},
        "invocations": [_invocation(ended, root, sifted)],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(ended: Ended, root: Path, sifted: Sifted) -> dict[str, Any]:
    """The program's end (3.20): a check that Ctrl-C interrupted is unsuccessful; an exception is included.

    Wrong suppressions are included too, and the count of the findings that `--strict` would add.
    """
    notices: list[dict[str, Any]] = []
    row: dict[str, Any] = {"executionSuccessful": not ended.interrupted}
    if not ended.interrupted:
        row["exitCode"] = ended.status
    if ended.error is not None:
        name = program.kind(ended.error)
        notice: dict[str, Any] = {
            "level": "error",
            "message": {"text": f"The program was ended by {name}: {ended.error}"},
            "exception": {"kind": name, "message": str(ended.error)},
        }
        if ended.place is not None:
            notice["locations"] = [{"physicalLocation": _physical(*ended.place, root)}]
        notices.append(notice)
    if sifted.held:
        notices.append({"level": "note", "message": {"text": more(sifted.held)}})
    if notices:
        row["toolExecutionNotifications"] = notices
    if sifted.wrong:
        wrong = [{"level": "warning", "message": {"text": text}} for text in sifted.wrong]
        row["toolConfigurationNotifications"] = wrong
    return row


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.code,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.rule},
        "help": {"text": code.remedy},
        "defaultConfiguration": {"level": code.severity},
    }


def _result(finding: Finding, root: Path, others: Sequence[Finding] = ()) -> dict[str, Any]:
    logical = {"name": finding.kernel, "kind": "function"}
    # Code hosts refuse a result without a file, so a finding without one is placed in the kernel's PTX.
    place = (finding.source, finding.line) if finding.source else (f"{finding.kernel}.ptx", finding.ptx_line)
    location: dict[str, Any] = {"physicalLocation": _physical(*place, root)}
    if finding.kernel:
        location["logicalLocations"] = [logical]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": list(codes()).index(finding.code),
        "level": finding.severity,
        "message": {"text": _within(root, _message(finding))},
        "locations": [location],
        "occurrenceCount": max(1, finding.count),
        "partialFingerprints": {"tilewrightFinding/v1": _fingerprint(finding)},
        "properties": _within(root, {key: value for key, value in finding.to_json().items() if key in _PROPERTIES}),
    }
    related = [(place, "the other access") for place in finding.details.get("others", ())]
    related += [(place, "in this line of a library") for place in finding.details.get("inner", ())]
    related += [(place, "a call of it") for place in finding.details.get("called_at", ())]
    related += [(other.where, f"{other.code}: {_within(root, _message(other))}") for other in others]
    places = [
        {"physicalLocation": _physical(*split(place), root), "message": {"text": words}}
        for place, words in related
        if split(place)[1]
    ]
    if places:
        result["relatedLocations"] = [{"id": number, **place} for number, place in enumerate(places, start=1)]
    return result


#: Fields of a finding without a counterpart in SARIF.
_PROPERTIES = ("kernel", "opcode", "ptx_line", "block", "thread", "launch", "details")


def _within(root: Path, value: Any) -> Any:
    """A value whose texts have the paths in `root` relative to it."""
    if isinstance(value, str):
        return value.replace(f"{root}/", "")
    if isinstance(value, dict):
        return {key: _within(root, one) for key, one in value.items()}
    return [_within(root, one) for one in value] if isinstance(value, list | tuple) else value


def _message(finding: Finding) -> str:
    at = "" if finding.block is None else f" First in block {finding.block}"
    at += f", thread {finding.thread}." if at and finding.thread is not None else "." if at else ""
    return f"{codes()[finding.code].title}: {finding.message}.{at}"


def _physical(source: str, line: int, root: Path) -> dict[str, Any]:
    path = Path(source)
    if path.is_absolute() and not path.is_relative_to(root):
        artifact = {"uri": path.as_uri()}
    else:
        inside = path.relative_to(root) if path.is_absolute() else path
        artifact = {"uri": quote(os.fsencode(inside.as_posix())), "uriBaseId": ROOT}
    return {"artifactLocation": artifact, "region": {"startLine": max(1, line)}}


def _fingerprint(finding: Finding) -> str:
    """A fingerprint that does not change if a finding's line moves, so that hosts recognise known findings."""
    words = linecache.getline(finding.source, finding.line).split() if finding.source else [str(finding.ptx_line)]
    what = (finding.code, finding.kernel, *words, str(finding.details.get("array", "")))
    return hashlib.sha256("\0".join(what).encode()).hexdigest()[:32]
