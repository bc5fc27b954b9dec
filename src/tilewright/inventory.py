"""What this machine multiplies on: the processor, NVIDIA GPUs, OpenCL devices and the simulated GPU.

Each is a record that says what it can do, or why it is missing and what to do about it.

Examples
--------
>>> {"cpu", "simulated"} <= {found.device for found in devices()}
True
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import DeviceError, MissingExtraError
from tilewright.settings import Settings

#: Of a processor's features, those that products are made with, as LLVM names them.
_FEATURES = {
    "avx2": "AVX2", "avx512f": "AVX-512", "avx512vnni": "VNNI", "avxvnni": "AVX-VNNI", "avx512fp16": "AVX512-FP16",
    "avx512bf16": "AVX512-BF16", "amx-int8": "AMX int8", "amx-bf16": "AMX bfloat16", "neon": "NEON", "f16c": "F16C",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or what stands where one is missing.

    Attributes
    ----------
    device : str
        What `device=` and `--device` take.
    name : str
        Its maker's name for it; "" where it is missing.
    kind : {"processor", "gpu", "accelerator", "simulated"}
    units : int
        Threads of the processor, multiprocessors, compute units; 0 where that is not known.
    memory_bytes : int
        Its own; 0 where that is not known.
    commands : tuple of str
        What runs on it.
    features : tuple of str
        What it can do.
    missing : str
        Why it cannot be used, and what to do; "" where it can.
    """

    device: str
    name: str
    kind: str
    units: int = 0
    memory_bytes: int = 0
    commands: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    missing: str = ""


def host_name() -> str:
    """The host processor's name, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def devices() -> list[Device]:
    """Everything that products and kernels can run on here, and what is missing."""
    parts: tuple[Callable[[], list[Device]], ...] = (_processor, _cuda, _opencl, _simulated)
    return [found for part in parts for found in part()]


def _processor() -> list[Device]:
    from tilewright.native.compiler import compiler

    present = {name.removeprefix("+") for name in compiler().features.split(",") if name.startswith("+")}
    known = tuple(label for name, label in _FEATURES.items() if name in present)
    threads = Settings.from_environ().threads
    return [Device("cpu", host_name(), "processor", threads, commands=("tw.matmul", "ladder"), features=known)]


def _cuda() -> list[Device]:
    from tilewright.gpu import device

    reason = device.unavailable()
    if reason:
        return [Device("cuda", "", "gpu", missing=f"{reason}; kernels run on the simulated GPU")]
    return [_cuda_device(handle) for handle in _handles()]


def _handles() -> Any:
    from tilewright.gpu.optional import require

    return require("cuda.core", "Listing GPUs").Device.get_all_devices()


def _cuda_device(handle: Any) -> Device:
    capability = ".".join(str(part) for part in handle.compute_capability)
    units = int(handle.properties.multiprocessor_count)
    return Device(
        "cuda", str(handle.name), "gpu", units, commands=("ladder", "tw.cuda.launch"), features=(f"sm {capability}",)
    )


def _opencl() -> list[Device]:
    from tilewright.gpu import opencl

    try:
        found = opencl.devices()
    except (DeviceError, MissingExtraError) as error:
        return [Device("opencl", "", "gpu", missing=str(error))]
    others = [Device("opencl", "", "gpu", missing=reason) for reason in opencl.missing()]
    return [_opencl_device(i, device) for i, device in enumerate(found)] + others


def _opencl_device(number: int, device: Any) -> Device:
    has = {
        "float64": device.doubles,
        "shares the host's memory": device.unified,
        "exact float32 division": device.divides,
    }
    kind = "processor" if device.kind == "cpu" else device.kind
    features = (device.platform, *(name for name, present in has.items() if present))
    lacks = () if device.doubles else ("no float64",)
    return Device(
        f"opencl:{number}", device.name, kind, device.units, device.memory_bytes, ("tw.matmul", "ladder"),
        features + lacks,
    )  # fmt: skip


def _simulated() -> list[Device]:
    from tilewright import machine
    from tilewright.errors import TilewrightError
    from tilewright.gpu.optional import has_compilers

    chosen = Settings.from_environ().gpu
    try:
        name = machine.gpu(chosen).name
    except TilewrightError as error:
        return [Device("simulated", "", "simulated", missing=f"TILEWRIGHT_GPU: {error}")]
    also = f"limits of {len(machine.names())} GPUs (tilewright gpus)"
    commands: tuple[str, ...] = ("ladder", "run", "check", "profile")
    lacks: tuple[str, ...] = ()
    if not has_compilers():
        commands = ("tw.simt.launch", "tw.check", "tw.profile")
        lacks = ("PTX alone: kernels of Numba and CUDA C++ need pip install 'tilewright[gpu]'",)
    return [Device("simulated", name, "simulated", commands=commands, features=(also, *lacks))]
