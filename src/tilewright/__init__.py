"""Tilewright: matrix multiplication from three loops up, and a SIMT machine that runs CUDA kernels without a GPU.

The public names below are imported when they are first used, so `import tilewright` costs next to nothing.

Examples
--------
>>> import tilewright as tw
>>> tw.machine.gpu("h100").name
'NVIDIA H100 SXM5 80GB'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `_PUBLIC` says, for type checkers; a meta test holds the two together
    from tilewright import errors as errors
    from tilewright import instruments as instruments
    from tilewright import ladder as ladder
    from tilewright import machine as machine
    from tilewright import problem as problem
    from tilewright import programs as programs
    from tilewright import simt as simt
    from tilewright.backends.cuda import device as cuda
    from tilewright.backends.inventory import devices as devices
    from tilewright.checking import check as check
    from tilewright.drivers.session import simulated_gpu as simulated_gpu
    from tilewright.engine.matmul import matmul as matmul
    from tilewright.engine.matmul import plan as plan
    from tilewright.errors import KernelError as KernelError
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.kernels import catalogue as catalogue
    from tilewright.notebook import load_ipython_extension as load_ipython_extension
    from tilewright.problem.algebra import Algebra as Algebra
    from tilewright.problem.functions import absolute as absolute
    from tilewright.problem.functions import astype as astype
    from tilewright.problem.functions import ceil as ceil
    from tilewright.problem.functions import clip as clip
    from tilewright.problem.functions import erf as erf
    from tilewright.problem.functions import exp as exp
    from tilewright.problem.functions import expm1 as expm1
    from tilewright.problem.functions import floor as floor
    from tilewright.problem.functions import fma as fma
    from tilewright.problem.functions import gelu as gelu
    from tilewright.problem.functions import log as log
    from tilewright.problem.functions import log1p as log1p
    from tilewright.problem.functions import logaddexp as logaddexp
    from tilewright.problem.functions import maximum as maximum
    from tilewright.problem.functions import minimum as minimum
    from tilewright.problem.functions import relu as relu
    from tilewright.problem.functions import requantise as requantise
    from tilewright.problem.functions import round as round
    from tilewright.problem.functions import sigmoid as sigmoid
    from tilewright.problem.functions import silu as silu
    from tilewright.problem.functions import sqrt as sqrt
    from tilewright.problem.functions import tanh as tanh
    from tilewright.problem.functions import where as where
    from tilewright.profiling import profile as profile
    from tilewright.report.status import progress as progress
    from tilewright.settings import Settings as Settings

    __version__: str

#: Public name -> (module, attribute of it, or "" for the module itself).
_PUBLIC = {
    "Algebra": ("tilewright.problem.algebra", "Algebra"),
    "KernelError": ("tilewright.errors", "KernelError"),
    "Settings": ("tilewright.settings", "Settings"),
    "TilewrightError": ("tilewright.errors", "TilewrightError"),
    "absolute": ("tilewright.problem.functions", "absolute"),
    "astype": ("tilewright.problem.functions", "astype"),
    "catalogue": ("tilewright.kernels.catalogue", ""),
    "ceil": ("tilewright.problem.functions", "ceil"),
    "check": ("tilewright.checking", "check"),
    "clip": ("tilewright.problem.functions", "clip"),
    "cuda": ("tilewright.backends.cuda.device", ""),
    "devices": ("tilewright.backends.inventory", "devices"),
    "erf": ("tilewright.problem.functions", "erf"),
    "errors": ("tilewright.errors", ""),
    "exp": ("tilewright.problem.functions", "exp"),
    "expm1": ("tilewright.problem.functions", "expm1"),
    "floor": ("tilewright.problem.functions", "floor"),
    "fma": ("tilewright.problem.functions", "fma"),
    "gelu": ("tilewright.problem.functions", "gelu"),
    "instruments": ("tilewright.instruments", ""),
    "ladder": ("tilewright.ladder", ""),
    "load_ipython_extension": ("tilewright.notebook", "load_ipython_extension"),
    "log": ("tilewright.problem.functions", "log"),
    "log1p": ("tilewright.problem.functions", "log1p"),
    "logaddexp": ("tilewright.problem.functions", "logaddexp"),
    "machine": ("tilewright.machine", ""),
    "matmul": ("tilewright.engine.matmul", "matmul"),
    "maximum": ("tilewright.problem.functions", "maximum"),
    "minimum": ("tilewright.problem.functions", "minimum"),
    "plan": ("tilewright.engine.matmul", "plan"),
    "problem": ("tilewright.problem", ""),
    "profile": ("tilewright.profiling", "profile"),
    "programs": ("tilewright.programs", ""),
    "progress": ("tilewright.report.status", "progress"),
    "relu": ("tilewright.problem.functions", "relu"),
    "requantise": ("tilewright.problem.functions", "requantise"),
    "round": ("tilewright.problem.functions", "round"),
    "sigmoid": ("tilewright.problem.functions", "sigmoid"),
    "silu": ("tilewright.problem.functions", "silu"),
    "simt": ("tilewright.simt", ""),
    "simulated_gpu": ("tilewright.drivers.session", "simulated_gpu"),
    "sqrt": ("tilewright.problem.functions", "sqrt"),
    "tanh": ("tilewright.problem.functions", "tanh"),
    "where": ("tilewright.problem.functions", "where"),
}

__all__ = [
    "Algebra",
    "KernelError",
    "Settings",
    "TilewrightError",
    "__version__",
    "absolute",
    "astype",
    "catalogue",
    "ceil",
    "check",
    "clip",
    "cuda",
    "devices",
    "erf",
    "errors",
    "exp",
    "expm1",
    "floor",
    "fma",
    "gelu",
    "instruments",
    "ladder",
    "load_ipython_extension",
    "log",
    "log1p",
    "logaddexp",
    "machine",
    "matmul",
    "maximum",
    "minimum",
    "plan",
    "problem",
    "profile",
    "programs",
    "progress",
    "relu",
    "requantise",
    "round",
    "sigmoid",
    "silu",
    "simt",
    "simulated_gpu",
    "sqrt",
    "tanh",
    "where",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("tilewright")
    elif name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        value = importlib.import_module(module)
        if attribute:
            value = getattr(value, attribute)
    else:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}; public names: {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
