// Hopper, in clusters of two blocks with tiles below each other: each copies half of B's tile to both, so they read B
// from L2 once. A stage is free when the consumers of both blocks have read it. For compute capability 9.0 only.
//
// In the fast.cu worklog this is the rung "multicast in clusters of two" (734 TFLOPS at 4096^3 on an H100).

#include "hopper.cu"

// `ldc` is the leading dimension of C, in elements.
template <typename T, int CONSUMERS, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper_multicast(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n,
                     int k, int ldc, Operands... of) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 2, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...});
}
