// Records what warps do, one record after the other: `addresses.py` says of what.

#include "addresses.h"

// As handlers are given them.
typedef uint64_t addresses_of __attribute__((vector_size(256), aligned(8)));

// The next record; null where its block is not asked for, or no room is left. A block is run by one host thread, so
// that its records are in the order of what its warps did.
static inline struct tw_address_record *next(struct tw_address_records *records, const struct tw_slot *slot,
                                             const struct tw_warp *warp, uint32_t row, uint32_t mask)
{
    if (slot->block >= records->blocks || !mask)
        return 0;
    uint64_t number = __atomic_fetch_add(&records->taken, 1, __ATOMIC_RELAXED);
    if (number >= records->rooms)
        return 0;
    struct tw_address_record *record = (struct tw_address_record *)(records + 1) + number;
    record->block = slot->block;
    record->warp = warp->index;
    record->row = row;
    record->mask = mask;
    return record;
}

void tw_addresses_access(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    struct tw_address_record *record = next(launch, slot, warp, row, mask);
    if (record)
        *(addresses_of *)record->addresses = *(const addresses_of *)addresses;
}

void tw_addresses_barrier(TW_WHERE, uint32_t mask, uint32_t barrier, uint32_t threads, uint32_t waits)
{
    next(launch, slot, warp, row, mask);
}
