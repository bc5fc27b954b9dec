// Which lanes hold what came of a shuffle from a lane that gives nothing defined, and where they store it.

#include "shuffles.h"

#include <stdbool.h>

#include "reporting.h"

// Whether a lane reads from one that its mask does not name, or that is not there. Source: PTX ISA, 9.7.9.6, Semantics.
static bool reads_undefined(uint32_t mode, uint32_t lane, uint32_t b, uint32_t c, uint32_t members, uint32_t there)
{
    uint32_t segment = c >> 8 & 31, within = ~segment & 31, first = lane & segment;
    int32_t last = (int32_t)(first | (c & within)), at = (int32_t)lane, by = (int32_t)(b & 31);
    int32_t source = mode == TW_UP     ? at - by
                     : mode == TW_DOWN ? at + by
                     : mode == TW_BFLY ? at ^ by
                                       : (int32_t)(first | (b & within));
    bool valid = mode == TW_UP ? source >= last : source <= last;  // otherwise a lane keeps its own value
    uint32_t from = (uint32_t)source & 31;
    return valid && from != lane && !((members & there) >> from & 1);
}

void tw_shuffles_move(TW_WHERE, uint32_t mask, const uint64_t *values, uint32_t mode, uint32_t sync, uint32_t number,
                      uint32_t fresh)
{
    struct tw_chain_lanes *chain = &((struct tw_chains *)block)->chains[number].of[warp->index];
    uint32_t there = sync ? mask | tw_initial(launch, warp) : mask, undefined = 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint32_t b = (uint32_t)values[TW_LANES + lane], c = (uint32_t)values[2 * TW_LANES + lane];
        uint32_t members = sync ? (uint32_t)values[3 * TW_LANES + lane] : UINT32_MAX;
        undefined |= (uint32_t)reads_undefined(mode, lane, b, c, members, there) << lane;
    }
    uint32_t kept = fresh ? chain->lanes & ~mask : chain->lanes;
    chain->lanes = kept | undefined;
    if (undefined && !(kept & mask))
        chain->row = row;
}

static void store(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_found *found,
                  const struct tw_chains *block, uint32_t mask, uint32_t chains)
{
    for (uint32_t left = chains; left; left = tw_other_lanes(left)) {
        const struct tw_chain_lanes *chain = &block->chains[tw_first_lane(left)].of[warp->index];
        uint32_t here = chain->lanes & mask;
        if (here)
            tw_report(found, slot, warp, TW_UNDEFINED, chain->row, here);
    }
}

// Stores, and atomics, of what comes of a set of chains.
void tw_shuffles_store(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, uint32_t chains)
{
    store(slot, warp, launch, block, mask, chains);
}

void tw_shuffles_affine(TW_WHERE, uint32_t mask, uint64_t base, uint32_t chains)
{
    store(slot, warp, launch, block, mask, chains);
}
