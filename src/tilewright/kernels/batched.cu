// Batched: like tensor_core, for gridDim.z products of one shape. For compute capability 8.0 and newer.

#include "tensor_core.cu"

// `lda`, `ldb` and `ldc` are elements from one row of A, B and C to the next; `step_a`, `step_b` and `step_c` those
// from one matrix to the next. A step of 0 uses one matrix for all products.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    batched(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, long long step_a,
            long long step_b, long long step_c, Of... of) {
    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    multiply_tiles<WM, WN>(tiles, a + blockIdx.z * step_a, b + blockIdx.z * step_b, m, n, top, left, 0, k, lda, ldb,
                           sums);
    Finish finish{of...};
    finish.advance(blockIdx.z);
    store_tile<BM, BN>(c + blockIdx.z * step_c, m, n, ldc, sums, top, left, finish);
}
