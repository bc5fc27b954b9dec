// Which lane holds which element of a matrix; registers are in memory, lane by lane.
//
// A lane holds elements that are side by side along k in one register of 32 bits: a chunk. In A, lane l has chunk l % 4
// of row l / 4; register 1 is eight rows below register 0, registers 2 and 3 four chunks to the right. In B, lane l has
// chunk l % 4 of column l / 4, and register 1 is four chunks below. In C and D, lane l has columns 2 (l % 4) and 2 (l %
// 4) + 1 of row l / 4, and then of the row eight below. With 8 rows, each further register of A is four chunks to the
// right. A float64 is a chunk of its own. Source: PTX ISA, 9.7.14.5, figures of the fragments.

#ifndef TILEWRIGHT_SIMT_FRAGMENTS_H
#define TILEWRIGHT_SIMT_FRAGMENTS_H

#include "records.h"

enum { COLUMNS = 8, CHUNKS = 4 };

static inline uint32_t element_bits(uint32_t format)
{
    return format == TW_TF32 ? 32 : format >= TW_E4M3 ? 8 : 16;
}

static inline uint32_t part_of(uint32_t word, uint32_t which, uint32_t bits)
{
    return bits == 32 ? word : word >> (which * bits) & ((1u << bits) - 1);
}

// The word that holds element k of a row of A or a column of B. `apart`: registers from one to the next four chunks.
static inline uint32_t word_along(uint32_t line, uint32_t k, uint32_t in_a_word, uint32_t apart)
{
    const uint32_t chunk = k / in_a_word;
    return chunk / CHUNKS * apart * TW_LANES + line % 8 * CHUNKS + chunk % CHUNKS;
}

// The word that holds an element of C or D. `half`: its words are two columns.
static inline uint32_t word_of_result(uint32_t row, uint32_t column, uint32_t half)
{
    return (half ? row / 8 : row / 8 * 2 + column % 2) * TW_LANES + row % 8 * 4 + column / 2;
}

#endif
