"""Tilewright: matrix multiplication from three loops up, and a SIMT machine that runs CUDA kernels without a GPU.

The public names below are imported when they are first used, so `import tilewright` costs next to nothing.

Examples
--------
>>> import tilewright as tw
>>> tw.machine.gpu("h100").name
'NVIDIA H100 SXM5 80GB'
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tilewright.forking import wait_for_imports
from tilewright.public import publish
from tilewright.shown import Reports, Shown

if sys.platform == "win32":
    raise ImportError(
        "Tilewright must run on Linux or macOS (got Windows); use WSL 2 or the container that docs/install.md describes"
    )

if TYPE_CHECKING:  # what `publish` is given, for type checkers; a meta test holds the two together
    from tilewright import (
        errors as errors,
        instruments as instruments,
        ladder as ladder,
        machine as machine,
        problem as problem,
        programs as programs,
        simt as simt,
    )
    from tilewright.backends.cuda import device as _cuda
    from tilewright.backends.inventory import devices as devices
    from tilewright.checking import check as check
    from tilewright.drivers.session import simulated_gpu as simulated_gpu
    from tilewright.engine.matmul import matmul as matmul, plan as plan
    from tilewright.errors import KernelError as KernelError, TilewrightError as TilewrightError
    from tilewright.kernels import catalogue as catalogue
    from tilewright.notebook import load_ipython_extension as load_ipython_extension
    from tilewright.prediction.launches import predict as predict, profile as profile
    from tilewright.problem.algebra import Algebra as Algebra
    from tilewright.problem.functions import (
        absolute as absolute,
        astype as astype,
        ceil as ceil,
        clip as clip,
        erf as erf,
        exp as exp,
        expm1 as expm1,
        floor as floor,
        fma as fma,
        gelu as gelu,
        log as log,
        log1p as log1p,
        logaddexp as logaddexp,
        maximum as maximum,
        minimum as minimum,
        relu as relu,
        requantise as requantise,
        round as round,
        sigmoid as sigmoid,
        silu as silu,
        sqrt as sqrt,
        tanh as tanh,
        where as where,
    )
    from tilewright.rates.tuning import tune as tune
    from tilewright.report.status import progress as progress
    from tilewright.settings import Settings as Settings
    from tilewright.version import __version__ as __version__

    cuda = _cuda


def _reports() -> Reports:
    from tilewright.report import records

    return records


Shown.reports = _reports
wait_for_imports()
publish(
    __name__,
    {
        "backends.inventory": "devices",
        "checking": "check",
        "drivers.session": "simulated_gpu",
        "engine.matmul": "matmul plan",
        "errors": "KernelError TilewrightError",
        "notebook": "load_ipython_extension",
        "prediction.launches": "predict profile",
        "problem.algebra": "Algebra",
        "problem.functions": "absolute astype ceil clip erf exp expm1 floor fma gelu log log1p logaddexp maximum "
        "minimum relu requantise round sigmoid silu sqrt tanh where",
        "rates.tuning": "tune",
        "report.status": "progress",
        "settings": "Settings",
        "version": "__version__",
    },
    {"matmul": "bmm dot einsum gemm mm multiply product", "devices": "device", "simulated_gpu": "gpu simulate"},
    catalogue="kernels.catalogue",
    cuda="backends.cuda.device",
    errors="errors",
    instruments="instruments",
    ladder="ladder",
    machine="machine",
    problem="problem",
    programs="programs",
    simt="simt",
)
