// Hopper with stores by TMA: the warps of a consumer write 64 rows by 128 bytes of results to shared memory, swizzled.
// One thread starts the copy of this box to C, while the others continue with the next box. TMA does not write the part
// of a box outside C, so C may have any extents. A tensor map needs rows that begin at multiples of 16 bytes; other
// rows are stored by lanes (`by_boxes` says which). For compute capability 9.0 only.
//
// In the fast.cu worklog the rung "TMA stores" (758 TFLOPS at 4096^3 on an H100) also has clusters and cache hints.

#include "hopper.cu"

// `ldc` is the leading dimension of C, in elements; `boxes` is the map of C.
template <typename T, int CONSUMERS, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper_stores(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k,
                  int ldc, const __grid_constant__ TensorMap boxes, int by_boxes, Operands... of) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 1, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...},
                                                                      ByBoxes{&boxes, by_boxes != 0});
}
