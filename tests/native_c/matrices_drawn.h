// Random numbers of any format, and rules by which they are added.

#ifndef TILEWRIGHT_TESTS_MATRICES_DRAWN_H
#define TILEWRIGHT_TESTS_MATRICES_DRAWN_H

static uint64_t state = 1;

static uint32_t drawn(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

enum { NEAR, ANY, SPECIAL, SMALL, ZERO, STYLES };

// A number of a format: near others, of any exponent, sometimes special, or with small products, or zero.
static uint32_t element_drawn(uint32_t number, uint32_t style)
{
    const struct format format = format_of(number);
    const uint32_t width = format.exponent_bits + format.fraction_bits, sign = drawn() & 1;
    const uint32_t most = (1u << format.exponent_bits) - 1, fraction = drawn() & ((1u << format.fraction_bits) - 1);
    uint32_t field = drawn() % (most + (style == SPECIAL));
    if (style == NEAR)
        field = most / 2 + drawn() % 4;
    if (style == SMALL)
        field = most / 4 + drawn() % 3;
    if (style != NEAR && drawn() % 8 == 0)
        field = 0;
    if (style == ZERO)
        field = 0;
    const uint32_t kept = drawn() % 16 && style != ZERO ? fraction : 0;
    return (sign << width | field << format.fraction_bits | kept) << format.unused;
}

static void fill(uint32_t *words, uint32_t count, uint32_t format, uint32_t bits, uint32_t style)
{
    for (uint32_t i = 0; i < count; i++) {
        words[i] = 0;
        for (uint32_t at = 0; at < 32; at += bits)
            words[i] |= element_drawn(format, style) << at;
    }
}

static struct tw_context context_of(struct tw_tensor_rule *rules, uint32_t k, int32_t groups, int32_t fraction,
                                    int32_t kept)
{
    for (uint32_t i = 0; i < TW_RULES; i++)
        rules[i] = (struct tw_tensor_rule){TW_FUSED, (int32_t)k / groups, fraction, -126, kept};
    return (struct tw_context){.tensor_rules = rules};
}

#endif
