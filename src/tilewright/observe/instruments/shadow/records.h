// What was found: a table with a record for each pair of instructions and kind, its first place and how often.

#ifndef TILEWRIGHT_SHADOW_RECORDS_H
#define TILEWRIGHT_SHADOW_RECORDS_H

#include <stdint.h>

enum {
    TW_RECORDS = 4096,  // of a launch; a power of two

    // Bits of `wrote`; those from TW_ONE_VALUE on may make a race one that only `--strict` reports.
    TW_WROTE = 1,
    TW_OTHER_WROTE = 2,
    TW_ONE_VALUE = 4,  // the same value
    TW_LOCKSTEP = 8,   // both are volatile, of one warp
    TW_UNORDERED = 16,  // both are strong, of two warps or blocks
    TW_ROUNDED = 32,    // values that differ by rounding alone, if they are floating-point numbers
};

struct tw_record {
    uint64_t kind;     // as the instrument numbers them, from 1; 0: no record
    uint64_t row;      // the instruction, as the instrument numbers its sites
    uint64_t other;    // that of the other access of a race
    uint64_t wrote;    // which of the two accesses wrote
    uint64_t count;    // how often
    uint64_t first;    // the inverse of its lowest `block << 10 | thread`
    uint64_t address;  // there
    uint64_t cell;     // there, what shadow memory says of the other access
};

// What the memory of a launch begins with where an instrument records findings.
struct tw_found {
    uint64_t lock;
    struct tw_record *table;
    uint64_t lost;     // findings that found no room in the table
    uint64_t threads;  // of a block
};

void tw_found_add(struct tw_found *found, const struct tw_record *record);
void tw_found_at(struct tw_found *found, uint32_t kind, uint32_t row, uint64_t place);

#endif
