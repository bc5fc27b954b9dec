// Accesses of other blocks' shared memory in a cluster: what they write there counts as written, and known to all.

#include "judgement.h"

// Bytes of a block's shared memory have been written by another.
void tw_shadow_far_wrote(const struct tw_shadow_launch *launch, struct tw_shadow_block *target, uint64_t place,
                         uint32_t bytes)
{
    uint64_t *reads = (uint64_t *)((char *)target + launch->shared_reads), size = launch->cell_bytes;
    for (uint64_t c = place / size; c < (place + bytes + size - 1) / size; c++) {
        if (target->writes[c] == TW_GAP || target->writes[c] >> TW_CLOCK_SHIFT == TW_OBJECT_CLOCK)
            continue;
        target->writes[c] = TW_STRONG;
        reads[c] = 0;
    }
    target->version++;
}

void tw_shadow_far(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, uint32_t how)
{
    for (uint32_t left = mask; left && how & TW_WRITES; left = tw_other_lanes(left)) {
        uint64_t address = addresses[tw_first_lane(left)];
        const struct tw_slot *other = &slot->cluster[address >> TW_RANK_SHIFT];
        tw_shadow_far_wrote(launch, shadow_of(slot, other, block), address & ((1u << TW_RANK_SHIFT) - 1),
                            bytes);
    }
}
