// The bits of a float32, and the float32 of bits.

#ifndef TILEWRIGHT_NATIVE_FLOATS_H
#define TILEWRIGHT_NATIVE_FLOATS_H

#include <stdint.h>

static inline uint32_t float_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
