"""For type checkers: the names of `tilewright.checking`."""

from tilewright.observe.checking import Cause as Cause, Finding as Finding, Findings as Findings, check as check
