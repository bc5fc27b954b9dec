// Fused sums of products, sixteen results at a time, in float32 where that is exact.
//
// A product of two elements is exact in float32, and so is one scaled by a power of two: cutting it off below the
// fraction bits is a conversion to an integer. That fails where exponents come near the ends of float32, and where
// elements are infinite or no numbers: such results are left to the plain form (`products.h`).

#ifndef TILEWRIGHT_SIMT_FUSED_H
#define TILEWRIGHT_SIMT_FUSED_H

#include "fragments.h"
#include "instrument.h"
#include "lanes.h"
#include "products.h"

// Half a warp: lanes 0 to 15 hold rows 0 to 3 of a matrix, lanes 16 to 31 the next four.
typedef float floats __attribute__((vector_size(64), aligned(64)));
typedef int32_t integers __attribute__((vector_size(64), aligned(64)));
typedef uint32_t words __attribute__((vector_size(64), aligned(64)));
typedef int16_t shorts __attribute__((vector_size(64), aligned(64)));
typedef double doubles __attribute__((vector_size(64), aligned(64)));
typedef int64_t wide_integers __attribute__((vector_size(64), aligned(64)));
typedef int32_t half_integers __attribute__((vector_size(32), aligned(32)));
typedef float half_floats __attribute__((vector_size(32), aligned(32)));

enum {
    ZERO_EXPONENT = -2000,  // no sum with it is among others
    SPECIAL_EXPONENT = 10000,
    LEAST_QUICK = -101,  // exponents at which scaling stays within float32
    MOST_QUICK = 126,
    NO_TERMS = -1000,
    STEPS_MOST = 8,
    ROW_GROUPS = 4,  // of four rows each
    NONE_LEFT = 128,
    MOST_SCALE = 100,      // a power of two that keeps elements of 8 bits within float32
    UNUSABLE_SCALE = 5000,  // leaves its results to the plain form
};

// Braces of records are on their own lines: `ground/native/header.py`, which has no vectors, passes these over.

// Powers of two by which rows of A and columns of B are scaled.
struct fused_scales
{
    int32_t of_a[16];  // at most MOST_SCALE above or below 0, or UNUSABLE_SCALE
    int32_t of_b[COLUMNS];
};

// A product of 16 rows, eight columns and k up to 64, and where its matrices are.
struct fused_product
{
    const struct tw_tensor_rule *rules;
    uint32_t a_format;
    uint32_t b_format;
    uint32_t k;
    uint32_t group;  // products that are added at once
    bool half;       // C and D are float16
    const uint32_t *a;
    const uint32_t *b;
    const uint32_t *c;
    uint32_t *d;
    const struct fused_scales *scales;  // or null
};

// Each word of `left` gets the results of four rows that need the plain form: bits 0 to 15 are of even columns, 16 to
// 31 of odd. False, with nothing computed, if groups of products are not whole steps or the GPU adds them otherwise.
bool tw_mma_fused(const struct fused_product *p, uint32_t *left);

// Take one result from `left`, counted row by row; NONE_LEFT if there is none.
static inline uint32_t take_left(uint32_t *left)
{
    for (uint32_t rows = 0; rows < ROW_GROUPS; rows++)
        if (left[rows]) {
            const uint32_t bit = tw_first_lane(left[rows]), lane = bit % 16;
            left[rows] = tw_other_lanes(left[rows]);
            return (rows * 4 + lane / 4) * COLUMNS + lane % 4 * 2 + bit / 16;
        }
    return NONE_LEFT;
}

// Two elements of each lane's word, those in its low half and those in its high half: eight products of each result, or
// four where a word has one element. Values are bits of float32; exponents are what they are aligned by, 16 bits each.
struct step
{
    words a_low[ROW_GROUPS];
    words a_high[ROW_GROUPS];
    words a_exponents[ROW_GROUPS];
    words b_low[2];  // columns of one parity: four for each of four k
    words b_high[2];
    words b_exponents[2];
};

static inline integers greater(integers x, integers y)
{
#ifdef __clang__
    return __builtin_elementwise_max(x, y);
#else
    const integers more = x > y;
    return (x & more) | (y & ~more);
#endif
}

static inline shorts greater16(shorts x, shorts y)
{
#ifdef __clang__
    return __builtin_elementwise_max(x, y);
#else
    const shorts more = x > y;
    return (x & more) | (y & ~more);
#endif
}

static inline shorts chosen16(shorts where, int16_t x, shorts y)
{
    return (where & x) | (y & ~where);
}

