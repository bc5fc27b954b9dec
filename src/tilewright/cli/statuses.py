"""The exit statuses of the commands: help and the page of commands list them from here."""

from __future__ import annotations

#: INTERRUPTED is 128 + SIGINT and READER_LEFT 128 + SIGPIPE, as in a shell.
DONE, FOUND, WRONG_USE, PROGRAM_FAILED, DEFECT, INTERRUPTED, READER_LEFT = 0, 1, 2, 3, 4, 130, 141
MEANINGS = {
    DONE: "done",
    FOUND: "found: findings, a wrong or slower product, a block that fits nowhere",
    WRONG_USE: "wrong use, which one line explains",
    PROGRAM_FAILED: "`check` found nothing, but the program failed or a launch did not run to its end",
    DEFECT: "Tilewright or the host failed",
    INTERRUPTED: "stopped by Ctrl-C",
    READER_LEFT: "the reader of a pipe closed it",
}


def listed() -> str:
    """Every status in one line.

    >>> listed().partition(";")[0]
    '0 done'
    """
    return "; ".join(f"{status} {meaning}" for status, meaning in MEANINGS.items())
