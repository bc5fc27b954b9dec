"""Predicted times of products by tensor memory on a B200, beside a published ladder of such kernels, and cuBLAS.

The first kernel is built like the ladder's rung of warps with roles: tiles of 128 x 128 x 64, a ring of seven stages
that one thread fills by TMA, one thread that multiplies, and 128 threads that store. A small product of it is compared
with NumPy's first. Then come those of the catalogue, with the share of the tensor cores' peak, also at a lower clock.

Published: gau-nernst/learn-cuda, 02e_matmul_sm100/README.md: bfloat16, M = N = K = 4096, a B200, PyTorch 2.10.

    python benchmarks/blackwell.py [--size 4096] [--json]
"""

from __future__ import annotations

from typing import Any

import measuring
import numpy as np

import tilewright as tw
import tilewright.simt
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.programs import Program

TILE, DEPTH = 128, 64
#: Kernels of the catalogue, with a dtype of each; and a clock under load, at which no source states the B200's.
KERNELS = (
    ("blackwell", "bfloat16"), ("blackwell_pairs", "bfloat16"), ("blackwell_fp8", "float8_e4m3fn"),
    ("blackwell_s8", "int8"),
)  # fmt: skip
LOWER_MHZ = 1500
#: TFLOPS by rung.
PUBLISHED = {
    "swizzled by 128 bytes": 721.02, "pipelined": 914.42, "warps with roles": 1053.61, "pairs of blocks": 1169.65,
    "persistent": 1273.32, "cuBLAS": 1358.69,
}  # fmt: skip
SOURCE = r"""
#include <cuda_bf16.h>
typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 words[16]; };
constexpr int TILE = 128, DEPTH = 64, BYTES = TILE * DEPTH * 2;

__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ void wait(unsigned barrier, int parity)
{
    asm volatile("{ .reg .pred done; "
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
                 ::"r"(barrier), "r"(parity) : "memory");
}
__device__ bool elected()
{
    unsigned found = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(found));
    return found;
}
__device__ void copy_box(unsigned to, const TensorMap &from, int y, int x, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// Lines of 128 bytes, swizzled.
__device__ u64 matrix(unsigned address) { return (address & 0x3ffff) >> 4 | 64ull << 32 | 1ull << 46 | 2ull << 61; }
__device__ void multiply(unsigned d, u64 a, u64 b, unsigned instruction, int adds)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                 ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(adds) : "memory");
}
__device__ void commit(unsigned barrier)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                 : "memory");
}

extern "C" __global__ __launch_bounds__(128) void product(const __grid_constant__ TensorMap a,
                                                          const __grid_constant__ TensorMap b, __nv_bfloat16 *c,
                                                          int n, int k)
{
    extern __shared__ __align__(1024) char ring[];
    __shared__ alignas(8) u64 full[STAGES], empty[STAGES], last;
    __shared__ unsigned place;
    const int warp = threadIdx.x / 32, steps = k / DEPTH, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(full + s)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(empty + s)) : "memory");
        }
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&last)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    } else if (warp == 1)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(at(&place)) : "memory");
    __syncthreads();
    const unsigned d = place;
    if (warp == 0 && elected())
        for (int i = 0, s = 0, parity = 1; i < steps; i++) {
            const unsigned to = at(ring) + s * 2 * BYTES;
            wait(at(empty + s), parity);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(full + s)), "n"(2 * BYTES)
                         : "memory");
            copy_box(to, a, row, i * DEPTH, at(full + s));
            copy_box(to + BYTES, b, column, i * DEPTH, at(full + s));
            if (++s == STAGES)
                s = 0, parity ^= 1;
        }
    else if (warp == 1 && elected()) {
        const unsigned instruction = 1 << 4 | 1 << 7 | 1 << 10 | TILE / 8 << 17 | TILE / 16 << 24;
        for (int i = 0, s = 0, parity = 0; i < steps; i++) {
            const unsigned from = at(ring) + s * 2 * BYTES;
            wait(at(full + s), parity);
            asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#pragma unroll
            for (int part = 0; part < DEPTH / 16; part++)
                multiply(d, matrix(from + part * 32), matrix(from + BYTES + part * 32), instruction, i || part);
            commit(at(empty + s));
            if (++s == STAGES)
                s = 0, parity ^= 1;
        }
        commit(at(&last));
    }
    __syncthreads();
    wait(at(&last), 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    __nv_bfloat16 *to = c + (u64)(row + threadIdx.x) * n + column;
    for (int i = 0; i < TILE; i += 8) {
        float x[8];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
                     : "r"(d + (warp << 21) + i));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        __nv_bfloat162 y[4];
        for (int j = 0; j < 4; j++)
            y[j] = __floats2bfloat162_rn(x[2 * j], x[2 * j + 1]);
        *(int4 *)(to + i) = *(int4 *)y;
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 1)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(d) : "memory");
}
"""


