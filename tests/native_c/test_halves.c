// Conversions of 16-bit floats, against those of the compiler's own library where it has the type.

#include <math.h>
#include <string.h>

#include "check.h"
#include "ground/native/halves.c"

static uint32_t state = 1;

static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

#ifdef __FLT16_MAX__

static void check_half(double x)
{
    uint16_t ours = tw_double_to_half(x), theirs;
    _Float16 y = (_Float16)x;
    memcpy(&theirs, &y, sizeof y);
    CHECK(ours == theirs || (isnan(x) && (ours & 0x7e00) == 0x7e00));
    if ((double)(float)x == x)
        CHECK(tw_float_to_half((float)x) == ours);
}

static void halves_agree(void)
{
    for (uint32_t i = 0; i < 1u << 16; i++) {
        uint16_t bits = (uint16_t)i;
        _Float16 half;
        memcpy(&half, &bits, sizeof half);
        float ours = tw_half_to_float(bits), theirs = (float)half;
        CHECK(isnan(theirs) ? isnan(ours) : float_bits(ours) == float_bits(theirs));
        double next = fabs(theirs) < 65504 ? (double)theirs * (1 + 0x1p-11) : theirs;
        double near[] = {theirs, next, nextafter(next, 0), nextafter(next, INFINITY), next * (1 + 0x1p-29)};
        for (uint32_t k = 0; k < sizeof near / sizeof *near; k++)
            check_half(near[k]);
    }
    for (int i = 0; i < 1000000; i++) {
        uint64_t bits = (uint64_t)random_bits() << 32 | random_bits();
        double x;
        memcpy(&x, &bits, sizeof x);
        check_half(x);
        check_half(ldexp((double)random_bits() - 0x1p31, -(int)(random_bits() % 64)));
    }
}

#else

static void halves_agree(void)
{
}

#endif

// The nearer of the two neighbours, ties to even.
static uint16_t nearest_bfloat(float x)
{
    uint32_t bits = float_bits(x), low = bits & 0xffff0000u;
    double below = float_of(low), size = x, step = fabs((double)float_of(low + 0x10000u) - below);
    if (((low + 0x10000u) & 0x7fffffff) == 0x7f800000)
        step = 0x1p120;
    double rest = fabs(size - below);
    bool up = rest > step / 2 || (rest == step / 2 && (low & 0x10000u));
    return (uint16_t)((low + (up ? 0x10000u : 0)) >> 16);
}

static void bfloats_agree(void)
{
    for (int i = 0; i < 1000000; i++) {
        uint32_t bits = i % 3 ? random_bits() : (random_bits() & 0xffff0000u) | 0x8000;
        float x = float_of(bits);
        uint16_t ours = tw_float_to_bfloat(x);
        CHECK(isnan(x) ? (ours & 0x7fc0) == 0x7fc0 : ours == (isinf(x) ? bits >> 16 : nearest_bfloat(x)));
        CHECK(tw_double_to_bfloat(x) == ours);
    }
    CHECK(tw_double_to_bfloat(1 + 0x1p-8) == 0x3f80);
    CHECK(tw_double_to_bfloat(1 + 0x1p-8 + 0x1p-40) == 0x3f81);  // lost if rounded to a float first
}

int main(void)
{
    halves_agree();
    bfloats_agree();
    return 0;
}
