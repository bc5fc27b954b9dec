// Conversions of 16-bit floats in integers; `halves.py` says where they are needed. They round once, to nearest and
// ties to even, and make NaNs quiet, as processors' instructions do.
//
// Source: IEEE 754-2019, 3.4 (formats: binary16 has a bias of 15 and 10 fraction bits, binary32 127 and 23) and 4.3.1;
// bfloat16 is binary32 with 7 fraction bits; LLVM's RuntimeLibcalls for the names.

#include <stdbool.h>
#include <stdint.h>

#include "floats.h"

// The bits of a half, shifted, are those of a float 2^112 times too small, subnormal or not. Infinities and NaNs get
// the exponent of the float's instead.
float tw_half_to_float(uint16_t half)
{
    uint32_t size = half & 0x7fffu;
    uint32_t bits = float_bits(float_of(size << 13) * 0x1p112f);
    if (size >= 0x7c00)
        bits = size << 13 | 0x7f800000 | (size & 0x3ff ? 0x400000 : 0);
    return float_of(bits | (half & 0x8000u) << 16);
}

// From 2^-14 up the exponent is lowered by 112 and the fraction rounded by an addition that carries into it; below,
// adding 0.5, whose last place is the half's, rounds.
uint16_t tw_float_to_half(float x)
{
    uint32_t bits = float_bits(x), size = bits & 0x7fffffff;
    uint32_t lower = size - (112u << 23);
    uint32_t half = (lower + 0xfff + (lower >> 13 & 1)) >> 13;
    if (size < 113u << 23)
        half = float_bits(float_of(size) + 0.5f) - float_bits(0.5f);
    if (size >= 143u << 23)
        half = 0x7c00;
    if (size > 255u << 23)
        half = 0x7e00 | (size >> 13 & 0x3ff);
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

uint16_t tw_float_to_bfloat(float x)
{
    uint32_t bits = float_bits(x);
    if ((bits & 0x7fffffff) > 255u << 23)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A float that is odd where it is inexact rounds to a 16-bit one as the double does.
static inline float to_odd(double x)
{
    float near = (float)x;
    double back = (double)near;
    bool inexact = back < x || back > x;
    bool above = __builtin_fabs(back) > __builtin_fabs(x);
    return float_of((float_bits(near) - above) | inexact);
}

uint16_t tw_double_to_half(double x)
{
    return tw_float_to_half(to_odd(x));
}

uint16_t tw_double_to_bfloat(double x)
{
    return tw_float_to_bfloat(to_odd(x));
}

#ifdef __clang__ // the names and types that LLVM calls; gcc 12 has no bfloat

float __extendhfsf2(_Float16 x)
{
    uint16_t half;
    __builtin_memcpy(&half, &x, sizeof half);
    return tw_half_to_float(half);
}

// A function of LLVM's name that gives the bits of a conversion above as their own type.
#define NARROWED(name, type, from, convert)                                                                            \
    type name(from x)                                                                                                  \
    {                                                                                                                  \
        uint16_t bits = convert(x);                                                                                    \
        type y;                                                                                                        \
        __builtin_memcpy(&y, &bits, sizeof y);                                                                         \
        return y;                                                                                                      \
    }

NARROWED(__truncsfhf2, _Float16, float, tw_float_to_half)
NARROWED(__truncdfhf2, _Float16, double, tw_double_to_half)
NARROWED(__truncsfbf2, __bf16, float, tw_float_to_bfloat)
NARROWED(__truncdfbf2, __bf16, double, tw_double_to_bfloat)

#endif
