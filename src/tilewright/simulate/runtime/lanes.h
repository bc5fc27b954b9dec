// The lanes of a warp: sets of them, a bit each, lane 0 the lowest; and vectors, an element each.
//
// Vectors have the operators of GNU C (https://gcc.gnu.org/onlinedocs/gcc/Vector-Extensions.html): a comparison gives a
// vector of integers of the same width, -1 where it holds. A function that other modules call takes a vector by
// pointer, because hosts pass vectors in different ways; `static inline` functions may take it by value.

#ifndef TILEWRIGHT_SIMT_LANES_H
#define TILEWRIGHT_SIMT_LANES_H

#include <stdint.h>

// The lowest lane of a set; 32 if it is empty. `__builtin_ctz` alone means different things on different targets.
static inline uint32_t tw_first_lane(uint32_t lanes)
{
    return lanes ? (uint32_t)__builtin_ctz(lanes) : 32;
}

static inline uint32_t tw_lane_count(uint32_t lanes)
{
    return (uint32_t)__builtin_popcount(lanes);
}

// The set without its lowest lane: `for (uint32_t left = lanes; left; left = tw_other_lanes(left))`.
static inline uint32_t tw_other_lanes(uint32_t lanes)
{
    return lanes & (lanes - 1);
}

typedef uint32_t tw_u32_lanes __attribute__((vector_size(128), aligned(64)));
typedef int32_t tw_i32_lanes __attribute__((vector_size(128), aligned(64)));
typedef uint64_t tw_u64_lanes __attribute__((vector_size(256), aligned(64)));
typedef int64_t tw_i64_lanes __attribute__((vector_size(256), aligned(64)));

// The set of the lanes in which a comparison of 32-bit elements holds.
static inline uint32_t tw_where32(tw_i32_lanes holds)
{
#ifdef __clang__
    typedef _Bool bits __attribute__((ext_vector_type(32)));
    bits each = __builtin_convertvector(holds != 0, bits);
    uint32_t lanes;
    __builtin_memcpy(&lanes, &each, sizeof lanes);
#else
    uint32_t lanes = 0;
    for (int i = 0; i < 32; i++)
        lanes |= (uint32_t)(holds[i] != 0) << i;
#endif
    return lanes;
}

// The same for 64-bit elements.
static inline uint32_t tw_where64(tw_i64_lanes holds)
{
    return tw_where32(__builtin_convertvector(holds != 0, tw_i32_lanes));
}

static inline tw_u32_lanes tw_lane_numbers(void)
{
    return (tw_u32_lanes){0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
}

// The bits that are set in any element.
static inline uint32_t tw_union(tw_u32_lanes bits)
{
#ifdef __clang__
    return __builtin_reduce_or(bits);
#else
    uint32_t any = 0;
    for (int i = 0; i < 32; i++)
        any |= bits[i];
    return any;
#endif
}

// Each lane's element is that of the lane below it; the lowest keeps its own.
static inline tw_u64_lanes tw_lane_before(tw_u64_lanes v)
{
    return __builtin_shufflevector(v, v, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                   21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
}

// -1 in the lanes of a set, 0 in the others: a mask for `&`, and for `? :` of vectors.
static inline tw_i32_lanes tw_mask32(uint32_t lanes)
{
#ifdef __clang__
    typedef _Bool bits __attribute__((ext_vector_type(32)));
    bits each;
    __builtin_memcpy(&each, &lanes, sizeof lanes);
    return -__builtin_convertvector(each, tw_i32_lanes);
#else
    return ((lanes >> tw_lane_numbers()) & 1) != 0;
#endif
}

static inline tw_i64_lanes tw_mask64(uint32_t lanes)
{
    return __builtin_convertvector(tw_mask32(lanes), tw_i64_lanes);
}

#endif
