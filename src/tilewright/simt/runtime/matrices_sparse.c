// Products by a warp of a sparse matrix A: of each row half of the elements are there, and metadata say which these are.
//
// Four bits say of a chunk of four elements which two are there: two bits each. Of tf32 a chunk is two elements of which
// one is there, as if it were two halves; of 4 bits a chunk is eight elements, in pairs. A lies as a matrix of half the
// columns does. Source: PTX ISA, 9.7.14.6.1 and 9.7.14.6.2; where the figures show it alone, the layout of metadata is
// as in NVIDIA/cutlass, mma_traits_sm120_sparse.hpp, and tile-ai/tilelang, mma_sp_layout.py.

#include "fragments.h"
#include "instrument.h"
#include "products.h"
#include "runtime.h"

enum { SPARSE_ROWS = 16, CHUNK_BITS = 4 };

void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags);

// What an instruction says, and where its matrices lie.
struct sparse {
    const uint32_t *a;
    const uint32_t *b;
    const uint32_t *c;
    const uint32_t *metadata;
    uint32_t k;
    uint32_t bits;      // of an element
    uint32_t selector;  // which lanes of four have the metadata
    uint32_t flags;
};

// The metadata of a chunk of a row.
static uint32_t chunk_metadata(const struct sparse *s, uint32_t row, uint32_t chunk, uint32_t chunks)
{
    const uint32_t first = row % 8 * 4, lower = row / 8;
    if (chunks == 4)  // one lane has two rows
        return s->metadata[first + (s->selector & 3)] >> (lower * 16 + chunk * CHUNK_BITS) & 15;
    const uint32_t pair = first + (chunks == 8 ? (s->selector & 1) * 2 : chunk / 8 * 2);
    if (s->bits >= 16)  // each lane of a pair has half of two rows
        return s->metadata[pair + chunk / 4] >> (lower * 16 + chunk % 4 * CHUNK_BITS) & 15;
    return s->metadata[pair + lower] >> (chunk % 8 * CHUNK_BITS) & 15;  // or one row
}

// Which k of a row element `i` of those that are there has.
static uint32_t place_of(const struct sparse *s, uint32_t row, uint32_t i)
{
    const uint32_t there = s->bits == 32 ? 1 : s->bits == 4 ? 4 : 2, chunk = i / there;
    const uint32_t indices = chunk_metadata(s, row, chunk, s->k / (2 * there)), which = i % there;
    switch (s->bits) {
    case 32:
        return 2 * chunk + (indices >> 1 & 1);
    case 4:
        return 8 * chunk + 2 * (indices >> which / 2 * 2 & 3) + which % 2;
    default:
        return 4 * chunk + (indices >> which * 2 & 3);
    }
}

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
        const uint32_t k = place_of(s, row, i);
        f->a[i] = part_of(s->a[row / 8 * TW_LANES + word_along(row, i, each, 2)], i % each, s->bits);
        f->b[i] = part_of(s->b[word_along(column, k, each, 1)], k % each, s->bits);
    }
    const bool half = s->flags & TW_SPARSE_HALF;
    const uint32_t at = word_of_result(row, column, half), shift = half ? column % 2 * 16 : 0;
    const uint32_t mask = half ? 0xffffu : ~0u, c = s->c[at] >> shift & mask;
    const uint32_t d = s->flags & TW_SPARSE_INTEGERS ? integer_sum(s, f, c) : dot(rules, f, c, half);
    results[at] = (results[at] & ~(mask << shift)) | d << shift;
}

// `k` is that of A with its zeros. Sources are A, B, C, the metadata, and the selector in each lane.
void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    const uint32_t *b = sources + SPARSE_ROWS * k / 2 * bits / 32, *c = b + COLUMNS * k * bits / 32;
    const uint32_t *metadata = c + (flags & TW_SPARSE_HALF ? 2u : 4u) * TW_LANES;
    const struct sparse s = {sources, b, c, metadata, k, bits, metadata[TW_LANES], flags};
    ALIGNED struct factors f;
    f.a_format = a_format;
    f.b_format = b_format;
    f.count = k / 2;
    for (uint32_t row = 0; row < SPARSE_ROWS; row++)
        for (uint32_t column = 0; column < COLUMNS; column++)
            sparse_result(rules, &s, &f, row, column, results);
}

void tw_mma_sparse(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                   uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags)
{
    tw_mma_sparse_by_rules(context->tensor_rules, results, sources, a_format, b_format, k, bits, flags);
}
