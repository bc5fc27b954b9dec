// What tensor-core kernels share: copies of tiles of A and B to shared memory that run ahead of the products, reads of
// matrices from there, and writes of sums to C. For compute capability 7.5 and newer.

#pragma once

#include "finish.cuh"

// Whether there are copies to shared memory that need no registers (cp.async).
#if __CUDA_ARCH__ >= 800
#define ASYNCHRONOUS true
#else
#define ASYNCHRONOUS false
#endif

// Elements in 16 bytes, the most that a thread copies at once.
template <typename T>
__device__ constexpr int in_chunk() {
    return 16 / sizeof(T);
}

__device__ inline unsigned shared_address(const void *place) {
    return (unsigned)__cvta_generic_to_shared(place);
}

// Starts to copy SIZE bytes, of which the first `bytes` are read and the others are 0.
template <int SIZE>
__device__ inline void copy_async(unsigned to, const void *from, int bytes) {
    if (SIZE == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
                     "r"(bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
                     "r"(bytes), "n"(SIZE)
                     : "memory");
    }
}

// An element of a row if `left`, the elements before the row's end, allows it; else 0. Predicated, to avoid branches.
template <typename T>
__device__ inline T load_within(const T *from, int left) {
    unsigned short bits;
    if (sizeof(T) == 2) {
        asm volatile("{\n"
                     ".reg .pred inside;\n"
                     "setp.gt.s32 inside, %2, 0;\n"
                     "mov.b16 %0, 0;\n"
                     "@inside ld.global.b16 %0, [%1];\n"
                     "}"
                     : "=h"(bits)
                     : "l"(__cvta_generic_to_global(from)), "r"(left)
                     : "memory");
    } else {
        asm volatile("{\n"
                     ".reg .pred inside;\n"
                     "setp.gt.s32 inside, %2, 0;\n"
                     "mov.b16 %0, 0;\n"
                     "@inside ld.global.u8 %0, [%1];\n"
                     "}"
                     : "=h"(bits)
                     : "l"(__cvta_generic_to_global(from)), "r"(left)
                     : "memory");
    }
    return *reinterpret_cast<T *>(&bits);
}

// The elements of a chunk of a row, one by one; `left` are before the row's end, and the others become 0.
template <typename T>
__device__ inline uint4 load_elements(const T *from, int left) {
    __align__(16) T values[in_chunk<T>()];
#pragma unroll
    for (int i = 0; i < in_chunk<T>(); ++i) {
        values[i] = load_within(from + i, left - i);
    }
    return *reinterpret_cast<const uint4 *>(values);
}

// Copies a chunk of a row to shared memory. If rows are not aligned to 16 bytes, elements are copied one by one; those
// of less than 4 bytes, which an asynchronous copy needs, go through registers.
template <typename T>
__device__ inline void copy_chunk(T *to, const T *from, int left, bool wide) {
    constexpr int COUNT = in_chunk<T>(), SIZE = sizeof(T);
    if (wide) {
        copy_async<16>(shared_address(to), from, SIZE * min(max(left, 0), COUNT));
        return;
    }
    if constexpr (SIZE >= 4) {
        const unsigned there = shared_address(to);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            copy_async<SIZE>(there + SIZE * i, i < left ? from + i : from, i < left ? SIZE : 0);
        }
    } else {
        *reinterpret_cast<uint4 *>(to) = load_elements(from, left);
    }
}

// The part of tiles of ROWS x COLUMNS that one of THREADS copies: a chunk of a row, and of every STEP-th row from
// there. The places of chunks in their rows must repeat after PERIOD rows.
template <typename T, int ROWS, int COLUMNS, int THREADS, int PERIOD>
struct TileCopy {
    enum { CHUNKS = COLUMNS / in_chunk<T>(), STEP = THREADS / CHUNKS };
    static_assert(ROWS * CHUNKS % THREADS == 0, "a step must load whole tiles");
    static_assert(STEP % PERIOD == 0, "a thread's chunks must be swizzled alike");

    const int row = threadIdx.x / CHUNKS;
    const int column = threadIdx.x % CHUNKS * in_chunk<T>();
    const T *from;
    const long long leading;
    const bool wide;
    T *to;
#if !ASYNCHRONOUS
    uint4 held[ROWS / STEP];
#endif

