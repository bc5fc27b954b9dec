"""The findings of a run, as a tuple that displays itself."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ground.display import Shown
from tilewright.observe.checking.causes import Cause, causes
from tilewright.observe.instruments.findings import Finding


class Findings(Shown, tuple[Finding, ...]):
    """Findings in source order, one for each line and code; text and HTML are as `tilewright check` prints them.

    Parameters
    ----------
    findings : iterable of Finding
    launches, kernels : int
        How many launches, and of how many kernels, were checked.
    held : iterable of Finding
        Those that `strict` would add.

    Examples
    --------
    >>> found = Findings([Finding(code="TW601", kernel="k", ptx_line=9)])
    >>> len(found), found[0].code, found == (found[0],)
    (1, 'TW601', True)
    >>> print(Findings([]))
    no findings in 1 launch of 1 kernel
    """

    launches: int
    kernels: int
    held: tuple[Finding, ...]

    def __new__(
        cls, findings: Iterable[Finding], launches: int = 1, kernels: int = 1, held: Iterable[Finding] = ()
    ) -> Findings:
        """Store the numbers of launches and kernels, and what is held back, with the findings."""
        found = super().__new__(cls, tuple(findings))
        found.launches, found.kernels, found.held = launches, kernels, tuple(held)
        return found

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings grouped by cause: one missing barrier is one cause, with its places."""
        return causes(self)
