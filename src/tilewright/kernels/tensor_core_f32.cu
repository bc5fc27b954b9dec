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
                const float *from = there > 0 ? a + (long long)(top + y) * lda + x : a;
                copy_chunk(&tile_a[stage][place_a(y, i % CHUNKS_A)], from, there, wide_a);
            }
#pragma unroll
            for (int i = threadIdx.x; i < BK * CHUNKS_B; i += THREADS) {
                const int y = i / CHUNKS_B, x = left + i % CHUNKS_B * CHUNK;
                const int there = start + y < k ? n - x : 0;
                const float *from = there > 0 ? b + (long long)(start + y) * ldb + x : b;
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
        float of_tile[WM / 16][WN / 8][4] = {};  // unused, and gone, where numbers are not split
#pragma unroll
        for (int start = 0; start < BK; start += 8) {
            unsigned big_a[WM / 16][4], big_b[WN / 8][2], small_a[WM / 16][4], small_b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                const float *at = &tile_a[stage][place_a(row + 16 * i + lane % 16, start / CHUNK + lane / 16)];
                unsigned read[4];
                load_matrices(read, (unsigned)__cvta_generic_to_shared(at));
#pragma unroll
                for (int part = 0; part < 4; ++part) {
                    split(read[part], big_a[i][part], small_a[i][part]);
                }
            }
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                const int x = column + 8 * j + lane / 4;
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int y = start + 4 * part + lane % 4;
                    const float read = tile_b[stage][place_b(y, x / CHUNK) + x % CHUNK];
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
                    c[(long long)y * ldc + x] = sums[i][j][part];
                }
            }
        }
    }
}
