// Tensor cores for float64. As tensor_core, with fragments of 8 x 4 of A and 4 x 8 of B, an element a lane, which is read
// as it is. A product is a chain of fused multiply-adds, k ascending: the sums have the canonical bits. For compute
// capability 8.0 and newer.

constexpr int CHUNK = 2;  // elements in 16 bytes

// D = A B + D of one warp.
__device__ inline void multiply(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a), "d"(b));
}

// Copies two elements of a row, of which `left` are before its end, to a chunk of shared memory; the other is 0, and
// where both are past it they are `fill`. Elements of rows that are not at multiples of 16 bytes go one by one.
__device__ inline void copy_chunk(double *to, const double *from, int left, bool wide, double fill) {
    if (left <= 0) {
        *reinterpret_cast<double2 *>(to) = make_double2(fill, fill);
        return;
    }
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    if (wide) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(there),
                     "l"(__cvta_generic_to_global(from)), "r"(8 * min(left, CHUNK))
                     : "memory");
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(there + 8 * i),
                     "l"(__cvta_generic_to_global(i < left ? from + i : from)), "r"(i < left ? 8 : 0)
                     : "memory");
    }
}

__device__ inline bool aligned(const double *array, int leading) {
    return reinterpret_cast<size_t>(array) % 16 == 0 && leading % CHUNK == 0;
}

// Writes two neighbouring elements of a row, of which `left` are before its end: at once where the row allows it.
__device__ inline void store_pair(double *to, int left, bool wide, double first, double second) {
    if (wide && left > 1) {
        *reinterpret_cast<double2 *>(to) = make_double2(first, second);
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
template <int BM, int BN, int BK, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(32 * (BM / WM) * (BN / WN))
    tensor_core_f64(const double *a, const double *b, double *c, int m, int n, int k, int lda, int ldb, int ldc) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
    constexpr int CHUNKS_A = BK / CHUNK;  // of a row of the tile of A
    constexpr int CHUNKS_B = BN / CHUNK;
    static_assert(BK == 16 && CHUNKS_B % 8 == 0, "the swizzles are for rows of multiples of 128 bytes");
    static_assert(BM * CHUNKS_A % THREADS == 0 && BK * CHUNKS_B % THREADS == 0, "a step must load whole tiles");
    static_assert(WM % 8 == 0 && WN % 8 == 0, "a warp must own whole fragments");

    __shared__ __align__(128) double tile_a[STAGES][BM * BK];
    __shared__ __align__(128) double tile_b[STAGES][BK * BN];
    // Where a chunk lies in its tile. Half a warp reads four rows at once: they lie four elements apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row % 4 * 2) * CHUNK; };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 4 * 2) * CHUNK; };

    const int top = blockIdx.y * BM;
    const int left = blockIdx.x * BN;
    // What the thread copies: a chunk of row `row_a` of the tile of A, and of every STEP_A-th from there; of B likewise.
    constexpr int STEP_A = THREADS / CHUNKS_A;
    constexpr int STEP_B = THREADS / CHUNKS_B;
    static_assert(STEP_A % 4 == 0 && STEP_B % 4 == 0, "a thread's chunks must be swizzled alike");
    const int row_a = threadIdx.x / CHUNKS_A;
    const int column_a = threadIdx.x % CHUNKS_A * CHUNK;
    const int row_b = threadIdx.x / CHUNKS_B;
    const int column_b = threadIdx.x % CHUNKS_B * CHUNK;
    const double *from_a = a + (long long)(top + row_a) * lda + column_a;
    const double *from_b = b + (long long)row_b * ldb + left + column_b;
    double *to_a = &tile_a[0][place_a(row_a, column_a / CHUNK)];
    double *to_b = &tile_b[0][place_b(row_b, column_b / CHUNK)];
    const bool wide_a = aligned(a, lda);
    const bool wide_b = aligned(b, ldb);

    // Begins to copy the tiles that begin at `start` of k. Past its edge a step must leave the sums as they are, a
    // negative zero included: 0 * -0 + c is c.
    auto load = [&](int start, int stage) {
        if (start < k) {
#pragma unroll
            for (int y = 0; y < BM; y += STEP_A) {
                const int there = top + row_a + y < m ? k - start - column_a : 0;
                copy_chunk(to_a + stage * (BM * BK) + y * BK, from_a + (long long)y * lda, there, wide_a, 0.0);
            }
#pragma unroll
            for (int y = 0; y < BK; y += STEP_B) {
                const int there = start + row_b + y < k ? n - left - column_b : 0;
                copy_chunk(to_b + stage * (BK * BN) + y * BN, from_b + (long long)y * ldb, there, wide_b, -0.0);
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
    // The elements that the lane reads; those of other fragments are whole rows of 128 bytes away, or other chunks in them.
    int of_lane_a = place_a(row + lane / 4, lane % 4 / CHUNK) + lane % CHUNK;
    int of_lane_b = place_b(lane % 4, (column + lane / 4) / CHUNK) + lane / 4 % CHUNK;
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // kept: NVRTC would compute them in every step anew

    double sums[WM / 8][WN / 8][2] = {};
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        load(stage * BK, stage);
    }
    int reading = 0, writing = STAGES - 1;
    for (int start = 0; start < k; start += BK) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // all copies of this step are there, and all have read the tiles of the one before
        load(start + (STAGES - 1) * BK, writing);

#pragma unroll
        for (int l = 0; l < BK; l += 4) {
            double of_a[WM / 8], of_b[WN / 8];
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
                of_a[i] = tile_a[reading][(of_lane_a ^ l) + 8 * i * BK];
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                of_b[j] = tile_b[reading][(of_lane_b ^ 8 * j) + l * BN];
            }
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], of_b[j]);
                }
            }
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }

    // A lane has two neighbouring results of row lane / 4 of each fragment.
    const bool wide_c = reinterpret_cast<size_t>(c) % (2 * sizeof(double)) == 0 && ldc % 2 == 0;
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        const int y = top + row + 8 * i + lane / 4;
        double *to = c + (long long)y * ldc + left + column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
            const int there = y < m ? n - left - column - lane % 4 * 2 - 8 * j : 0;
            store_pair(to + 8 * j, there, wide_c, sums[i][j][0], sums[i][j][1]);
        }
    }
}
