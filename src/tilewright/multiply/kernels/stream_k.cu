// Stream-k: like tensor_core, with the steps of all tiles in one sequence, divided evenly among the blocks: a block may
// begin and end within tiles. It stores the sums of its part of a tile; the last block of a tile adds all of them, k
// ascending. So results depend on the number of blocks, never on which is last, and no block waits for another.
// For compute capability 8.0 and newer.

#include "tensor_core.cu"

// `lda`, `ldb` and `ldc` are the leading dimensions of A, B and C, in elements. `partial` has two times BM x BN sums
// for each block, for the tile in which it begins and that in which it ends; `arrived` has a counter for each tile,
// which is 0 before the launch and after it.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    stream_k(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, float *partial,
             unsigned *arrived, Of... of) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int SUMS = WM * WN / 32;  // sums of a thread
    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int columns = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;
    const long long all = (long long)((m + BM - 1) / BM) * columns * steps;
    // Steps are numbered along all tiles. A block has the steps from its first to that of the next block.
    auto beginning = [&](int block) { return all * block / gridDim.x; };
    auto block_of = [&](long long step) { return (int)(((step + 1) * gridDim.x - 1) / all); };

    const long long end = beginning(blockIdx.x + 1);
    for (long long at = beginning(blockIdx.x); at < end;) {
        const int tile = at / steps, begins = at % steps;
        const int ends = min((long long)steps, begins + end - at);
        const int top = tile / columns * BM, left = tile % columns * BN;
        at += ends - begins;
        float sums[WM / 16][WN / 8][4] = {};
        multiply_tiles<WM, WN>(tiles, a, b, m, n, top, left, begins * BK, min(ends * BK, k), lda, ldb, sums);

        if (ends - begins < steps) {
            const long long begin = (long long)tile * steps;
            const int first = block_of(begin), last = block_of(begin + steps - 1);
            // Sums of a thread are THREADS apart, so that those of a warp are adjacent.
            auto sums_of = [&](int block) {
                const bool ends_here = beginning(block) < begin;
                return partial + (2ll * block + ends_here) * (BM * BN) + threadIdx.x;
            };
            float *own = sums_of(blockIdx.x);
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                own[i * THREADS] = sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4];
            }
            __threadfence();  // other blocks see the sums before the count
            __syncthreads();
            if (!__syncthreads_or(threadIdx.x == 0 && atomicAdd(&arrived[tile], 1) == last - first)) {
                continue;
            }
            __threadfence();  // and this block sees theirs after it
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4] = 0;
            }
            for (int block = first; block <= last; ++block) {
                const float *of_block = sums_of(block);
#pragma unroll
                for (int i = 0; i < SUMS; ++i) {
                    sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4] += of_block[i * THREADS];
                }
            }
            if (threadIdx.x == 0) {
                arrived[tile] = 0;
            }
        }
        store_tile<BM, BN>(c, m, n, ldc, sums, top, left, Finish{of...});
    }
}
