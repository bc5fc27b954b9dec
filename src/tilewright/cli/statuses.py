"""The exit statuses of the commands; `run` and `profile` exit with the program's own."""

from __future__ import annotations

#: FOUND also means a wrong kernel in a ladder, or a block that fits on no GPU. Typer's usage errors are WRONG_USE too.
#: INTERRUPTED is 128 + SIGINT, the shell's convention.
DONE, FOUND, WRONG_USE, PROGRAM_FAILED, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 130
MEANINGS = {
    DONE: "done",
    FOUND: "something was found",
    WRONG_USE: "usage error",
    PROGRAM_FAILED: "the program that `check` ran failed, or one of its launches did not run to its end",
    DEFECT: "Tilewright or the host failed",
    INTERRUPTED: "interrupted",
}


def listed() -> str:
    """Every status in one line.

    >>> listed().partition(";")[0]
    '0 done'
    """
    return "; ".join(f"{status} {meaning}" for status, meaning in MEANINGS.items())
