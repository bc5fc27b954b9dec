// S3: the block-partitioned product. Block (bx, by) owns one BLOCK_SIZE x BLOCK_SIZE block of C and walks A's block row
// and B's block column, one block of each per step. hA, wA and wB are A's height and width and B's width; all
// row-major. The source takes only multiples of BLOCK_SIZE. This kernel guards the edges, and loads the same blocks.

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
// Unsigned, because a signed product may overflow only by undefined behaviour.
__device__ inline int multiply_add(int a, int b, int c) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

template <int BLOCK_SIZE, typename T>
__global__ void MatrixMulCUDA(T *C, const T *A, const T *B, int hA, int wA, int wB) {
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    const int row = BLOCK_SIZE * by + ty;
    const int column = BLOCK_SIZE * bx + tx;

    // A's first block, the last element of its row, and the step from block to block; then B's first block and step.
    const int aBegin = wA * BLOCK_SIZE * by;
    const int aEnd = aBegin + wA - 1;
    const int aStep = BLOCK_SIZE;
    const int bBegin = BLOCK_SIZE * bx;
    const int bStep = BLOCK_SIZE * wB;

    T Csub = 0;

    for (int a = aBegin, b = bBegin; a <= aEnd; a += aStep, b += bStep) {
        __shared__ T As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ T Bs[BLOCK_SIZE][BLOCK_SIZE];

        // Past the edge of k a step must leave Csub as it is, a negative zero included: 0 * -0 + c is c for every c.
        const int step = a - aBegin;
        As[ty][tx] = row < hA && step + tx < wA ? A[a + wA * ty + tx] : T(0);
        Bs[ty][tx] = column < wB && step + ty < wA ? B[b + wB * ty + tx] : T(-0.0);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k) {
            Csub = multiply_add(As[ty][k], Bs[k][tx], Csub);
        }
        __syncthreads();
    }

    if (row < hA && column < wB) {
        const int c = wB * BLOCK_SIZE * by + BLOCK_SIZE * bx;
        C[c + wB * ty + tx] = Csub;
    }
}
