"""How long products by `cublasSgemm` on the simulated GPU take, compared with `tw.matmul` on the same host.

Both compute the same product in turns, by processor time; their bits are compared.

    python benchmarks/cublas_products.py [--size 1024] [--rounds 9] [--json]
"""

from __future__ import annotations

import ctypes
import time

import measuring
import numpy as np

import tilewright as tw
from tilewright.frontends.cublas import answers
from tilewright.frontends.host_arrays import array_at
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.installed_gpu import installed_gpu


def main() -> None:
    options = measuring.arguments_of_speed(__doc__, size=1024, rounds=9).parse_args()
    size = options.size
    with tw.simulated_gpu():
        gpu = installed_gpu()
        assert gpu is not None
        gpu.contexts.append(PRIMARY)
        handle = ctypes.c_int64()
        answers.perform(gpu, "cublasCreate_v2", [ctypes.addressof(handle)])
        a, b, c = (gpu.allocate(4 * size * size) for _ in range(3))
        left, right, result = (array_at(gpu, address, np.float32, (size, size)).T for address in (a, b, c))
        random = np.random.default_rng(0)
        left[...], right[...] = random.random((2, size, size), np.float32)
        one, zero, out = np.float32([1]), np.float32([0]), np.empty((size, size), np.float32)
        numbers = one.ctypes.data, zero.ctypes.data
        values = [handle.value, 0, 0, size, size, size, numbers[0], a, size, b, size, numbers[1], c, size]
        rows, columns = np.ascontiguousarray(left), np.ascontiguousarray(right)
        seconds: dict[str, list[float]] = {"cublasSgemm": [], "tw.matmul": []}
        for turn in range(options.rounds + 1):
            for name, found in seconds.items():
                start = time.process_time()
                if name == "cublasSgemm":
                    answers.perform(gpu, "cublasSgemm_v2", values)
                else:
                    tw.matmul(rows, columns, out)
                if turn:  # the first product makes code
                    found.append(time.process_time() - start)
        assert np.array_equal(result, out)
    spread = {name: measuring.Spread.of(times) for name, times in seconds.items()}
    ratio = spread["cublasSgemm"].median / spread["tw.matmul"].median
    rows_shown = [(name, one.stacked(1e3, ",.3g")) for name, one in spread.items()]
    title = f"A product of float32 at {size}^3, {ratio:.2f} times tw.matmul"
    table = measuring.table(title, ("by", "processor\nms"), rows_shown, "median, least-most; equal bits")
    measuring.publish({"size": size, "seconds": spread, "ratio": ratio}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
