"""Findings as text, JSON and SARIF."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tilewright.frontends.script import Ended, run_program
from tilewright.frontends.target import Target
from tilewright.observe.checking.suppressions import Sifted, Suppression
from tilewright.observe.instruments.findings import Finding, codes
from tilewright.show.report import findings as report, sarif, terminal as screen
from tilewright.show.report.places import path

SOURCE = """def k(x):
    i = cuda.grid(1)
    if i <= x.size:
\t    x[i] = 1
    return


"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """A finding in a readable file of the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "k.py"
    file.write_text(SOURCE)
    return Finding(
        code="TW101", kernel="k", source=str(file), line=4, opcode="st.global.u32", ptx_line=30, block=(1, 0, 0),
        thread=(31, 2, 0), count=1200, launch=3,
        details={"array": "x", "others": [f"{file}:2"], "access": "store", "bytes": 4},
    )  # fmt: skip


def shown(sifted: Sifted, *, terminal: bool = False, encoding: str = "utf-8", verbose: bool = False) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding, write_through=True)
    system: Any = "256" if terminal else None
    console = Console(file=stream, force_terminal=terminal, color_system=system, width=80, highlight=False)
    screen.show(report.blocks(sifted, launches=4, kernels=2, verbose=verbose), console)
    return raw.getvalue().decode(encoding)


def test_a_finding_beside_its_lines(found: Finding) -> None:
    assert (
        shown(Sifted((found,), (), ()))
        == """\
TW101 error: out-of-bounds global access
  → k.py:4  kernel k, launch 3, first in block (1, 0, 0), thread (31, 2, 0),
    1,200 times
    2 | i = cuda.grid(1)
    3 | if i <= x.size:
  > 4 |     x[i] = 1
      |     ^^^^^^^^ st.global.u32
    5 | return
  found store of 4 bytes outside every allocation.
  rule  An access to global memory must lie inside an allocation.
  do    Guard the access with the array's extents, or correct the index.

1 finding (1 error) in 4 launches of 2 kernels
"""
    )


