// Products of matrices of floats by a warp: D = A B + C.

#include "fused.h"
#include "instrument.h"
#include "products.h"
#include "runtime.h"

void tw_mma_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t k, uint32_t half);

enum { ROWS = 16 };

static void plain_result(const struct fused_product *p, uint32_t row, uint32_t column)
{
    ALIGNED struct factors f;
    f.a_format = p->a_format;
    f.b_format = p->b_format;
    f.count = p->k;
    const uint32_t a_bits = element_bits(p->a_format), b_bits = element_bits(p->b_format);
    const uint32_t *a = p->a + row / 8 * TW_LANES;
    for (uint32_t k = 0; k < p->k; k++) {
        f.a[k] = part_of(a[word_along(row, k, 32 / a_bits, 2)], k % (32 / a_bits), a_bits);
        f.b[k] = part_of(p->b[word_along(column, k, 32 / b_bits, 1)], k % (32 / b_bits), b_bits);
    }
    const uint32_t at = word_of_result(row, column, p->half), shift = p->half ? column % 2 * 16 : 0;
    const uint32_t mask = p->half ? 0xffffu : ~0u;
    const uint32_t result = dot(p->rules, &f, p->c[at] >> shift & mask, p->half);
    p->d[at] = (p->d[at] & ~(mask << shift)) | result << shift;
}

static inline void scale_part(words *low, words *high, words *exponents, integers scales)
{
    const floats factor = (floats)((scales + 127) << 23);
    *low = (words)((floats)*low * factor);
    *high = (words)((floats)*high * factor);
    *exponents = (words)((shorts)*exponents + (shorts)(((words)scales & 0xffff) | (words)scales << 16));
}

static void scale_step(struct step *step, const struct fused_scales *scales)
{
    for (uint32_t rows = 0; rows < ROW_GROUPS; rows++) {
        integers of_a = {0};
        for (uint32_t lane = 0; lane < 16; lane++)
            of_a[lane] = scales->of_a[rows * 4 + lane / 4];
        scale_part(&step->a_low[rows], &step->a_high[rows], &step->a_exponents[rows], of_a);
    }
    for (uint32_t parity = 0; parity < 2; parity++) {
        integers of_b = {0};
        for (uint32_t lane = 0; lane < 16; lane++)
            of_b[lane] = scales->of_b[lane % 4 * 2 + parity];
        scale_part(&step->b_low[parity], &step->b_high[parity], &step->b_exponents[parity], of_b);
    }
}

// Computes four rows. Returns the results that need the plain form: bits 0 to 15 are of even columns, 16 to 31 of odd.
TW_INLINE static inline uint32_t quick_rows(const struct fused_product *p, const struct step *steps, uint32_t count,
                                            uint32_t group, uint32_t rows, bool half)
{
    const struct tw_tensor_rule *rule = p->rules + p->a_format;
    const struct format of_c = format_of(half ? TW_F16 : F32_FORMAT);
    const uint32_t at = half ? rows * 16 : rows / 2 * 2 * TW_LANES + rows % 2 * 16, apart = half ? 0 : TW_LANES;
    words bits[2] = {words_at(p->c + at), words_at(p->c + at + apart)};
    if (half)
        bits[1] >>= 16;
    uint32_t left = 0;
    for (uint32_t from = 0; from < count; from += group) {
        const uint32_t number = from + group < count ? group : count - from;
        struct accumulator c[2];
        struct exact_sum sums[2];
        integers largest[2];
#pragma GCC unroll 2
        for (uint32_t parity = 0; parity < 2; parity++)
            c[parity].value = unpacked(bits[parity], of_c, &c[parity].exponents);
        find_largest(steps + from, number, rows, c, largest);
        sum_steps(steps + from, number, rows, rule->fraction, c, sums, largest);
#pragma GCC unroll 2
        for (uint32_t parity = 0; parity < 2; parity++) {
            left |= left_over(largest[parity], LEAST_QUICK) << parity * 16;
            const floats value = result_of(sums[parity], largest[parity], rule, half);
            bits[parity] = half ? half_bits(value) : (words)value;
        }
    }
    if (half)
        bits[0] |= bits[1] << 16;
    else
        __builtin_memcpy(p->d + at + apart, &bits[1], sizeof bits[1]);
    __builtin_memcpy(p->d + at, &bits[0], sizeof bits[0]);
    return left;
}

