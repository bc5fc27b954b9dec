// Products of sparse matrices and of scaled ones: the quick form gives the bits of the plain one.

#include "check.h"

#include "simulate/runtime/matrices.c"
#include "simulate/runtime/matrices_exact.c"
#include "simulate/runtime/matrices_scaled.c"
#include "simulate/runtime/matrices_sparse.c"

#include "matrices_drawn.h"

enum { WORDS = 20 * TW_LANES, ROUNDS = 100 };

static uint32_t counted;  // results by the quick form

// Two elements of each chunk, in any order; of `once` one of them twice.
static void fill_metadata(uint32_t *metadata, uint32_t bits, bool once)
{
    for (uint32_t i = 0; i < TW_LANES; i++)
        for (uint32_t at = 0; at < 32; at += 4) {
            const uint32_t first = drawn() % 4, second = (first + 1 + drawn() % 3) % 4;
            metadata[i] = (at ? metadata[i] : 0) | (first | second << 2) << at;
        }
    for (uint32_t i = 0; i < TW_LANES && once && bits != 32; i++)
        metadata[i] &= ~15u;
    metadata[TW_LANES] = drawn() % 2;
}

static void compare_sparse(uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    struct tw_tensor_rule rules[TW_RULES];
    const bool half = flags & TW_SPARSE_HALF, whole = flags & TW_SPARSE_INTEGERS;
    context_of(rules, k / 2, 2, 25, 23);
    const struct tw_tensor_rule *base = a_format < TW_RULES ? rules : rules + TW_F8F6F4 - a_format;
    const uint32_t in_a = SPARSE_ROWS * k / 2 * bits / 32, in_b = COLUMNS * k * bits / 32, in_c = half ? 64 : 128;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ALIGNED uint32_t sources[WORDS];
        ALIGNED uint32_t quick[4 * TW_LANES] = {0};
        ALIGNED uint32_t plain[4 * TW_LANES] = {0};
        ALIGNED uint32_t left[ROW_GROUPS] = {~0u, ~0u, ~0u, ~0u};
        ALIGNED struct factors f = {a_format, b_format, k / 2, {0}, {0}};
        uint32_t *b = sources + in_a, *c = b + in_b, *metadata = c + in_c;
        for (uint32_t i = 0; i < in_a + in_b + in_c && whole; i++)
            sources[i] = drawn();
        if (!whole) {
            fill(sources, in_a, a_format, bits, round % STYLES);
            fill(b, in_b, b_format, bits, round % STYLES);
            fill(c, in_c, half ? TW_F16 : F32_FORMAT, half ? 16 : 32, round % STYLES);
        }
        fill_metadata(metadata, bits, round % 10 == 9);
        tw_mma_sparse_by_rules(base, quick, sources, a_format, b_format, k, bits, flags);
        const struct sparse s = {sources, b, c, {metadata, k, bits, metadata[TW_LANES]}, bits, flags};
        for (uint32_t at = 0; at < SPARSE_ROWS * COLUMNS; at++)
            sparse_result(base, &s, &f, at / COLUMNS, at % COLUMNS, plain);
        CHECK(!__builtin_memcmp(quick, plain, in_c * sizeof *quick));
        dense_results(base, &s, a_format, b_format, quick, left);
        counted += left[0] == 0;
        CHECK(round % 10 != 9 || bits == 32 || left[0] == ~0u);  // no such matrix exists
    }
}

static void test_quick_is_plain_where_a_is_sparse(void)
{
    counted = 0;
    compare_sparse(TW_F16, TW_F16, 32, 16, 0);
    compare_sparse(TW_F16, TW_F16, 32, 16, TW_SPARSE_HALF);
    compare_sparse(TW_BF16, TW_BF16, 16, 16, 0);
    compare_sparse(TW_TF32, TW_TF32, 16, 32, 0);
    compare_sparse(TW_E4M3, TW_E5M2, 64, 8, 0);
    compare_sparse(TW_E3M2, TW_E2M1, 64, 8, TW_SPARSE_HALF);
    CHECK(counted > 300);
    counted = 0;
    for (uint32_t flags = 0; flags < 8; flags++) {
        compare_sparse(0, 0, 64, 8, TW_SPARSE_INTEGERS | flags);
        compare_sparse(0, 0, 128, 4, TW_SPARSE_INTEGERS | flags);
    }
    CHECK(counted == 16 * ROUNDS * 9 / 10);
}

