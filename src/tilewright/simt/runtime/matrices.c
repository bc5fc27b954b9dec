// Products of matrices by a warp: D = A B + C.
//
// A lane holds elements that lie side by side along k in one register of 32 bits: a chunk. In A, lane l has chunk l % 4 of
// row l / 4; register 1 is eight rows below register 0, registers 2 and 3 four chunks to the right. In B, lane l has
// chunk l % 4 of column l / 4, and register 1 is four chunks below. In C and D, lane l has columns 2 (l % 4) and one more
// of row l / 4, and then of the row eight below. Source: PTX ISA, 9.7.14.5, figures of the fragments.

#include "instrument.h"
#include "products.h"
#include "runtime.h"

enum { ROWS = 16, COLUMNS = 8, CHUNKS = 4 };

static inline uint32_t element_bits(uint32_t format)
{
    return format == TW_TF32 ? 32 : format >= TW_E4M3 ? 8 : 16;
}

static inline uint32_t element(const uint32_t *lanes, uint32_t lane, uint32_t which, uint32_t bits)
{
    return bits == 32 ? lanes[lane] : lanes[lane] >> (which * bits) & ((1u << bits) - 1);
}

// An element of a row of A or a column of B, which have registers `apart` each other every four chunks.
static inline uint32_t element_along(const uint32_t *registers, uint32_t line, uint32_t k, uint32_t bits, uint32_t apart)
{
    const uint32_t each = 32 / bits, chunk = k / each;
    return element(registers + chunk / CHUNKS * apart * TW_LANES, line % 8 * CHUNKS + chunk % CHUNKS, k % each, bits);
}

struct product {
    const struct tw_tensor_rule *rule;
    uint32_t a_format;
    uint32_t b_format;
    uint32_t k;
    bool half;  // C and D are float16
    const uint32_t *a;
    const uint32_t *b;
    const uint32_t *c;
    uint32_t *d;
};

// Where an element of C or D lies: its word, and its first bit there.
static inline uint32_t word_of(const struct product *p, uint32_t row, uint32_t column)
{
    const uint32_t lane = row % 8 * 4 + column / 2;
    return (p->half ? row / 8 : row / 8 * 2 + column % 2) * TW_LANES + lane;
}

static void plain_result(const struct product *p, uint32_t row, uint32_t column)
{
    uint32_t a[PRODUCTS_MOST], b[PRODUCTS_MOST];
    for (uint32_t k = 0; k < p->k; k++) {
        a[k] = element_along(p->a + row / 8 * TW_LANES, row, k, element_bits(p->a_format), 2);
        b[k] = element_along(p->b, column, k, element_bits(p->b_format), 1);
    }
    const uint32_t at = word_of(p, row, column), shift = p->half ? column % 2 * 16 : 0;
    const uint32_t mask = p->half ? 0xffffu : ~0u;
    const uint32_t c = p->c[at] >> shift & mask;
    const uint32_t result = dot(p->rule, p->a_format, p->b_format, a, b, p->k, c, p->half);
    p->d[at] = (p->d[at] & ~(mask << shift)) | result << shift;
}

// Registers of A, B and C follow each other in `sources`.
void tw_mma_float(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                  uint32_t b_format, uint32_t k, uint32_t half)
{
    const uint32_t a_registers = ROWS * k * element_bits(a_format) / 1024;
    const uint32_t b_registers = COLUMNS * k * element_bits(b_format) / 1024;
    const uint32_t *b = sources + a_registers * TW_LANES;
    const struct product p = {context->tensor_rules + a_format, a_format, b_format, k, half,
                              sources, b, b + b_registers * TW_LANES, results};
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t column = 0; column < COLUMNS; column++)
            plain_result(&p, row, column);
}
