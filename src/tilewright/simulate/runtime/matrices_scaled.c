// Products by a warp with block scaling, in float32: D = (A scale_A) (B scale_B) + C.
//
// Scales are bytes. Those of row r of A are in lane 4 (r % 8) + r / 8, or two lanes further; those of a column of B in
// one of its four lanes. Source: PTX ISA, 9.7.14.3 (selectors); NVIDIA/cutlass, mma_traits_sm120.hpp (SFALayout,
// SFBLayout). How products are added: microsoft/MMA-Sim (2026), MMABlockScale. A product of 8-bit elements is aligned
// by the exponents of its factors and scales; 16 products of 4-bit elements are added exactly, and aligned by the
// scales'.

#include "fused_fours.h"
#include "instrument.h"
#include "products.h"
#include "runtime.h"
#include "sparsity.h"

enum {
    SCALED_ROWS = 16,
    TOGETHER = 16,       // products of 4 bits that are added exactly
    QUARTERS = -2,       // their unit, a power of two
    SCALED_MOST = 64,    // products of one result
    DENSE_A_WORDS = 8 * TW_LANES,
};

// The scales of a matrix, a word of each lane, and the selected byte and lane.
struct scales {
    const uint32_t *words;
    uint32_t byte;
    uint32_t lane;
};

struct scaled {
    const struct tw_tensor_rule *rule;
    const uint32_t *a;
    const uint32_t *b;
    const uint32_t *c;
    struct sparsity there;
    struct scales of_a;
    struct scales of_b;
    uint32_t a_format;
    uint32_t b_format;
    uint32_t bits;    // of an element
    uint32_t count;   // products of a result
    uint32_t blocks;  // of a row or column
    bool sparse;
    bool fractions;   // scales are UE4M3, else UE8M0
};

// After a matrix's scales come its selectors, byte and lane, of 16 bits; all lanes have the same.
static struct scales scales_at(const uint32_t *words)
{
    uint16_t byte, lane;
    __builtin_memcpy(&byte, words + TW_LANES, sizeof byte);
    __builtin_memcpy(&lane, words + TW_LANES + TW_LANES / 2, sizeof lane);
    return (struct scales){words, byte & 3u, lane & 3u};
}

static struct number scale_of(const struct scaled *s, const struct scales *of, uint32_t lane, uint32_t block)
{
    const uint32_t bits = of->words[lane] >> (of->byte + block) % 4 * 8 & 0xff;
    if (s->fractions)
        return decoded(format_of(TW_E4M3), bits & 0x7f);
    const int32_t exponent = (int32_t)bits - 127;
    return (struct number){1, exponent, exponent, bits == 0xff ? NOT_A_NUMBER : 0};
}

// An element as its format has it in a byte; one of 4 bits is in bits 2 to 5.
static uint32_t element_of(const uint32_t *words, uint32_t i, uint32_t bits)
{
    return part_of(*words, i % (32 / bits), bits) << (bits == 4 ? 2 : 0);
}

// The exact sum of products of 4-bit elements, in quarters. Only the exponents of their scales align it.
static struct number sum_together(const struct number *products)
{
    struct number sum = {0, 0, QUARTERS, 0};
    for (uint32_t i = 0; i < TOGETHER; i++)
        sum.significand += products[i].significand * ((int64_t)1 << (products[i].unit - QUARTERS));
    return sum;
}

// The lane of four to which a selector adds two has the scales of a row.
static struct number scale_of_a(const struct scaled *s, uint32_t row, uint32_t block)
{
    return scale_of(s, &s->of_a, row % 8 * 4 + row / 8 + (s->of_a.lane & 1) * 2, block);
}

static struct number scale_of_b(const struct scaled *s, uint32_t column, uint32_t block)
{
    return scale_of(s, &s->of_b, column * 4 + s->of_b.lane, block);
}

static void scaled_result(const struct scaled *s, uint32_t row, uint32_t column, uint32_t *results)
{
    ALIGNED struct number products[SCALED_MOST];
    ALIGNED struct number terms[SCALED_MOST + 1];
    const struct format of_a = format_of(s->a_format), of_b = format_of(s->b_format), of_c = format_of(F32_FORMAT);
    const uint32_t together = s->bits == 4 ? TOGETHER : 1, each = 32 / s->bits, word = word_of_result(row, column, 0);
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t at = s->sparse ? place_of(&s->there, row, i) : i;
        const uint32_t *x = s->a + row / 8 * TW_LANES + word_along(row, i, each, 2);
        const uint32_t *y = s->b + word_along(column, at, each, 1);
        products[i] = product_of(decoded(of_a, element_of(x, i, s->bits)), decoded(of_b, element_of(y, at, s->bits)));
    }
    uint32_t number = 0;
    for (uint32_t i = 0; i < s->count; i += together) {
        const uint32_t block = i * s->blocks / s->count;
        const struct number scale = product_of(scale_of_a(s, row, block), scale_of_b(s, column, block));
        terms[number++] = product_of(together > 1 ? sum_together(products + i) : products[i], scale);
    }
    terms[number++] = decoded(of_c, s->c[word]);
    results[word] = encoded(sum_of(terms, number, s->rule), of_c, (uint32_t)s->rule->kept, false);
}

