// Records what was found. The first place is that of the lowest block and thread, so that no order of execution
// changes it.

#include "records.h"

#include <stdbool.h>

// Source: Knuth, The Art of Computer Programming, 6.4: 2^64 over the golden ratio, for multiplicative hashing.
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static bool of_one_pair(const struct tw_record *a, const struct tw_record *b)
{
    return a->kind == b->kind && a->row == b->row && a->other == b->other && a->wrote == b->wrote;
}

// The record of a pair, or a free one; null where the table is full.
static struct tw_record *find(struct tw_record *table, const struct tw_record *wanted)
{
    uint64_t pair = (wanted->kind << 48 | wanted->row << 14) ^ (wanted->other << 2 | wanted->wrote);
    uint64_t place = (pair * GOLDEN) >> 32;
    for (uint32_t tries = 0; tries < TW_RECORDS; tries++) {
        struct tw_record *record = &table[(place + tries) % TW_RECORDS];
        if (record->kind == 0 || of_one_pair(record, wanted))
            return record;
    }
    return 0;
}

// Remember a finding; `count` is how often it was found, `first` its block << 10 | thread.
__attribute__((noinline)) void tw_found_add(struct tw_found *found, const struct tw_record *finding)
{
    while (__atomic_exchange_n(&found->lock, 1, __ATOMIC_ACQUIRE))
        ;
    struct tw_record *record = find(found->table, finding);
    if (record) {
        uint64_t count = record->count + finding->count, first = ~finding->first;
        if (first > record->first) {
            *record = *finding;
            record->first = first;
        }
        record->count = count;
    } else {
        found->lost++;
    }
    __atomic_store_n(&found->lock, 0, __ATOMIC_RELEASE);
}

// Remember that an instruction did something at a place, `block << 10 | thread`.
__attribute__((noinline)) void tw_found_at(struct tw_found *found, uint32_t kind, uint32_t row, uint64_t place)
{
    struct tw_record finding = {.kind = kind, .row = row, .count = 1, .first = place};
    tw_found_add(found, &finding);
}