    // Copies from `array`, whose rows are `leading` elements apart, from element `first` on, to the place in a tile of
    // `tiles` that `place(row, chunk)` gives.
    template <typename Place>
    __device__ TileCopy(const T *array, long long first, int leading, T (*tiles)[ROWS * COLUMNS], Place place)
        : from(array + first + (long long)row * leading + column), leading(leading),
          wide(reinterpret_cast<size_t>(array) % 16 == 0 && leading % in_chunk<T>() == 0),
          to(&tiles[0][place(row, column / in_chunk<T>())]) {}

    // Starts to copy a tile to a stage, and advances by `step` elements. The array has `rows` and `columns` left from
    // the tile's first element on. `copy` may be another function than copy_chunk.
    template <typename Copy>
    __device__ void begin(int stage, int rows, int columns, long long step, Copy copy) {
#pragma unroll
        for (int y = 0; y < ROWS; y += STEP) {
            const int left = row + y < rows ? columns - column : 0;
            copy(to + stage * (ROWS * COLUMNS) + y * COLUMNS, from + y * leading, left, wide);
        }
        from += step;
    }

    __device__ void begin(int stage, int rows, int columns, long long step) {
#if ASYNCHRONOUS
        begin(stage, rows, columns, step, copy_chunk<T>);
#else
#pragma unroll
        for (int y = 0; y < ROWS; y += STEP) {
            const int left = row + y < rows ? columns - column : 0;
            const T *chunk = from + y * leading;
            held[y / STEP] = wide && left >= in_chunk<T>() ? *reinterpret_cast<const uint4 *>(chunk)
                                                      : load_elements(chunk, left);
        }
        from += step;
#endif
    }

    // Without asynchronous copies: writes what `begin` has read.
    __device__ void end(int stage) {
#if !ASYNCHRONOUS
#pragma unroll
        for (int y = 0; y < ROWS; y += STEP) {
            const uint4 &chunk = held[y / STEP];
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"  // NVRTC would write the words apart
                         ::"r"(shared_address(to + stage * (ROWS * COLUMNS) + y * COLUMNS)), "r"(chunk.x), "r"(chunk.y),
                         "r"(chunk.z), "r"(chunk.w)
                         : "memory");
        }
#endif
    }
};

// Runs `multiply(stage)` for each step of BK from `first` to `end`, while the copies of STAGES - 1 further steps are in
// flight; `load(start, stage)` starts those of one step.
template <int BK, int STAGES, typename Load, typename Multiply>
__device__ inline void pipeline(int first, int end, Load load, Multiply multiply) {
    int reading = 0, writing = 0;
    for (int start = first - (STAGES - 1) * BK; start < end; start += BK) {
        if (start >= first) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();  // this step's copies are complete, and all threads have read the tiles of the step before
        }
        if (start + (STAGES - 1) * BK < end) {
            load(start + (STAGES - 1) * BK, writing);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty groups too, so that each step has a group
        writing = writing + 1 == STAGES ? 0 : writing + 1;
        if (start >= first) {
            multiply(reading);
            reading = reading + 1 == STAGES ? 0 : reading + 1;
        }
    }
}

// The same for halves and bytes, also without asynchronous copies: a step's tiles are then read to registers before the
// products of the step before, and `end(stage)` writes them to shared memory behind those.
template <int BK, int STAGES, typename Load, typename End, typename Multiply>
__device__ inline void pipeline(int first, int end, Load load, End written, Multiply multiply) {
#if ASYNCHRONOUS
    pipeline<BK, STAGES>(first, end, load, multiply);
#else
    static_assert(STAGES == 2, "one step is multiplied while the next waits in registers");
    if (first < end) {
        load(first, 0);
        written(0);
    }
    for (int start = first, stage = 0; start < end; start += BK, stage ^= 1) {
        __syncthreads();  // this step's tiles are written, and all threads have read those of the step before
        if (start + BK < end) {
            load(start + BK, stage ^ 1);
        }
        multiply(stage);
        if (start + BK < end) {
            written(stage ^ 1);
        }
    }
#endif
}

// The same, and reads of fragments run ahead of the products too: a step has PARTS, an even number, and while
// `multiply(part)` multiplies one from registers, `read(stage, part)` reads the next, at the end that of the next step.
template <int BK, int STAGES, int PARTS, typename Load, typename End, typename Read, typename Multiply>
__device__ inline void pipeline_ahead(int first, int end, Load load, End written, Read read, Multiply multiply) {
#if !ASYNCHRONOUS
    pipeline<BK, STAGES>(first, end, load, written, [&](int stage) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            read(stage, part);
            multiply(part);
        }
    });
