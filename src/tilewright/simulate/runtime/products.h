// Sums of products as tensor cores make them, one result at a time, in integers: the plain form, which says what all
// faster ones must give.
//
// Terms are products, and what is added to them. All are aligned to the largest exponent, cut off below the fraction
// bits of the GPU's rule, and added exactly. A product's exponent is the sum of its factors', as they are before it is
// normalised; a subnormal has the least exponent of its format. Source: arXiv 2511.10909, arXiv 2512.07004.

#ifndef TILEWRIGHT_SIMT_PRODUCTS_H
#define TILEWRIGHT_SIMT_PRODUCTS_H

#include <stdbool.h>

#include "ground/native/floats.h"
#include "records.h"

enum {
    F32_FORMAT = 99,  // of accumulators

    POSITIVE_INFINITY = 1,
    NEGATIVE_INFINITY = 2,
    NOT_A_NUMBER = 4,

    ALL_FINITE = 0,
    HAS_INFINITY = 1,  // the greatest exponent means infinity and NaNs
    ONE_NAN = 2,       // all ones are NaN, and there is no infinity
};

// How a format's bits are divided.
struct format {
    uint32_t exponent_bits;
    uint32_t fraction_bits;
    int32_t bias;
    uint32_t specials;
    uint32_t unused;  // lowest bits that do not count
};

static inline struct format format_of(uint32_t number)
{
    switch (number) {
    case TW_F16:
        return (struct format){5, 10, 15, HAS_INFINITY, 0};
    case TW_BF16:
        return (struct format){8, 7, 127, HAS_INFINITY, 0};
    case TW_TF32:
        return (struct format){8, 10, 127, HAS_INFINITY, 13};
    case TW_E4M3:
        return (struct format){4, 3, 7, ONE_NAN, 0};
    case TW_E5M2:
        return (struct format){5, 2, 15, HAS_INFINITY, 0};
    case TW_E3M2:
        return (struct format){3, 2, 3, ALL_FINITE, 0};
    case TW_E2M3:
        return (struct format){2, 3, 1, ALL_FINITE, 0};
    case TW_E2M1:  // amid its byte
        return (struct format){2, 1, 1, ALL_FINITE, 2};
    default:
        return (struct format){8, 23, 127, HAS_INFINITY, 0};
    }
}

// Arrays on the stack are on other addresses on each target, unless aligned explicitly.
#define ALIGNED __attribute__((aligned(64)))

// A number, significand * 2^unit; `exponent` is what it is aligned by.
struct number {
    int64_t significand;
    int32_t exponent;
    int32_t unit;
    uint32_t special;
};

static inline struct number decoded(struct format format, uint32_t bits)
{
    bits >>= format.unused;
    const uint32_t most = (1u << format.exponent_bits) - 1, below = (1u << format.fraction_bits) - 1;
    const uint32_t field = bits >> format.fraction_bits & most, fraction = bits & below;
    const bool negative = bits >> (format.exponent_bits + format.fraction_bits) & 1;
    uint32_t special = 0;
    if (field == most && format.specials == HAS_INFINITY)
        special = fraction ? NOT_A_NUMBER : negative ? NEGATIVE_INFINITY : POSITIVE_INFINITY;
    if (field == most && fraction == below && format.specials == ONE_NAN)
        special = NOT_A_NUMBER;
    const int64_t magnitude = field ? fraction | (below + 1) : fraction;
    const int32_t exponent = (int32_t)(field ? field : 1) - format.bias;
    const int32_t unit = exponent - (int32_t)format.fraction_bits;
    return (struct number){negative ? -magnitude : magnitude, exponent, unit, special};
}

static inline struct number product_of(struct number a, struct number b)
{
    struct number p = {a.significand * b.significand, a.exponent + b.exponent, a.unit + b.unit, 0};
    const uint32_t infinite = POSITIVE_INFINITY | NEGATIVE_INFINITY;
    if ((a.special | b.special) & NOT_A_NUMBER || (a.special && !b.special && !b.significand) ||
        (b.special && !a.special && !a.significand))
        p.special = NOT_A_NUMBER;
    else if ((a.special | b.special) & infinite)
        p.special = (a.significand < 0) != (b.significand < 0) ? NEGATIVE_INFINITY : POSITIVE_INFINITY;
    return p;
}

