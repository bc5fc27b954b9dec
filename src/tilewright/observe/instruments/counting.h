// Handlers that count. Most accesses have constant offsets between lanes and run with all lanes: what such an access
// adds to the counters depends on its base's alignment alone, so it is a row of a table that is made with the code.

#ifndef TILEWRIGHT_COUNTING_H
#define TILEWRIGHT_COUNTING_H

#include "simulate/runtime/instrument.h"

// As handlers are given them.
typedef uint64_t tw_addresses __attribute__((vector_size(256), aligned(8)));
typedef uint64_t tw_four __attribute__((vector_size(32), aligned(8)));

// Adds a row of four or more to the counters.
static inline void tw_add_row(uint64_t *counters, const uint64_t *row, uint32_t slots)
{
    *(tw_four *)counters += *(const tw_four *)row;
    for (uint32_t i = 4; i < slots; i++)
        counters[i] += row[i];
}

// The row for a base, of a table of a power of two.
static inline const uint64_t *tw_row_of(const uint64_t *rows, uint64_t many, uint64_t base, uint32_t slots)
{
    return rows + (base & (many - 1)) * slots;
}

#endif
