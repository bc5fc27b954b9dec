// Split-k: like tensor_core, with the steps of k divided among gridDim.z blocks, for products with few tiles and many
// steps. A block stores its sums; the last block of a tile adds all of them, k ascending. So results depend on the
// number of blocks of a tile, never on which of them is last. For compute capability 8.0 and newer.

#include "tensor_core.cu"

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C, in elements. `partial` has BM x BN sums for each
// block; `arrived` has a counter for each tile, which is 0 before the launch and after it.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    split_k(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, float *partial,
            unsigned *arrived, Of... of) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int SUMS = WM * WN / 32;  // sums of a thread
    // The block's part of k; it may be empty if there are more blocks than steps.
    const int steps = ((k + BK - 1) / BK + gridDim.z - 1) / gridDim.z;
    const int first = min(blockIdx.z * steps * BK, k);
    const int end = min(first + steps * BK, k);

    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    multiply_tiles<WM, WN>(tiles, a, b, m, n, top, left, first, end, lda, ldb, sums);

    if (gridDim.z > 1) {
        const int count = gridDim.x * gridDim.y, tile = blockIdx.y * gridDim.x + blockIdx.x;
        // Sums of a thread are THREADS apart, so that those of a warp are adjacent.
        float *own = partial + ((long long)blockIdx.z * count + tile) * (BM * BN) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            own[i * THREADS] = sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4];
        }
        __threadfence();  // other blocks see the sums before the count
        __syncthreads();
        const int last = __syncthreads_or(threadIdx.x == 0 && atomicAdd(&arrived[tile], 1) == gridDim.z - 1);
        if (!last) {
            return;
        }
        __threadfence();  // and this block sees theirs after it
        const float *of_part = partial + (long long)tile * (BM * BN) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4] = 0;
        }
        for (int part = 0; part < gridDim.z; ++part) {
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4] += of_part[i * THREADS];
            }
            of_part += (long long)count * (BM * BN);
        }
        if (threadIdx.x == 0) {
            arrived[tile] = 0;
        }
    }

    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, Finish{of...});
}
