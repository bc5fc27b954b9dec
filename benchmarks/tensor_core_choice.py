"""Which kernel multiplies each dtype on each GPU: of tensor cores, or one that does without.

A row a dtype of operands, result and order, a column a GPU (one for each compute capability); compiles nothing and
needs no GPU. Where a GPU's tensor cores have the operands' format, but no kernel of tensor cores is chosen, the name is
marked with `!`.

    python benchmarks/tensor_core_choice.py [--size 4096] [--json]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import measuring
from rich.table import Table

from tilewright import machine
from tilewright.backends.ranking import chosen
from tilewright.engine.promotion import ORDERS, Order, types
from tilewright.errors import TilewrightError
from tilewright.kernels import catalogue
from tilewright.machine import Gpu
from tilewright.problem.dtypes import DTYPES, Dtype, element

#: The formats of tensor cores in which a dtype can be multiplied, the widest first, and whether that is exact.
FORMATS = {
    "float8_e4m3fn": ("f8",), "float8_e5m2": ("f8",), "float16": ("f16",), "bfloat16": ("bf16",),
    "float32": ("tf32", "bf16"), "float64": ("f64",),
    **{x.name: ("s8",) for x in DTYPES if not x.is_float and x.bytes <= 4},
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
    """The name of the chosen kernel, with `!` if the tensor cores are idle although they have a format."""
    kind = types(a.numpy, b.numpy, out.numpy, order=order, casting="unsafe").kind
    try:
        name = chosen(kind, size, size, size, gpu, gpu.compute_capability).best.record.name
    except TilewrightError as error:
        return f"! {error}"
    inexact = a.is_float and a.bytes < 8 and order == "canonical"
    able = any(one in gpu.tensor_per_clock for one in FORMATS.get(kind.a, ())) and not inexact
    return f"{name} !" if able and not catalogue.find(name).tensor else name


def table(rows: list[dict[str, Any]]) -> Table:
    """A row a product, a column a GPU."""
    cells = [
        (f"{one['a']} x {one['b']}" if one["a"] != one["b"] else one["a"], one["c"], one["order"],
         *one["kernels"].values())
        for one in rows
    ]  # fmt: skip
    columns = ("operands", "result", "order", *(gpu.key for gpu in gpus()))
    return measuring.table("Kernels of large products", columns, cells, "!: tensor cores have the format, but idle")


if __name__ == "__main__":
    main()