#else
    static_assert(PARTS % 2 == 0, "registers of a step's first part must be free at the end of the step before");
    auto begin = [&](int start, int stage) {
        if (start < end) {
            load(start, stage);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty groups too, so that each step has a group
    };
    auto complete = [&]() {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // the next step's copies are complete, and all threads have read the tiles of this one
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        begin(first + stage * BK, stage);
    }
    if (first >= end) {
        return;
    }
    complete();
    read(0, 0);
    int reading = 0, writing = STAGES - 1;
    for (int start = first; start < end; start += BK) {
        begin(start + (STAGES - 1) * BK, writing);
        writing = writing + 1 == STAGES ? 0 : writing + 1;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            if (part < PARTS - 1) {
                read(reading, part + 1);
            } else {
                complete();
                reading = reading + 1 == STAGES ? 0 : reading + 1;
                if (start + BK < end) {
                    read(reading, 0);
                }
            }
            multiply(part);
        }
    }
#endif
}

// Loads four matrices of 8 rows of 16 bytes from shared memory; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// The same, each 8 x 8 pairs of bytes, transposed.
__device__ inline void load_transposed(unsigned (&to)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Adds the sums of a tile to the others.
template <int ROWS, int COLUMNS>
__device__ inline void add(float (&sums)[ROWS][COLUMNS][4], const float (&of_tile)[ROWS][COLUMNS][4]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                sums[i][j][part] += of_tile[i][j][part];
            }
        }
    }
}

// Whether two neighbours of a row can be written together.
template <typename T>
__device__ inline bool in_pairs(const T *array, int leading) {
    return reinterpret_cast<size_t>(array) % (2 * sizeof(T)) == 0 && leading % 2 == 0;
}

// Writes two neighbouring elements of a row, of which `left` are before its end: at once if the row is aligned for it.
template <typename T>
__device__ inline void store_pair(T *to, int left, bool wide, T first, T second) {
    struct alignas(2 * sizeof(T)) Pair {
        T first, second;
    };
    if (wide && left > 1) {
        *reinterpret_cast<Pair *>(to) = {first, second};
        return;
    }
    if (left > 0) {
        to[0] = first;
    }
    if (left > 1) {
        to[1] = second;
    }
}

// Whether four neighbours of a row can be written together.
template <typename T>
__device__ inline bool in_fours(const T *array, int leading) {
    return reinterpret_cast<size_t>(array) % (4 * sizeof(T)) == 0 && leading % 4 == 0;
}

// Writes four neighbouring elements of a row, of which `left` are before its end: at once if the row is aligned for it.
template <typename T>
__device__ inline void store_four(T *to, int left, bool wide, T first, T second, T third, T fourth) {
    struct alignas(4 * sizeof(T)) Four {
        T of[4];
    };
    const Four values = {{first, second, third, fourth}};
    if (wide && left > 3) {
        *reinterpret_cast<Four *>(to) = values;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < left) {
            to[i] = values.of[i];
        }
    }
}

// Writes the tile of C at [top, left] from the sums of warps that own ROWS x COLUMNS fragments of 16 x 8. A lane has
// two neighbours of row lane / 4 of each fragment, and two of row lane / 4 + 8.
template <int BM, int BN, typename C, typename Finish, int ROWS, int COLUMNS>
__device__ inline void store_tile(C *c, int m, int n, int ldc, const float (&sums)[ROWS][COLUMNS][4], int top,
                                  int left, const Finish &finish) {
    constexpr int ACROSS = BN / (8 * COLUMNS);  // warps
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = top + warp / ACROSS * (16 * ROWS) + lane / 4;
    const int x = left + warp % ACROSS * (8 * COLUMNS) + lane % 4 * 2;
    const bool wide = in_pairs(c, ldc);
#pragma unroll
    for (int i = 0; i < 2 * ROWS; ++i) {
        C *to = c + (long long)(y + 8 * i) * ldc + x;
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const float *pair = &sums[i / 2][j][i % 2 * 2];
            const int there = y + 8 * i < m ? n - x - 8 * j : 0;
            store_pair(to + 8 * j, there, wide, finish(pair[0], y + 8 * i, x + 8 * j, there > 0),
                       finish(pair[1], y + 8 * i, x + 8 * j + 1, there > 1));
        }
    }
}