// What is added up so far: units * 2^unit, and the special values among the terms.
struct total {
    int64_t units;
    int32_t unit;
    uint32_t special;
};

// The part of a number that counts, in units of 2^unit: the rest is cut off towards zero.
static inline int64_t aligned(struct number x, int32_t unit)
{
    const int32_t up = x.unit - unit;
    if (!x.significand)  // whatever its exponent
        return 0;
    if (up >= 0)
        return x.significand * ((int64_t)1 << up);
    const int64_t magnitude = x.significand < 0 ? -x.significand : x.significand;
    const int64_t kept = up < -62 ? 0 : magnitude >> -up;
    return x.significand < 0 ? -kept : kept;
}

static inline struct total sum_of(const struct number *terms, uint32_t count, const struct tw_tensor_rule *rule)
{
    int32_t largest = rule->floor;
    for (uint32_t i = 0; i < count; i++)
        if (terms[i].significand && terms[i].exponent > largest)
            largest = terms[i].exponent;
    struct total sum = {0, largest - rule->fraction, 0};
    for (uint32_t i = 0; i < count; i++) {
        sum.special |= terms[i].special;
        if (!terms[i].special)
            sum.units += aligned(terms[i], sum.unit);
    }
    return sum;
}

// The exponent of a sum that is not 0.
static inline int32_t exponent_of(struct total sum)
{
    const uint64_t magnitude = (uint64_t)(sum.units < 0 ? -sum.units : sum.units);
    return sum.unit + 63 - (magnitude ? __builtin_clzll(magnitude) : 64);
}

// The bits of a sum in a format, of whose fraction bits so many are kept: cut off, or rounded to nearest even. An
// overflow gives infinity.
static inline uint32_t encoded(struct total sum, struct format format, uint32_t kept, bool nearest)
{
    const uint32_t sign = (uint32_t)(sum.units < 0) << (format.exponent_bits + format.fraction_bits);
    const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
    if (sum.special & NOT_A_NUMBER || sum.special == (POSITIVE_INFINITY | NEGATIVE_INFINITY))
        return (1u << (format.exponent_bits + format.fraction_bits)) - 1;
    if (sum.special)
        return infinity | (uint32_t)(sum.special == NEGATIVE_INFINITY) << (format.exponent_bits + format.fraction_bits);
    if (!sum.units)
        return 0;
    const int32_t least = 1 - format.bias;
    const int32_t exponent = exponent_of(sum) < least ? least : exponent_of(sum);
    const int32_t down = exponent - (int32_t)kept - sum.unit;
    uint64_t magnitude = (uint64_t)(sum.units < 0 ? -sum.units : sum.units);
    if (down > 62)
        magnitude = 0;
    else if (down > 0) {
        const uint64_t rest = magnitude & (((uint64_t)1 << down) - 1), half = (uint64_t)1 << (down - 1);
        magnitude >>= down;
        magnitude += nearest && (rest > half || (rest == half && magnitude & 1));
    } else
        magnitude <<= -down;
    const uint64_t bits = ((uint64_t)(exponent - least) << format.fraction_bits) +
                          (magnitude << (format.fraction_bits - kept));
    return sign | (bits >= infinity ? infinity : (uint32_t)bits);
}

enum {
    PRODUCTS_MOST = 256,  // of one result, sparse ones with their zeros
};

// A row of A and a column of B as they are, and what is known of them.
struct factors {
    uint32_t a_format;
    uint32_t b_format;
    uint32_t count;
    uint32_t a[PRODUCTS_MOST];
    uint32_t b[PRODUCTS_MOST];
};

