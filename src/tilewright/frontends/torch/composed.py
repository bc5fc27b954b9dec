"""Functions whose C++ allocates the result where it takes tensors on the device to be: here they are made of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch


def _pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    longest, flat = max(map(len, sequences)), [0, 0] * (sequences[0].dim() - 1)
    padded = []
    for one in sequences:
        missing = longest - len(one)
        sides = [missing, 0] if padding_side == "left" else [0, missing]
        padded.append(torch.nn.functional.pad(one, flat + sides, value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def _vander(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> torch.Tensor:  # noqa: N803 (torch's)
    powers = torch.linalg.vander(x, N=N)
    return powers if increasing else powers.flip(1)


#: The functions by their names.
COMPOSED: Mapping[str, Callable[..., Any]] = MappingProxyType({"pad_sequence": _pad_sequence, "vander": _vander})
