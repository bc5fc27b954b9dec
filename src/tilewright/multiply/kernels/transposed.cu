// Transposed: like tensor_core, for row-major and column-major operands in all four combinations, without a copy. Tiles
// keep the layout of their matrix, and `ldmatrix` transposes fragments where needed. For compute capability 8.0 and
// newer.

#include "tensor_core.cu"

// `lda`, `ldb` and `ldc` are elements from one row to the next, or for a column-major operand from one column to the
// next. Bit 0 of `turned` says that A is column-major, bit 1 that B is.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    transposed(const T *a, const T *b, C *c, int m, int n, int k, int lda, int ldb, int ldc, int turned, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    __shared__ Tiles<T, BM, BN, BK, STAGES> tiles;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sums[WM / 16][WN / 8][4] = {};
    if (turned == 0) {
        multiply_tiles<WM, WN, false, false>(tiles, a, b, m, n, top, left, 0, k, lda, ldb, sums);
    } else if (turned == 1) {
        multiply_tiles<WM, WN, true, false>(tiles, a, b, m, n, top, left, 0, k, lda, ldb, sums);
    } else if (turned == 2) {
        multiply_tiles<WM, WN, false, true>(tiles, a, b, m, n, top, left, 0, k, lda, ldb, sums);
    } else {
        multiply_tiles<WM, WN, true, true>(tiles, a, b, m, n, top, left, 0, k, lda, ldb, sums);
    }
    store_tile<BM, BN>(c, m, n, ldc, sums, top, left, finish);
}
