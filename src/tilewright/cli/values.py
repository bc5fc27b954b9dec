"""Parsing of option values; every error states its rule and the value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from tilewright.errors import ArgumentValueError
from tilewright.simulate.machine.sizes import size_bytes, size_text

if TYPE_CHECKING:
    from tilewright.simulate import Limits

_Text = TypeVar("_Text", bound=str)
#: m, n and k of a product.
Extents = tuple[int, int, int]
#: The largest number an option takes: what 64 bits hold.
_MOST = 2**63 - 1
_MOST_DIGITS = len(str(_MOST))
#: A number in plain digits, fractions too; nobody waits for more seconds than nine digits hold.
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def limits(text: str | None) -> Limits | None:
    """The limit of a launch from `--limit`; None without one.

    Raises ArgumentValueError: the text is no number of seconds, or 0.
    """
    from tilewright.simulate import Limits

    if text is None:
        return None
    if not _DECIMAL.fullmatch(text) or not float(text):
        raise ArgumentValueError(
            f"--limit must be seconds in plain digits, more than 0 (got {_short(text)}); try 60 or 0.5"
        )
    return Limits(seconds=float(text))


def whole(option: str, text: str, least: int, example: str, most: int = _MOST) -> int:
    """Return a whole number of at least `least` and at most `most`.

    Raises ArgumentValueError: the text is something else.

    >>> whole("--seed", "256", 0, "1")
    256
    """
    value = _number(text)
    if value is None or not least <= value <= most:
        bounded = most < _MOST or (text.isdigit() and (value is None or value > most))
        rule = f"from {least} to {most:,}" if bounded else f"of at least {least}"
        raise ArgumentValueError(f"{option} must be a whole number {rule} (got {_short(text)}); try {example}")
    return value


def size(option: str, text: str, most: int) -> int:
    """Return bytes, from text such as "8192", "8KiB" or "2GB".

    Raises ArgumentValueError: the text is something else, or more than `most`.

    >>> size("--shared", "48KiB", 232_448)
    49152
    """
    found = 0 if text == "0" else size_bytes(option, text)
    if found > most:
        raise ArgumentValueError(f"{option} must be at most {size_text(most)} (got {_short(text)}); try 8KiB")
    return found


def words(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the words of a list, each once; nothing without the option.

    Raises ArgumentValueError: the option is given, but names nothing.

    >>> words("--kernels", ["s9*, S5", "S5"])
    ('s9*', 'S5')
    """
    parts = [part.strip() for text in given or () for part in text.split(",")]
    found = tuple(dict.fromkeys(part for part in parts if part))
    if given is not None and not found:
        raise ArgumentValueError(
            f"{option} must name at least one (got {_short(','.join(given))}); leave it out for the default"
        )
    return found


def one(option: str, given: Sequence[str] | None, remedy: str = "keep one") -> str | None:
    """Return the one word of a list where several make no sense; None without the option.

    Raises ArgumentValueError: there are several.

    >>> one("--kernels", ["tiled"])
    'tiled'
    """
    found = words(option, given)
    if len(found) > 1:
        raise ArgumentValueError(f"{option} must name one here (got {_short(','.join(found))}); {remedy}")
    return found[0] if found else None


def sizes(given: Sequence[str] | None, *default: Extents) -> tuple[Extents, ...]:
    """Return the extents m, n and k of each product of `--sizes`.

    Raises ArgumentValueError: one has another form.

    >>> sizes(["256,31x33x32"])
    ((256, 256, 256), (31, 33, 32))
    """
    return tuple(map(_extents, words("--sizes", given))) or default


def only_size(given: Sequence[str] | None, default: Extents) -> Extents:
    """Return the extents of the one product of `--sizes`."""
    text = one("--sizes", given, "one product is N or MxNxK: 31x33x32")
    return default if text is None else _extents(text)


def _extents(text: str) -> Extents:
    parts = [_number(part.strip()) for part in text.lower().split("x")]
    found = [part for part in parts if part is not None and 1 <= part <= _MOST]
    if len(found) != len(parts) or len(found) not in (1, 3):
        raise ArgumentValueError(
            f"--sizes must be N or MxNxK, each at least 1 (got {_short(text)}); try 256 or 31x33x32"
        )
    m, n, k = found if len(found) == 3 else found * 3
    return m, n, k


def dtypes(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of the dtypes of `--dtypes`.

    Raises ArgumentTypeError: one is no dtype.

    >>> dtypes(["half,int8"])
    ('float16', 'int8')
    """
    from tilewright.multiply.problem.dtypes import full_name

    return tuple(full_name(text, "--dtypes") for text in words("--dtypes", given))


def only_dtype(given: Sequence[str] | None) -> str | None:
    """Return the name of the one dtype of `--dtypes`; None without the option."""
    return None if one("--dtypes", given) is None else dtypes(given)[0]


def numbers(option: str, given: Sequence[str] | None, example: str, most: int = _MOST) -> tuple[int, ...]:
    """Return the whole numbers of a list.

    >>> numbers("--blocks", ["8,16"], "8,16,32")
    (8, 16)
    """
    return tuple(whole(option, word, 1, example, most) for word in words(option, given))


def one_of(option: str, text: str, allowed: Sequence[_Text]) -> _Text:
    """Return the text if it is an allowed value."""
    for value in allowed:
        if value == text:
            return value
    raise ArgumentValueError.of_name(option, text[:60], allowed, "leave it out for the default")


def gpu(given: Sequence[str] | None) -> str | None:
    """Return the key of the one GPU of `--gpu`; None without the option."""
    name = one("--gpu", given)
    return None if name is None else gpu_name("--gpu", name)


def gpus(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the keys of the GPUs of `--gpu`."""
    return tuple(gpu_name("--gpu", name) for name in words("--gpu", given))


def gpu_name(option: str, text: str) -> str:
    """Return the key of a known GPU, checked even if the GPU will not be used."""
    from tilewright.simulate import machine

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
