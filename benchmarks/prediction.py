"""Predicted times of kernels of the catalogue beside published ones; nothing is measured here.

    python benchmarks/prediction.py [--json] [--paths]

A6000: GFLOPS at 4096^3, float32, of the worklog that the SGEMM rungs follow. RTX 3090: TFLOPS at 4096^3 of another
author's kernels of the same steps, which he states to 25 %. S8, S10 and S12: curves of a GPU that the source does not
name, compared but for one factor each; a V100 fits them best. No constant of the model was chosen by these figures,
but all of them were looked at while it was built. `--paths` compares with paths that are walked in full instead, which
takes minutes: what shortening long loops costs.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any
from unittest import mock

import measuring
import numpy as np

from tilewright import catalogue, machine
from tilewright.kernels.catalogue import Record
from tilewright.prediction import walk
from tilewright.prediction.products import Product, predict_product

A6000 = {
    "uncoalesced": 309, "coalesced": 1986, "results_1": 2980, "thread_tile_1d": 8475, "thread_tile_2d": 15972,
    "vectorised": 18237, "warp_tiled": 21779,
}  # fmt: skip
RTX3090 = {
    "uncoalesced": 278, "coalesced": 1720, "results_1": 2660, "thread_tile_1d": 8910, "thread_tile_2d": 13000,
    "vectorised": 19700, "warp_tiled": 20200,
}  # fmt: skip
S12 = dict(zip((1, 2, 4, 8, 16, 32), (3670, 4800, 6019, 6772, 6665, 5323), strict=True))
#: S8 by width: blocks 8, 16, 32.
S8 = {
    64: (117.014, 101.927, 71.828), 128: (633.439, 649.165, 346.142), 256: (1125.477, 1268.391, 1511.790),
    512: (1301.495, 1332.036, 1391.029), 1024: (1386.940, 1295.104, 1361.126), 2048: (1215.287, 1144.767, 1237.371),
    4096: (799.716, 1091.926, 1153.420),
}  # fmt: skip
#: S10 by width: tiles 8, 16, 32.
S10 = {
    64: (102.352, 116.184, 95.163), 128: (501.691, 730.729, 486.994), 256: (1560.865, 2001.799, 2194.816),
    512: (1758.115, 2993.400, 3004.314), 1024: (1618.022, 3120.376, 3821.940), 2048: (1213.414, 2893.394, 3800.826),
    4096: (875.712, 2708.951, 3824.857),
}  # fmt: skip


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--paths", action="store_true", help="compare with paths that are walked in full")
    options = parser.parse_args()
    rows = shortened() if options.paths else published()
    columns = ("table", "kernel", "published", "predicted", "error")
    table = measuring.table("Predicted GFLOPS", columns, [[row[c] for c in columns] for row in rows])
    measuring.publish({"predictions": rows}, [table], as_json=options.json)


def published() -> list[dict[str, Any]]:
    """Rows beside published figures."""
    rows: list[dict[str, Any]] = []
    for gpu, table in (("a6000", A6000), ("rtx3090", RTX3090)):
        found = {name: rate(catalogue.find(name), 4096, gpu) for name in table}
        rows += compared(gpu, list(table), list(found.values()), list(table.values()), factor=1.0)
    results = [(catalogue.find(f"results_{count}"), 1024) for count in S12]
    rows += curve("S12, v100", results, list(S12.values()))
    shared = [(catalogue.find(f"shared_memory_{edge}"), width) for width in S10 for edge in (8, 16, 32)]
    rows += curve("S10, v100", shared, [one for row in S10.values() for one in row])
    plain = catalogue.find("global_memory")
    by_edge = [dataclasses.replace(plain, tile=(edge, edge), block=(edge, edge)) for edge in (8, 16, 32)]
    blocks = [(record, width) for width in S8 for record in by_edge]
    return rows + curve("S8, v100", blocks, [one for row in S8.values() for one in row])


def shortened() -> list[dict[str, Any]]:
    """Rows beside the same with each path in full."""
    points = [(record, gpu) for record in catalogue.records() if record.backend == "gpu" for gpu in ("a6000", "v100")]
    found = [rate(record, 4096, gpu) for record, gpu in points]
    with mock.patch.object(walk, "_WHOLE", math.inf), mock.patch.object(walk, "_MOST", math.inf):
        full = [rate(record, 4096, gpu) for record, gpu in points]
    return compared("full paths", [f"{record.name}, {gpu}" for record, gpu in points], found, full, factor=1.0)


def rate(record: Record, size: int, gpu: str) -> float:
    """Predicted GFLOPS."""
    product = Product(size, size, size, record.dtypes[0])
    return product.operations / predict_product(record, product, machine.gpu(gpu)).seconds / 1e9


def curve(table: str, points: list[tuple[Record, int]], published: list[float]) -> list[dict[str, Any]]:
    """Rows of a curve that is compared but for one factor, that of the geometric means."""
    found = [rate(record, size, "v100") for record, size in points]
    factor = math.exp(np.mean(np.log(published)) - np.mean(np.log(found)))
    names = [f"{record.name}, {record.tile[0]}x{record.tile[1]}, {size}" for record, size in points]
    return compared(table, names, found, published, factor)


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