static inline integers chosen(integers where, integers x, integers y)
{
    return (x & where) | (y & ~where);
}

static inline float power_of_two(int32_t exponent)
{
    return float_of((uint32_t)(exponent + 127) << 23);
}

// Elements that are the lowest bits of sixteen words.
TW_INLINE static inline words unpacked(words given, struct format format, integers *exponents)
{
    const uint32_t width = format.exponent_bits + format.fraction_bits, most = (1u << width) - 1;
    const words bits = given >> format.unused;
    const words magnitude = bits & most;
    const uint32_t special = format.specials == ONE_NAN ? most : most & ~((1u << format.fraction_bits) - 1);
    const integers fields = (integers)(magnitude >> format.fraction_bits);
    integers found = greater(fields, (integers){0} + 1) - format.bias;
    found = chosen((integers)(magnitude == 0), (integers){0} + ZERO_EXPONENT, found);
    *exponents = chosen((integers)(magnitude >= special), (integers){0} + SPECIAL_EXPONENT, found);
    const floats size = (floats)(magnitude << (23 - format.fraction_bits)) * power_of_two(127 - format.bias);
    return (words)size | (bits >> width & 1) << 31;
}

// The values of sixteen elements whose lowest bit is that of the words, with what is above them.
TW_INLINE static inline words values_of(words bits, struct format format)
{
    const uint32_t width = format.exponent_bits + format.fraction_bits;
    const words magnitude = bits & ((1u << width) - 1);
    const floats size = (floats)(magnitude << (23 - format.fraction_bits)) * power_of_two(127 - format.bias);
    return (words)size | (bits << (31 - width) & 1u << 31);
}

// Two elements of each word, which have 16 bits of it each.
struct pair
{
    words low;
    words high;
    words exponents;
};

TW_INLINE static inline struct pair unpacked_pair(words bits, struct format format)
{
    const uint32_t width = format.exponent_bits + format.fraction_bits;
    const int16_t most = (int16_t)((1 << width) - 1);
    const int16_t infinity = (int16_t)(most >> format.fraction_bits << format.fraction_bits);
    const int16_t special = format.specials == ONE_NAN ? most : format.specials ? infinity : INT16_MAX;
    const shorts magnitude = (shorts)bits & most;
    shorts exponents = greater16(magnitude >> (int16_t)format.fraction_bits, (shorts){0} + 1) - (int16_t)format.bias;
    exponents = chosen16(magnitude == 0, ZERO_EXPONENT, exponents);
    exponents = chosen16(magnitude >= special, SPECIAL_EXPONENT, exponents);
    return (struct pair){values_of(bits, format), values_of(bits >> 16, format), (words)exponents};
}

// One element of each word.
TW_INLINE static inline struct pair unpacked_single(words bits, struct format format)
{
    integers exponents;
    const words values = unpacked(bits, format, &exponents);
    const words none = (words){0} + ((uint32_t)ZERO_EXPONENT << 16);
    return (struct pair){values, (words){0}, none | ((words)exponents & 0xffff)};
}

// From two vectors of lanes, column times four plus k: the columns of parity p, four for each k.
#define COLUMNS_OF(p, low, high)                                                                                       \
    __builtin_shufflevector(low, high, 4 * (p), 4 * (p) + 8, 4 * (p) + 16, 4 * (p) + 24, 4 * (p) + 1, 4 * (p) + 9,     \
                            4 * (p) + 17, 4 * (p) + 25, 4 * (p) + 2, 4 * (p) + 10, 4 * (p) + 18, 4 * (p) + 26,         \
                            4 * (p) + 3, 4 * (p) + 11, 4 * (p) + 19, 4 * (p) + 27)
// Each lane gets what lane k among its four has.
#define OF_QUAD(v, k)                                                                                                  \
    __builtin_shufflevector(v, v, k, k, k, k, k + 4, k + 4, k + 4, k + 4, k + 8, k + 8, k + 8, k + 8, k + 12, k + 12,  \
                            k + 12, k + 12)

static inline words words_at(const uint32_t *place)
{
    words found;
    __builtin_memcpy(&found, place, sizeof found);
    return found;
}

// The four elements from place 4 k on, for each four lanes.
static inline words four_from(const words *v, uint32_t k)
{
    typedef uint32_t four __attribute__((vector_size(16), aligned(16)));
    const four x = ((const four *)v)[k];
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
}

