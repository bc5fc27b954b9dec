"""Loads and stores of four floats at once, with a scalar tail."""

import numpy as np
from case import Case, cuda_cpp

SOURCE = r"""
__global__ void vector_loads(const float *x, const float *y, float *out, float a, int n) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n / 4; i += threads) {
        const float4 p = reinterpret_cast<const float4 *>(x)[i];
        const float4 q = reinterpret_cast<const float4 *>(y)[i];
        const float4 sum = make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w);
        reinterpret_cast<float4 *>(out)[i] = sum;
    }
    for (int i = n / 4 * 4 + thread; i < n; i += threads) {
        out[i] = a * x[i] + y[i];
    }
}
"""


def arguments(rng):
    arrays = (rng.integers(-99, 99, 503).astype(np.float32) for _ in range(2))
    return *arrays, np.zeros(503, np.float32), 3.0, 503


def reference(x, y, out, a, n):
    return {2: 3 * x + y}


KERNEL = cuda_cpp(__file__, SOURCE, "vector_loads")
CASES = (Case("vector_loads", KERNEL, 2, 32, arguments, reference, unwritten=(2,)),)
