"""Operators that take functions (`torch.cond`, those of compiled graphs), which torch runs for plain tensors alone.

Source: PyTorch, `HigherOrderOperator` of `torch/_ops.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tilewright.frontends.torch.tensors import DeviceTensor
from tilewright.ground.native.replaced_names import Row

_KEYS = torch._C.DispatchKey


def rows() -> Iterator[Row]:
    """The name that is replaced: tensors on the device get the kernel of plain ones, whose operations are theirs."""
    plain = torch._ops.HigherOrderOperator.dispatch

    @functools.wraps(plain)
    def dispatch(operator: Any, dispatch_key: Any, /, *args: Any, **kwargs: Any) -> Any:
        ours = dispatch_key == _KEYS.Python and DeviceTensor in map(type, operator._get_overloaded_args(args, kwargs))
        if not ours or _get_current_dispatch_mode() is not None:
            found = plain(operator, dispatch_key, *args, **kwargs)
            if not ours or found is not NotImplemented:
                return found
        return plain(operator, _KEYS.CPU, *args, **kwargs)

    yield "torch._ops", "HigherOrderOperator.dispatch", dispatch
