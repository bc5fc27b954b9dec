// Where something happened first: the lowest block and thread of each site, whatever order the threads ran in.

#include "places.h"

// Count lanes, and keep the first of them if it is the lowest. The table holds the inverse, so that 0 is nothing.
void tw_places_note(const struct tw_slot *slot, const struct tw_warp *warp, uint64_t *table, uint64_t *counter,
                    uint32_t row, uint32_t lanes)
{
    if (lanes == 0)
        return;
    *counter += tw_lane_count(lanes);
    if (row >= TW_PLACES_ROWS)
        return;
    uint64_t key = ~(slot->block << TW_PLACES_THREAD_BITS | warp->index * TW_LANES | tw_first_lane(lanes));
    uint64_t before = __atomic_load_n(&table[row], __ATOMIC_RELAXED);
    while (before < key &&
           !__atomic_compare_exchange_n(&table[row], &before, key, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}