static inline uint32_t in_groups(const struct tw_tensor_rule *rule, const struct factors *f, uint32_t c, bool half)
{
    const struct format of_a = format_of(f->a_format), of_b = format_of(f->b_format);
    const struct format of_c = format_of(half ? TW_F16 : F32_FORMAT);
    ALIGNED struct number terms[PRODUCTS_MOST + 1];
    for (uint32_t start = 0; start < f->count; start += (uint32_t)rule->group) {
        uint32_t number = 0;
        for (uint32_t i = start; i < f->count && number < (uint32_t)rule->group; i++)
            terms[number++] = product_of(decoded(of_a, f->a[i]), decoded(of_b, f->b[i]));
        terms[number++] = decoded(of_c, c);
        c = encoded(sum_of(terms, number, rule), of_c, half ? 10 : (uint32_t)rule->kept, half);
    }
    return c;
}

// The bits of a float; all NaNs are one.
static inline uint32_t bits_of(float x)
{
    return x == x ? float_bits(x) : 0x7fffffff;
}

// A number of any format in another one, cut off to it or rounded.
static inline uint32_t converted(uint32_t bits, uint32_t from, uint32_t to)
{
    const struct number x = decoded(format_of(from), bits);
    const struct format format = format_of(to);
    const uint32_t sign_bit = 1u << (format.exponent_bits + format.fraction_bits);
    const struct format before = format_of(from);
    const bool negative = bits >> (before.exponent_bits + before.fraction_bits + before.unused) & 1;
    if (!x.significand && !x.special)
        return negative ? sign_bit : 0;
    return encoded((struct total){x.significand, x.unit, x.special}, format, format.fraction_bits, true);
}

static inline float float_of_half(uint32_t bits)
{
    return float_of(converted(bits, TW_F16, F32_FORMAT));
}

// The sum of two numbers of the result's format, rounded to nearest.
static inline uint32_t added(uint32_t c, uint32_t x, bool half)
{
    if (!half)
        return bits_of(float_of(c) + float_of(x));
    if (!((c | x) & 0x7fff))
        return c & x;
    const struct format format = format_of(TW_F16);
    ALIGNED const struct number terms[2] = {decoded(format, c), decoded(format, x)};
    static const struct tw_tensor_rule exact = {.fraction = 40, .floor = -14};  // as wide as two float16 can be apart
    return encoded(sum_of(terms, 2, &exact), format, 10, true);
}

// Products of 8 bits as GPUs without such tensor cores make them: of every four the first two by an instruction of
// float16, the others by a second one.
static inline uint32_t by_halves(const struct tw_tensor_rule *rule, const struct factors *f, uint32_t c, bool half)
{
    ALIGNED struct factors part;
    uint32_t sum = 0;
    part.a_format = part.b_format = TW_F16;
    for (uint32_t second = 0; second < 2; second++) {
        part.count = 0;
        for (uint32_t i = 0; i < f->count; i++)
            if (i / 2 % 2 == second) {
                part.a[part.count] = converted(f->a[i], f->a_format, TW_F16);
                part.b[part.count++] = converted(f->b[i], f->b_format, TW_F16);
            }
        sum = in_groups(rule, &part, sum, half);
    }
    return added(c, sum, half);
}

// Four products of float16 as GPUs without such an instruction make them, in float32. `half`: the result is float16.
static inline uint32_t in_chain(const struct factors *f, float c, bool half)
{
    ALIGNED float a[4];
    ALIGNED float b[4];
    for (uint32_t i = 0; i < 4; i++) {
        a[i] = float_of_half(f->a[i]);
        b[i] = float_of_half(f->b[i]);
    }
    const float first = __builtin_fmaf(a[1], b[1], a[0] * b[0] + 0.0f);
    if (half)
        return converted(bits_of(c + first + __builtin_fmaf(a[3], b[3], a[2] * b[2])), F32_FORMAT, TW_F16);
    return bits_of(c + __builtin_fmaf(a[3], b[3], __builtin_fmaf(a[2], b[2], first)));
}

// c + a[0] b[0] + a[1] b[1] + ..., as the GPU adds them. `half`: c and the result are float16, else float32.
static inline uint32_t dot(const struct tw_tensor_rule *rules, const struct factors *f, uint32_t c, bool half)
{
    const struct tw_tensor_rule *rule = rules + f->a_format;
    return rule->way == TW_HALVES ? by_halves(rules + TW_F16, f, c, half) : in_groups(rule, f, c, half);
}

#endif