def program(stages: int) -> Program:
    """The kernel with a ring of this many stages."""
    return Program.from_cuda(SOURCE, "product", (10, 0), ["--gpu-architecture=compute_100a", f"-DSTAGES={stages}"])


def launched(a: Any, b: Any, c: Any, stages: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The launch C = A B^T: its arguments, and its options."""
    (m, k), n = a.shape, b.shape[0]
    maps = (TensorMap(each, box=(TILE, DEPTH), swizzle=128) for each in (a, b))
    given = (*maps, c.reshape(-1), np.int32(n), np.int32(k))
    options = {"shared_bytes": stages * 2 * TILE * DEPTH * 2, "gpu": "b200"}
    return (program(stages), (n // TILE, m // TILE), TILE, given), options


def verify() -> None:
    """Raise AssertionError if a small product is wrong."""
    from ml_dtypes import bfloat16

    a, b = (np.random.default_rng(i).integers(-4, 5, (256, 512)).astype(np.float32) for i in range(2))
    c = np.zeros((256, 256), np.uint16)
    halves = [np.ascontiguousarray(x.astype(bfloat16)).view(np.uint16) for x in (a, b)]
    launch, options = launched(*halves, c, 3)
    tw.simt.launch(*launch, **options)
    assert np.array_equal(c.view(bfloat16), (a @ b.T).astype(bfloat16))


def predicted(size: int, stages: int) -> Any:
    """The prediction of a square product."""
    a, b, c = (np.zeros((size, size), np.uint16) for _ in range(3))
    launch, options = launched(a, b, c, stages)
    return tw.predict(*launch, **options)


def of_catalogue(size: int) -> list[dict[str, Any]]:
    """Predictions of the catalogue's kernels: TFLOPS, and the share of the peak at the clock."""
    gpu, found = tw.machine.gpu("b200"), []
    for name, dtype in KERNELS:
        for mhz in (gpu.boost_mhz, LOWER_MHZ):
            record = tw.catalogue.find(name)
            one = predict_product(record, Product(size, size, size, dtype), gpu, mhz, changes=False)
            rate = 2 * size**3 / one.seconds / 1e12
            peak = 2 * gpu.tensor_per_clock[record.tensor] * gpu.multiprocessors * mhz / 1e6
            found.append({"kernel": name, "dtype": dtype, "mhz": mhz, "tflops": rate, "of_peak": rate / peak})
    return found


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096)
    options = parser.parse_args()
    verify()
    found = []
    for stages in (2, 7):
        one = predicted(options.size, stages)
        rate = 2 * options.size**3 / one.seconds / 1e12
        found.append({"stages": stages, "tflops": rate, "limiter": one.limiter})
    catalogued = of_catalogue(options.size)
    if options.json:
        measuring.report(options, found + catalogued)
        return
    for row in found:
        print(f"{row['stages']} stages  {row['tflops']:8.0f} TFLOPS predicted, limited by {row['limiter']}")
    for row in catalogued:
        print(
            f"{row['kernel']:16} {row['dtype']:14} {row['tflops']:6.0f} TFLOPS predicted at {row['mhz']:,} MHz, "
            f"{row['of_peak']:.0%} of the peak"
        )
    for name, rate in PUBLISHED.items():
        print(f"{rate:8.0f} TFLOPS published at 4096: {name}")


if __name__ == "__main__":
    main()
