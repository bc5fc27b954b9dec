// Hopper, whose results go to C by TMA: the warps of a consumer lay 64 rows by 128 bytes of them out in shared memory,
// swizzled, and one thread has the box copied, while the others go on with the next. What of a box lies outside of C is not
// written, so C may have any extents. Rows that do not begin at multiples of 16 bytes no map can have: they are stored by
// lanes (`by_boxes` says which). For compute capability 9.0 alone.
//
// Of the fast.cu worklog it is next to the rung "TMA stores" (758 TFLOPS at 4096^3 on an H100), which has clusters and cache
// hints besides.

#include "hopper.cu"

// `ldc` is how many elements a row of C is behind the one before, `boxes` the map of C.
template <typename T, int CONSUMERS, int BN, int STAGES, bool COLUMNS_A, bool COLUMNS_B,
          typename C = typename Of<T>::Result, typename Finish = Rounded<C>, typename... Operands>
__global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper_stores(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k,
                  int ldc, const __grid_constant__ TensorMap boxes, int by_boxes, Operands... of) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 1, COLUMNS_A, COLUMNS_B>(a, b, c, m, n, k, ldc, Finish{of...},
                                                                      ByBoxes{&boxes, by_boxes != 0});
}
