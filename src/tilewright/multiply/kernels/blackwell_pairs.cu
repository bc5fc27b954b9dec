// Blackwell, in pairs of blocks (cta_group::2) with tiles below each other: a product of 256 rows and 256 columns reads
// half of B from each block, so a block copies and reads two thirds of what it does alone. The first block multiplies
// for both; a thread of the second tells it which stages are full there. For compute capability 10.0 only.

#include "blackwell.cu"

// `ldc` is the leading dimension of C, in elements.
template <typename T, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32 * (STORERS + 2), 1)
    blackwell_pairs(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k,
                    int ldc, Operands... of) {
    multiply_tiles<T, 2, BN, STAGES, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...});
}