// The same of pairs of 16 bits.
static inline shorts four_pairs_from(const words *v, uint32_t k)
{
    typedef int16_t eight __attribute__((vector_size(16), aligned(16)));
    const eight x = ((const eight *)v)[k];
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1,
                                   2, 3, 4, 5, 6, 7);
}

// Elements of the words of four chunks: all, or of four in a word the first and third, or the others.
TW_INLINE static inline struct pair unpacked_words(const uint32_t *place, struct format format, uint32_t shift,
                                                   bool single)
{
    const uint32_t width = format.exponent_bits + format.fraction_bits;
    const words bits = words_at(place);
    if (single)
        return unpacked_single(bits, format);
    return unpacked_pair(width <= 7 ? bits >> (shift + format.unused) & 0x00ff00ff : bits, format);
}

// `a` has two registers for four chunks, `b` one.
TW_INLINE static inline void unpack_step(struct step *step, const uint32_t *a, const uint32_t *b, struct format of_a,
                                         struct format of_b, uint32_t shift, bool single)
{
    for (uint32_t rows = 0; rows < ROW_GROUPS; rows++) {
        const struct pair x = unpacked_words(a + rows * 16, of_a, shift, single);
        step->a_low[rows] = x.low;
        step->a_high[rows] = x.high;
        step->a_exponents[rows] = x.exponents;
    }
    const struct pair left = unpacked_words(b, of_b, shift, single);
    const struct pair right = unpacked_words(b + 16, of_b, shift, single);
    step->b_low[0] = COLUMNS_OF(0, left.low, right.low);
    step->b_low[1] = COLUMNS_OF(1, left.low, right.low);
    step->b_high[0] = COLUMNS_OF(0, left.high, right.high);
    step->b_high[1] = COLUMNS_OF(1, left.high, right.high);
    step->b_exponents[0] = COLUMNS_OF(0, left.exponents, right.exponents);
    step->b_exponents[1] = COLUMNS_OF(1, left.exponents, right.exponents);
}

// What sixteen results are made of: C or the last group's result.
struct accumulator
{
    words value;
    integers exponents;
};

// A sum that is exact, in units of 2^(largest - fraction): lanes 0 to 7 and 8 to 15.
struct exact_sum
{
    doubles low;
    doubles high;
};

static inline void flush(struct exact_sum *sum, integers units)
{
    const half_integers low = __builtin_shufflevector(units, units, 0, 1, 2, 3, 4, 5, 6, 7);
    const half_integers high = __builtin_shufflevector(units, units, 8, 9, 10, 11, 12, 13, 14, 15);
    sum->low += __builtin_convertvector(low, doubles);
    sum->high += __builtin_convertvector(high, doubles);
}

#define WIDENED(k)                                                                                                     \
    {                                                                                                                  \
        const shorts a = (shorts)OF_QUAD(step->a_exponents[rows], k);                                                  \
        pairs[0] = greater16(pairs[0], a + four_pairs_from(&step->b_exponents[0], k));                                 \
        pairs[1] = greater16(pairs[1], a + four_pairs_from(&step->b_exponents[1], k));                                 \
    }
#define ADDED(of_a, of_b, k)                                                                                           \
    {                                                                                                                  \
        const floats a = (floats)OF_QUAD(step->of_a[rows], k);                                                         \
        units[0] += __builtin_convertvector(a * (floats)four_from(&step->of_b[0], k) * scale[0], integers);            \
        units[1] += __builtin_convertvector(a * (floats)four_from(&step->of_b[1], k) * scale[1], integers);            \
    }

// The largest exponents of the terms of four rows and all columns, the even ones and the odd ones.
static inline void find_largest(const struct step *steps, uint32_t count, uint32_t rows, const struct accumulator *c,
                                integers *largest)
{
    shorts pairs[2] = {(shorts){0} + 2 * ZERO_EXPONENT, (shorts){0} + 2 * ZERO_EXPONENT};
    for (const struct step *step = steps; step < steps + count; step++) {
        WIDENED(0) WIDENED(1) WIDENED(2) WIDENED(3)
    }
#pragma GCC unroll 2
    for (uint32_t parity = 0; parity < 2; parity++) {
        const integers low = (integers)pairs[parity] << 16 >> 16, high = (integers)pairs[parity] >> 16;
        largest[parity] = greater(greater(low, high), c[parity].exponents);
    }
}

