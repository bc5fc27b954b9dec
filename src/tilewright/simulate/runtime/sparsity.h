// The elements of a sparse matrix A of a warp's product that are stored: half of each row, which metadata select.
//
// Four bits select two elements of a chunk of four, two bits each. For tf32 a chunk is two elements, of which one is
// stored, as if it were two halves; for 4 bits a chunk is eight elements, in pairs. The stored elements have the layout
// of a matrix with half the columns. Source: PTX ISA, 9.7.14.6.1 and 9.7.14.6.2; the layout of metadata, which it shows
// in figures only, is as in NVIDIA/cutlass, mma_traits_sm120_sparse.hpp, and tile-ai/tilelang, mma_sp_layout.py.

#ifndef TILEWRIGHT_SIMT_SPARSITY_H
#define TILEWRIGHT_SIMT_SPARSITY_H

#include <stdbool.h>

#include "fragments.h"

enum { CHUNK_BITS = 4 };

struct sparsity {
    const uint32_t *metadata;
    uint32_t k;         // of A with its zeros
    uint32_t bits;      // of an element
    uint32_t selector;  // which lanes of four have the metadata
};

// The metadata of a chunk of a row.
static inline uint32_t chunk_metadata(const struct sparsity *s, uint32_t row, uint32_t chunk, uint32_t chunks)
{
    const uint32_t first = row % 8 * 4, lower = row / 8;
    if (chunks == 4)  // one lane has two rows
        return s->metadata[first + (s->selector & 3)] >> (lower * 16 + chunk * CHUNK_BITS) & 15;
    const uint32_t pair = first + (chunks == 8 ? (s->selector & 1) * 2 : chunk / 8 * 2);
    if (s->bits >= 16)  // each lane of a pair has half of two rows
        return s->metadata[pair + chunk / 4] >> (lower * 16 + chunk % 4 * CHUNK_BITS) & 15;
    return s->metadata[pair + lower] >> (chunk % 8 * CHUNK_BITS) & 15;  // or one row
}

// The k of stored element `i` of a row.
static inline uint32_t place_of(const struct sparsity *s, uint32_t row, uint32_t i)
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

// Store A of 16 rows with its zeros, as instructions whose A is not sparse have it. False if metadata select an element
// twice: no such A exists.
static inline bool make_dense(uint32_t *dense, const uint32_t *a, const struct sparsity *s)
{
    const uint32_t each = 32 / s->bits, count = s->k / 2;
    __builtin_memset(dense, 0, 16 * s->k / each * sizeof *dense);
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t i = 0, taken = 0; i < count; i++) {
            const uint32_t k = place_of(s, row, i), lower = row / 8 * TW_LANES;
            const uint32_t element = part_of(a[lower + word_along(row, i, each, 2)], i % each, s->bits);
            taken = i % 4 ? taken : 0;  // four stored elements are of eight
            if (taken >> k % 8 & 1)
                return false;
            taken |= 1u << k % 8;
            dense[lower + word_along(row, k, each, 2)] |= element << k % each * s->bits;
        }
    return true;
}

#endif
