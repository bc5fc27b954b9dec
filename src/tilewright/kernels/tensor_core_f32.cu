// Tensor cores for float32. As tensor_core, with fragments of 16 x 8 of A and 8 x 8 of B in tf32: float32 with the lower
// 13 bits of the significand gone. SPLIT makes up for them: each operand is a tf32 number and another for what is left of
// it, and three products stand for one (small times small is too small to count). Tensor cores round sums towards zero, so
// those of a tile begin at 0 and are added to the others by the float32 units. For compute capability 8.0 and newer.
//
// `ldmatrix` moves pairs of halves, so for A it moves floats. It cannot transpose them: B is read one by one.

constexpr int CHUNK = 4;  // elements in 16 bytes

// D = A B + D of one warp.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The nearest tf32 number, as the bits of a float.
__device__ inline unsigned rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// A number as a tf32 number, and one for what is left.
__device__ inline void split(unsigned bits, unsigned &big, unsigned &small) {
    const float value = __uint_as_float(bits);
    big = rounded(value);
    small = rounded(value - __uint_as_float(big));  // the difference is exact
}

// Four matrices of 8 x 4 from shared memory; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Copies four elements of a row, of which `left` are before its end, to a chunk of shared memory; the others are 0.
// Elements of rows that are not at multiples of 16 bytes go one by one.
__device__ inline void copy_chunk(float *to, const float *from, int left, bool wide) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    if (wide) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(there),
                     "l"(__cvta_generic_to_global(from)), "r"(4 * min(max(left, 0), CHUNK))
                     : "memory");
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(there + 4 * i),
                     "l"(__cvta_generic_to_global(i < left ? from + i : from)), "r"(i < left ? 4 : 0)
                     : "memory");
    }
}

__device__ inline bool aligned(const float *array, int leading) {
    return reinterpret_cast<size_t>(array) % 16 == 0 && leading % CHUNK == 0;
}

// Writes two neighbouring elements of a row, of which `left` are before its end: at once where the row allows it.
__device__ inline void store_pair(float *to, int left, bool wide, float first, float second) {
    if (wide && left > 1) {
        *reinterpret_cast<float2 *>(to) = make_float2(first, second);
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
template <bool SPLIT, int BM, int BN, int BK, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_f32(const float *a, const float *b, float *c, int m, int n, int k, int lda, int ldb, int ldc) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int CHUNKS_A = BK / CHUNK;  // of a row of the tile of A
    constexpr int CHUNKS_B = BN / CHUNK;
    static_assert(BK == 16 && CHUNKS_B % 8 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(BM * CHUNKS_A % THREADS == 0 && BK * CHUNKS_B % THREADS == 0, "a step must load whole tiles");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) float tile_a[STAGES][BM * BK];
    __shared__ __align__(128) float tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Two rows of A's are 128 bytes, all 32 banks; a row of B's is four times that, and
    // the four rows of a fragment lie eight elements apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * CHUNK; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 4 * 2) * CHUNK; };

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
    const float *from_a = a + (long long)(top + row_a) * lda + column_a;
    const float *from_b = b + (long long)row_b * ldb + left + column_b;
    float *to_a = &tile_a[0][place_a(row_a, column_a / CHUNK)];
    float *to_b = &tile_b[0][place_b(row_b, column_b / CHUNK)];
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
    // The row of a matrix that the lane gives, and the element of B that it reads; other fragments are whole rows of 128
    // bytes away, or other chunks in them.
    unsigned of_lane_a = (unsigned)__cvta_generic_to_shared(&tile_a[0][place_a(row + lane % 16, lane / 16)]);
    int of_lane_b = place_b(lane % 4, column / CHUNK + lane / 16) + lane / 4 % CHUNK;
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

        const unsigned at_a = of_lane_a + reading * (BM * BK * (int)sizeof(float));
        const float *from_tile = tile_b[reading];
        float of_tile[WM / 16][WN / 8][4] = {};  // unused, and gone, where numbers are not split
#pragma unroll
        for (int l = 0; l < BK; l += 8) {
            unsigned big_a[WM / 16][4], big_b[WN / 8][2], small_a[WM / 16][4], small_b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                unsigned read[4];
                load_matrices(read, (at_a ^ l * (int)sizeof(float)) + 16 * i * BK * (int)sizeof(float));
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    split(read[part], big_a[i][part], small_a[i][part]);
                }
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const float read = from_tile[(of_lane_b ^ 8 * j) + (l + 4 * part) * BN];
                    split(__float_as_uint(read), big_b[j][part], small_b[j][part]);
                }
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    if (SPLIT) {
                        multiply(of_tile[i][j], small_a[i], big_b[j]);
                        multiply(of_tile[i][j], big_a[i], small_b[j]);
                        multiply(of_tile[i][j], big_a[i], big_b[j]);
                    } else {
                        multiply(sums[i][j], big_a[i], big_b[j]);
                    }
                }
            }
        }
        if (SPLIT) {
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        sums[i][j][part] += of_tile[i][j][part];
                    }
                }
            }
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }

    // A lane has two neighbouring results of rows lane / 4 and lane / 4 + 8 of each fragment.
    const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(float)) == 0 && ldc % 2 == 0;
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        float *to = c + (long long)y * ldc + left + column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
            const int there = y < m ? n - left - column - lane % 4 * 2 - 8 * j : 0;
            store_pair(to + 8 * j, there, wide_c, sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
        }
    }
}
