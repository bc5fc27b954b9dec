// Products of matrices of integers, bits and float64 by a warp, which are the same on every GPU: D = A B + C.

#include "fragments.h"
#include "instrument.h"
#include "runtime.h"

enum {
    MOST_ROWS = 16,
    MOST_K = 64,  // of elements of 4 bits
    SIGNED_A = 1,
    SIGNED_B = 2,
    SATURATE = 4,
};

typedef int32_t columns32 __attribute__((vector_size(32), aligned(32)));

static int32_t integer_of(uint32_t word, uint32_t which, uint32_t bits, bool is_signed)
{
    const int32_t value = (int32_t)part_of(word, which, bits);
    return is_signed && value >> (bits - 1) ? value - (1 << bits) : value;
}

static int32_t accumulated(int32_t c, int32_t sum, bool saturate)
{
    const int64_t exact = (int64_t)c + sum;
    if (!saturate)
        return (int32_t)exact;
    return exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : (int32_t)exact;
}

// Elements of 8 or 4 bits. `k` products fit 32 bits with ease.
void tw_mma_integer(const struct tw_context *context, int32_t *results, const uint32_t *sources, uint32_t rows,
                    uint32_t k, uint32_t bits, uint32_t flags)
{
    const uint32_t each = 32 / bits, apart = rows / 8;
    const uint32_t *b = sources + rows * k / each;
    const int32_t *c = (const int32_t *)(b + COLUMNS * k / each);
    columns32 of_b[MOST_K];
    for (uint32_t column = 0; column < COLUMNS; column++)
        for (uint32_t i = 0; i < k; i++)
            of_b[i][column] = integer_of(b[word_along(column, i, each, 1)], i % each, bits, flags & SIGNED_B);
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t *a = sources + row / 8 * TW_LANES;
        columns32 sum = {0};
        for (uint32_t i = 0; i < k; i++)
            sum += integer_of(a[word_along(row, i, each, apart)], i % each, bits, flags & SIGNED_A) * of_b[i];
        for (uint32_t column = 0; column < COLUMNS; column++) {
            const uint32_t at = word_of_result(row, column, 0);
            results[at] = accumulated(c[at], sum[column], flags & SATURATE);
        }
    }
}

// Single bits: how many are alike in both of a row and a column (`and`), or differ.
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

// float64: fused multiply-adds in ascending k, from C on.
void tw_mma_double(const struct tw_context *context, double *results, const double *sources, uint32_t rows, uint32_t k)
{
    const uint32_t apart = rows / 8;
    const double *b = sources + rows * k, *c = b + COLUMNS * k;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < COLUMNS; column++) {
            const uint32_t at = word_of_result(row, column, 0);
            double sum = c[at];
            for (uint32_t i = 0; i < k; i++)
                sum = __builtin_fma(sources[row / 8 * TW_LANES + word_along(row, i, 1, apart)],
                                    b[word_along(column, i, 1, 1)], sum);
            results[at] = sum == sum ? sum : __builtin_nan("0xfffffffffffff");
        }
}
