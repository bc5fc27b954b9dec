// Products of 4-bit elements with scales, sixteen results at a time. The sum of 16 products, in quarters, is exact in
// float32, and so is that sum times the scales of its block. Terms keep 35 bits, so they are added as 64-bit integers.

#ifndef TILEWRIGHT_SIMT_FUSED_FOURS_H
#define TILEWRIGHT_SIMT_FUSED_FOURS_H

#include "fused.h"

enum {
    FOURS = 8,  // elements in a word
    FOUR_STEPS_MOST = 4,
    TERMS_MOST = 4,  // of a result, C aside
    BLOCKS_MOST = 4,
    MOST_TERM = 110,  // exponent of scales; a term is up to 2^12 times as large
};

// The scales of one block of each row or column. A zero has the exponent ZERO_EXPONENT, and a scale that needs the
// plain form UNUSABLE_SCALE.
struct block_scales
{
    float values[16];
    int32_t exponents[16];
};

// A product of 16 rows and eight columns, and where its matrices are.
struct fours
{
    const uint32_t *a;  // with its zeros, if it is sparse
    const uint32_t *c;
    uint32_t *d;
    const struct tw_tensor_rule *rule;
    uint32_t terms;
    uint32_t chunks;  // that a term has
    uint32_t apart;   // terms of a block
    struct block_scales of_a[BLOCKS_MOST];
    struct block_scales of_b[BLOCKS_MOST];
    words columns[FOUR_STEPS_MOST][FOURS][2];  // of B: the even ones, and the odd ones
};

// Twice the elements at place `which` of sixteen words: 0, 1, 2, 3, 4, 6, 8 and 12 with their signs.
static inline words doubled_fours(words bits, uint32_t which)
{
    const words nibble = bits >> (which * 4), values = (words){0} + 0xc8643210u;
    const integers size = (integers)(values >> ((nibble & 7) * 4) & 15);
    return (words)__builtin_convertvector(size, floats) | (nibble & 8) << 28;
}

static inline void unpack_columns(struct fours *f, const uint32_t *b)
{
    const uint32_t steps = f->terms * f->chunks / CHUNKS;
    for (uint32_t step = 0; step < steps; step++, b += TW_LANES)
        for (uint32_t i = 0; i < FOURS; i++) {
            const words low = doubled_fours(words_at(b), i), high = doubled_fours(words_at(b + 16), i);
            f->columns[step][i][0] = COLUMNS_OF(0, low, high);
            f->columns[step][i][1] = COLUMNS_OF(1, low, high);
        }
}

#define FOURS_ADDED(k)                                                                                                 \
    {                                                                                                                  \
        floats *sum = sums[(step * CHUNKS + (k)) / f->chunks];                                                         \
        const floats x = (floats)OF_QUAD(a, k);                                                                        \
        sum[0] += x * (floats)four_from(&f->columns[step][i][0], k);                                                   \
        sum[1] += x * (floats)four_from(&f->columns[step][i][1], k);                                                   \
    }

// The sums of four rows, in quarters, of even columns and of odd ones.
static inline void sum_fours(const struct fours *f, uint32_t rows, floats (*sums)[2])
{
    const uint32_t *from = f->a + rows / 2 * TW_LANES + rows % 2 * 16, steps = f->terms * f->chunks / CHUNKS;
    for (uint32_t step = 0; step < steps; step++, from += 2 * TW_LANES)
        for (uint32_t i = 0; i < FOURS; i++) {
            const words a = doubled_fours(words_at(from), i);
            FOURS_ADDED(0) FOURS_ADDED(1) FOURS_ADDED(2) FOURS_ADDED(3)
        }
}

// Terms of sixteen results, and what they are aligned by.
struct terms
{
    floats values[TERMS_MOST + 1];
    integers largest;
};

static inline void scale_terms(const struct fours *f, uint32_t rows, uint32_t parity, floats (*sums)[2],
                               struct terms *t)
{
    for (uint32_t term = 0; term < f->terms; term++) {
        const struct block_scales *of_a = &f->of_a[term / f->apart], *of_b = &f->of_b[term / f->apart];
        floats factor = {0};
        integers exponents = {0};
        for (uint32_t lane = 0; lane < 16; lane++) {
            const uint32_t row = rows * 4 + lane / 4, column = lane % 4 * 2 + parity;
            factor[lane] = of_a->values[row] * of_b->values[column];
            exponents[lane] = of_a->exponents[row] + of_b->exponents[column];
        }
        exponents = chosen(exponents > MOST_TERM, (integers){0} + UNUSABLE_SCALE, exponents);
        t->values[term] = sums[term][parity] * factor * 0.25f;
        const integers counts = (sums[term][parity] != 0) | (exponents > MOST_QUICK);
        t->largest = greater(t->largest, chosen(counts, exponents, (integers){0} + ZERO_EXPONENT));
    }
}

// Add terms in units of 2^(largest - fraction).
static inline struct exact_sum sum_terms(const struct fours *f, const struct terms *t, int32_t least)
{
    const integers bounded = -greater(-greater(t->largest, (integers){0} + least), (integers){0} - MOST_QUICK);
    const half_integers low = __builtin_shufflevector(bounded, bounded, 0, 1, 2, 3, 4, 5, 6, 7);
    const half_integers high = __builtin_shufflevector(bounded, bounded, 8, 9, 10, 11, 12, 13, 14, 15);
    const doubles scales[2] = {
        (doubles)((1023 + f->rule->fraction - __builtin_convertvector(low, wide_integers)) << 52),
        (doubles)((1023 + f->rule->fraction - __builtin_convertvector(high, wide_integers)) << 52),
    };
    wide_integers units[2] = {{0}, {0}};
    for (uint32_t term = 0; term <= f->terms; term++) {
        const floats x = t->values[term];
        const half_floats left = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
        const half_floats right = __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
        units[0] += __builtin_convertvector(__builtin_convertvector(left, doubles) * scales[0], wide_integers);
        units[1] += __builtin_convertvector(__builtin_convertvector(right, doubles) * scales[1], wide_integers);
    }
    return (struct exact_sum){__builtin_convertvector(units[0], doubles), __builtin_convertvector(units[1], doubles)};
}

// Computes four rows. Returns the results that need the plain form, as `left` of `tw_mma_fused` has them.
static uint32_t rows_of_fours(const struct fours *f, uint32_t rows)
{
    const uint32_t at = rows / 2 * 2 * TW_LANES + rows % 2 * 16;
    const int32_t least = f->rule->fraction - 126;  // results below have fewer bits
    ALIGNED floats sums[TERMS_MOST][2] = {{{0}, {0}}};
    uint32_t left = 0;
    sum_fours(f, rows, sums);
    for (uint32_t parity = 0; parity < 2; parity++) {
        struct terms t;
        const words c = unpacked(words_at(f->c + at + parity * TW_LANES), format_of(F32_FORMAT), &t.largest);
        t.values[f->terms] = (floats)c;
        scale_terms(f, rows, parity, sums, &t);
        const words d = (words)result_of(sum_terms(f, &t, least), t.largest, f->rule, false);
        __builtin_memcpy(f->d + at + parity * TW_LANES, &d, sizeof d);
        left |= left_over(t.largest, least) << parity * 16;
    }
    return left;
}

#endif
