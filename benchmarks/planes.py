"""Predicted times on an H100 of products by planes, of the launches that split operands, and of kernels without planes.

Each is a square product. `split` is the prediction of both operands' launches, B's by columns; `estimated` is what
`tw.plan` ranks by. `float64` is the product of integers that PyTorch's developers advise, at the full rate of the
tensor cores for float64, with reads and writes of the conversions at the full rate of memory: a bound from below.

    python benchmarks/planes.py [--size 4096] [--gpu h100] [--json]
"""

from __future__ import annotations

from typing import Any

import measuring
import numpy as np

import tilewright as tw
from tilewright import machine
from tilewright.machine import Gpu
from tilewright.multiply.backends import estimates
from tilewright.multiply.backends.cuda import rearranging
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.planes import Planes
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.simt import Memory

#: Kernels, and their dtype.
KERNELS = (
    ("hopper_digits", "int32"), ("tensor_core_words", "int32"), ("hopper_digits16", "int16"),
    ("tensor_core_shorts", "int16"), ("hopper_s8", "int8"),
    ("tensor_core_s8", "int8"), ("hopper_tf32x3", "float32"), ("tensor_core_tf32x3", "float32"),
    ("warp_tiled", "float32"),
)  # fmt: skip


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096, help="m, n and k")
    parser.add_argument("--gpu", default="h100")
    options = parser.parse_args()
    gpu, size = machine.gpu(options.gpu), options.size
    rows = [row(name, dtype, size, gpu) for name, dtype in KERNELS]
    advised = 1e6 * float64_seconds(size, gpu)
    ratio = advised / rows[0]["total"]
    rows.append({"kernel": "float64", "dtype": "int32", "split": None, "total": advised, "estimated": None})
    found = {"gpu": gpu.key, "size": size, "kernels": rows, "float64_over_digits": ratio}
    measuring.publish(found, [table(rows, size, gpu, ratio)], as_json=options.json)


def row(name: str, dtype: str, size: int, gpu: Gpu) -> dict[str, Any]:
    """A kernel's times, in microseconds."""
    record = catalogue.find(name)
    product = predict_product(record, Product(size, size, size, dtype), gpu, changes=False).seconds
    apart = (
        sum(split_seconds(size, dtype, record.planes, turned, gpu) for turned in record.columns)
        if record.planes
        else 0.0
    )
    estimated = estimates.estimate(estimates.Candidate(record, dtype), size, size, size, gpu).seconds
    return {
        "kernel": name, "dtype": dtype, "split": 1e6 * apart, "total": 1e6 * (product + apart),
        "estimated": 1e6 * estimated,
    }  # fmt: skip


def split_seconds(size: int, dtype: str, planes: Planes, turned: bool, gpu: Gpu) -> float:
    """The launch that splits a square operand; B's lines are columns of a row-major matrix."""
    with Memory() as memory:
        whole = memory.array(np.zeros((size, size), dtype))
        split = memory.array(np.zeros((planes.count, size, size), planes.dtype))
        like = np.zeros((size, size), dtype)
        apart = split.nbytes // planes.count
        ((grid, block, given),) = rearranging.launches(like.T if turned else like, split.view()[0], apart)
        program = rearranging.program(dtype, dtype, dtype, gpu.compute_capability, planes.parts)
        arguments = (np.uint64(whole.address), np.uint64(split.address), *given[2:])
        return tw.predict(program, grid, block, arguments, gpu=gpu.key).seconds


def float64_seconds(size: int, gpu: Gpu) -> float:
    """Conversions of A, B and C, and the product at the peak of the tensor cores."""
    converted = 3 * size**2 * (4 + 8) / (gpu.memory_gb_per_s * 1e9)
    rate = gpu.tensor_per_clock["f64"] * gpu.multiprocessors * gpu.boost_mhz * 1e6
    return converted + size**3 / rate


def table(rows: list[dict[str, Any]], size: int, gpu: Gpu, ratio: float) -> Any:
    """A row a kernel."""

    def shown(one: float | None) -> str:
        return "" if one is None else f"{one:,.0f}"

    cells = [(r["kernel"], r["dtype"], *(shown(r[way]) for way in ("split", "total", "estimated"))) for r in rows]
    columns = ("kernel", "dtype", "split, us", "with it, us", "estimated, us")
    return measuring.table(
        f"Predicted times at {size}^3 on a {gpu.key}", columns, cells, f"float64 takes {ratio:.1f} times hopper_digits"
    )


if __name__ == "__main__":
    main()
