"""Errors, sectors, conflicts, spills and findings of the catalogue's kernels for tensor cores.

Each multiplies operands of the shapes, by rows and by columns in all four ways, on the simulated GPU. The script counts
results that break the kernel's bound or order, and gives the largest error as a part of the bound, if there is one. A
product of whole tiles gives the sectors that loads and stores move, against the fewest possible, and the wavefronts in
shared memory. Spilled bytes are those of the vendor's assembler, for each compute capability. `check` runs the first
and the last shape.

    python benchmarks/tensor_core_kernels.py [--kernels hopper,split_k] [--shapes 129x257x65,1x1x4096] [--json]
"""

from __future__ import annotations

from typing import Any

import measuring
import numpy as np

import tilewright as tw
from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels.catalogue import Record, records

#: (m, n, k): ragged tiles, one element of many steps, ragged tiles of many steps.
SHAPES = "129x257x65,1x1x4096,130x70x4099"
#: A product of whole tiles of each kernel.
WHOLE = (128, 256, 256)
GPU, CAPABILITIES = "h100", ((8, 0), (9, 0), (12, 0))


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--kernels", default="", help="names, separated by commas; all by default")
    parser.add_argument("--shapes", default=SHAPES)
    options = parser.parse_args()
    shapes = [(int(m), int(n), int(k)) for m, n, k in (shape.split("x") for shape in options.shapes.split(","))]
    named = options.kernels.split(",") if options.kernels else []
    chosen = [r for r in records() if r.source == "TC" and (not named or r.name in named)]
    rows = [row(record, dtype, shapes) for record in chosen for dtype in record.dtypes]
    measuring.publish({"gpu": GPU, "shapes": options.shapes, "kernels": rows}, [table(rows)], as_json=options.json)


def row(record: Record, dtype: str, shapes: list[tuple[int, int, int]]) -> dict[str, Any]:
    """A kernel's results."""
    wrong, part = 0, 0.0
    for m, n, k in shapes:
        a, b = operands(m, n, k, dtype, seed=m + n + k)
        for left in (a, np.asfortranarray(a)):
            for right in (b, np.asfortranarray(b)):
                c = product(record, left, right)
                wrong += record.wrong_elements(c, a, b)
                part = max(part, part_of_bound(record, c, a, b))
    moved = launched(record, dtype, WHOLE, tw.profile).totals
    return {
        "kernel": record.name, "dtype": dtype, "products": 4 * len(shapes), "wrong": wrong,
        "part": part if record.bound else None,
        "loads": (moved.global_loads.sectors, moved.global_loads.ideal_sectors),
        "stores": (moved.global_stores.sectors, moved.global_stores.ideal_sectors),
        "excess": moved.in_shared.excess_wavefronts, "spilled": spilled(record, dtype),
        "found": sum(len(launched(record, dtype, shape, tw.check)) for shape in (shapes[0], shapes[-1])),
    }  # fmt: skip


def product(record: Record, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C, of which the kernel must write each element."""
    c = record.blank(len(a), b.shape[1], a.dtype.name)
    c[...] = 77
    shape = record.launch_rule(*c.shape, a.shape[1])
    simt.launch(program(record, a.dtype.name), shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes)
    return c


def program(record: Record, dtype: str) -> Any:
    """The kernel for the GPU that runs it."""
    return record.program(dtype, tw.machine.gpu(GPU).compute_capability)


def launched(record: Record, dtype: str, shape: tuple[int, int, int], by: Any) -> Any:
    """The result of `tw.check` or `tw.profile` for a product."""
    a, b = operands(*shape, dtype)
    launch, given = record.launch_rule(*shape), record.arguments(a, b, record.blank(*shape[:2], dtype))
    return by(program(record, dtype), launch.grid, launch.block, given, shared_bytes=launch.shared_bytes, gpu=GPU)


def part_of_bound(record: Record, c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest error, as a part of what the kernel's bound allows there, rounding of C included."""
    if record.bound is None:
        return 0.0
    low, high = (x.astype(np.float64) for x in record.bound.interval(a, b))
    half = (high - low) / 2
    away = np.abs(c.astype(np.float64) - (low + half))
    return float(np.max(np.divide(away, half, out=np.where(away > 0, np.inf, 0.0), where=half > 0)))


def spilled(record: Record, dtype: str) -> dict[str, int]:
    """Bytes that the assembler spills, stores and loads, by compute capability."""
    found = {}
    for cc in [record.cc] if record.family else sorted({record.cc, *(cc for cc in CAPABILITIES if cc > record.cc)}):
        resources = record.program(dtype, cc).resources()
        spills = resources.spill_store_bytes + resources.spill_load_bytes + resources.stack_bytes
        found[".".join(map(str, cc))] = spills
    return found


def table(rows: list[dict[str, Any]]) -> Any:
    """A row a kernel."""
    cells = [
        (r["kernel"], r["dtype"], str(r["wrong"]), "exact" if r["part"] is None else f"{r['part']:.0%}",
         *(" / ".join(f"{x:,}" for x in r[way]) for way in ("loads", "stores")), str(r["excess"]),
         " ".join(f"{cc}: {n}" for cc, n in r["spilled"].items()), str(r["found"]))
        for r in rows
    ]  # fmt: skip
    return measuring.table(
        f"Kernels of tensor cores on a simulated {GPU}",
        ("kernel", "dtype", "wrong", "of bound", "loads", "stores", "excess", "spilled bytes", "found"),
        cells,
        "wrong: results outside of bound or order; loads, stores: sectors beside the fewest; excess: wavefronts",
    )


if __name__ == "__main__":
    main()
