// Products by a warp with block scaling, in float32: D = (A scale_A) (B scale_B) + C.
//
// Scales are bytes. Those of row r of A are in lane 4 (r % 8) + r / 8, or two lanes further; those of a column of B in
// one of its four lanes. Source: PTX ISA, 9.7.14.3 (selectors); NVIDIA/cutlass, mma_traits_sm120.hpp (SFALayout,
// SFBLayout). How products are added: microsoft/MMA-Sim (2026), MMABlockScale. A product of 8-bit elements is aligned
// by the exponents of its factors and scales; 16 products of 4-bit elements are added exactly, and aligned by the
// scales'.

#include "instrument.h"
#include "products.h"
#include "runtime.h"
#include "sparsity.h"

enum {
    SCALED_ROWS = 16,
    TOGETHER = 16,       // products of 4 bits that are added exactly
    QUARTERS = -2,       // their unit, a power of two
    SCALED_MOST = 64,    // products of one result
    BLOCKS_MOST = 4,
};

// The scales of a matrix, a word of each lane, and the selected byte and lane.
struct scales {
    const uint32_t *words;
    uint32_t byte;
    uint32_t lane;
};

struct scaled {
    const struct tw_tensor_rule *rule;
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
static struct number together(const struct number *products)
{
    struct number sum = {0, 0, QUARTERS, 0};
    for (uint32_t i = 0; i < TOGETHER; i++)
        sum.significand += products[i].significand * ((int64_t)1 << (products[i].unit - QUARTERS));
    return sum;
}

static uint32_t scaled_result(const struct scaled *s, const struct number *products, uint32_t row, uint32_t column,
                              uint32_t c)
{
    ALIGNED struct number terms[SCALED_MOST + 1];
    ALIGNED struct number scales[BLOCKS_MOST];
    const uint32_t each = s->bits == 4 ? TOGETHER : 1, lane = row % 8 * 4 + row / 8 + (s->of_a.lane & 1) * 2;
    uint32_t number = 0;
    for (uint32_t block = 0; block < s->blocks; block++)
        scales[block] = product_of(scale_of(s, &s->of_a, lane, block),
                                   scale_of(s, &s->of_b, column * 4 + s->of_b.lane, block));
    for (uint32_t i = 0; i < s->count; i += each) {
        const struct number sum = each > 1 ? together(products + i) : products[i];
        terms[number++] = product_of(sum, scales[i * s->blocks / s->count]);
    }
    const struct format format = format_of(F32_FORMAT);
    terms[number++] = decoded(format, c);
    return encoded(sum_of(terms, number, s->rule), format, (uint32_t)s->rule->kept, false);
}

// Sources are A, B, C, the metadata and selector if A is sparse, and then the scales and selectors of A and of B.
void tw_mma_scaled(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                   uint32_t b_format, uint32_t k, uint32_t bits, uint32_t blocks, uint32_t fractions, uint32_t sparse)
{
    const uint32_t count = sparse ? k / 2 : k, in_scales = 2 * TW_LANES;
    const uint32_t *b = sources + SCALED_ROWS * count * bits / 32, *c = b + COLUMNS * k * bits / 32;
    const uint32_t *more = c + SCALED_ROWS * COLUMNS, *scales = more + (sparse ? 2 * TW_LANES : 0);
    const struct scaled s = {
        .rule = context->tensor_rules + (bits == 4 ? TW_MXF4 : TW_MXF8F6F4),
        .there = {more, k, bits, sparse ? more[TW_LANES] : 0},
        .of_a = scales_at(scales),
        .of_b = scales_at(scales + in_scales),
        .a_format = a_format,
        .b_format = b_format,
        .bits = bits,
        .count = count,
        .blocks = blocks,
        .sparse = sparse != 0,
        .fractions = fractions != 0,
    };
    const struct format of_a = format_of(a_format), of_b = format_of(b_format);
    ALIGNED struct number products[SCALED_MOST];
    for (uint32_t row = 0; row < SCALED_ROWS; row++)
        for (uint32_t column = 0; column < COLUMNS; column++) {
            for (uint32_t i = 0; i < count; i++) {
                const uint32_t at = s.sparse ? place_of(&s.there, row, i) : i, each = 32 / bits;
                const uint32_t *x = sources + row / 8 * TW_LANES + word_along(row, i, each, 2);
                const uint32_t *y = b + word_along(column, at, each, 1);
                products[i] = product_of(decoded(of_a, element_of(x, i, bits)), decoded(of_b, element_of(y, at, bits)));
            }
            const uint32_t word = word_of_result(row, column, 0);
            results[word] = scaled_result(&s, products, row, column, c[word]);
        }
}
