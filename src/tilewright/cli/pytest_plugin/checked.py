"""Findings as failures of the tests in which they appear.

A finding belongs to the test that runs when it appears: a fault in a fixture's kernel fails the first test that uses
the fixture. Some findings are known only when an array is freed, such as elements that no launch reached. They fail the
test at whose end the array is freed, if that test launched the kernel. All others go to a section at the end, under the
name of the test that launched the kernel, and fail the run.

An exception that a launch raised and the test handled is not a failure: `pytest.raises` has looked at it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.frontends.numba.pending_frees import free_pending
from tilewright.ground import configuration
from tilewright.observe.checking import Checks, suppressions
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.instruments.findings import Finding
from tilewright.show.report import findings as report, records

_KEY = "tilewright_rest"


class _Test(NamedTuple):
    """A test and its first launch: a later finding is reported under the test that launched the kernel."""

    first: int
    name: str
    ignored: frozenset[str]


class CheckedTests:
    """A plugin that collects new findings after each phase of each test.

    Raises ArgumentValueError: the project's settings are wrong.
    """

    def __init__(self, config: pytest.Config, gpu_name: str) -> None:
        project = configuration.of(config.rootpath)
        unwanted = suppressions.checked(project.ignore, f"{project.file}: ignore")
        #: The simulated GPU's observer.
        self.checks = Checks(gpu=gpu_name, ignore=unwanted, strict=project.strict, schedules=project.schedules)
        self._failing = configuration.FAILURES[project.fail_on or "warning"]
        self._rest: list[str] = []  # shown at the end: findings of no test, and those that are not failures
        self._held: list[Finding] = []  # what `strict` would add
        self._failed = False  # whether some of these are a failure
        self._tests = [_Test(0, "before the first test", frozenset())]
        self._ended = False

    # -- a test ---------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Launches from here on belong to this test."""
        codes = [str(code) for mark in item.iter_markers("tilewright_ignore") for code in mark.args]
        self._tests.append(_Test(self.checks.launches, item.nodeid, frozenset(codes)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail the test on findings since the last test ended, those of its fixtures' setup included."""
        try:
            suppressions.checked(sorted(self._tests[-1].ignored), "the mark tilewright_ignore")
        except ArgumentValueError as error:
            wrong = str(error)
        else:
            wrong = ""
        if wrong:  # outside the handler, so that the failure shows no other error as its cause
            pytest.fail(wrong, pytrace=False)
        yield from self._watched(item, "call")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Fail the teardown on findings that appear in it; pytest releases the fixtures right after."""
        yield from self._watched(item, "teardown")

    def _watched(self, item: pytest.Item, when: str) -> Iterator[None]:
        try:
            result = yield
        except BaseException:  # findings go beside the test's own report
            found = self._of_this(self.checks.fresh())
            if found:
                item.add_report_section(when, "tilewright", _text(found))
            raise
        if when == "teardown" and getattr(item, "funcargs", None):
            item.funcargs = {}  # type: ignore[attr-defined]
        self._free_pending()
        found = self._of_this(self.checks.fresh(raised=False))
        if found and getattr(item, "_excinfo", None):  # a failed test of unittest
            item.add_report_section(when, "tilewright", _text(found))
        elif found:
            pytest.fail(_text(found), pytrace=False)
        return result

    def _of_this(self, sifted: Sifted) -> list[Finding]:
        """The findings that fail the running test; others are kept for the end."""
        mine: list[Finding] = []
        self._held += sifted.held
        for finding in sifted.findings:
            test = self._tests[bisect.bisect_right(self._tests, finding.launch, key=lambda one: one.first) - 1]
            if finding.code in test.ignored:
                continue
            fails = finding.severity in self._failing
            if fails and test is self._tests[-1] and not self._ended:
                mine.append(finding)
            else:
                self._rest.append(f"{test.name}{'' if fails else ', no failure'}\n\n{_text([finding])}\n")
                self._failed |= fails
        return mine

    def _free_pending(self) -> None:
        if self.checks.launches:
            free_pending()

    # -- the run --------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Collect findings that waited for their arrays; a worker of xdist sends them to the reporting process."""
        self._free_pending()
        self._ended = True
        self._of_this(self.checks.fresh(raised=False, ended=True))
        if self._held:
            self._rest.append(report.more(self._held, "strict = true"))
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_KEY] = (self._rest, self._failed)
        elif self._failed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the findings that a worker of xdist sent."""
        rest, failed = getattr(node, "workeroutput", {}).get(_KEY, ([], False))
        self._rest += rest
        self._failed |= failed

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the findings that are in no test's report."""
        if self._rest:
            terminalreporter.section("tilewright: findings in no test's report")
            for text in self._rest:
                terminalreporter.write_line(text)


def _text(findings: Sequence[Finding]) -> str:
    """Findings as the command line prints them, without the summary line."""
    parts = report.blocks(Sifted(tuple(findings), (), ()), launches=0, kernels=0)
    return records.text_of(parts).rpartition("\n")[0].rstrip()
