"""OpenCL devices: finds those of this machine, describes them, and chooses one by name.

Source: OpenCL 1.2 Specification, table 4.3 (device queries).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.errors import ArgumentValueError, DeviceError
from tilewright.ground import installation
from tilewright.ground.native import secure_files, store
from tilewright.ground.native.memo import memo
from tilewright.multiply.backends.opencl import pocl

Kind = Literal["gpu", "accelerator", "cpu"]
#: The type that comes first if no device is named.
_KINDS: tuple[Kind, ...] = ("gpu", "accelerator", "cpu")
_PREFIX = "opencl"


@dataclass(frozen=True, slots=True)
class OpenclDevice:
    """One device of one platform."""

    #: `name`, `platform`, `vendor`, `version`, `driver`: from the driver; the last two are versions.
    name: str
    platform: str
    vendor: str
    version: str
    kind: Kind
    units: int  #: Compute units.
    #: `memory_bytes`, `allocation_bytes`, `local_bytes`: global memory; the largest buffer; local memory of a
    #: work-group.
    memory_bytes: int
    allocation_bytes: int
    local_bytes: int
    group_items: int  #: Most work-items of a work-group.
    axis_items: tuple[int, int]  #: Most work-items along its first and second axis.
    vector_bytes: int  #: Bytes of the device's native vectors of float32.
    doubles: bool  #: 64-bit floats (cl_khr_fp64).
    divides: bool  #: Whether division and square root of float32 can be correctly rounded.
    unified: bool  #: Whether host and device share memory, so that arrays need not be copied.
    handle: Any = field(repr=False, compare=True)  #: pyopencl.Device.
    driver: str = ""
    clock_mhz: int = 0  #: Highest clock; 0 if unknown.
    compiles: bool = True  #: Whether the driver can compile for it.


def binding() -> Any:
    """Return the module pyopencl.

    Raises MissingExtraError; DeviceError: the process was forked from one that used OpenCL. A fork has neither the
    driver's threads nor its devices, and calls would not return.
    """
    _keep_others_caches_private()
    pyopencl = installation.require("pyopencl", "OpenCL devices need", "opencl")
    if _process() != os.getpid():
        raise DeviceError(
            f"OpenCL devices must stay in the process that found them (got {os.getpid()}, forked from {_process()}); "
            'start processes with multiprocessing.get_context("spawn")'
        )
    return pyopencl


@memo
def _keep_others_caches_private() -> None:
    """Keep PoCL, which loads machine code, and pyopencl, which loads pickles, off caches that other users can write.

    Without a home folder PoCL uses one in `/tmp` that anybody may have made. A user's own setting is kept. The folder
    is found with the package that pyopencl finds it with: where that is missing, so is pyopencl. PoCL's keys
    lack the name of a processor that its LLVM does not know, so each kind of host has a folder.

    Source: PoCL, "Environment variables"; pyopencl, "Caching".
    """
    folder = store.room(secure_files.POCL)
    if folder is None:
        os.environ.setdefault("POCL_KERNEL_CACHE", "0")
    else:
        os.environ.setdefault("POCL_CACHE_DIR", str(folder / pocl.host_processor()))
    try:
        import platformdirs

        secure_files.folder(Path(platformdirs.user_cache_dir()), "pytools")
    except (ImportError, RuntimeError, OSError):
        os.environ.setdefault("PYOPENCL_NO_CACHE", "1")


@memo
def _process() -> int:
    """The process that first asked for OpenCL."""
    return os.getpid()


def devices() -> tuple[OpenclDevice, ...]:
    """Every OpenCL device of this machine, GPUs first.

    Raises MissingExtraError: pyopencl is not installed; DeviceError: no platform has a device.
    """
    binding()
    found, reasons = _search()
    if not found:
        raise _none("; ".join(reasons))
    return found


def missing() -> tuple[str, ...]:
    """The platforms without a device, with reasons.

    Raises MissingExtraError, DeviceError: as :func:`devices`.
    """
    binding()
    return _search()[1]


@memo
def _search() -> tuple[tuple[OpenclDevice, ...], tuple[str, ...]]:
    """The devices, and why platforms have none."""
    cl = binding()
    found: list[OpenclDevice] = []
    reasons: list[str] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # the loader raises if there is no platform
        raise _none(str(error)) from error
    for platform in platforms:
        try:
            handles = [describe(handle) for handle in platform.get_devices()]
        except cl.Error as error:
            reasons.append(f"{platform.name.strip()}: {error}")
            continue
        compiling = [device for device in handles if device.compiles]
        found += compiling
        if len(compiling) < len(handles):
            reasons.append(
                f"{platform.name.strip()} compiles nothing for this processor, which its LLVM does not know; "
                "install a newer PoCL"
            )
        if not handles:
            hint = "; it needs a folder that it can write, set POCL_CACHE_DIR" if pocl.is_pocl(platform.name) else ""
            reasons.append(f"{platform.name.strip()} has no devices{hint}")
    return tuple(sorted(found, key=lambda device: _KINDS.index(device.kind))), tuple(reasons)


def _none(reason: str) -> DeviceError:
    return DeviceError(
        f"there must be an OpenCL driver with a device (got {reason or 'none'}); install your GPU's, or "
        f"`{installation.packages('pocl-binary-distribution')}` for the processor"
    )


def _line(text: str) -> str:
    """A driver's text as one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@functools.lru_cache(maxsize=64)