// Inlined for each combination below, because tests of constant formats cost nothing. `single`: a word has one element.
TW_INLINE static inline void quick_results(const struct fused_product *p, struct format of_a, struct format of_b,
                                           bool half, bool single, uint32_t *left)
{
    const uint32_t bits = element_bits(p->a_format), each = bits == 8 ? 2 : 1;  // steps of four chunks
    const uint32_t group = p->group * bits * each / (32 * CHUNKS);
    const uint32_t count = p->k * bits * each / (32 * CHUNKS);
    struct step steps[STEPS_MOST];
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *a = p->a + i / each * 2 * TW_LANES, *b = p->b + i / each * TW_LANES;
        unpack_step(&steps[i], a, b, of_a, of_b, i % each * 8, single);
        if (p->scales)
            scale_step(&steps[i], p->scales);
    }
    for (uint32_t rows = 0; rows < ROW_GROUPS; rows++)
        left[rows] = quick_rows(p, steps, count, group, rows, half);
}

bool tw_mma_fused(const struct fused_product *p, uint32_t *left)
{
    if (p->rules[p->a_format].way != TW_FUSED || p->group % (CHUNKS * 32 / element_bits(p->a_format)))
        return false;
    if (p->a_format == TW_F16 && !p->half)
        quick_results(p, format_of(TW_F16), format_of(TW_F16), false, false, left);
    else if (p->a_format == TW_TF32)
        quick_results(p, format_of(TW_TF32), format_of(TW_TF32), false, true, left);
    else if (p->half)
        quick_results(p, format_of(p->a_format), format_of(p->b_format), true, false, left);
    else
        quick_results(p, format_of(p->a_format), format_of(p->b_format), false, false, left);
    return true;
}

// -- products of 8 bits by instructions of float16: `by_halves` of the plain form, all results at once ----------------

// The lower two of the four elements in each word as float16, which is exact.
static words in_halves(words bits, struct format format)
{
    const words first = bits & 0xff, second = bits >> 8 & 0xff, nan = (words){0} + 0x7fff;
    if (format.specials == HAS_INFINITY)  // e5m2 is the upper half of a float16
        return first << 8 | second << 24;
    words low = half_bits((floats)values_of(first, format)), high = half_bits((floats)values_of(second, format));
    low = (words)chosen((integers)((first & 0x7f) == 0x7f), (integers)nan, (integers)low);
    high = (words)chosen((integers)((second & 0x7f) == 0x7f), (integers)nan, (integers)high);
    return low | high << 16;
}

static void convert(uint32_t *to, const uint32_t *from, uint32_t count, uint32_t number, uint32_t shift)
{
    for (uint32_t i = 0; i < count; i += 16) {
        const words pair = in_halves(words_at(from + i) >> shift, format_of(number));
        __builtin_memcpy(to + i, &pair, sizeof pair);
    }
}

// The sums of two results, rounded to nearest.
static void add_all(uint32_t *results, const uint32_t *c, const uint32_t *sums, bool half)
{
    for (uint32_t i = 0; i < COLUMNS * ROWS && !half; i += 16) {
        const floats sum = (floats)words_at(c + i) + (floats)words_at(sums + i);
        const integers found = chosen((integers)(sum != sum), (integers){0} + 0x7fffffff, (integers)sum);
        __builtin_memcpy(results + i, &found, sizeof found);
    }
    for (uint32_t i = 0; i < COLUMNS * ROWS / 2 && half; i++)
        results[i] = added(c[i] & 0xffff, sums[i] & 0xffff, true) | added(c[i] >> 16, sums[i] >> 16, true) << 16;
}

static void halves_results(const struct fused_product *p)
{
    enum { A_WORDS = ROWS * 8, B_WORDS = COLUMNS * 8, C_WORDS = ROWS * COLUMNS };
    const uint32_t in_a = ROWS * p->k / 4, in_b = COLUMNS * p->k / 4;
    ALIGNED uint32_t sources[A_WORDS + B_WORDS + C_WORDS];
    ALIGNED uint32_t sums[C_WORDS] = {0};
    for (uint32_t shift = 0; shift < 32; shift += 16) {
        convert(sources, p->a, in_a, p->a_format, shift);
        convert(sources + in_a, p->b, in_b, p->b_format, shift);
        __builtin_memcpy(sources + in_a + in_b, sums, sizeof sums);
        tw_mma_by_rules(p->rules, sums, sources, TW_F16, TW_F16, p->k / 2, p->half);
    }
    add_all(p->d, p->c, sums, p->half);
}

