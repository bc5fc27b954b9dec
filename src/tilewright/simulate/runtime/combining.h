// Combine elements of memory with others, one by one and atomically, because other host threads may do so too.
//
// Halves are converted with integers, because a processor without F16C has no instruction for it.
//
// Source: PTX ISA, 9.7.9.25.4.2 (cp.reduce.async.bulk: which operations there are of which types).

#ifndef TILEWRIGHT_SIMT_COMBINING_H
#define TILEWRIGHT_SIMT_COMBINING_H

#include <stdbool.h>

#include "products.h"
#include "records.h"

// A float32 with subnormals flushed to zeros of their sign.
static inline float tw_flushed(float x)
{
    return x > -0x1p-126f && x < 0x1p-126f ? float_of(float_bits(x) & 0x80000000u) : x;
}

// The float32 of a 16-bit float.
static inline float tw_widened(uint64_t bits, bool brain)
{
    return float_of(brain ? (uint32_t)bits << 16 : converted((uint16_t)bits, TW_F16, F32_FORMAT));
}

// The nearest 16-bit float, ties to even.
static inline uint16_t tw_narrowed(float x, bool brain)
{
    const uint32_t bits = float_bits(x);
    if (x != x)
        return 0x7fff;
    return (uint16_t)(brain ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : converted(bits, F32_FORMAT, TW_F16));
}

// The lesser of two floats, or the greater; a number wins over NaN, and -0 is below +0.
static inline float tw_extreme(float x, float y, bool greater)
{
    if (x != x || y != y)
        return x != x ? y : x;
    if (x == y)
        return ((float_bits(x) >> 31) != 0) != greater ? x : y;
    return (x < y) != greater ? x : y;
}

static inline uint64_t tw_floats(uint64_t x, uint64_t y, uint32_t operation, uint32_t type)
{
    if (type == TW_FLOAT64) {
        double a, b;
        __builtin_memcpy(&a, &x, sizeof a);
        __builtin_memcpy(&b, &y, sizeof b);
        a += b;
        __builtin_memcpy(&x, &a, sizeof x);
        return x;
    }
    if (type == TW_FLOAT32)
        return float_bits(tw_flushed(tw_flushed(float_of((uint32_t)x)) + tw_flushed(float_of((uint32_t)y))));
    const bool brain = type == TW_BFLOAT16;
    const float a = tw_widened(x, brain), b = tw_widened(y, brain);
    return tw_narrowed(operation == TW_ADD ? a + b : tw_extreme(a, b, operation == TW_MAX), brain);
}

static inline uint64_t tw_combined(uint64_t x, uint64_t y, uint32_t operation, uint32_t type)
{
    if (type >= TW_FLOAT16)
        return tw_floats(x, y, operation, type);
    const bool is_signed = type == TW_INT32 || type == TW_INT64;
    const int64_t a = type == TW_INT32 ? (int32_t)x : (int64_t)x, b = type == TW_INT32 ? (int32_t)y : (int64_t)y;
    const bool less = is_signed ? a < b : x < y;
    switch (operation) {
    case TW_ADD:
        return x + y;
    case TW_MIN:
        return less ? x : y;
    case TW_MAX:
        return less ? y : x;
    case TW_INC:
        return x >= y ? 0 : x + 1;
    case TW_DEC:
        return x == 0 || x > y ? y : x - 1;
    case TW_AND:
        return x & y;
    case TW_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

// Whether an operation exists for elements of a type.
static inline bool tw_combines(uint32_t operation, uint32_t type)
{
    const bool words = type == TW_UINT32 || type == TW_INT32, longs = type == TW_UINT64 || type == TW_INT64;
    const bool halves = type == TW_FLOAT16 || type == TW_BFLOAT16;
    if (operation == TW_ADD)
        return words || type == TW_UINT64 || halves || type == TW_FLOAT32 || type == TW_FLOAT64;
    if (operation == TW_MIN || operation == TW_MAX)
        return words || longs || halves;
    return operation == TW_INC || operation == TW_DEC ? type == TW_UINT32 : words || longs;
}

static inline uint32_t tw_element_bytes(uint32_t type)
{
    const bool wide = type == TW_FLOAT64 || type == TW_UINT64 || type == TW_INT64;
    return type == TW_FLOAT16 || type == TW_BFLOAT16 ? 2 : wide ? 8 : 4;
}

// Combine an element of memory with one of the same size.
static inline void tw_combine(char *memory, const char *other, uint32_t operation, uint32_t type)
{
    uint64_t added = 0;
    if (tw_element_bytes(type) == 2) {
        __builtin_memcpy(&added, other, sizeof(uint16_t));
        uint16_t *place = (uint16_t *)memory, old = __atomic_load_n(place, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(place, &old, (uint16_t)tw_combined(old, added, operation, type),
                                            false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    } else if (tw_element_bytes(type) == 4) {
        __builtin_memcpy(&added, other, sizeof(uint32_t));
        uint32_t *place = (uint32_t *)memory, old = __atomic_load_n(place, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(place, &old, (uint32_t)tw_combined(old, added, operation, type), false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    } else {
        __builtin_memcpy(&added, other, sizeof added);
        uint64_t *place = (uint64_t *)memory, old = __atomic_load_n(place, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(place, &old, tw_combined(old, added, operation, type), false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
}

#endif
