// Products of matrices: the quick form gives the bits of the plain one, which is right for infinities and NaNs too.

#include "check.h"

#include "simulate/runtime/matrices.c"

#include "simulate/runtime/matrices_exact.c"

#include "matrices_drawn.h"

enum { WORDS = 10 * TW_LANES, ROUNDS = 80 };

static void compare(uint32_t format, uint32_t partner, uint32_t k, bool half, int32_t groups, int32_t fraction,
                    int32_t kept)
{
    struct tw_tensor_rule rules[TW_RULES];
    const struct tw_context context = context_of(rules, k, groups, fraction, kept);
    const uint32_t bits = element_bits(format), a_words = ROWS * k * bits / 32, b_words = COLUMNS * k * bits / 32;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ALIGNED uint32_t sources[WORDS];
        ALIGNED uint32_t quick[4 * TW_LANES];
        ALIGNED uint32_t plain[4 * TW_LANES] = {0};
        ALIGNED uint32_t left[ROW_GROUPS];
        fill(sources, a_words, format, bits, round % STYLES);
        fill(sources + a_words, b_words, partner, bits, round % STYLES);
        fill(sources + a_words + b_words, half ? 64 : 128, half ? TW_F16 : F32_FORMAT, half ? 16 : 32, round % STYLES);
        tw_mma_float(&context, quick, sources, format, partner, k, half);
        const struct fused_product p = product_of_registers(rules, plain, sources, format, partner, k, half);
        CHECK(tw_mma_fused(&p, left));
        for (uint32_t at = 0; at < ROWS * COLUMNS; at++)
            plain_result(&p, at / COLUMNS, at % COLUMNS);
        CHECK(!__builtin_memcmp(quick, plain, (half ? 2u : 4u) * TW_LANES * sizeof *quick));
    }
}

static void test_quick_is_plain(void)
{
    for (int32_t fraction = 23; fraction <= 25; fraction++)
        for (int32_t groups = 1; groups <= 2; groups++) {
            compare(TW_F16, TW_F16, 16, false, groups, fraction, 23);
            compare(TW_F16, TW_F16, 16, true, groups, fraction, 23);
            compare(TW_BF16, TW_BF16, 16, false, groups, fraction, 23);
            compare(TW_TF32, TW_TF32, 8, false, groups, fraction, 23);
            compare(TW_E4M3, TW_E5M2, 32, false, groups, fraction, 23);
            compare(TW_E5M2, TW_E4M3, 32, true, groups, 13, 13);
            compare(TW_E4M3, TW_E4M3, 16, false, 1, 13, 13);
            compare(TW_F16, TW_F16, 8, true, 1, fraction, 23);
            compare(TW_TF32, TW_TF32, 4, false, 1, fraction, 23);
        }
}

static uint32_t sum_of_one(uint32_t a, uint32_t b, uint32_t c, bool half)
{
    struct tw_tensor_rule rules[TW_RULES];
    const struct tw_context context = context_of(rules, 8, 1, 24, 23);
    struct factors f;
    f.a_format = f.b_format = TW_F16;
    f.count = 1;
    f.a[0] = a;
    f.b[0] = b;
    return dot(context.tensor_rules, &f, c, half);
}

static void test_special_values(void)
{
    enum { ONE = 0x3c00, INFINITE = 0x7c00, NAN_BITS = 0x7e01, MINUS = 0x8000, NO_NUMBER = 0x7fffffff };
    CHECK(sum_of_one(ONE, ONE, 0, false) == 0x3f800000);
    CHECK(sum_of_one(INFINITE, ONE | MINUS, 0, false) == 0xff800000);
    CHECK(sum_of_one(INFINITE, 0, 0, false) == NO_NUMBER);
    CHECK(sum_of_one(0, INFINITE, 0, false) == NO_NUMBER);
    CHECK(sum_of_one(INFINITE, ONE, 0xff800000, false) == NO_NUMBER);
    CHECK(sum_of_one(NAN_BITS, 0, 0, true) == 0x7fff);
    CHECK(sum_of_one(ONE, ONE, 0xff800001, false) == NO_NUMBER);
    CHECK(sum_of_one(0x7bff, 0x7bff, 0, true) == INFINITE);            // 65504^2 overflows float16
    CHECK(sum_of_one(MINUS, ONE, 0x80000000, false) == 0);             // zeros have no sign
    CHECK(sum_of_one(ONE, 0x0001, 0, true) == 1);                      // subnormal numbers are kept
    CHECK(sum_of_one(ONE, ONE, 0x7f7fffff, false) == 0x7f7fffff);      // truncated, not rounded up to infinity
    CHECK(sum_of_one(ONE, ONE | MINUS, 0x3f800000, false) == 0);
}

static void test_integers_saturate_or_wrap(void)
{
    static const struct tw_context context;
    ALIGNED uint32_t sources[6 * TW_LANES];
    ALIGNED uint32_t results[4 * TW_LANES];
    for (uint32_t i = 0; i < 2 * TW_LANES; i++)
        sources[i] = 0x7f7f7f7f;
    for (uint32_t i = 2 * TW_LANES; i < 4 * TW_LANES; i++)
        sources[i] = 0x7ffffff0;
    tw_mma_integer(&context, results, sources, 8, 16, 8, SIGNED_A | SIGNED_B | SATURATE);
    CHECK(results[0] == INT32_MAX);
    tw_mma_integer(&context, results, sources, 8, 16, 8, SIGNED_A | SIGNED_B);
    CHECK(results[5] == 0x7ffffff0u + 16 * 127 * 127);
}

int main(void)
{
    test_quick_is_plain();
    test_special_values();
    test_integers_saturate_or_wrap();
    return 0;
}
