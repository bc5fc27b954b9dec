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

from tilewright.ground.display import Reports, Shown
from tilewright.ground.forking import wait_for_imports
from tilewright.ground.lazy_exports import publish
from tilewright.ground.public_paths import keep_public_paths

if sys.platform == "win32":
    raise ImportError(
        "Tilewright must run on Linux or macOS (got Windows); use WSL 2 or the container that docs/install.md describes"
    )

if TYPE_CHECKING:  # what `publish` is given, for type checkers; a meta test holds the two together
    from tilewright import errors as errors, simulate as _simt
    from tilewright.cli.notebook import load_ipython_extension as load_ipython_extension
    from tilewright.errors import KernelError as KernelError, TilewrightError as TilewrightError
    from tilewright.frontends.session import simulated_gpu as simulated_gpu
    from tilewright.ground.settings import Settings as Settings
    from tilewright.multiply import problem as problem
    from tilewright.multiply.backends.cuda import device as _cuda
    from tilewright.multiply.backends.inventory import devices as devices
    from tilewright.multiply.engine.matmul import matmul as matmul, plan as plan
    from tilewright.multiply.kernels import catalogue as catalogue
    from tilewright.multiply.problem.algebra import Algebra as Algebra
    from tilewright.multiply.problem.functions import (
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
    from tilewright.observe import instruments as instruments
    from tilewright.observe.checking import check as check
    from tilewright.observe.prediction.launches import predict as predict, profile as profile
    from tilewright.show import ladder as ladder
    from tilewright.show.rates.tuning import tune as tune
    from tilewright.show.report.status import progress as progress
    from tilewright.simulate import machine as machine, programs as programs
    from tilewright.version import __version__ as __version__

    cuda = _cuda
    simt = _simt


def _reports() -> Reports:
    from tilewright.show.report import records

    return records


Shown.reports = _reports
wait_for_imports()
keep_public_paths()
publish(
    __name__,
    {
        "multiply.backends.inventory": "devices",
        "observe.checking": "check",
        "frontends.session": "simulated_gpu",
        "multiply.engine.matmul": "matmul plan",
        "errors": "KernelError TilewrightError",
        "cli.notebook": "load_ipython_extension",
        "observe.prediction.launches": "predict profile",
        "multiply.problem.algebra": "Algebra",
        "multiply.problem.functions": "absolute astype ceil clip erf exp expm1 floor fma gelu log log1p logaddexp "
        "maximum minimum relu requantise round sigmoid silu sqrt tanh where",
        "show.rates.tuning": "tune",
        "show.report.status": "progress",
        "ground.settings": "Settings",
        "version": "__version__",
    },
    {"matmul": "bmm dot einsum gemm mm multiply product", "devices": "device", "simulated_gpu": "gpu simulate"},
    catalogue="multiply.kernels.catalogue",
    cuda="multiply.backends.cuda.device",
    errors="errors",
    instruments="observe.instruments",
    ladder="show.ladder",
    machine="simulate.machine",
    problem="multiply.problem",
    programs="simulate.programs",
    simt="simulate",
)