// Add the products of some steps to the accumulators. Those of one step add up within 32 bits.
static inline void sum_steps(const struct step *steps, uint32_t count, uint32_t rows, int32_t fraction,
                             const struct accumulator *c, struct exact_sum *sums, const integers *largest)
{
    floats scale[2];
    integers units[2];
#pragma GCC unroll 2
    for (uint32_t parity = 0; parity < 2; parity++) {
        const integers least = {0}, bounded = greater(largest[parity], least + LEAST_QUICK);
        const integers within = -greater(-bounded, least - MOST_QUICK);
        scale[parity] = (floats)((fraction + 127 - within) << 23);
        units[parity] = __builtin_convertvector((floats)c[parity].value * scale[parity], integers);
        sums[parity] = (struct exact_sum){{0}, {0}};
    }
    for (const struct step *step = steps; step < steps + count; step++) {
        ADDED(a_low, b_low, 0) ADDED(a_low, b_low, 1) ADDED(a_low, b_low, 2) ADDED(a_low, b_low, 3)
        ADDED(a_high, b_high, 0) ADDED(a_high, b_high, 1) ADDED(a_high, b_high, 2) ADDED(a_high, b_high, 3)
        flush(&sums[0], units[0]);
        flush(&sums[1], units[1]);
        units[0] = units[1] = (integers){0};
    }
}

// The sum's value, where its exponent is within the quick ones.
static inline doubles scaled(doubles sum, half_integers largest, int32_t fraction)
{
    const wide_integers exponents = __builtin_convertvector(largest, wide_integers) + (1023 - fraction);
    return sum * (doubles)(exponents << 52 & INT64_MAX);  // with ZERO_EXPONENT the factor of 0 would be negative
}

static inline doubles cut_off(doubles x, int32_t kept)
{
    return (doubles)((wide_integers)x & ~(((int64_t)1 << (52 - kept)) - 1));
}

// To the nearest float16, even where it is no normal number; its sign is kept.
static inline doubles rounded_to_half(doubles x)
{
    const wide_integers bits = (wide_integers)x, fields = bits >> 52 & 0x7ff, least = (wide_integers){0} + (1023 - 14);
    const wide_integers more = fields > least;
    const wide_integers exponents = (fields & more) | (least & ~more);
    const doubles magic = (doubles)((exponents + 42) << 52 | (int64_t)1 << 51);
    const doubles rounded = (x + magic) - magic;
    return (doubles)((wide_integers)rounded | (bits & INT64_MIN));
}

static inline floats result_of(struct exact_sum sum, integers largest, const struct tw_tensor_rule *rule, bool half)
{
    const half_integers low = __builtin_shufflevector(largest, largest, 0, 1, 2, 3, 4, 5, 6, 7);
    const half_integers high = __builtin_shufflevector(largest, largest, 8, 9, 10, 11, 12, 13, 14, 15);
    doubles x = scaled(sum.low, low, rule->fraction), y = scaled(sum.high, high, rule->fraction);
    x = half ? rounded_to_half(x) : cut_off(x, rule->kept);
    y = half ? rounded_to_half(y) : cut_off(y, rule->kept);
    const half_floats a = __builtin_convertvector(x, half_floats), b = __builtin_convertvector(y, half_floats);
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// The bits of float16 values, which are in float32.
static inline words half_bits(floats x)
{
    const words bits = (words)x, magnitude = bits & 0x7fffffff;
    const integers small = __builtin_convertvector((floats)magnitude * power_of_two(24), integers);
    const words normal = (magnitude >> 13) - (112 << 10);
    const words found = (words)chosen((integers)(magnitude < (113u << 23)), small, (integers)normal);
    const words finite = (words)chosen((integers)(magnitude >= (143u << 23)), (integers){0} + 0x7c00, (integers)found);
    return finite | (bits >> 16 & 0x8000);
}

// The set of the lanes that the plain form has to do: sums with exponents that are not among the quick ones.
static inline uint32_t left_over(integers largest, int32_t least)
{
    const integers far = (largest > MOST_QUICK) | ((largest < least) & (largest > NO_TERMS));
#ifdef __clang__
    typedef _Bool bits __attribute__((ext_vector_type(16)));
    bits each = __builtin_convertvector(far != 0, bits);
    uint16_t lanes;
    __builtin_memcpy(&lanes, &each, sizeof lanes);
    return lanes;
#else
    uint32_t lanes = 0;
    for (int lane = 0; lane < 16; lane++)
        lanes |= (uint32_t)(far[lane] != 0) << lane;
    return lanes;
#endif
}

#endif
