"""A recording of a GPU beside the simulated one: their differences, and which bars for rates are met."""

from __future__ import annotations

import base64
import functools
import math
from statistics import median
from typing import Any

import core_bits
import numpy as np
import racing

from tilewright import machine, simt
from tilewright.kernels import catalogue
from tilewright.ladder import operands
from tilewright.programs.residency import active_blocks

#: Counts that must agree exactly, simulated PTX against the hardware's machine code.
EXACT = ("global_load_sectors", "global_store_sectors", "shared_load_wavefronts", "shared_store_wavefronts",
         "registers_per_thread", "static_shared_bytes", "occupancy_percent")  # fmt: skip


def simulated_gpu(found: dict[str, Any]) -> Any:
    """The record that is most like the recorded GPU."""
    major, minor = found["compute_capability"]
    return machine.nearest(found["device"], (major, minor), 0)


def differences(found: dict[str, Any]) -> list[str]:
    """Everything in a recording that is wrong or differs from the simulated GPU."""
    shown = [
        f"{stage} {item}: {one['error']}"
        for stage, items in found["stages"].items()
        for item, one in items.items()
        if "error" in one
    ]
    stages = found["stages"]
    shown += [
        f"verify {item}: {one['wrong_elements']} wrong"
        for item, one in stages.get("verify", {}).items()
        if one.get("wrong_elements")
    ]
    for item, one in stages.get("bits", {}).items():
        if "d" in one and (wrong := wrong_registers(item, one["d"], found)):
            shown.append(f"bits {item}: {wrong} registers are other than the model's")
    for one in stages.get("counts", {}).values():
        for kernel in one.get("kernels", ()):
            shown += count_differences(kernel, counted(kernel, tuple(one["shape"]), found))
    return shown


def wrong_registers(item: str, recorded: str, found: dict[str, Any]) -> int:
    """How many registers of a product differ from the simulated GPU's."""
    gpu = simulated_gpu(found)
    launch = functools.partial(simt.launch, gpu=gpu.key)
    cc = tuple(found["compute_capability"])
    if item.startswith("floor "):
        d = core_bits.tiny_sums(*item.split()[1:], cc, launch)
    else:
        d = core_bits.run(item, cc, launch)
    there = np.frombuffer(base64.b64decode(recorded), d.dtype).reshape(d.shape)
    return int(np.count_nonzero(there != d))


def floors(found: dict[str, Any]) -> dict[str, dict[int, int]]:
    """For each exponent to which tiny terms may be aligned, how many recorded sums it does not explain."""
    capability = "{}.{}".format(*found["compute_capability"])
    shown = {}
    for shape, name in core_bits.FLOORS:
        one = found["stages"].get("bits", {}).get(f"floor {shape} {name}", {})
        if "d" in one:
            m, n, _ = core_bits.extents(shape)
            d = np.frombuffer(base64.b64decode(one["d"]), np.uint64).reshape(-1, m, n)
            shown[name] = core_bits.floors(d, shape, name, capability)
    return shown


def counted(kernel: dict[str, Any], shape: tuple[int, int, int], found: dict[str, Any]) -> dict[str, Any]:
    """The simulated GPU's counts, under the recording's names."""
    from tilewright.instruments import Banks, Coalescing

    record, dtype, gpu = catalogue.find(kernel["name"]), kernel["dtype"], simulated_gpu(found)
    a, b = operands(*shape, dtype)
    at = record.launch_rule(*shape)
    program = record.program(dtype, gpu.compute_capability)
    given = record.arguments(a, b, record.blank(*shape[:2], dtype))
    run = simt.launch(program, at.grid, at.block, given, at.shared_bytes, (Coalescing(), Banks()), gpu=gpu.key)
    sectors, banks = run.results["coalescing"], run.results["banks"]
    registers, threads = program.resources(gpu.compute_capability).registers_per_thread, math.prod(at.block)
    resident = active_blocks(gpu, registers, program.shared_bytes + at.shared_bytes, threads)
    return {
        "global_load_sectors": sectors.total("load", "sectors"),
        "global_store_sectors": sectors.total("store", "sectors"),
        "shared_load_wavefronts": banks.total("load", "wavefronts"),
        "shared_store_wavefronts": banks.total("store", "wavefronts"),
        "registers_per_thread": registers,
        "static_shared_bytes": program.shared_bytes,
        "occupancy_percent": 100 * resident * -(-threads // 32) * 32 / gpu.threads_per_multiprocessor,
    }


def count_differences(recorded: dict[str, Any], simulated: dict[str, Any]) -> list[str]:
    """Differences between the counts of one kernel."""
    return [
        f"{recorded['name']} {recorded['dtype']}: {name} is {recorded[name]:.0f} on the GPU, {simulated[name]:.0f} "
        "simulated"
        for name in EXACT
        if abs(recorded[name] - simulated[name]) > 0.01
    ]


def bars(found: dict[str, Any], size: int = 4096) -> dict[str, tuple[float, bool]]:
    """Each bar of the issue that the recording can decide: a ratio, and whether it is met.

    Rates are over cuBLAS's, which torch calls for floats; its error counts for three products of tf32.
    """
    races = found["stages"].get("race", {})

    def of(dtype: str) -> dict[str, dict[str, Any]]:
        one = races.get(f"{dtype} {size}x{size}x{size}", {}).get("contenders", {})
        return {name: shown for name, shown in one.items() if shown.get("samples")}

    def quickest(dtype: str, *, simt_alone: bool = False) -> float:
        own = {
            name: median(shown["samples"])
            for name, shown in of(dtype).items()
            if name not in racing.PEERS and not (simt_alone and catalogue.find(name).tensor)
        }
        return min(own.values(), default=math.inf)

    shown = {}
    single, halves, whole = of("float32"), of("bfloat16"), of("int32")
    if "torch" in single:
        rate = median(single["torch"]["samples"])
        shown["float32 SIMT"] = (ratio := rate / quickest("float32", simt_alone=True)), ratio >= 0.85
        if "tensor_core_tf32x3" in single:
            split = single["tensor_core_tf32x3"]
            ratio = rate / median(split["samples"])
            shown["tf32x3"] = ratio, ratio >= 1.5 and split["error"] <= single["torch"]["error"]
    if "torch" in halves:
        shown["bfloat16"] = (ratio := median(halves["torch"]["samples"]) / quickest("bfloat16")), ratio >= 1
    # Torch's own product of integers on a GPU, should it get one; else by float64, which its developers advise.
    for name in ("torch", "torch float64"):
        if name in whole:
            ratio = median(whole[name]["samples"]) / quickest("int32")
            shown["int32" if name == "torch" else f"int32 beside {name}"] = ratio, ratio >= 3
            break
    return shown
