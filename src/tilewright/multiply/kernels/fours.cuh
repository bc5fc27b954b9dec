// What kernels share that read and write four floats at once if the arrays' rows allow it: a thread's loads of the
// tiles of a step, the step's products, and the stores of a thread's results.

#pragma once

// Whether rows of a row-major array begin at multiples of 16 bytes, as a float4 must.
__device__ inline bool aligned(const float *array, int columns) {
    return reinterpret_cast<size_t>(array) % sizeof(float4) == 0 && columns % 4 == 0;
}

// The four elements at `from`, of which `left` are before the end of their row; those past it are `fill`.
__device__ inline float4 read4(const float *from, int left, bool wide, float fill) {
    if (wide) {  // rows have a multiple of four elements, so all four are before the end, or none
        return left > 0 ? *reinterpret_cast<const float4 *>(from) : make_float4(fill, fill, fill, fill);
    }
    return make_float4(left > 0 ? from[0] : fill, left > 1 ? from[1] : fill,
                       left > 2 ? from[2] : fill, left > 3 ? from[3] : fill);
}

// Writes four elements likewise, without those past the end of the row.
__device__ inline void write4(float *to, int left, bool wide, const float *values) {
    if (wide) {
        if (left > 0) {
            *reinterpret_cast<float4 *>(to) = make_float4(values[0], values[1], values[2], values[3]);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (j < left) {
            to[j] = values[j];
        }
    }
}

// A thread's loads of the tiles of A and B in a step: four neighbouring elements of rows of each.
template <int BN, int BK>
struct Fours {
    const int row_a = threadIdx.x / (BK / 4);
    const int column_a = threadIdx.x % (BK / 4) * 4;
    const int row_b = threadIdx.x / (BN / 4);
    const int column_b = threadIdx.x % (BN / 4) * 4;
    const float *from_a;
    const float *from_b;
    const bool wide_a;
    const bool wide_b;
    float4 of_a;
    float4 of_b;

    // The tiles of A begin at row `top`, those of B at column `left`.
    __device__ Fours(const float *a, const float *b, int top, int left, int n, int k)
        : from_a(a + (top + row_a) * k + column_a), from_b(b + row_b * n + left + column_b), wide_a(aligned(a, k)),
          wide_b(aligned(b, n)) {}

    // Loads the step at `start`. Past the edge of k a step must leave the sums as they are, a negative zero included:
    // 0 * -0 + c is c.
    __device__ void load(int start, int top, int left, int m, int n, int k) {
        of_a = read4(from_a, top + row_a < m ? k - start - column_a : 0, wide_a, 0.0f);
        of_b = read4(from_b, start + row_b < k ? n - left - column_b : 0, wide_b, -0.0f);
        from_a += BK;
        from_b += BK * n;
    }

    // Stores them to the tiles; A's is transposed.
    template <int ROW>
    __device__ void store(float (&tile_a)[BK][ROW], float (&tile_b)[BK][BN]) const {
        tile_a[column_a][row_a] = of_a.x;
        tile_a[column_a + 1][row_a] = of_a.y;
        tile_a[column_a + 2][row_a] = of_a.z;
        tile_a[column_a + 3][row_a] = of_a.w;
        *reinterpret_cast<float4 *>(&tile_b[row_b][column_b]) = of_b;
    }
};

// Adds the products of a column of A's tile and a row of B's to a thread's sums.
template <int TM, int TN>
__device__ inline void add_products(float (&sums)[TM][TN], const float (&of_a)[TM], const float (&of_b)[TN]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
        }
    }
}

// Writes a thread's results: patches of 4 x 4, the first at [top, left], each next one DOWN rows or RIGHT columns
// further on.
template <int DOWN, int RIGHT, int TM, int TN>
__device__ inline void write_patches(float *c, int m, int n, int top, int left, const float (&sums)[TM][TN]) {
    const bool wide = aligned(c, n);
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int y = top + i / 4 * DOWN + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int x = left + j / 4 * RIGHT;
            write4(c + y * n + x, y < m ? n - x : 0, wide, &sums[i][j]);
        }
    }
}
