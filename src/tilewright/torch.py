"""Products as an operator of PyTorch, with gradients, which `torch.compile` traces; needs torch.

Examples
--------
>>> import torch
>>> from tilewright.torch import matmul
>>> matmul(torch.ones(2, 3), torch.ones(3))
tensor([3., 3.])
"""

from tilewright.multiply.engine.libraries.torch_operator import matmul

__all__ = ["matmul"]
