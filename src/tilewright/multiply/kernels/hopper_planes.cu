// Hopper, for operands that are sums of planes: matrices of a type that tensor cores multiply, which a kernel before
// this one makes (rearranged.cu). C is the sum of the products of planes i of A and j of B with i + j below the number
// of planes. For compute capability 9.0 only.
//
// `Digits`: an integer of 32 bits is four unsigned bytes, plane 0 the lowest, and ten products modulo 2^32 make one.
// Tensor cores run through k for each, with the same sums: those of i + j = 3 first; then the sums are shifted to the
// next place. Sums are exact, and wrap like int32's.
//
// `Rests`: a float32 is a tf32 number and another for the rest, and three products make one (small times small is
// negligible). A stage has both planes' tiles of A and of B; the small products of each are added first.

#include "hopper.cu"

template <int PLANES>
struct Digits {
    enum { RUNS = PLANES, TOGETHER = 1 };

    template <typename Sums>
    __device__ static void carry(Sums &sums) {
        for (int &sum : sums) {
            sum = (int)((unsigned)sum << 8);
        }
    }
};

template <int PLANES>
struct Rests : OnePlane {
    enum { TOGETHER = PLANES };
};

// T is the type of a plane's elements, Whole that of an operand's. `m` and `n` are rows of a plane of A, and of B's
// transpose; `ldc` is the leading dimension of C, in elements.
template <typename T, typename Planes, int CONSUMERS, int BN, int STAGES, typename Whole, typename C = Whole,
          typename Finish = Rounded<C>, typename... Operands>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128 * (CONSUMERS + 1), 1)
    hopper_planes(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, C *c, int m, int n, int k,
                  int ldc, Operands... of) {
    multiply_tiles<T, CONSUMERS, BN, STAGES, 2, false, true, C, Finish, ByLanes, Planes>(a, b, c, m, n, k, ldc,
                                                                                          Finish{of...});
}
