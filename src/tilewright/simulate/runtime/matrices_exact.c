// Products of matrices of integers, bits and float64 by a warp, which are the same on every GPU: D = A B + C.

#include "fused.h"
#include "instrument.h"
#include "runtime.h"

enum {
    INTEGER_STEPS_MOST = 32,
    SIGNED_A = 1,
    SIGNED_B = 2,
    SATURATE = 4,
};

// Element `which` of each of sixteen words.
static inline words integers_of(words bits, uint32_t which, uint32_t width, bool is_signed)
{
    const words left = bits << (32 - (which + 1) * width);
    return is_signed ? (words)((integers)left >> (int32_t)(32 - width)) : left >> (32 - width);
}

static inline words accumulated(words c, words sum, bool saturate)
{
    const words wrapped = c + sum;
    const integers overflows = (integers)((c ^ wrapped) & (sum ^ wrapped)) < 0;
    const integers most = (integers)c >> 31 ^ INT32_MAX;
    return saturate ? (words)chosen(overflows, most, (integers)wrapped) : wrapped;
}

#define MULTIPLIED(place)                                                                                              \
    {                                                                                                                  \
        const words x = OF_QUAD(of_a, place);                                                                          \
        even += x * four_from(&of_b[step][0], place);                                                                  \
        odd += x * four_from(&of_b[step][1], place);                                                                   \
    }

// Elements of 8 or 4 bits, four rows at a time. The sum of `k` products fits 32 bits.
void tw_mma_integer(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                    uint32_t k, uint32_t bits, uint32_t flags)
{
    const uint32_t each = 32 / bits, apart = rows / 8, steps = k / CHUNKS;
    const uint32_t *b = sources + rows * k / each, *c = b + COLUMNS * k / each;
    words of_b[INTEGER_STEPS_MOST][2];
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t *at = b + step / each * TW_LANES;
        const words low = integers_of(words_at(at), step % each, bits, flags & SIGNED_B);
        const words high = integers_of(words_at(at + 16), step % each, bits, flags & SIGNED_B);
        of_b[step][0] = COLUMNS_OF(0, low, high);
        of_b[step][1] = COLUMNS_OF(1, low, high);
    }
    for (uint32_t group = 0; group < rows / 4; group++) {
        const uint32_t half = group % 2 * 16, lower = group / 2, at = lower * 2 * TW_LANES + half;
        words even = {0}, odd = {0};
        for (uint32_t step = 0; step < steps; step++) {
            const words found = words_at(sources + (step / each * apart + lower) * TW_LANES + half);
            const words of_a = integers_of(found, step % each, bits, flags & SIGNED_A);
            MULTIPLIED(0) MULTIPLIED(1) MULTIPLIED(2) MULTIPLIED(3)
        }
        even = accumulated(words_at(c + at), even, flags & SATURATE);
        odd = accumulated(words_at(c + at + TW_LANES), odd, flags & SATURATE);
        __builtin_memcpy(results + at, &even, sizeof even);
        __builtin_memcpy(results + at + TW_LANES, &odd, sizeof odd);
    }
}

// Single bits: adds how many are set in both row and column (`both`: .and.popc), or in one of them (.xor.popc).
void tw_mma_bits(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                 uint32_t k, uint32_t both)
{
    const uint32_t words = k / 32, apart = rows / 8;
    const uint32_t *b = sources + rows * words, *c = b + COLUMNS * words;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < COLUMNS; column++) {
            const uint32_t at = word_of_result(row, column, 0);
            uint32_t sum = c[at];
            for (uint32_t i = 0; i < words; i++) {
                const uint32_t x = sources[row / 8 * TW_LANES + word_along(row, i, 1, apart)];
                const uint32_t y = b[word_along(column, i, 1, 1)];
                sum += (uint32_t)__builtin_popcount(both ? x & y : x ^ y);
            }
            results[at] = sum;
        }
}

// Rounding as C numbers its modes (FLT_ROUNDS): to zero, to nearest, up, down.
#ifdef __clang__
#define ROUND_AS(mode) __builtin_set_flt_rounds(mode)
#else
#include <fenv.h>
#define ROUND_AS(mode) fesetround((const int[]){FE_TOWARDZERO, FE_TONEAREST, FE_UPWARD, FE_DOWNWARD}[mode])
#endif

// float64: fused multiply-adds from C on, k ascending, rounded by `mode` (its number in FLT_ROUNDS). Not inlined: it
// switches the host's mode, and the code of callers counts on rounding to nearest.
__attribute__((noinline)) void tw_mma_double(const struct tw_context *context, double *results, const double *sources,
                                             uint32_t rows, uint32_t k, uint32_t mode)
{
#ifdef __clang__
#pragma STDC FENV_ACCESS ON
#endif
    const uint32_t apart = rows / 8;
    const double *b = sources + rows * k, *c = b + COLUMNS * k;
    ROUND_AS((int)mode);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < COLUMNS; column++) {
            const uint32_t at = word_of_result(row, column, 0);
            double sum = c[at];
            for (uint32_t i = 0; i < k; i++)
                sum = __builtin_fma(sources[row / 8 * TW_LANES + word_along(row, i, 1, apart)],
                                    b[word_along(column, i, 1, 1)], sum);
            results[at] = sum == sum ? sum : __builtin_nan("0xfffffffffffff");
        }
    ROUND_AS(1);
}
