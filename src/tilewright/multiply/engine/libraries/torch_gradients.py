"""Gradients of products of torch's tensors, which are products again.

For c = alpha a b: the gradient of `a` is conj(alpha) g b^H, that of `b` conj(alpha) a^H g, each summed over the axes
along which that operand was broadcast.

Source: Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation, 2008,
section 2.2.1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.forward_ad import unpack_dual

from tilewright.errors import ArgumentTypeError


def wanted(a: Any, b: Any) -> bool:
    """Whether torch records the product, or transforms it: in `torch.func`, or with dual numbers."""
    tensors = [x for x in (a, b) if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return True
    return any(
        torch._C._functorch.is_functorch_wrapped_tensor(x) or unpack_dual(x).tangent is not None for x in tensors
    )


#: Arguments without a gradient here -> their defaults.
_WITHOUT = {"out": None, "axes": None, "beta": 0, "epilogue": None, "algebra": "plus-times"}


def matmul(a: Any, b: Any, options: Mapping[str, Any], more: Mapping[str, Any], multiply: Callable[..., Any]) -> Any:
    """The product of two operands, at least one of which requires a gradient.

    `options` are the arguments of :func:`tilewright.matmul` that the gradients use too, `more` the others.

    Raises ArgumentTypeError: an argument has no gradient here.
    """
    given = {**options, **more}
    for name, left_out in _WITHOUT.items():
        if given[name] is not left_out and given[name] != left_out:
            raise ArgumentTypeError(
                f"`{name}` must be left out for tensors that require a gradient or that torch.func transforms (got "
                "one); call .detach(), or apply torch's own function to the product"
            )
    left, right = (x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in (a, b))
    return _Product.apply(left, right, functools.partial(multiply, **options))


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """A product with its gradients, which are products of this class, so that they have gradients too."""

    @staticmethod
    def forward(a: Any, b: Any, product: functools.partial[Any]) -> Any:
        left, right = (unpack_dual(x.detach()).primal for x in (a, b))
        found = product(left, right)
        return found if isinstance(found, torch.Tensor) else torch.as_tensor(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.set_materialize_grads(False)
        ctx.product = inputs[2]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        a, b = ctx.saved_tensors
        of_a, of_b = tangents[:2]
        terms = [
            _Product.apply(left, right, ctx.product)
            for left, right in ((of_a, b), (a, of_b))
            if left is not None and right is not None
        ]
        return sum(terms[1:], terms[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], a: Any, b: Any, product: functools.partial[Any]) -> tuple[Any, int]:
        first, second = (x if at is None else x.movedim(at, 0) for x, at in zip((a, b), in_dims, strict=False))
        row, column = (x.ndim - (at is not None) == 1 for x, at in zip((a, b), in_dims, strict=False))
        matrices = first.unsqueeze(-2) if row else first, second.unsqueeze(-1) if column else second
        axes = max(x.ndim - (at is not None) for x, at in zip(matrices, in_dims, strict=False))
        left, right = (
            x if at is None else x.reshape(x.shape[0], *[1] * (axes + 1 - x.ndim), *x.shape[1:])
            for x, at in zip(matrices, in_dims, strict=False)
        )
        found = _Product.apply(left, right, product)
        found = found.squeeze(-1) if column else found
        return found.squeeze(-1 if column else -2) if row else found, 0

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, Any, None]:
        alpha = ctx.product.keywords["alpha"]
        conjugate = alpha.conjugate() if isinstance(alpha, complex) else alpha
        product = functools.partial(ctx.product, alpha=conjugate, dtype=None)
        return *gradients(ctx, given[0], lambda left, right: _Product.apply(left, right, product)), None


def gradients(ctx: Any, gradient: Any, product: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The gradients of both saved operands of a product, as products; None where nothing depends on it."""
    if gradient is None:
        return None, None
    a, b = ctx.saved_tensors
    left, right = (x.to(gradient.dtype) for x in (a, b))
    rows = left if a.ndim > 1 else left[None, :]
    columns = right if b.ndim > 1 else right[:, None]
    g = gradient.unsqueeze(-1) if b.ndim == 1 else gradient
    g = g.unsqueeze(-2) if a.ndim == 1 else g
    of_a = product(g, columns.mH) if ctx.needs_input_grad[0] else None
    of_b = product(rows.mH, g) if ctx.needs_input_grad[1] else None
    return _folded(of_a, rows, a), _folded(of_b, columns, b)


def _folded(gradient: Any, matrix: Any, operand: Any) -> Any:
    """A gradient in its operand's shape and dtype: summed over the axes along which the operand was broadcast."""
    if gradient is None:
        return None
    folded = gradient.sum_to_size(matrix.shape).reshape(operand.shape)
    if folded.is_complex() and not operand.is_complex():
        folded = folded.real
    return folded.to(operand.dtype)
