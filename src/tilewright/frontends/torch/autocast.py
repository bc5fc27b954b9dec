"""`torch.autocast("cuda")`: products as the CPU's autocast makes them, and what CUDA's does with other functions.

Source: PyTorch, "Autocast Op Reference"; `ATen/autocast_mode.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.frontends.torch.devices import tensors_of, with_tensors

HALVES = (torch.float16, torch.bfloat16)
#: Functions that are computed in float32.
_IN_FLOAT32 = frozenset(
    "__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cdist cosh "
    "cosine_embedding_loss cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 frobenius_norm "
    "group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm linalg_matrix_norm linalg_vector_norm log "
    "log10 log1p log2 log_softmax margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss norm "
    "normalize nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softmax softmin softplus sum tan triplet_margin_loss".split()
)
#: Functions whose arguments get the widest of their dtypes.
_IN_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot grid_sample grid_sampler index_put linalg_cross scatter_add tensordot "
    "vdot".split()
)
#: Products that the CPU's autocast leaves as they are.
_IN_HALF = frozenset("addmv addr gru_cell lstm_cell mv rnn_relu_cell rnn_tanh_cell".split())
#: Layers whose kernels for the CPU's autocast lack dtypes of GPUs.
_LAYERS = frozenset("gru lstm rnn_relu rnn_tanh".split())
#: The function that is refused in half precision.
_UNSAFE = "binary_cross_entropy"


def called(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function with the dtypes of `torch.autocast("cuda")`.

    Raises RuntimeError: it is unsafe in half precision, as in torch.
    """
    name, dtype = function.__name__, torch.get_autocast_dtype("cuda")
    if name == _UNSAFE:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast; use "
            "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss"
        )
    if kwargs.get("out") is not None:
        return plain(function, args, kwargs)
    if name in _IN_FLOAT32 or (name in _IN_WIDEST and _has_float32((args, kwargs))):
        args, kwargs = with_tensors(widened, (tuple(args), kwargs))
    elif name in _IN_HALF or name in _LAYERS:
        args, kwargs = with_tensors(lambda one: one.to(dtype) if one.dtype == torch.float32 else one, (args, kwargs))
    if name in _LAYERS:
        return plain(function, args, kwargs)
    with torch.autocast("cpu", dtype):
        return function(*args, **kwargs)


def plain(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function without `torch.autocast("cpu")`, which is for tensors of the host."""
    with torch.autocast("cpu", enabled=False):
        return function(*args, **kwargs)


def _has_float32(given: Any) -> bool:
    return any(one.dtype == torch.float32 for one in tensors_of(given))


def widened(one: Any) -> Any:
    """A tensor of halves in float32, and any other unchanged."""
    return one.float() if one.dtype in HALVES else one
