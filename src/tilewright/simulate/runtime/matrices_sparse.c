// Products by a warp whose A is sparse: half of each row's elements are stored (`sparsity.h`).

#include "fused.h"
#include "instrument.h"
#include "products.h"
#include "runtime.h"
#include "sparsity.h"

enum {
    SPARSE_ROWS = 16,
    DENSE_WORDS = (8 + 4 + 4) * TW_LANES,  // A, B and C
};

void tw_mma_integer(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                    uint32_t k, uint32_t bits, uint32_t flags);
void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags);

// An instruction, with its matrices in memory.
struct sparse {
    const uint32_t *a;
    const uint32_t *b;
    const uint32_t *c;
    struct sparsity there;
    uint32_t bits;  // of an element
    uint32_t flags;
};

static int32_t with_sign(uint32_t value, uint32_t bits, bool is_signed)
{
    return is_signed && value >> (bits - 1) ? (int32_t)value - (1 << bits) : (int32_t)value;
}

static uint32_t integer_sum(const struct sparse *s, const struct factors *f, uint32_t c)
{
    int64_t sum = (int32_t)c;
    const bool a_signed = s->flags & TW_SPARSE_SIGNED_A, b_signed = s->flags & TW_SPARSE_SIGNED_B;
    for (uint32_t i = 0; i < f->count; i++)
        sum += with_sign(f->a[i], s->bits, a_signed) * with_sign(f->b[i], s->bits, b_signed);
    if (s->flags & TW_SPARSE_SATURATES)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

static void sparse_result(const struct tw_tensor_rule *rules, const struct sparse *s, struct factors *f, uint32_t row,
                          uint32_t column, uint32_t *results)
{
    const uint32_t each = 32 / s->bits;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint32_t k = place_of(&s->there, row, i);
        f->a[i] = part_of(s->a[row / 8 * TW_LANES + word_along(row, i, each, 2)], i % each, s->bits);
        f->b[i] = part_of(s->b[word_along(column, k, each, 1)], k % each, s->bits);
    }
    const bool half = s->flags & TW_SPARSE_HALF;
    const uint32_t at = word_of_result(row, column, half), shift = half ? column % 2 * 16 : 0;
    const uint32_t mask = half ? 0xffffu : ~0u, c = s->c[at] >> shift & mask;
    const uint32_t d = s->flags & TW_SPARSE_INTEGERS ? integer_sum(s, f, c) : dot(rules, f, c, half);
    results[at] = (results[at] & ~(mask << shift)) | d << shift;
}

// Multiplies A as a dense matrix with zeros. `left` gets the results that need the plain form.
static void dense_results(const struct tw_tensor_rule *rules, const struct sparse *s, uint32_t a_format,
                          uint32_t b_format, uint32_t *results, uint32_t *left)
{
    ALIGNED uint32_t sources[DENSE_WORDS];
    const uint32_t k = s->there.k, in_a = SPARSE_ROWS * k * s->bits / 32, in_b = in_a / 2;
    if (!make_dense(sources, s->a, &s->there))
        return;
    __builtin_memcpy(sources + in_a, s->b, in_b * sizeof *sources);
    const uint32_t in_c = (s->flags & TW_SPARSE_HALF ? 2u : 4u) * TW_LANES;
    __builtin_memcpy(sources + in_a + in_b, s->c, in_c * sizeof *sources);
    if (s->flags & TW_SPARSE_INTEGERS) {
        tw_mma_integer(0, results, sources, SPARSE_ROWS, k, s->bits, s->flags & ~(uint32_t)TW_SPARSE_INTEGERS);
        __builtin_memset(left, 0, ROW_GROUPS * sizeof *left);
        return;
    }
    const struct fused_product p = {
        .rules = rules,
        .a_format = a_format,
        .b_format = b_format,
        .k = k,
        .group = 2 * (uint32_t)rules[a_format].group,
        .half = s->flags & TW_SPARSE_HALF,
        .a = sources,
        .b = sources + in_a,
        .c = sources + in_a + in_b,
        .d = results,
    };
    tw_mma_fused(&p, left);
}

// `k` counts the zeros of A. Sources are A, B, C, the metadata, and the selector in each lane.
void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    const uint32_t *b = sources + SPARSE_ROWS * k / 2 * bits / 32, *c = b + COLUMNS * k * bits / 32;
    const uint32_t *metadata = c + (flags & TW_SPARSE_HALF ? 2u : 4u) * TW_LANES;
    const struct sparse s = {sources, b, c, {metadata, k, bits, metadata[TW_LANES]}, bits, flags};
    ALIGNED uint32_t left[ROW_GROUPS] = {~0u, ~0u, ~0u, ~0u};
    dense_results(rules, &s, a_format, b_format, results, left);
    ALIGNED struct factors f;
    f.a_format = a_format;
    f.b_format = b_format;
    f.count = k / 2;
    for (uint32_t at = take_left(left); at != NONE_LEFT; at = take_left(left))
        sparse_result(rules, &s, &f, at / COLUMNS, at % COLUMNS, results);
}

void tw_mma_sparse(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                   uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    tw_mma_sparse_by_rules(context->tensor_rules, results, sources, a_format, b_format, k, bits, flags);
}

// Elements of 8, 6 and 4 bits; those of A or of B have 6 or 4.
void tw_mma_sparse_small(const struct tw_context *context, uint32_t *results, const uint32_t *sources,
                         uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    const struct tw_tensor_rule *rule = context->tensor_rules + TW_F8F6F4;
    tw_mma_sparse_by_rules(rule - a_format, results, sources, a_format, b_format, k, bits, flags);
}