def describe(handle: Any) -> OpenclDevice:
    """The record of a `pyopencl.Device`."""
    cl = binding()
    config = handle.single_fp_config
    flags = cl.device_type
    kind: Kind = "gpu" if handle.type & flags.GPU else "accelerator" if handle.type & flags.ACCELERATOR else "cpu"
    extensions = handle.extensions.split()
    vector_bytes = 4 * max(handle.native_vector_width_float, handle.preferred_vector_width_float, 1)
    compiles = True
    if pocl.is_pocl(handle.platform.name):
        processor = pocl.processor(handle)
        vector_bytes, compiles = pocl.vector_bytes(processor, vector_bytes), bool(processor)
    return OpenclDevice(
        name=_line(handle.name),
        platform=_line(handle.platform.name),
        vendor=_line(handle.vendor),
        version=_line(handle.version),
        kind=kind,
        units=handle.max_compute_units,
        memory_bytes=handle.global_mem_size,
        allocation_bytes=handle.max_mem_alloc_size,
        local_bytes=handle.local_mem_size,
        group_items=handle.max_work_group_size,
        axis_items=(handle.max_work_item_sizes[0], handle.max_work_item_sizes[1]),
        vector_bytes=vector_bytes,
        doubles="cl_khr_fp64" in extensions,
        divides=bool(config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT),
        unified=bool(handle.host_unified_memory),
        handle=handle,
        driver=_line(handle.driver_version),
        clock_mhz=handle.max_clock_frequency,
        compiles=compiles,
    )


def choose(name: str, known: Sequence[OpenclDevice] | None = None) -> OpenclDevice:
    """The device that a name chooses.

    `opencl` chooses the first, GPUs before processors. `opencl:` takes a number of the list, or a part of the name of
    the platform, device or vendor, and then the first match: `opencl:1`, `opencl:portable`, `opencl:radeon`.

    Raises ArgumentValueError: no device has that in its names, or that number; DeviceError, MissingExtraError: there is
    no device at all.
    """
    found = devices() if known is None else known
    prefix, _, wanted = name.partition(":")
    if prefix.strip().lower() != _PREFIX:
        raise ArgumentValueError(f"an OpenCL device must be named `opencl` or `opencl:NAME` (got {name!r})")
    wanted = wanted.strip().lower()
    if wanted.isdecimal():
        if int(wanted) < len(found):
            return found[int(wanted)]
        raise ArgumentValueError(
            f"an OpenCL device must be one of 0 to {len(found) - 1} (got {wanted}): {_list(found)}"
        )
    fitting = [d for d in found if wanted in f"{d.platform} {d.name} {d.vendor}".lower()]
    if not fitting:
        raise ArgumentValueError(f"an OpenCL device must be one of this machine's (got {wanted!r}): {_list(found)}")
    return fitting[0]


def _list(found: Sequence[OpenclDevice]) -> str:
    return "; ".join(f"{i} {d.platform}: {d.name}" for i, d in enumerate(found))
