"""The OpenCL kernels beside each other on one device: how much faster tiles in registers are than the naive kernel.

Arrays are registered once and every kernel built; then the kernels take turns, and a round's ratio is of times measured
one after the other in it. A call is from the launch to its end, with nothing copied.

    python benchmarks/opencl.py [--device opencl] [--size 512] [--rounds 9] [--dtypes float32,int8] [--json]
"""

from __future__ import annotations

import time
from typing import Any

import measuring
import numpy as np
from measuring import Spread

from tilewright.backends.opencl import choose, host_products
from tilewright.backends.opencl.devices import binding
from tilewright.backends.opencl.product import Placed, place, run
from tilewright.backends.opencl.tiles import of_form
from tilewright.problem.dtypes import dtype
from tilewright.problem.kind import Kind

FORMS = ("naive", "tiled", "register_tiled")
#: dtype of A and B -> of C
RESULTS = {"int8": "int32"}
DTYPES = "float32,float64,float16,int8,int32,int64"


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtypes", default=DTYPES)
    options = parser.parse_args()
    device = choose(options.device)
    found = [measure(options, name) for name in options.dtypes.split(",")]
    work = 2 * options.size**3 / 1e9
    rows = [
        (f["dtype"], *(Spread.of([work / t for t in f[form]]).text() for form in FORMS), f["ratio"].text())
        for f in found
    ]
    title = f"{device.platform}: {device.name}; {options.size}^3, {options.rounds} rounds: median (least - most)"
    columns = ("dtype", *(f"{form}, G operations/s" for form in FORMS), "register_tiled / naive")
    table = measuring.table(title, columns, rows)
    measuring.publish({"device": device.name, "cases": found}, [table], as_json=options.json, packages=("pyopencl",))


def measure(options: Any, name: str) -> dict[str, Any]:
    """Every kernel in turn, for one dtype."""
    products, n = host_products(choose(options.device)), options.size
    rng = np.random.default_rng(0)
    a, b = ((100 * rng.standard_normal((n, n))).astype(name) for _ in range(2))
    result = RESULTS.get(name, name)
    kind = Kind(name, name, result, dtype(name).accumulator)
    left, right = (place(products.context, products.device, x, shared=products.device.unified) for x in (a, b))
    flags = binding().mem_flags.READ_WRITE
    buffer = binding().Buffer(products.context, flags, n * n * np.dtype(result).itemsize)
    target = Placed(buffer, 0, (n, n), (n, 1))
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    for round_ in range(options.rounds + 1):
        for form in FORMS:
            cut = of_form(form, products.device, kind)
            start = time.perf_counter()
            run(products.queue, left, right, target, kind, cut=cut)
            products.queue.finish()
            if round_:  # the first builds
                times[form].append(time.perf_counter() - start)
    ratio = Spread.of([x / y for x, y in zip(times["naive"], times["register_tiled"], strict=True)])
    return {"dtype": name, **times, "ratio": ratio}


if __name__ == "__main__":
    main()