def test_brief_is_one_line_a_finding_in_the_form_that_editors_read(
    found: Finding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> list[str]:
        console = Console(file=io.StringIO(), width=200)
        screen.show(report.blocks(Sifted((found,), (), ()), launches=1, kernels=1, brief=True), console)
        return console.file.getvalue().splitlines()

    times = f" ({found.count:,} times)" if found.count > 1 else ""
    assert shown()[0] == f"k.py:4: {found.code} {found.severity}: {found.message}{times}"
    monkeypatch.chdir("/")
    assert shown()[0].startswith(f"{found.where}: {found.code}")


def test_without_a_source_there_is_the_ptx_line(found: Finding) -> None:
    for other in (replace(found, source="", line=0), replace(found, line=99), replace(found, source="gone.py")):
        text = shown(Sifted((other,), (), ()), encoding="ascii")
        assert f"  -> {path(other.where)}  kernel k" in text
        assert " | " not in text
    assert replace(found, source="", line=0).where == "PTX line 30"


def test_a_terminal_has_colours_and_a_pipe_none(found: Finding) -> None:
    warned = replace(found, code="TW601")
    coloured = shown(Sifted((found, warned), (), ()), terminal=True)
    assert "\x1b[1;38;5;167mTW101 error" in coloured
    assert "\x1b[1;38;5;130mTW601 warning" in coloured
    assert "\x1b" not in shown(Sifted((found, warned), (), ()))
    last = {code: shown(Sifted(rows, (), ()), terminal=True).splitlines()[-1] for code, rows in
            (("167", (found, warned)), ("130", (warned,)), ("29", ()))}  # fmt: skip
    assert all(line.startswith(f"\x1b[1;38;5;{code}m") for code, line in last.items())


def test_suppressed_findings_are_reported_on_request(found: Finding) -> None:
    sifted = Sifted((), (found,), (Suppression("TW301", "a.py", 9),))
    assert shown(sifted) == "no findings, 1 suppressed, in 4 launches of 2 kernels\n"
    text = shown(sifted, verbose=True)
    assert f"suppressed: TW101 at {found.where}" in text
    assert "suppression without use: a.py:9: ignore[TW301]" in text


def test_json_holds_everything(found: Finding) -> None:
    sifted = Sifted((found,), (replace(found, code="TW601"),), (Suppression("TW301"),))
    document = json.loads(report.as_json(sifted, Ended(0), launches=4, kernels=("k", "l")))
    assert [Finding.from_json(row) for row in document["findings"]] == [found]
    assert [row["code"] for row in document["suppressed"]] == ["TW601"]
    assert document["unused_suppressions"] == ["--ignore TW301"]
    assert (document["launches"], document["kernels"]) == (4, ["k", "l"])
    assert list(document["codes"]) == ["TW101", "TW601"]
    assert document["codes"]["TW101"]["severity"] == "error"


#: Properties that SARIF 2.1.0 requires of an object, and those of the allowed ones that we write; with the section.
REQUIRED = {
    "log": ({"version", "runs"}, {"$schema"}),  # 3.13
    "run": ({"tool"}, {"columnKind", "originalUriBaseIds", "results", "invocations"}),  # 3.14
    "invocation": (
        {"executionSuccessful"}, {"exitCode", "toolExecutionNotifications", "toolConfigurationNotifications"}
    ),  # 3.20
    "notification": ({"message"}, {"level", "exception", "locations"}),  # 3.58
    "driver": ({"name"}, {"version", "informationUri", "rules"}),  # 3.19
    "rule": ({"id"}, {"shortDescription", "fullDescription", "help", "defaultConfiguration"}),  # 3.49
    "result": (
        {"message"},
        {"ruleId", "ruleIndex", "level", "locations", "occurrenceCount", "partialFingerprints", "properties",
         "relatedLocations", "suppressions"},
    ),  # 3.27
    "location": (set(), {"id", "physicalLocation", "logicalLocations", "message"}),  # 3.28
    "physical": ({"artifactLocation"}, {"region"}),  # 3.29: an artifact or an address
    "artifact": ({"uri"}, {"uriBaseId"}),  # 3.4
    "region": ({"startLine"}, set()),  # 3.30
}  # fmt: skip


def valid(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    required, allowed = REQUIRED[kind]
    assert required <= set(document) <= required | allowed, kind
    return document


def test_sarif_is_what_the_standard_requires(found: Finding, tmp_path: Path) -> None:
    bare = replace(found, source="", line=0, block=None, thread=None, details={})
    rows = (found, replace(bare, code="TW601"))
    text = sarif.text(Sifted(rows, (replace(found, code="TW604"),), ()), tmp_path, Ended(0))
    document = valid("log", json.loads(text))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = valid("driver", valid("run", run)["tool"]["driver"])
    rules = [valid("rule", rule) for rule in driver["rules"]]
    assert [rule["id"] for rule in rules] == list(codes())
    for result in run["results"]:
        assert rules[valid("result", result)["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"].endswith(".")
        assert result["occurrenceCount"] >= 1
        assert all(isinstance(v, str) for v in result["partialFingerprints"].values())
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            # the standard allows a result without a file and a line, but GitHub refuses it
            physical = valid("physical", valid("location", location)["physicalLocation"])
            artifact = valid("artifact", physical["artifactLocation"])
            assert artifact.get("uriBaseId", "SRCROOT") in run["originalUriBaseIds"]
            assert re.fullmatch(r"(file://)?([\w\-.~!$&'()*+,;=@/]|%[0-9A-F]{2}|(?<!^):)+", artifact["uri"], re.ASCII)
            assert valid("region", physical["region"])["startLine"] >= 1


def test_sarif_says_how_the_program_ended(tmp_path: Path) -> None:
    def invocation(ended: Ended) -> dict[str, Any]:
        (run,) = sarif.log(Sifted((), (), ()), tmp_path, ended)["runs"]
        (row,) = run["invocations"]
        for notice in row.get("toolExecutionNotifications", []):
            assert set(valid("notification", notice)["exception"]) == {"kind", "message"}  # 3.59
        return valid("invocation", row)

    assert invocation(Ended(3)) == {"executionSuccessful": True, "exitCode": 3}
    file = tmp_path / "program.py"
    file.write_text("def f():\n    raise ValueError('no data')\nf()\n")
    failed = invocation(run_program(Target(str(file))))
    assert (failed["executionSuccessful"], failed["exitCode"]) == (True, 1)
    (notice,) = failed["toolExecutionNotifications"]
    assert notice["message"]["text"] == "The program was ended by ValueError: no data"
    (location,) = notice["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "program.py", "uriBaseId": "SRCROOT"}
    assert location["physicalLocation"]["region"] == {"startLine": 2}
    assert "exitCode" not in invocation(Ended(130, KeyboardInterrupt()))
    (run,) = sarif.log(Sifted((), (), (), ("a.py:3: wrong",)), tmp_path, Ended(0))["runs"]
    (notice,) = valid("invocation", run["invocations"][0])["toolConfigurationNotifications"]
    assert valid("notification", notice) == {"level": "warning", "message": {"text": "a.py:3: wrong"}}


def test_sarif_places_a_finding(found: Finding, tmp_path: Path) -> None:
    def places(finding: Finding) -> Any:
        (result,) = sarif.log(Sifted((finding,), (), ()), tmp_path, Ended(0))["runs"][0]["results"]
        return result, result["locations"][0].get("physicalLocation", {}).get("artifactLocation")

    result, artifact = places(found)
    assert artifact == {"uri": "k.py", "uriBaseId": "SRCROOT"}
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    assert result["message"]["text"] == (
        "out-of-bounds global access: store of 4 bytes outside every allocation. First in block (1, 0, 0), "
        "thread (31, 2, 0)."
    )
    assert places(replace(found, source="a b.py"))[1] == {"uri": "a%20b.py", "uriBaseId": "SRCROOT"}
    assert places(replace(found, source="/elsewhere/k.py"))[1] == {"uri": "file:///elsewhere/k.py"}
    result, artifact = places(replace(found, source="", line=0))  # a launch of PTX without lines
    assert artifact == {"uri": "k.ptx", "uriBaseId": "SRCROOT"}
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 30}


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("d\u00e9j\u00e0 vu.py", "d%C3%A9j%C3%A0%20vu.py"),
        ("\u65e5/\U0001f600.py", "%E6%97%A5/%F0%9F%98%80.py"),
        ("q\"uote'.py", "q%22uote%27.py"),
        ("back\\slash.py", "back%5Cslash.py"),
        ("100%25 #1?&.py", "100%2525%20%231%3F%26.py"),
        ("a:b.py", "a%3Ab.py"),
        ("<string>", "%3Cstring%3E"),
        ("<ipython-input-3-0a1b>", "%3Cipython-input-3-0a1b%3E"),
        ("\udcff.py", "%FF.py"),
        ("long" * 400 + ".py", "long" * 400 + ".py"),
    ],
)
def test_sarif_names_any_file_by_a_uri(found: Finding, tmp_path: Path, name: str, uri: str) -> None:
    for source in (name, str(tmp_path / name)):
        log = sarif.log(Sifted((replace(found, source=source),), (), ()), tmp_path, Ended(0))
        location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        assert location["artifactLocation"] == {"uri": uri, "uriBaseId": "SRCROOT"}
        assert sarif.text(Sifted((replace(found, source=source),), (), ()), tmp_path, Ended(0)).isascii()


def test_a_library_s_lines_are_reported_beside_the_caller_s(found: Finding, tmp_path: Path) -> None:
    random = "/env/site-packages/lib/random.py"
    found = replace(found, details={"others": ["k.py:2", "k.py:3"], "inner": [f"{random}:7", f"{random}:12"]})
    sifted = Sifted((found,), (), ())
    assert "k.py:4  in lib/random.py:7, 12, kernel" in shown(sifted)
    (result,) = sarif.log(sifted, tmp_path, Ended(0))["runs"][0]["results"]
    related = [
        (one["id"], one["message"]["text"], Path(one["physicalLocation"]["artifactLocation"]["uri"]).name,
         one["physicalLocation"]["region"]["startLine"])
        for one in result["relatedLocations"]
    ]  # fmt: skip
    library = "in this line of a library"
    assert related == [
        (1, "the other access", "k.py", 2), (2, "the other access", "k.py", 3),
        (3, library, "random.py", 7), (4, library, "random.py", 12),
    ]  # fmt: skip


def test_sarif_marks_suppressed_findings_and_fingerprints_survive_moved_lines(found: Finding, tmp_path: Path) -> None:
    moved = tmp_path / "moved.py"
    moved.write_text("\n\n" + SOURCE)
    rows = (found, replace(found, source=str(moved), line=6), replace(found, line=3))
    results = sarif.log(Sifted(rows, (found,), ()), tmp_path, Ended(0))["runs"][0]["results"]
    assert [result.get("suppressions") for result in results] == [None, None, None, [{"kind": "inSource"}]]
    prints = [result["partialFingerprints"]["tilewrightFinding/v1"] for result in results]
    assert prints[0] == prints[1] == prints[3] != prints[2]


def test_sarif_has_no_path_of_the_host(found: Finding, tmp_path: Path) -> None:
    race = replace(
        found, code="TW301", source=str(tmp_path / "k.py"),
        details={"others": [f"{tmp_path}/k.py:2"], "access": "write", "other_access": "read", "bytes": 4,
                 "space": "shared", "array": "s"},
    )  # fmt: skip
    assert str(tmp_path) in race.message
    text = sarif.text(Sifted((race,), (), ()), tmp_path, Ended(0))
    assert str(tmp_path) not in text and "at k.py:2" in text
