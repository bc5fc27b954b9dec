// Affine accesses: all at once where a quick test passes, else one after the other, lane by lane.

#include "judgement.h"

// What the handlers of such accesses take: the base, the values that are stored, what the accesses do, the rows of a
// table of their cells, the accesses, and the lanes' offsets.
#define TW_AFFINE                                                                                          \
    TW_WHERE, uint32_t mask, int64_t base, const uint8_t *values, uint32_t how, const void *rows,          \
        uint64_t count, const struct tw_member *members, uint64_t of, const uint64_t *offsets

void tw_shadow_turns_shared(TW_ACCESSES);
void tw_shadow_free_global(TW_ACCESSES);
bool tw_shadow_reads_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t row,
                            uint32_t warp, int64_t base, const struct tw_touched_row *rows, uint64_t count);
bool tw_shadow_writes_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t row,
                             uint32_t warp, int64_t base, const struct tw_touched_row *rows, uint64_t count);
bool tw_shadow_reads_global(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_shadow_launch *launch,
                            struct tw_shadow_block *block, int64_t base, const struct tw_plain_row *rows,
                            uint64_t count, uint32_t row);
bool tw_shadow_repeats_global(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_shadow_launch *launch,
                              struct tw_shadow_block *block, uint64_t base, const uint64_t *offsets, uint32_t bytes,
                              uint32_t row);

typedef void turns(TW_ACCESSES);

TW_INLINE static inline void one_by_one(turns *judge, TW_AFFINE)
{
    tw_u64_lanes steps, addresses;
    (void)rows, (void)count;
    __builtin_memcpy(&steps, offsets, sizeof steps);
    for (uint64_t i = 0; i < of; i++) {
        uint64_t lanes[TW_LANES] __attribute__((aligned(64)));
        addresses = steps + (uint64_t)(base + members[i].ahead);
        __builtin_memcpy(lanes, &addresses, sizeof lanes);
        judge(slot, warp, launch, block, counters, row + (uint32_t)i, mask, lanes, (uint32_t)members[i].bytes, values,
              how, (uint32_t)members[i].element_bytes, 0);
    }
}

void tw_shadow_affine_shared(TW_AFFINE)
{
    if (mask == UINT32_MAX &&
        (how == TW_WRITES ? tw_shadow_writes_shared(launch, block, row, warp->index, base, rows, count)
                          : tw_shadow_reads_shared(launch, block, row, warp->index, base, rows, count)))
        return;
    one_by_one(tw_shadow_turns_shared, slot, warp, launch, block, counters, row, mask, base, values, how, rows, count,
               members, of, offsets);
}

void tw_shadow_affine_global(TW_AFFINE)
{
    uint32_t site = of == 1 ? row : TW_SITE_MAX;  // of several accesses
    if (mask == UINT32_MAX &&
        (how == TW_WRITES ? tw_shadow_repeats_global(slot, warp, launch, block, (uint64_t)(base + members->ahead),
                                                     offsets, (uint32_t)members->bytes, row)
                          : tw_shadow_reads_global(slot, warp, launch, block, base, rows, count, site)))
        return;
    one_by_one(tw_shadow_free_global, slot, warp, launch, block, counters, row, mask, base, values, how, rows, count,
               members, of, offsets);
}
