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
    const bool wide_a = aligned(a, lda);
    const bool wide_b = aligned(b, ldb);

    // Begins to copy the tiles of step `step`. Past the edge of k a step must leave the sums as they are, a negative zero
    // included: 0 * -0 + c is c.
    auto load = [&](int step) {
        const int start = step * BK, stage = step % STAGES;
        if (start < k) {
#pragma unroll
            for (int i = threadIdx.x; i < BM * CHUNKS_A; i += THREADS) {
                const int y = i / CHUNKS_A, x = start + i % CHUNKS_A * CHUNK;
                const int there = top + y < m ? k - x : 0;
                const double *from = there > 0 ? a + (long long)(top + y) * lda + x : a;
                copy_chunk(&tile_a[stage][place_a(y, i % CHUNKS_A)], from, there, wide_a, 0.0);
            }
#pragma unroll
            for (int i = threadIdx.x; i < BK * CHUNKS_B; i += THREADS) {
                const int y = i / CHUNKS_B, x = left + i % CHUNKS_B * CHUNK;
                const int there = start + y < k ? n - x : 0;
                const double *from = there > 0 ? b + (long long)(start + y) * ldb + x : b;
                copy_chunk(&tile_b[stage][place_b(y, i % CHUNKS_B)], from, there, wide_b, -0.0);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty one too, so that groups are counted as steps
    };

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM;
    const int column = warp % (BN / WN) * WN;

    double sums[WM / 8][WN / 8][2] = {};
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
        for (int start = 0; start < BK; start += 4) {
            const int l = start + lane % 4;
            double of_a[WM / 8], of_b[WN / 8];
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
                of_a[i] = tile_a[stage][place_a(row + 8 * i + lane / 4, l / CHUNK) + l % CHUNK];
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                const int x = column + 8 * j + lane / 4;
                of_b[j] = tile_b[stage][place_b(l, x / CHUNK) + x % CHUNK];
            }
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    multiply(sums[i][j], of_a[i], of_b[j]);
                }
            }
        }
    }

    // A lane has two neighbouring results of row lane / 4 of each fragment.
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int y = top + row + 8 * i + lane / 4;
                const int x = left + column + 8 * j + lane % 4 * 2 + part;
                if (y < m && x < n) {
                    c[(long long)y * ldc + x] = sums[i][j][part];
                }
            }
        }
    }
}
