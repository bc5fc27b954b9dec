// Any algebra and any epilogue: like thread_tile_2d, for every element type, with a step of the algebra in place of a
// multiply-add. A block owns BM x BN elements of C, a thread TM x TN of them, BM / TM and BN / TN apart, so that
// neighbouring threads read neighbouring elements of B's tile and write neighbouring elements of C.

#include "finish.cuh"

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
// Unsigned, because integers wrap and signed overflow is undefined behaviour.
template <typename T>
__device__ inline T multiply_add(T a, T b, T c) {
    return (T)((unsigned long long)a * (unsigned long long)b + (unsigned long long)c);
}

// The start of sums and a step of them, if no algebra is given.
template <typename T>
struct PlusTimes {
    __device__ static T start() { return 0; }
    __device__ static T step(T c, T a, T b) { return multiply_add(a, b, c); }
};

template <typename T, typename Sums, int BM, int BN, int BK, int TM, int TN, typename C = T,
          typename Finish = Rounded<C>, typename... Of>
__global__ void __launch_bounds__(BM *BN / (TM * TN))
    semiring(const T *a, const T *b, C *c, int m, int n, int k, Of... of) {
    Finish finish{of...};
    find_product(finish, a, b, c);
    constexpr int THREADS = BM * BN / (TM * TN), DOWN = BM / TM, RIGHT = BN / TN;
    static_assert(BM % TM == 0 && BN % TN == 0, "a thread's results must divide the block's");
    static_assert(THREADS % BK == 0 && THREADS % BN == 0, "a step must load whole rows");

    __shared__ T tile_a[BK][BM + 2];  // by columns; a warp stores 16 elements of two rows to different banks
    __shared__ T tile_b[BK][BN];
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    const int row = threadIdx.x / RIGHT, column = threadIdx.x % RIGHT;

    T sums[TM][TN];
#pragma unroll
    for (int i = 0; i < TM * TN; ++i) {
        sums[i / TN][i % TN] = Sums::start();
    }
    for (int start = 0; start < k; start += BK) {
        // Elements beyond an edge belong to no result, or to a step of k that is not executed.
#pragma unroll
        for (int first = 0; first < BM; first += THREADS / BK) {
            const int y = first + threadIdx.x / BK, x = threadIdx.x % BK;
            tile_a[x][y] = top + y < m && start + x < k ? a[(top + y) * k + start + x] : T();
        }
#pragma unroll
        for (int first = 0; first < BK; first += THREADS / BN) {
            const int y = first + threadIdx.x / BN, x = threadIdx.x % BN;
            tile_b[y][x] = start + y < k && left + x < n ? b[(start + y) * n + left + x] : T();
        }
        __syncthreads();

        const int steps = min(BK, k - start);
#pragma unroll 1
        for (int l = 0; l < steps; ++l) {
            T of_a[TM], of_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                of_a[i] = tile_a[l][row + i * DOWN];
            }
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                of_b[j] = tile_b[l][column + j * RIGHT];
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    sums[i][j] = Sums::step(sums[i][j], of_a[i], of_b[j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int y = top + row + i * DOWN;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int x = left + column + j * RIGHT;
            if (y < m && x < n) {
                c[y * n + x] = finish(sums[i][j], y, x, true);
            }
        }
    }
}