// -- elements of 8 bits: scales are powers of two, by which elements are multiplied -----------------------------------

static int32_t exponent_or_unusable(struct number scale)
{
    const bool usable = !scale.special && scale.exponent <= MOST_SCALE && scale.exponent >= -MOST_SCALE;
    return usable ? scale.exponent : UNUSABLE_SCALE;
}

static void quick_bytes(const struct scaled *s, const uint32_t *dense, uint32_t k, uint32_t *results, uint32_t *left)
{
    ALIGNED struct fused_scales scales;
    for (uint32_t row = 0; row < SCALED_ROWS; row++)
        scales.of_a[row] = exponent_or_unusable(scale_of_a(s, row, 0));
    for (uint32_t column = 0; column < COLUMNS; column++)
        scales.of_b[column] = exponent_or_unusable(scale_of_b(s, column, 0));
    const struct fused_product p = {
        .rules = s->rule - s->a_format,
        .a_format = s->a_format,
        .b_format = s->b_format,
        .k = k,
        .group = k,
        .a = dense,
        .b = s->b,
        .c = s->c,
        .d = results,
        .scales = &scales,
    };
    tw_mma_fused(&p, left);
}

// -- elements of 4 bits ---------------------------------------------------------------------------------------------

static void read_scale(struct block_scales *to, uint32_t line, struct number scale)
{
    const int32_t exponent = exponent_or_unusable(scale);
    to->exponents[line] = scale.significand ? exponent : ZERO_EXPONENT;
    to->values[line] = exponent == UNUSABLE_SCALE ? 1.0f : (float)scale.significand * power_of_two(scale.unit);
}

static void quick_fours(const struct scaled *s, const uint32_t *dense, uint32_t *results, uint32_t *left)
{
    ALIGNED struct fours f = {.a = dense, .c = s->c, .d = results, .rule = s->rule, .terms = s->count / TOGETHER};
    f.apart = f.terms / s->blocks;
    f.chunks = s->sparse ? CHUNKS : CHUNKS / 2;
    for (uint32_t block = 0; block < s->blocks; block++) {
        for (uint32_t row = 0; row < SCALED_ROWS; row++)
            read_scale(&f.of_a[block], row, scale_of_a(s, row, block));
        for (uint32_t column = 0; column < COLUMNS; column++)
            read_scale(&f.of_b[block], column, scale_of_b(s, column, block));
    }
    unpack_columns(&f, s->b);
    for (uint32_t rows = 0; rows < ROW_GROUPS; rows++)
        left[rows] = rows_of_fours(&f, rows);
}

// `left` gets the results that need the plain form.
static void quick_scaled(const struct scaled *s, uint32_t *results, uint32_t *left)
{
    ALIGNED uint32_t dense[DENSE_A_WORDS];
    const uint32_t *a = s->a;
    if (s->sparse && !make_dense(dense, a, &s->there))
        return;
    if (s->sparse)
        a = dense;
    if (s->bits == 8)
        quick_bytes(s, a, s->there.k, results, left);
    else
        quick_fours(s, a, results, left);
}

// Sources are A, B, C, the metadata and selector if A is sparse, and then the scales and selectors of A and of B.
static struct scaled scaled_of(const struct tw_context *context, const uint32_t *sources, uint32_t a_format,
                               uint32_t b_format, uint32_t k, uint32_t bits, uint32_t blocks, bool fractions,
                               bool sparse)
{
    const uint32_t count = sparse ? k / 2 : k, in_scales = 2 * TW_LANES;
    const uint32_t *b = sources + SCALED_ROWS * count * bits / 32, *c = b + COLUMNS * k * bits / 32;
    const uint32_t *more = c + SCALED_ROWS * COLUMNS, *scales = more + (sparse ? 2 * TW_LANES : 0);
    return (struct scaled){
        .rule = context->tensor_rules + (bits == 4 ? TW_MXF4 : TW_MXF8F6F4),
        .a = sources,
        .b = b,
        .c = c,
        .there = {more, k, bits, sparse ? more[TW_LANES] : 0},
        .of_a = scales_at(scales),
        .of_b = scales_at(scales + in_scales),
        .a_format = a_format,
        .b_format = b_format,
        .bits = bits,
        .count = count,
        .blocks = blocks,
        .sparse = sparse,
        .fractions = fractions,
    };
}

void tw_mma_scaled(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                   uint32_t b_format, uint32_t k, uint32_t bits, uint32_t blocks, uint32_t fractions, uint32_t sparse)
{
    const struct scaled s =
        scaled_of(context, sources, a_format, b_format, k, bits, blocks, fractions != 0, sparse != 0);
    ALIGNED uint32_t left[ROW_GROUPS] = {~0u, ~0u, ~0u, ~0u};
    quick_scaled(&s, results, left);
    for (uint32_t at = take_left(left); at != NONE_LEFT; at = take_left(left))
        scaled_result(&s, at / COLUMNS, at % COLUMNS, results);
}
