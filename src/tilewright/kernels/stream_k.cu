// Stream-k: as tensor_core, with the steps of all tiles dealt evenly to the blocks, in one row: a block begins and ends
// within tiles. It leaves the sums of its part of a tile in memory; the last of a tile's blocks adds all of them, k
// ascending. So results depend on how many blocks there are, never on which comes last, and no block waits for another.
// For compute capability 8.0 and newer.

#include "tensor_core.cu"

// `lda`, `ldb` and `ldc` are how many elements a row of A, B and C is behind the one before. `partial` has two times
// BM x BN sums of each block, of the tile in which it begins and of that in which it ends; `arrived`, a counter of each
// tile, is 0 before the launch and after it.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    stream_k(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, float *partial,
             unsigned *arrived, Of... of) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int SUMS = WM * WN / 32;  // of a thread
    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int columns = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;
    const long long all = (long long)((m + BM - 1) / BM) * columns * steps;
    // Steps are counted along all tiles. A block has those from its beginning to that of the next.
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
        __syncthreads();  // all have read the tiles, which the next copies overwrite

        if (ends - begins < steps) {
            const long long begin = (long long)tile * steps;
            const int first = block_of(begin), last = block_of(begin + steps - 1);
            // Sums of a thread lie THREADS apart, so that those of a warp are side by side.
            auto sums_of = [&](int block) {
                const bool ends_here = beginning(block) < begin;
                return partial + (2ll * block + ends_here) * (BM * BN) + threadIdx.x;
            };
            float *own = sums_of(blockIdx.x);
#pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                own[i * THREADS] = sums[i / (WN / 2)][i / 4 % (WN / 8)][i % 4];
            }
            __threadfence();  // the sums are seen before the count
            __syncthreads();
            if (!__syncthreads_or(threadIdx.x == 0 && atomicAdd(&arrived[tile], 1) == last - first)) {
                continue;
            }
            __threadfence();  // and the other blocks' sums after it
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
