"""Parsing of option values; every error states its rule and the value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from tilewright.errors import ArgumentValueError
from tilewright.machine.sizes import size_bytes

if TYPE_CHECKING:
    from tilewright.simt import Limits

_Text = TypeVar("_Text", bound=str)
#: The largest number an option takes: what 64 bits hold.
_MOST = 2**63 - 1
_MOST_DIGITS = len(str(_MOST))
#: Seconds in plain digits, fractions too; nobody waits for more than nine digits of them.
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def limits(text: str | None) -> Limits | None:
    """The limit of a launch from `--limit`; None without one.

    Raises ArgumentValueError: the text is no number of seconds, or 0.
    """
    from tilewright.simt import Limits

    if text is None:
        return None
    if not _SECONDS.fullmatch(text) or not float(text):
        raise ArgumentValueError(
            f"--limit must be seconds in plain digits, more than 0 (got {_short(text)}); try 60 or 0.5"
        )
    return Limits(seconds=float(text))


def whole(option: str, text: str, least: int, example: str, most: int = _MOST) -> int:
    """Return a whole number of at least `least` and at most `most`.

    Raises ArgumentValueError: the text is something else.

    >>> whole("--size", "256", 1, "256")
    256
    """
    value = _number(text)
    if value is None or not least <= value <= most:
        rule = f"of at least {least}" if most == _MOST else f"from {least} to {most:,}"
        raise ArgumentValueError(f"{option} must be a whole number {rule} (got {_short(text)}); try {example}")
    return value


def decimal(option: str, text: str, example: str) -> float:
    """Return a number in decimal digits, with or without a fraction.

    Raises ArgumentValueError: the text is something else.

    >>> decimal("--gflops", "1.5", "300")
    1.5
    """
    if not _SECONDS.fullmatch(text):
        raise ArgumentValueError(f"{option} must be a number in plain digits (got {_short(text)}); try {example}")
    return float(text)


def rate(option: str, text: str) -> int:
    """Return bytes per second, from text such as "20GB/s" or "1.5 GiB".

    Raises ArgumentValueError: the text is something else.

    >>> rate("--link", "1.25GB/s")
    1250000000
    """
    return size_bytes(option, text.strip().removesuffix("/s"))


def extents(option: str, text: str, between: str = ",") -> tuple[int, int, int]:
    """Return three extents of at least 1, from `M,N,K` or `MxNxK`; an error names the form that has `between`.

    >>> extents("--shape", "31x33x32")
    (31, 33, 32)
    """
    parts = [_number(part.strip()) for part in text.replace("x", ",").split(",")]
    found = [part for part in parts if part is not None and 1 <= part <= _MOST]
    if len(parts) != 3 or len(found) != 3:
        raise ArgumentValueError(
            f"{option} must be three extents of at least 1, {between.join('MNK')} (got {_short(text)}); "
            f"try {between.join(('31', '33', '32'))}"
        )
    m, n, k = found
    return m, n, k


def one_of(option: str, text: str, allowed: Sequence[_Text]) -> _Text:
    """Return the text if it is an allowed value."""
    for value in allowed:
        if value == text:
            return value
    raise ArgumentValueError(
        f"{option} must be one of {', '.join(allowed)} (got {_short(text)}); leave it out for the default"
    )


def gpu_name(option: str, text: str) -> str:
    """Return the name of a known GPU, checked even if the GPU will not be used."""
    from tilewright import machine

    if not text:
        raise ArgumentValueError(f"{option} must name a GPU (got {text!r}); see `tilewright gpus`")
    try:
        return machine.gpu(text).key
    except ArgumentValueError as error:
        raise ArgumentValueError(f"{option}: {error}") from None


def _number(text: str) -> int | None:
    """The number, if the text is decimal digits of a sensible length."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
