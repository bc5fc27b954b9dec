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

// Writes two neighbouring elements of a row, of which `left` are before its end: at once where the row allows it.
template <typename T>
__device__ inline void store_pair(T *to, int left, bool wide, T first, T second) {
    if (wide && left > 1) {
        __align__(2 * sizeof(T)) const T pair[2] = {first, second};
        *reinterpret_cast<unsigned *>(to) = *reinterpret_cast<const unsigned *>(pair);
        return;
    }
    if (left > 0) {
        to[0] = first;
    }
    if (left > 1) {
        to[1] = second;
    }
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
    static_assert(WM % 16 == 0 && (WN == 16 || WN % 32 == 0), "a warp must own fragments, whose chunks are a mask away");

    __shared__ __align__(128) T tile_a[STAGES][BM * BK];
    __shared__ __align__(128) T tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Two rows of A's are 128 bytes, all 32 banks; a row of B's is twice that.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * CHUNK; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 8) * CHUNK; };

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    // What the thread copies: a chunk of row `row_a` of the tile of A, and of every STEP_A-th from there; of B likewise.
    constexpr int STEP_A = THREADS / CHUNKS_A;
    constexpr int STEP_B = THREADS / CHUNKS_B;
    static_assert(STEP_A % 8 == 0 && STEP_B % 8 == 0, "a thread's chunks must be swizzled alike");
    const int row_a = threadIdx.x / CHUNKS_A;
    const int column_a = threadIdx.x % CHUNKS_A * CHUNK;
    const int row_b = threadIdx.x / CHUNKS_B;
    const int column_b = threadIdx.x % CHUNKS_B * CHUNK;
    const T *from_a = a + (long long)(top + row_a) * lda + column_a;
    const T *from_b = b + (long long)row_b * ldb + left + column_b;
    T *to_a = &tile_a[0][place_a(row_a, column_a / CHUNK)];
    T *to_b = &tile_b[0][place_b(row_b, column_b / CHUNK)];
    const bool wide_a = aligned(a, lda);
    const bool wide_b = aligned(b, ldb);

    // Begins to copy the tiles that begin at `start` of k; past its end nothing.
    auto load = [&](int start, int stage) {
        if (start < k) {
#pragma unroll
            for (int y = 0; y < BM; y += STEP_A) {
                const int there = top + row_a + y < m ? k - start - column_a : 0;
                copy_chunk(to_a + stage * (BM * BK) + y * BK, from_a + (long long)y * lda, there, wide_a);
            }
#pragma unroll
            for (int y = 0; y < BK; y += STEP_B) {
                const int there = start + row_b + y < k ? n - left - column_b : 0;
                copy_chunk(to_b + stage * (BK * BN) + y * BN, from_b + (long long)y * ldb, there, wide_b);
            }
            from_a += BK;
            from_b += (long long)BK * ldb;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty one too, so that groups are counted as steps
    };

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM;
    const int column = warp % (BN / WN) * WN;
    // The row of a matrix that the lane gives; other fragments are whole rows of 128 bytes away, or other chunks in them.
    unsigned of_lane_a = (unsigned)__cvta_generic_to_shared(&tile_a[0][place_a(row + lane % 16, lane / 16)]);
    unsigned of_lane_b =
        (unsigned)__cvta_generic_to_shared(&tile_b[0][place_b(lane % 16, column / CHUNK + lane / 16)]);
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // kept: NVRTC would compute them in every step anew

    float sums[WM / 16][WN / 8][4] = {};
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        load(stage * BK, stage);
    }
    int reading = 0, writing = STAGES - 1;
    for (int start = 0; start < k; start += BK) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // all copies of this step are there, and all have read the tiles of the one before
        load(start + (STAGES - 1) * BK, writing);

        const unsigned at_a = of_lane_a + reading * (BM * BK * (int)sizeof(T));
        const unsigned at_b = of_lane_b + reading * (BK * BN * (int)sizeof(T));
#pragma unroll
        for (int l = 0; l < BK; l += 16) {
            unsigned of_a[WM / 16][4], of_b[WN / 16][4];
#pragma unroll
            for (int i = 0; i < WM; i += 16) {
                load_matrices(of_a[i / 16], (at_a ^ l * (int)sizeof(T)) + i * BK * (int)sizeof(T));
            }
#pragma unroll
            for (int j = 0; j < WN; j += 16) {
                load_transposed(of_b[j / 16], (at_b ^ j * (int)sizeof(T)) + l * BN * (int)sizeof(T));
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], &of_b[j / 2][j % 2 * 2], T());
                }
            }
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }

    // A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each fragment.
    const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(T)) == 0 && ldc % 2 == 0;
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        T *to = c + (long long)y * ldc + left + column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
            const int there = y < m ? n - left - column - lane % 4 * 2 - 8 * j : 0;
            store_pair(to + 8 * j, there, wide_c, T(sums[i / 2][j][i % 2 * 2]), T(sums[i / 2][j][i % 2 * 2 + 1]));
        }
    }
}
