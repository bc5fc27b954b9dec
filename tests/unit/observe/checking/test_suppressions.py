"""Comments and codes that suppress findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.checking import Checks
from tilewright.errors import ArgumentValueError
from tilewright.observe.checking.suppressions import Suppression, checked, comments, sift
from tilewright.observe.instruments.findings import Finding

FOUND = Finding(code="TW601", kernel="k", source="a.py", line=3)


def test_comments_of_python_and_of_cpp(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    lines = ["a", "b  # tilewright: ignore[TW601]", 'c = "//tilewright:ignore[TW301, TW604]"', "# tilewright: ignored"]
    file.write_text("\n".join(lines))
    expected = [Suppression(code, str(file), line) for line, code in ((2, "TW601"), (3, "TW301"), (3, "TW604"))]
    assert comments([str(file), str(file), "no such file"]) == (expected, [])


@pytest.mark.parametrize(
    ("text", "heeded", "got", "write"),
    [
        ("ignore", [], "none", "TW601"),
        ("ignore[]", [], "none", "TW601"),
        ("ignore[TW6O1]", [], "'TW6O1'", "TW601"),
        ("ignore[tw301]", [], "'tw301'", "TW301"),
        ("ignore[all]", [], "'all'", "TW601"),
        ("ignore[TW301, TW5]", ["TW301"], "'TW5'", "TW5"),
    ],
)
def test_a_comment_without_a_code_is_reported(
    tmp_path: Path, text: str, heeded: list[str], got: str, write: str
) -> None:
    file = tmp_path / "k.py"
    file.write_text(f"a\nb  # tilewright: {text}\n")
    found, (wrong,) = comments([str(file)])
    assert [one.code for one in found] == heeded
    assert wrong.startswith(f"{file}:2: the comment ")
    assert f"(got {got}); name one, such as ignore[{write}" in wrong


def test_a_wrong_comment_is_a_python_warning(tmp_path: Path) -> None:
    checks = Checks()
    file = tmp_path / "k.py"
    file.write_text("x  # tilewright: ignore[]\n")
    checks._found.append(replace(FOUND, source=str(file), line=1))
    with pytest.warns(UserWarning, match=r"k\.py:1: the comment .*\(got none\)"):
        assert len(checks.findings) == 1


def test_codes_are_checked_and_come_once() -> None:
    assert checked(["TW601", "TW601", "TW101 "]) == ("TW601", "TW101")
    with pytest.raises(ArgumentValueError, match="--ignore: 'TW999' must be the code of a finding"):
        checked(["TW601", "TW999"], "--ignore")


def test_only_the_code_at_the_line_is_suppressed() -> None:
    here = Suppression("TW601", "a.py", 3)
    for other in (replace(FOUND, line=4), replace(FOUND, source="b.py"), replace(FOUND, code="TW604")):
        sifted = sift([FOUND, other], [here])
        assert (sifted.findings, sifted.suppressed, sifted.unused) == ((other,), (FOUND,), ())


def test_a_code_is_suppressed_everywhere_and_an_unused_one_is_reported() -> None:
    everywhere, unused = Suppression("TW601"), Suppression("TW101")
    ptx = replace(FOUND, source="", line=0, ptx_line=9)
    sifted = sift([FOUND, ptx], [everywhere, unused])
    assert (sifted.findings, sifted.suppressed, sifted.unused) == ((), (FOUND, ptx), (unused,))
    assert [str(s) for s in (unused, Suppression("TW101", "a.py", 3))] == ["--ignore TW101", "a.py:3: ignore[TW101]"]


def test_what_strict_reports_is_held_back_without_it() -> None:
    rows = [Finding(code=code, kernel="k", source="a.py", line=3) for code in ("TW301", "TW312")]
    sifted = sift(rows, [])
    assert (sifted.findings, sifted.held) == ((rows[0],), (rows[1],))
    sifted = sift(rows, [], strict=True)
    assert (sifted.findings, sifted.held) == ((*rows,), ())
    assert sift(rows, [Suppression("TW312")]).held == ()


def test_known_findings_in_numba_s_own_kernels_are_kept_separate() -> None:
    file = "/opt/lib/python3/site-packages/numba_cuda/numba/cuda/kernels/reduction.py"
    known, theirs = replace(FOUND, source=file, code="TW404"), replace(FOUND, source=file, code="TW101")
    mine = replace(FOUND, code="TW404", details={"inner": [f"{file}:9"]})  # of my kernel, which calls theirs
    sifted = sift([known, theirs, mine, FOUND], [])
    assert (sifted.findings, sifted.suppressed) == ((theirs, mine, FOUND), (known,))
