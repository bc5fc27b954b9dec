"""A recording of a GPU beside the simulated one: differences, which bars are met, and predicted beside measured times.

On any machine, from the root of the repository::

    python tests/hardware/comparing_recordings.py h100.json --race "bfloat16 4096x4096x4096"

Without `--race` it takes every race; each kernel's prediction takes seconds to tens of seconds.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__":  # pytest's settings name these folders
    sys.path += [str(Path(__file__).parents[2] / name) for name in ("tests/isa", "tests/unit", "benchmarks")]

import core_bits
import numpy as np
import racing

from tilewright import machine, simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.simulate.programs.launch_rules import active_blocks

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
        f"{stage} {item}: {one['wrong_elements']} wrong"
        for stage in ("verify", "batches")
        for item, one in stages.get(stage, {}).items()
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
        if recorded[name] is not None and abs(recorded[name] - simulated[name]) > 0.01
    ] + [f"{recorded['name']} {recorded['dtype']}: no {name} on the GPU" for name in EXACT if recorded[name] is None]


#: Bars of the issue: (of a dtype, how kernels' names end, against which product, least ratio, no larger error).
BARS = {
    "float32 SIMT": ("float32", "simt", ("torch",), 0.85, False),
    "tf32x3": ("float32", "tf32x3", ("torch",), 1.5, True),
    "bfloat16": ("bfloat16", "", ("torch",), 1.0, False),
    # Torch's own product of integers on a GPU, should it get one; else by float64, which its developers advise.
    "int32": ("int32", "", ("torch", "torch float64"), 3.0, False),
}


def bars(found: dict[str, Any], size: int = 4096) -> dict[str, dict[str, Any]]:
    """Each bar of the issue that the recording can decide: who, against whom, the ratio of their times, and `met`."""
    shown = {}
    for name, (dtype, kernels, against, least, no_worse) in BARS.items():
        race = found["stages"].get("race", {}).get(f"{dtype} {size}x{size}x{size}", {}).get("contenders", {})
        ran = {one: part for one, part in race.items() if part.get("samples")}
        peer = next((one for one in against if one in ran), None)
        own = [one for one in ran if one not in racing.PEERS and _among(one, kernels)]
        if peer is None or not own:
            continue
        best = min(own, key=lambda one: median(ran[one]["samples"]))
        ratio = median(ran[peer]["samples"]) / median(ran[best]["samples"])
        met = ratio >= least and not (no_worse and ran[best]["error"] > ran[peer]["error"])
        shown[name] = {"kernel": best, "against": peer, "ratio": ratio, "least": least, "met": met} | {
            f"{whose}_{what}": value
            for whose, one in (("own", ran[best]), ("peer", ran[peer]))
            for what, value in (("seconds", median(one["samples"])), ("error", one["error"]))
        }
    return shown


def _among(name: str, kernels: str) -> bool:
    return not catalogue.find(name).tensor if kernels == "simt" else name.endswith(kernels)


def shown_bars(found: dict[str, Any]) -> list[str]:
    """The bars as lines, also those that the recording cannot decide."""
    known = bars(found)
    return [
        f"bar {name}: {one['ratio']:.2f} of {one['against']}, at least {one['least']}: "
        f"{'met' if one['met'] else 'NOT met'} ({one['kernel']} {1e3 * one['own_seconds']:.3f} ms, error "
        f"{one['own_error']:.1e}; {one['against']} {1e3 * one['peer_seconds']:.3f} ms, {one['peer_error']:.1e})"
        if (one := known.get(name))
        else f"bar {name}: not decided by this recording"
        for name in BARS
    ]


def predictions(found: dict[str, Any], races: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """For every rung that was raced: the measured time, the predicted one at the clock that was seen, their ratio."""
    from tilewright.errors import TilewrightError
    from tilewright.observe.prediction.products import Product, predict_product

    gpu = simulated_gpu(found)
    for stage in ("race", "sizes"):
        for item, one in found["stages"].get(stage, {}).items():
            dtype, extents = item.split()
            for name, part in one.get("contenders", {}).items():
                if name in racing.PEERS or not part.get("samples") or (races and item not in races):
                    continue
                clock = int(median(part.get("sm_mhz") or [0])) or None
                row = {"race": item, "kernel": name, "clock_mhz": clock, "measured": median(part["samples"])}
                row["host_bound"] = median(part.get("host_seconds") or [0]) > 0.8 * row["measured"]
                try:
                    product = Product(*map(int, extents.split("x")), dtype)
                    row["predicted"] = predict_product(catalogue.find(name), product, gpu, clock, changes=False).seconds
                    row["ratio"] = row["predicted"] / row["measured"]
                except TilewrightError as error:
                    row["error"] = str(error).splitlines()[0]
                yield row


def shown(row: dict[str, Any]) -> str:
    """A row of predictions as a line."""
    said = row.get("error") or f"{1e3 * row['predicted']:12.4f} {row['ratio']:7.2f}"
    return (
        f"{row['race']:26} {row['kernel']:22} {row['clock_mhz'] or '-':>5} {1e3 * row['measured']:12.4f} {said}"
        f"{'  the host was timed' if row['host_bound'] else ''}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs, the bars, and a table of predicted times; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--race", action="append", default=[], help="DTYPE MxNxK; may be repeated; else all")
    parser.add_argument("--no-differences", action="store_true", help="The table and the bars alone")
    options = parser.parse_args(arguments)
    found = json.loads(options.recording.read_text())
    differ = [] if options.no_differences else differences(found)
    floor = {} if options.no_differences else floors(found)
    for line in (*differ, *(f"floor {name}: {by}" for name, by in floor.items()), *shown_bars(found)):
        print(line)
    print(f"{'race':26} {'kernel':22} {'MHz':>5} {'measured ms':>12} {'predicted ms':>12} {'ratio':>7}")
    for row in predictions(found, options.race):
        print(shown(row), flush=True)
    return bool(differ)


if __name__ == "__main__":
    raise SystemExit(main())
