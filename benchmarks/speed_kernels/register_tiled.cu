// 64 accumulators a thread: a block of 8 x 8 threads makes a 64 x 64 tile of C, each thread 8 x 8 neighbouring elements.
// Shapes are free. The sum of each element is in the canonical order: fma, k ascending, from +0.

constexpr int TILE = 64;   // rows and columns of C a block computes
constexpr int DEPTH = 8;   // steps of k a tile of A or B holds
constexpr int EDGE = 8;    // rows and columns of C a thread computes
constexpr int THREADS = TILE / EDGE;

extern "C" __global__ void register_tiled(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float tile_a[DEPTH][TILE];
    __shared__ float tile_b[DEPTH][TILE];

    const int top = blockIdx.y * TILE;
    const int left = blockIdx.x * TILE;
    const int thread = threadIdx.y * THREADS + threadIdx.x;

    float sums[EDGE][EDGE] = {};
    for (int start = 0; start < k; start += DEPTH) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
        for (int step = 0; step < DEPTH; ++step) {
            const int row = top + thread;
            const int column = left + thread;
            tile_a[step][thread] = row < m && start + step < k ? a[row * k + start + step] : 0.0f;
            tile_b[step][thread] = column < n && start + step < k ? b[(start + step) * n + column] : -0.0f;
        }
        __syncthreads();

        for (int step = 0; step < DEPTH; ++step) {
            float column[EDGE], row[EDGE];
#pragma unroll
            for (int i = 0; i < EDGE; ++i) {
                column[i] = tile_a[step][threadIdx.y * EDGE + i];
                row[i] = tile_b[step][threadIdx.x * EDGE + i];
            }
#pragma unroll
            for (int i = 0; i < EDGE; ++i) {
#pragma unroll
                for (int j = 0; j < EDGE; ++j) {
                    sums[i][j] = fmaf(column[i], row[j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < EDGE; ++i) {
#pragma unroll
        for (int j = 0; j < EDGE; ++j) {
            const int y = top + threadIdx.y * EDGE + i;
            const int x = left + threadIdx.x * EDGE + j;
            if (y < m && x < n) {
                c[y * n + x] = sums[i][j];
            }
        }
    }
}
