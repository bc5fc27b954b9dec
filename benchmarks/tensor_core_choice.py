"""Which kernel multiplies each dtype on each GPU: of tensor cores, or one that does without.

A row a dtype of operands, result and order, with the kernels of a GPU of each compute capability; compiles nothing and
needs no GPU. A name is marked with `!` if the kernel leaves tensor cores idle that have a higher rate than its units.

    python benchmarks/tensor_core_choice.py [--size 4096] [--json]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import measuring
from rich.table import Table

from tilewright import machine
from tilewright.errors import TilewrightError
from tilewright.machine import Gpu
from tilewright.multiply.backends.ranking import chosen
from tilewright.multiply.engine.promotion import ORDERS, Order, types
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.dtypes import DTYPES, Dtype, element
from tilewright.multiply.problem.kind import Kind

#: The formats of tensor cores that hold a dtype's values, and how many of their products make one.
FORMATS = {
    "float8_e4m3fn": {"f8": 1, "f16": 1}, "float8_e5m2": {"f8": 1, "f16": 1}, "float16": {"f16": 1},
    "bfloat16": {"bf16": 1}, "float32": {"tf32": 3}, "float64": {"f64": 1},
    **{x.name: {"s8": {1: 1, 2: 4, 4: 10}[x.bytes]} for x in DTYPES if not x.is_float and x.bytes <= 4},
}  # fmt: skip


def gpus() -> list[Gpu]:
    """The first GPU of each compute capability from 7.5 on."""
    found = {x.compute_capability: x for x in reversed(machine.gpus().values()) if x.compute_capability >= (7, 5)}
    return [found[cc] for cc in sorted(found)]


def asked() -> Iterator[tuple[Dtype, Dtype, Dtype, Order]]:
    """Dtypes of A, B and C, and orders, that differ."""
    for a in DTYPES:
        for out in DTYPES:
            if out.is_float == a.is_float and (out.bytes >= a.bytes or out.is_float):
                orders = ORDERS if a.is_float and a.accumulator == "float32" and out.name != "float64" else ORDERS[:1]
                for order in orders:
                    yield a, a, out, order
    yield element("uint8"), element("int8"), element("int32"), "canonical"


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096, help="m, n and k")
    options = parser.parse_args()
    rows = [row(*one, options.size) for one in asked()]
    measuring.publish({"size": options.size, "products": rows}, [table(rows)], as_json=options.json)


def row(a: Dtype, b: Dtype, out: Dtype, order: Order, size: int) -> dict[str, Any]:
    """The kernel of each GPU for one product, and whether it leaves tensor cores idle."""
    kernels = {gpu.key: kernel(a, b, out, order, size, gpu) for gpu in gpus()}
    return {"a": a.name, "b": b.name, "c": out.name, "order": order, "kernels": kernels}


def kernel(a: Dtype, b: Dtype, out: Dtype, order: Order, size: int, gpu: Gpu) -> str:
    """The name of the chosen kernel, with `!` if it leaves faster tensor cores idle."""
    kind = types(a.numpy, b.numpy, out.numpy, order=order, casting="unsafe").kind
    try:
        name = chosen(kind, size, size, size, gpu, gpu.compute_capability).best.record.name
    except TilewrightError as error:
        return f"! {error}"
    return f"{name} !" if able(kind, gpu) and not catalogue.find(name).tensor else name


def able(kind: Kind, gpu: Gpu) -> bool:
    """Whether tensor cores could make a product at a higher rate than other units; an estimate may still differ."""
    of, sums = element(kind.a), element(kind.accumulator)
    if (of.is_float and of.bytes < 8 and kind.order == "canonical") or (not of.is_float and sums.bytes > 4):
        return False
    others = {"float32": gpu.fp32_per_clock, "float64": gpu.fp64_per_clock}.get(sums.name, gpu.int32_per_clock)
    rates = (gpu.tensor_per_clock.get(name, 0) / passes for name, passes in FORMATS.get(kind.a, {}).items())
    return any(rate > others for rate in rates)


def table(rows: list[dict[str, Any]]) -> Table:
    """A row a product, with the GPUs of each kernel."""
    cells = []
    for one in rows:
        found: dict[str, list[str]] = {}
        for gpu, name in one["kernels"].items():
            found.setdefault(name, []).append(gpu)
        operands = one["a"] if one["a"] == one["b"] else f"{one['a']} {one['b']}"
        text = "; ".join(f"{name}: {' '.join(keys)}" for name, keys in found.items())
        cells.append((operands, one["c"], one["order"], text))
    columns = ("operands", "result", "order", "kernels")
    return measuring.table("Kernels of large products", columns, cells, "!: tensor cores have a higher rate, but idle")


if __name__ == "__main__":
    main()
