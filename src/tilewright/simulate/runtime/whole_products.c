// Products of whole matrices, as a kernel of matrix instructions makes them that goes through all of k in order.

#include "fragments.h"
#include "instrument.h"
#include "products.h"
#include "runtime.h"

enum { A_WORDS = 4 * TW_LANES, B_WORDS = 2 * TW_LANES, C_WORDS = 4 * TW_LANES };

void tw_mma_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t k, uint32_t half);

// C = A B in float32, of elements of 16 bits. Each matrix is as fragments of m16n8k16: A's of a row of tiles follow
// each other along k, as do B's of a column of tiles, and C's along the row. `rows` counts tiles, as `columns` and
// `steps` do.
void tw_whole_product(const struct tw_tensor_rule *rules, uint32_t format, uint64_t rows, uint64_t columns,
                      uint64_t steps, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    ALIGNED uint32_t sources[A_WORDS + B_WORDS + C_WORDS];
    ALIGNED uint32_t results[C_WORDS];
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t column = 0; column < columns; column++, c += C_WORDS) {
            const uint32_t *along_a = a + row * steps * A_WORDS, *along_b = b + column * steps * B_WORDS;
            __builtin_memset(results, 0, sizeof results);
            for (uint64_t step = 0; step < steps; step++) {
                __builtin_memcpy(sources, along_a + step * A_WORDS, A_WORDS * sizeof *sources);
                __builtin_memcpy(sources + A_WORDS, along_b + step * B_WORDS, B_WORDS * sizeof *sources);
                __builtin_memcpy(sources + A_WORDS + B_WORDS, results, sizeof results);
                tw_mma_by_rules(rules, results, sources, format, format, 16, false);
            }
            __builtin_memcpy(c, results, sizeof results);
        }
}
