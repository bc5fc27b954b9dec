"""Predicted times of the catalogue's kernels against published ones; nothing is measured here.

    python benchmarks/prediction.py [--json] [--paths] [--curves GPU]

A6000: GFLOPS at 4096^3, float32, of the worklog that the SGEMM rungs follow. RTX 3090: TFLOPS at 4096^3 of another
author's kernels of the same steps, which he states to 25 %. H100: GFLOPS of bfloat16 at 4096^3 of the fast.cu worklog,
beside the kernels `hopper` and `hopper_multicast` and the steps of `hopper_rungs.py`, at the boost clock: each figure
is of eight products after five seconds of rest, 2 ms in all, and clocks fall only after 5 ms of such work (on a B200:
flashinfer, pull request 2899). S8, S10 and S12: curves of a GPU that the source does not name, compared up to one
factor each; a V100 fits them best. No constant of the model was chosen by these figures, but their author knew them
all. `--paths` shows the cost of shortening long loops: it compares with full paths, which takes minutes.
"""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import measuring
import numpy as np
from hopper_rungs import Rung, seconds

from tilewright import catalogue, machine
from tilewright.multiply.kernels.catalogue import Record
from tilewright.observe.prediction import walk
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.show.rates.plan import Asked, points, record_of
from tilewright.show.rates.tables import GPU, table

SIZE = 4096
A6000 = {
    "uncoalesced": 309, "coalesced": 1986, "results_1": 2980, "thread_tile_1d": 8475, "thread_tile_2d": 15972,
    "vectorised": 18237, "warp_tiled": 21779,
}  # fmt: skip
RTX3090 = {
    "uncoalesced": 278, "coalesced": 1720, "results_1": 2660, "thread_tile_1d": 8910, "thread_tile_2d": 13000,
    "vectorised": 19700, "warp_tiled": 20200,
}  # fmt: skip
#: The same for tensor cores: the nearest steps of published float16 kernels, which are not in the catalogue. A100: of
#: xudoong/GEMM, `mma` with three stages of copies, of 256x128 results a block, without and with double-buffered
#: registers. RTX 3090: of the author above, `wmma` that sums in float16, without asynchronous copies.
TENSOR = {
    ("a100", "mma, three stages"): 161_300, ("a100", "mma, three stages, registers too"): 204_600,
    ("rtx3090", "wmma"): 55_000,
}  # fmt: skip
#: The steps before `hopper` wait by `cuda::barrier`; ours have mbarriers at which every thread arrives.
H100 = {
    ("wgmma and TMA, 64x64", Rung(64, 64)): 317_000,
    ("128x128", Rung(128, 128)): 423_000,
    ("128x128, a warpgroup copies", Rung(128, 128, 5, 1)): 498_000,
    ("128x256, registers moved", Rung(128, 256, 3, 2)): 631_000,
    ("persistent", Rung(128, 256, 3, 2, persistent=True)): 660_000,
}  # fmt: skip
#: The published steps that kernels of the catalogue follow.
HOPPER = {
    "hopper": ("PTX's mbarriers", 704_000),
    "hopper_multicast": ("multicast in clusters of two", 734_000),
    "hopper_stores": ("stores by TMA", 758_000),
}
#: The least width of the curves: below it a launch's own time dominates.
LEAST_WIDTH = 64


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--paths", action="store_true", help="compare with paths that are walked in full")
    parser.add_argument("--curves", default=GPU, metavar="GPU", help="which GPU S8, S10 and S12 are compared with")
    options = parser.parse_args()
    rows = shortened() if options.paths else published(options.curves)
    columns = ("table", "kernel", "published", "predicted", "error")
    shown = measuring.table("Predicted GFLOPS", columns, [[row[c] for c in columns] for row in rows])
    measuring.publish({"predictions": rows}, [shown], as_json=options.json)


def published(curves: str) -> list[dict[str, Any]]:
    """Rows beside published figures."""
    rows: list[dict[str, Any]] = []
    for gpu, known in (("a6000", A6000), ("rtx3090", RTX3090)):
        found = {name: rate(catalogue.find(name), SIZE, gpu) for name in known}
        rows += compared(gpu, list(known), list(found.values()), list(known.values()), factor=1.0)
    record = catalogue.find("tensor_core")
    tensor = [rate(record, SIZE, gpu) for gpu, _ in TENSOR]
    rows += compared("tensor_core", [", ".join(key) for key in TENSOR], tensor, list(TENSOR.values()), factor=1.0)
    rungs = [2 * SIZE**3 / seconds(rung, SIZE) / 1e9 for _, rung in H100]
    names = [*(name for name, _ in H100), *(f"{step}: {name}" for name, (step, _) in HOPPER.items())]
    hopper = [rate(catalogue.find(name), SIZE, "h100") for name in HOPPER]
    known = [*H100.values(), *(gflops for _, gflops in HOPPER.values())]
    rows += compared("h100, bfloat16", names, [*rungs, *hopper], known, factor=1.0)
    return rows + [row for name in ("S12", "S10", "S8") for row in curve(name, curves)]


def shortened() -> list[dict[str, Any]]:
    """Rows, against the same with each path in full."""
    records = [record for record in catalogue.records() if record.backend == "gpu" and not record.family]
    kernels = [(record, gpu) for record in records for gpu in ("a6000", "v100")]
    found = [rate(record, SIZE, gpu) for record, gpu in kernels]
    with mock.patch.object(walk, "_WHOLE", math.inf), mock.patch.object(walk, "_MOST", math.inf):
        full = [rate(record, SIZE, gpu) for record, gpu in kernels]
    return compared("full paths", [f"{record.name}, {gpu}" for record, gpu in kernels], found, full, factor=1.0)


def rate(record: Record, size: int, gpu: str) -> float:
    """Predicted GFLOPS."""
    product = Product(size, size, size, record.dtypes[0])
    return product.operations / predict_product(record, product, machine.gpu(gpu), changes=False).seconds / 1e9


def curve(name: str, gpu: str) -> list[dict[str, Any]]:
    """Rows of a source's table, compared up to one factor, that of the geometric means."""
    cells = [point for point in points(Asked(table=name, devices=(gpu,))) if point.m >= LEAST_WIDTH]
    published = [table(name).figure(point) or 0.0 for point in cells]
    found = [rate(record_of(point) or catalogue.find(point.contender), point.m, gpu) for point in cells]
    factor = math.exp(np.mean(np.log(published)) - np.mean(np.log(found)))
    names = [f"{point.contender}, {point.block}x{point.block}, {point.m}" for point in cells]
    return compared(f"{name}, {gpu}", names, found, published, factor)


def compared(
    table: str, names: list[str], found: list[float], published: list[float], factor: float
) -> list[dict[str, Any]]:
    errors = [one * factor / known - 1 for one, known in zip(found, published, strict=True)]
    rows = [
        {"table": table, "kernel": name, "published": f"{known:,.0f}", "predicted": f"{one * factor:,.0f}",
         "error": f"{100 * error:+.0f} %"}
        for name, one, known, error in zip(names, found, published, errors, strict=True)
    ]  # fmt: skip
    middle, worst = np.median(np.abs(errors)), np.max(np.abs(errors))
    summary = f"median {100 * middle:.1f} %, worst {100 * worst:.1f} %, factor {factor:.2f}"
    return [*rows, {"table": table, "kernel": summary, "published": "", "predicted": "", "error": ""}]


if __name__ == "__main__":
    main()
