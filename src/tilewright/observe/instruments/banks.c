// Wavefronts of shared memory; `banks.py` states the model.
//
// Accesses are naturally aligned (the machine refuses others), so the words of an 8- or 16-byte lane are in as many
// neighbouring banks and move as one unit. A group of L lanes then has L units-wide banks, and all groups fit one table
// of 32 places, place = group's first lane + unit mod L. In each round every pending lane writes its unit to its place
// and reads it back: a lane that reads its own unit is served. A group's rounds are its wavefronts.

#include "counting.h"

enum { BANKS_SLOTS = 4, GROUP_BYTES = 128, BANK_BYTES = 4 };

// How many groups have a lane in a set.
static inline uint32_t groups(uint32_t lanes, uint32_t group)
{
    uint32_t firsts = group == 32 ? 1 : group == 16 ? 0x10001 : group == 8 ? 0x1010101 : 0x11111111;
    for (uint32_t width = 1; width < group; width *= 2)
        lanes |= lanes >> width;
    return tw_lane_count(lanes & firsts);
}

static inline uint32_t wavefronts(uint32_t lanes, const tw_u32_lanes *unit, const tw_u32_lanes *place, uint32_t group)
{
    uint32_t table[TW_LANES], rounds = 0;
    for (uint32_t pending = lanes; pending;) {
        rounds += groups(pending, group);
        for (uint32_t left = pending; left; left = tw_other_lanes(left)) {
            uint32_t lane = tw_first_lane(left);
            table[(*place)[lane]] = (*unit)[lane];
        }
        for (uint32_t left = pending; left; left = tw_other_lanes(left)) {
            uint32_t lane = tw_first_lane(left);
            pending ^= (uint32_t)(table[(*place)[lane]] == (*unit)[lane]) << lane;
        }
    }
    return rounds;
}

void tw_banks_access(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes)
{
    uint32_t shift = tw_first_lane(bytes < BANK_BYTES ? BANK_BYTES : bytes), group = GROUP_BYTES >> shift;
    tw_u32_lanes unit = __builtin_convertvector(*addresses >> shift, tw_u32_lanes);
    tw_u32_lanes place = (tw_lane_numbers() & ~(group - 1)) | (unit & (group - 1));
    if (mask) {
        const uint64_t sums[BANKS_SLOTS] = {1, tw_lane_count(mask), wavefronts(mask, &unit, &place, group),
                                      groups(mask, group)};
        tw_add_row(counters, sums, BANKS_SLOTS);
    }
}

static __attribute__((noinline, cold)) void some_lanes(TW_WHERE, uint32_t mask, uint64_t base,
                                                       const tw_addresses *offsets, uint32_t bytes)
{
    const tw_addresses addresses = base + *offsets;
    tw_banks_access(slot, warp, launch, block, counters, row, mask, &addresses, bytes);
}

TW_INLINE void tw_banks_affine(TW_WHERE, uint32_t mask, uint64_t base, const uint64_t *rows, uint64_t many,
                                const tw_addresses *offsets, uint64_t bytes)
{
    if (__builtin_expect(mask == UINT32_MAX, 1))
        tw_add_row(counters, tw_row_of(rows, many, base, BANKS_SLOTS), BANKS_SLOTS);
    else
        some_lanes(slot, warp, launch, block, counters, row, mask, base, offsets, (uint32_t)bytes);
}
