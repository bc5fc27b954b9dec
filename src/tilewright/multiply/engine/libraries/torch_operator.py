"""A product as an operator of torch, `tilewright::matmul`: `torch.compile` traces it, and it has gradients.

Its kernels run on the tensors' device: the CPU, a GPU, or a simulated GPU.

Source: PyTorch, "Custom Python Operators" and `torch.library`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.engine.libraries.torch_gradients import gradients
from tilewright.multiply.engine.promotion import as_dtype, check_order, types

#: The namespace of the operator.
NAMESPACE = "tilewright"
_SCHEMA = "(Tensor a, Tensor b, *, ScalarType? dtype=None, ScalarType? acc_dtype=None, str order='canonical') -> Tensor"


def matmul(a: Any, b: Any, *, dtype: Any = None, acc_dtype: Any = None, order: str = "canonical") -> Any:
    """Multiply tensors by the operator `tilewright::matmul`, which `torch.compile` traces.

    Parameters
    ----------
    a, b : torch.Tensor, shapes (..., m, k) and (..., k, n), or (k,)
        Both on the CPU or both on one GPU; any strides. Axes before the last two broadcast.
    dtype, acc_dtype : dtype, optional
        The dtype of the result and of the running sums, as for :func:`tilewright.matmul`.
    order : {"canonical", "tf32x3", "fast"}
        As for :func:`tilewright.matmul`.

    Returns
    -------
    torch.Tensor
        Contiguous, on the operands' device. Its gradients are products of the same order.

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        As :func:`tilewright.matmul`.

    Examples
    --------
    >>> import torch
    >>> from tilewright.torch import matmul
    >>> layer = torch.compile(lambda x, w: matmul(x, w).relu(), fullgraph=True, backend="aot_eager")
    >>> layer(torch.ones(2, 3), torch.ones(3, 4))
    tensor([[3., 3., 3., 3.],
            [3., 3., 3., 3.]])
    """
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, torch.Tensor):
            raise ArgumentTypeError(
                f"`{name}` must be a tensor (got {type(value).__name__}); pass torch.as_tensor({name}), or call "
                "tilewright.matmul"
            )
    return _operator(a, b, dtype=_of_torch(dtype, "dtype"), acc_dtype=_of_torch(acc_dtype, "acc_dtype"), order=order)


def _of_torch(kind: Any, name: str) -> Any:
    """The dtype of torch by any name of it that `tilewright.matmul` takes."""
    return kind if kind is None or isinstance(kind, torch.dtype) else getattr(torch, as_dtype(kind, name).name)


def multiplied(a: Any, b: Any, *, dtype: Any = None, acc_dtype: Any = None, order: Any = "canonical") -> Any:
    """The operator's result, for tensors on any device."""
    from tilewright.multiply.engine.matmul import matmul as multiply

    found = multiply(a.detach(), b.detach(), dtype=dtype, acc_dtype=acc_dtype, order=order)
    return (found if isinstance(found, torch.Tensor) else torch.as_tensor(found)).contiguous()


_operator: Any = torch.library.custom_op(f"{NAMESPACE}::matmul", multiplied, mutates_args=(), schema=_SCHEMA)


def _fake(a: Any, b: Any, *, dtype: Any = None, acc_dtype: Any = None, order: str = "canonical") -> Any:
    """A fake tensor of the product's shape and dtype; extents may be symbols."""
    check_order(order)
    if not a.ndim or not b.ndim:
        raise ArgumentValueError(f"`{'b' if a.ndim else 'a'}` must have 1 dimension or more (got a number); use `*`")
    inner = b.shape[-2 if b.ndim > 1 else -1]
    torch._check(
        a.shape[-1] == inner,
        lambda: f"`b.shape[{-min(b.ndim, 2)}]` must equal `a.shape[-1]` (got {tuple(b.shape)} and {tuple(a.shape)})",
    )
    shape = [
        *torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]),
        *a.shape[-2:-1],
        *(b.shape[-1:] if b.ndim > 1 else ()),
    ]
    wanted, total = (None if one is None else as_dtype(one, "dtype") for one in (dtype, acc_dtype))
    made = types(as_dtype(a.dtype, "dtype"), as_dtype(b.dtype, "dtype"), wanted, total)
    return a.new_empty(shape, dtype=getattr(torch, made.result.name))


def _keep(ctx: Any, inputs: Sequence[Any], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.options = {**keyword_only_inputs, "dtype": None}
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, gradient: Any) -> tuple[Any, Any]:
    """The gradients of both operands, by the same operator."""
    return gradients(ctx, gradient, lambda left, right: _operator(left, right, **ctx.options))


_operator.register_fake(_fake)
_operator.register_autograd(_gradients, setup_context=_keep)
