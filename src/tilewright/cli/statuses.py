"""What the exit status of a command says; `run` and `profile` leave with the program's own."""

from __future__ import annotations

#: FOUND is also a ladder that is not to be trusted, and a block that fits on no GPU. Typer's own usage errors are
#: WRONG_USE too. INTERRUPTED is 128 + SIGINT, the shell's way to say so.
DONE, FOUND, WRONG_USE, PROGRAM_FAILED, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 130
MEANINGS = {
    DONE: "done",
    FOUND: "something was found",
    WRONG_USE: "wrong use",
    PROGRAM_FAILED: "the program that `check` ran failed itself, or a launch of it did not run to its end",
    DEFECT: "Tilewright or the host failed",
    INTERRUPTED: "interrupted",
}


def listed() -> str:
    """Every status in one line.

    >>> listed().partition(";")[0]
    '0 done'
    """
    return "; ".join(f"{status} {meaning}" for status, meaning in MEANINGS.items())
