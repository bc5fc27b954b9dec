// Tensor cores: C = A B for halves, summed in float32. Copies run STAGES - 1 tiles ahead of the products, and need no
// registers (cp.async); `ldmatrix` reads tiles in chunks of 16 bytes, which lie swizzled so that no two of the eight
// rows of a matrix are in the same banks. For compute capability 8.0 and newer.
//
// A warp owns WM x WN results: fragments of 16 x 16 of A and 16 x 8 of B, multiplied by mma.m16n8k16.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int CHUNK = 8;  // elements in 16 bytes

// D = A B + D of one warp.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned *b, __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned *b, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices of 8 x 8 from shared memory; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(unsigned *to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

__device__ inline void load_transposed(unsigned *to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Copies eight elements of a row, of which `left` are before its end, to a chunk of shared memory; the others are 0.
// Elements of rows that are not at multiples of 16 bytes go through registers: asynchronous copies have 4 bytes or more.
template <typename T>
__device__ inline void copy_chunk(T *to, const T *from, int left, bool wide) {
    if (wide) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                     "l"(__cvta_generic_to_global(from)), "r"(2 * min(max(left, 0), CHUNK))
                     : "memory");
        return;
    }
    __align__(16) T values[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        values[i] = i < left ? from[i] : T(0.0f);
    }
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(values);
}

template <typename T>
__device__ inline bool aligned(const T *array, int leading) {
    return reinterpret_cast<size_t>(array) % 16 == 0 && leading % CHUNK == 0;
}

// `lda`, `ldb` and `ldc` are how many elements a row of A, B and C is behind the one before.
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core(const T *a, const T *b, T *c, int m, int n, int k, int lda, int ldb, int ldc) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int CHUNKS_A = BK / CHUNK;  // of a row of the tile of A
    constexpr int CHUNKS_B = BN / CHUNK;
    static_assert(BK == 32 && CHUNKS_B % 8 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(BM * CHUNKS_A % THREADS == 0 && BK * CHUNKS_B % THREADS == 0, "a step must load whole tiles");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) T tile_a[STAGES][BM * BK];
    __shared__ __align__(128) T tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Two rows of A's are 128 bytes, all 32 banks; a row of B's is twice that.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * CHUNK; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 8) * CHUNK; };

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    const bool wide_a = aligned(a, lda);
    const bool wide_b = aligned(b, ldb);

    // Begins to copy the tiles of step `step`; past the end of k they are zeros, or nothing.
    auto load = [&](int step) {
        const int start = step * BK, stage = step % STAGES;
        if (start < k) {
#pragma unroll
            for (int i = threadIdx.x; i < BM * CHUNKS_A; i += THREADS) {
                const int y = i / CHUNKS_A, x = start + i % CHUNKS_A * CHUNK;
                const int there = top + y < m ? k - x : 0;
                const T *from = there > 0 ? a + (long long)(top + y) * lda + x : a;
                copy_chunk(&tile_a[stage][place_a(y, i % CHUNKS_A)], from, there, wide_a);
            }
#pragma unroll
            for (int i = threadIdx.x; i < BK * CHUNKS_B; i += THREADS) {
                const int y = i / CHUNKS_B, x = left + i % CHUNKS_B * CHUNK;
                const int there = start + y < k ? n - x : 0;
                const T *from = there > 0 ? b + (long long)(start + y) * ldb + x : b;
                copy_chunk(&tile_b[stage][place_b(y, i % CHUNKS_B)], from, there, wide_b);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty one too, so that groups are counted as steps
    };

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM;
    const int column = warp % (BN / WN) * WN;

    float sums[WM / 16][WN / 8][4] = {};
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        load(step);
    }
    for (int step = 0; step * BK < k; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // all copies of this step are there, and all have read the tiles of the one before
        load(step + STAGES - 1);

        const int stage = step % STAGES;
#pragma unroll
        for (int start = 0; start < BK; start += 16) {
            unsigned of_a[WM / 16][4], of_b[WN / 16][4];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                const T *at = &tile_a[stage][place_a(row + 16 * i + lane % 16, start / CHUNK + lane / 16)];
                load_matrices(of_a[i], (unsigned)__cvta_generic_to_shared(at));
            }
#pragma unroll
            for (int j = 0; j < WN / 8; j += 2) {
                const T *at = &tile_b[stage][place_b(start + lane % 16, column / CHUNK + j + lane / 16)];
                load_transposed(of_b[j / 2], (unsigned)__cvta_generic_to_shared(at));
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], &of_b[j / 2][j % 2 * 2], T());
                }
            }
        }
    }

    // A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each fragment.
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int y = top + row + 16 * i + lane / 4 + part / 2 * 8;
                const int x = left + column + 8 * j + lane % 4 * 2 + part % 2;
                if (y < m && x < n) {
                    c[(long long)y * ldc + x] = T(sums[i][j][part]);
                }
            }
        }
    }
}