// Registers of A, B and C follow each other in `sources`.
static struct fused_product product_of_registers(const struct tw_tensor_rule *rules, uint32_t *results,
                                                 const uint32_t *sources, uint32_t a_format, uint32_t b_format,
                                                 uint32_t k, uint32_t half)
{
    const uint32_t *b = sources + ROWS * k * element_bits(a_format) / 32;
    const uint32_t *c = b + COLUMNS * k * element_bits(b_format) / 32;
    return (struct fused_product){
        .rules = rules,
        .a_format = a_format,
        .b_format = b_format,
        .k = k,
        .group = (uint32_t)rules[a_format].group,
        .half = half,
        .a = sources,
        .b = b,
        .c = c,
        .d = results,
    };
}

// m16n8k4 to m16n8k32.
void tw_mma_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t k, uint32_t half)
{
    const struct fused_product p = product_of_registers(rules, results, sources, a_format, b_format, k, half);
    ALIGNED uint32_t left[ROW_GROUPS] = {~0u, ~0u, ~0u, ~0u};
    if (!tw_mma_fused(&p, left) && rules[a_format].way == TW_HALVES) {
        halves_results(&p);
        return;
    }
    for (uint32_t at = take_left(left); at != NONE_LEFT; at = take_left(left))
        plain_result(&p, at / COLUMNS, at % COLUMNS);
}

void tw_mma_float(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                  uint32_t b_format, uint32_t k, uint32_t half)
{
    tw_mma_by_rules(context->tensor_rules, results, sources, a_format, b_format, k, half);
}

// Elements of 8, 6 and 4 bits; those of A or of B have 6 or 4.
void tw_mma_small(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                  uint32_t b_format, uint32_t k, uint32_t half)
{
    const struct tw_tensor_rule *rule = context->tensor_rules + TW_F8F6F4;
    tw_mma_by_rules(rule - a_format, results, sources, a_format, b_format, k, half);
}

// -- m8n8k4: four products, each by eight lanes -----------------------------------------------------------------------

enum { QUAD_ROWS = 8, QUAD_K = 4 };

// Element k, half a word, of a row of a group's A or a column of its B. `along`: a lane holds neighbours along k.
static uint32_t quad_element(const uint32_t *registers, uint32_t group, uint32_t line, uint32_t k, bool along)
{
    const uint32_t lane = group * 4 + line / 4 * 16 + (along ? line % 4 : k), i = along ? k : line % 4;
    return registers[i / 2 * TW_LANES + lane] >> (i % 2 * 16) & 0xffff;
}

// The word of an element of C or D, and its lowest bit there.
static uint32_t quad_word(uint32_t group, uint32_t row, uint32_t column, bool half, uint32_t *shift)
{
    const uint32_t first = group * 4 + row / 4 * 16;
    *shift = half ? column % 2 * 16 : 0;
    if (half)
        return column / 2 * TW_LANES + first + row % 4;
    const uint32_t i = (column & 4) | (row & 2) | (column & 1);
    return i * TW_LANES + first + (row & 1) + (column & 2);
}

// Bits of `layouts`: A is row-major, B is column-major. `d_half`, `c_half`: D or C is float16.
void tw_mma_quads(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t layouts,
                  uint32_t d_half, uint32_t c_half)
{
    const struct tw_tensor_rule *rule = context->tensor_rules + TW_M8N8K4;
    const uint32_t *b = sources + 2 * TW_LANES, *c = b + 2 * TW_LANES;
    __builtin_memset(results, 0, (d_half ? 4u : 8u) * TW_LANES * sizeof *results);
    for (uint32_t at = 0; at < 4 * QUAD_ROWS * QUAD_ROWS; at++) {
        const uint32_t group = at / (QUAD_ROWS * QUAD_ROWS), row = at / QUAD_ROWS % QUAD_ROWS, column = at % QUAD_ROWS;
        ALIGNED struct factors f;
        f.a_format = f.b_format = TW_F16;
        f.count = QUAD_K;
        for (uint32_t k = 0; k < QUAD_K; k++) {
            f.a[k] = quad_element(sources, group, row, k, layouts & 1);
            f.b[k] = quad_element(b, group, column, k, layouts >> 1 & 1);
        }
        uint32_t shift;
        uint32_t given = c[quad_word(group, row, column, c_half, &shift)] >> shift & (c_half ? 0xffff : ~0u);
        uint32_t result;
        if (rule->way == TW_CHAINED)
            result = in_chain(&f, c_half ? float_of_half(given) : float_of(given), d_half);
        else
            result = in_groups(rule, &f, c_half && !d_half ? converted(given, TW_F16, F32_FORMAT) : given, d_half);
        const uint32_t word = quad_word(group, row, column, d_half, &shift);
        results[word] |= result << shift;
    }
}
