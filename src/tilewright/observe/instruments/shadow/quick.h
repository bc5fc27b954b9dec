// Vectors of eight cells, and sets of them, a bit each, for the quick tests of a whole warp's accesses.

#ifndef TILEWRIGHT_SHADOW_QUICK_H
#define TILEWRIGHT_SHADOW_QUICK_H

#include "judgement.h"

typedef uint64_t cells __attribute__((vector_size(64), aligned(64)));
typedef int64_t cells_hold __attribute__((vector_size(64), aligned(64)));
typedef uint32_t cells_low __attribute__((vector_size(32), aligned(32)));

#define ALL_CELLS 255u

// The set of the cells in which a comparison holds.
static inline uint32_t where(cells_hold holds)
{
#ifdef __clang__
    typedef _Bool bits __attribute__((ext_vector_type(8)));
    bits each = __builtin_convertvector(holds != 0, bits);
    uint8_t set;
    __builtin_memcpy(&set, &each, sizeof set);
    return set;
#else
    uint32_t set = 0;
    for (int i = 0; i < 8; i++)
        set |= (uint32_t)(holds[i] != 0) << i;
    return set;
#endif
}

// `a` in the cells of a set, `b` in the others.
static inline cells choose(uint32_t set, cells a, cells b)
{
#ifdef __clang__
    typedef _Bool bits __attribute__((ext_vector_type(8)));
    bits each;
    uint8_t low = (uint8_t)set;
    __builtin_memcpy(&each, &low, sizeof low);
    cells mask = (cells)-__builtin_convertvector(each, cells_hold);
#else
    cells mask = (cells)(((set >> (cells){0, 1, 2, 3, 4, 5, 6, 7}) & 1) != 0);
#endif
    return (a & mask) | (b & ~mask);
}

static inline cells load(const uint64_t *from)
{
    cells all;
    __builtin_memcpy(&all, from, sizeof all);
    return all;
}

static inline void store(uint64_t *to, cells all)
{
    __builtin_memcpy(to, &all, sizeof all);
}

#endif
