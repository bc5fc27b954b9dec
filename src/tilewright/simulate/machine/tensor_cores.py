"""How a GPU's tensor cores add the products of matrices: one record a format of elements, of `tensor_cores.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.ground.native.memo import memo
from tilewright.simulate.machine.gpu import Gpu

#: In groups that are aligned, cut off and added exactly; as float16 in two parts; or one after another.
WAYS = ("fused", "halves", "chained")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How products are added: terms are aligned to the largest exponent, cut off, and added exactly."""

    way: str = "fused"  #: One of `WAYS`; the fields below are of the first.
    group: int = 0  #: Products that are added at once, with C.
    fraction: int = 0  #: Bits that terms keep below the largest exponent.
    kept: int  #: Fraction bits of a float32 result.
    floor: int  #: Least exponent that terms are aligned to.


def rule(gpu: Gpu, name: str) -> Rule:
    """The record of a GPU for elements of a format, by the manual's name.

    A compute capability without records of its own (8.7, for example) has those of the newest one before it.

    >>> from tilewright.simulate.machine import gpu
    >>> rule(gpu("h100"), "f16").group, rule(gpu("a100"), "f16").group
    (16, 8)
    """
    return rule_of(gpu.compute_capability, name)


def rule_of(capability: tuple[int, int], name: str) -> Rule:
    """The same for a compute capability."""
    rules = _rules()
    before = [known for known in rules if known <= capability]
    return rules[max(before, default=min(rules))][name]


@memo
def _rules() -> MappingProxyType[tuple[int, int], MappingProxyType[str, Rule]]:
    import tomllib

    source = resources.files(__package__).joinpath("tensor_cores.toml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = tomllib.loads(source)
    every = data.pop("every")
    return MappingProxyType(
        {
            _capability(text): MappingProxyType({name: Rule(**{**every, **fields}) for name, fields in formats.items()})
            for text, formats in data.items()
        }
    )


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)
