"""Gradients of products of torch's tensors, which are products again.

For c = alpha a b: the gradient of `a` is conj(alpha) g b^H, that of `b` conj(alpha) a^H g, each summed over the axes
along which that operand was broadcast.

Source: Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation, 2008,
section 2.2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.errors import ArgumentTypeError


def wanted(a: Any, b: Any) -> bool:
    """Whether torch records the product of two operands."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in (a, b))


#: What has no gradient here -> its value where it is not asked for.
_WITHOUT = {"out": None, "axes": None, "beta": 0, "epilogue": None, "algebra": "plus-times"}


def matmul(a: Any, b: Any, options: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """The product of two operands, of which one at least requires a gradient.

    `options` are the arguments of :func:`tilewright.matmul` that the gradients are computed with too, `more` the
    others.

    Raises
    ------
    ArgumentTypeError
        What was asked for has no gradient here.
    """
    given = {**options, **more}
    for name, left_out in _WITHOUT.items():
        if given[name] is not left_out and given[name] != left_out:
            raise ArgumentTypeError(
                f"`{name}` must be left out for tensors that require a gradient (got one); call .detach(), or apply "
                "torch's own function to the product"
            )
    left, right = (x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in (a, b))
    return _Product.apply(left, right, dict(options))


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """A product with its gradients; these are products of the same kind, so that they have gradients themselves."""

    @staticmethod
    def forward(a: Any, b: Any, options: dict[str, Any]) -> Any:
        from tilewright.engine import matmul as multiply

        found = multiply(a.detach(), b.detach(), **options)
        return found if isinstance(found, torch.Tensor) else torch.as_tensor(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.options = inputs[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, Any, None]:
        (gradient,) = gradients
        a, b = ctx.saved_tensors
        alpha = ctx.options["alpha"]
        options = ctx.options | {"alpha": alpha.conjugate() if isinstance(alpha, complex) else alpha, "dtype": None}
        left, right = (x.to(gradient.dtype) for x in (a, b))
        rows = left if a.ndim > 1 else left[None, :]
        columns = right if b.ndim > 1 else right[:, None]
        g = gradient.unsqueeze(-1) if b.ndim == 1 else gradient
        g = g.unsqueeze(-2) if a.ndim == 1 else g
        of_a = _Product.apply(g, columns.mH, options) if ctx.needs_input_grad[0] else None
        of_b = _Product.apply(rows.mH, g, options) if ctx.needs_input_grad[1] else None
        return _folded(of_a, rows, a), _folded(of_b, columns, b), None


def _folded(gradient: Any, matrix: Any, operand: Any) -> Any:
    """A gradient in the shape and dtype of its operand: summed over the axes it was broadcast along."""
    if gradient is None:
        return None
    folded = gradient.sum_to_size(matrix.shape).reshape(operand.shape)
    if folded.is_complex() and not operand.is_complex():
        folded = folded.real
    return folded.to(operand.dtype)