// Scales near 1, of any exponent, or among them zeros and NaNs.
static void fill_scales(uint32_t *scales, bool fractions, uint32_t style)
{
    for (uint32_t i = 0; i < TW_LANES; i++)
        for (uint32_t at = 0; at < 32; at += 8) {
            const uint32_t near = fractions ? 0x30 + drawn() % 16 : 120 + drawn() % 16;
            uint32_t bits = style == NEAR || style == ZERO ? near : drawn() & 0xff;
            if (style == SMALL)
                bits = fractions ? drawn() % 10 : 60 + drawn() % 16;
            scales[i] = (at ? scales[i] : 0) | bits << at;
        }
    scales[TW_LANES] = 0;
    scales[TW_LANES + TW_LANES / 2] = drawn() % 2;
}

static void compare_scaled(uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t blocks,
                           bool fractions, bool sparse)
{
    struct tw_tensor_rule rules[TW_RULES];
    const struct tw_context context = context_of(rules, 64, 1, bits == 4 ? 35 : 25, 23);
    const uint32_t in_a = SCALED_ROWS * k * bits / 32 / (sparse ? 2 : 1), in_b = COLUMNS * k * bits / 32, in_c = 128;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ALIGNED uint32_t sources[WORDS];
        ALIGNED uint32_t quick[4 * TW_LANES] = {0};
        ALIGNED uint32_t plain[4 * TW_LANES] = {0};
        ALIGNED uint32_t left[ROW_GROUPS] = {~0u, ~0u, ~0u, ~0u};
        uint32_t *b = sources + in_a, *c = b + in_b, *metadata = c + in_c, *scales = metadata;
        for (uint32_t i = 0; i < in_a + in_b; i++)
            sources[i] = drawn();
        for (uint32_t i = 0; i < in_a && round % STYLES == ZERO; i++)
            sources[i] = 0;
        if (bits == 8) {
            fill(sources, in_a, a_format, bits, round % STYLES);
            fill(b, in_b, b_format, bits, round % STYLES);
        }
        fill(c, in_c, F32_FORMAT, 32, round % STYLES);
        if (sparse) {
            fill_metadata(metadata, bits, round % 10 == 9);
            scales += 2 * TW_LANES;
        }
        fill_scales(scales, fractions, round % STYLES);
        fill_scales(scales + 2 * TW_LANES, fractions, round % STYLES);
        const struct scaled s = scaled_of(&context, sources, a_format, b_format, k, bits, blocks, fractions, sparse);
        tw_mma_scaled(&context, quick, sources, a_format, b_format, k, bits, blocks, fractions, sparse);
        for (uint32_t at = 0; at < SCALED_ROWS * COLUMNS; at++)
            scaled_result(&s, at / COLUMNS, at % COLUMNS, plain);
        CHECK(!__builtin_memcmp(quick, plain, sizeof quick));
        quick_scaled(&s, quick, left);
        counted += left[0] == 0;
    }
}

static void test_quick_is_plain_where_blocks_have_scales(void)
{
    counted = 0;
    for (uint32_t sparse = 0; sparse < 2; sparse++) {
        compare_scaled(TW_E4M3, TW_E5M2, 32 << sparse, 8, 1, false, sparse);
        compare_scaled(TW_E2M1, TW_E3M2, 32 << sparse, 8, 1, false, sparse);
        compare_scaled(TW_E2M1, TW_E2M1, 64 << sparse, 4, 2, false, sparse);
        compare_scaled(TW_E2M1, TW_E2M1, 64 << sparse, 4, 4, false, sparse);
        compare_scaled(TW_E2M1, TW_E2M1, 64 << sparse, 4, 4, true, sparse);
    }
    CHECK(counted > 300);
}

int main(void)
{
    test_quick_is_plain_where_a_is_sparse();
    test_quick_is_plain_where_blocks_have_scales();
    return 0;
}
