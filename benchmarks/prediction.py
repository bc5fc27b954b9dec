"""Predicted times of kernels of the catalogue beside published ones; nothing is measured here.

    python benchmarks/prediction.py [--json]

A6000: GFLOPS at 4096^3, float32, of the worklog that the SGEMM rungs follow. RTX 3090: TFLOPS at 4096^3 of another
author's kernels of the same steps, which he states to 25 %. S10 and S12: curves of a GPU that the source does not name,
compared but for one factor; a V100 fits them best. No constant of the model was chosen by these figures, but all of
them were looked at while it was built.
"""

from __future__ import annotations

import math
from typing import Any

import measuring
import numpy as np

from tilewright import catalogue, machine
from tilewright.prediction.products import Product, predict

A6000 = {
    "uncoalesced": 309, "coalesced": 1986, "results_1": 2980, "thread_tile_1d": 8475, "thread_tile_2d": 15972,
    "vectorised": 18237, "warp_tiled": 21779,
}  # fmt: skip
RTX3090 = {
    "uncoalesced": 278, "coalesced": 1720, "results_1": 2660, "thread_tile_1d": 8910, "thread_tile_2d": 13000,
    "vectorised": 19700, "warp_tiled": 20200,
}  # fmt: skip
S12 = dict(zip((1, 2, 4, 8, 16, 32), (3670, 4800, 6019, 6772, 6665, 5323), strict=True))
#: S10 by width: tiles 8, 16, 32.
S10 = {
    64: (102.352, 116.184, 95.163), 128: (501.691, 730.729, 486.994), 256: (1560.865, 2001.799, 2194.816),
    512: (1758.115, 2993.400, 3004.314), 1024: (1618.022, 3120.376, 3821.940), 2048: (1213.414, 2893.394, 3800.826),
    4096: (875.712, 2708.951, 3824.857),
}  # fmt: skip


def main() -> None:
    options = measuring.arguments(__doc__).parse_args()
    rows: list[dict[str, Any]] = []
    for gpu, table in (("a6000", A6000), ("rtx3090", RTX3090)):
        found = {name: rate(name, 4096, gpu) for name in table}
        rows += compared(gpu, list(table), list(found.values()), list(table.values()), factor=1.0)
    results = {f"results_{count}": published for count, published in S12.items()}
    rows += curve("S12, v100", [(name, 1024) for name in results], list(results.values()))
    shared = [(f"shared_memory_{edge}", width) for width in S10 for edge in (8, 16, 32)]
    rows += curve("S10, v100", shared, [one for row in S10.values() for one in row])
    columns = ("table", "kernel", "published", "predicted", "error")
    table = measuring.table("Predicted and published GFLOPS", columns, [[row[c] for c in columns] for row in rows])
    measuring.publish({"predictions": rows}, [table], as_json=options.json)


def rate(name: str, size: int, gpu: str) -> float:
    """Predicted GFLOPS."""
    record = catalogue.find(name)
    product = Product(size, size, size, record.dtypes[0])
    return product.operations / predict(record, product, machine.gpu(gpu)).seconds / 1e9


def curve(table: str, points: list[tuple[str, int]], published: list[float]) -> list[dict[str, Any]]:
    """Rows of a curve that is compared but for one factor, that of the geometric means."""
    found = [rate(name, size, "v100") for name, size in points]
    factor = math.exp(np.mean(np.log(published)) - np.mean(np.log(found)))
    return compared(table, [f"{name} {size}" for name, size in points], found, published, factor)


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
    summary = f"median {100 * middle:.0f} %, worst {100 * worst:.0f} %, factor {factor:.2f}"
    return [*rows, {"table": table, "kernel": summary, "published": "", "predicted": "", "error": ""}]


if __name__ == "__main__":
    main()
