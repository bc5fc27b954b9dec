// Whether threads reach barriers and warp operations together; `convergence.py` states the rules.

#include "convergence.h"

#include <stdbool.h>

#include "reporting.h"

typedef uint32_t counts __attribute__((vector_size(128), aligned(4)));

// Counts, and sees that lanes of one warp come to the same instruction, at once or in parts.
static inline void arrive(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_found *found,
                          struct tw_convergence *own, uint32_t row, uint32_t mask, bool aligned)
{
    counts *came = (counts *)&own->came[warp->index * TW_LANES];
    uint32_t number = (*came)[tw_first_lane(mask) % TW_LANES];
    *came -= (tw_u32_lanes)tw_mask32(mask);
    if (number < TW_KNOWN_BARRIERS)
        own->rows[number] = row;
    struct tw_coming *coming = &own->coming[warp->index];
    uint32_t waiting = coming->lanes & mask ? 0 : coming->lanes, place = coming->row;
    coming->lanes = waiting | mask;
    coming->row = row;
    if (aligned && waiting && place != row) {
        tw_report(found, slot, warp, TW_DIVERGENT, row, mask);
        tw_report(found, slot, warp, TW_DIVERGENT, place, waiting);
    }
}

void tw_convergence_arrive(TW_WHERE, uint32_t mask, uint32_t barrier, uint32_t threads, uint32_t waits)
{
    if (!threads)
        arrive(slot, warp, launch, block, row, mask, false);
}

// Of barriers to which all threads of a warp must come together.
void tw_convergence_arrive_aligned(TW_WHERE, uint32_t mask, uint32_t barrier, uint32_t threads, uint32_t waits)
{
    if (!threads)
        arrive(slot, warp, launch, block, row, mask, true);
}

// Products that some warps of a group have executed more often than another: the last group may lack warps.
static void compare_groups(const struct tw_slot *slot, struct tw_found *found, const struct tw_convergence *own)
{
    uint32_t warps = (uint32_t)((found->threads + TW_LANES - 1) / TW_LANES);
    for (uint32_t p = 0; p < TW_PRODUCTS; p++)
        for (uint32_t first = 0; first < warps; first += TW_GROUP_WARPS) {
            const uint32_t *times = own->products[p].times + first;
            uint32_t most = 0, even = 1;
            for (uint32_t w = 1; w < TW_GROUP_WARPS; w++) {
                even &= times[w] == times[0];
                most = times[w] > times[most] ? w : most;
            }
            if (!even)
                tw_found_at(found, TW_NOT_ALL_WARPS, own->products[p].row,
                            slot->block << 10 | (first + most) * TW_LANES);
        }
}

// When the last warp of a block has ended: which threads came to fewer barriers than others, and which warps executed
// fewer products than others of their group.
void tw_convergence_exit(TW_WHERE, uint32_t mask)
{
    struct tw_found *found = launch;
    struct tw_convergence *own = block;
    uint64_t threads = found->threads;
    if (warp->live || ++own->ended != (threads + TW_LANES - 1) / TW_LANES)
        return;
    compare_groups(slot, found, own);
    uint32_t most = 0;
    for (uint64_t t = 0; t < threads; t++)
        most = own->came[t] > most ? own->came[t] : most;
    most = most < TW_KNOWN_BARRIERS ? most : TW_KNOWN_BARRIERS;
    for (uint64_t t = 0; t < threads; t++)
        for (uint32_t n = own->came[t]; n < most && n - own->came[t] < TW_MISSED; n++)
            tw_found_at(found, TW_LEFT, own->rows[n], slot->block << 10 | t);
}

// Every executing lane must be named by its own mask, and every lane that any of them names must be there, if it ever
// was.
void tw_convergence_members(TW_WHERE, uint32_t mask, const char *values, uint32_t operand)
{
    struct tw_found *found = launch;
    tw_u32_lanes members = tw_operand(values, operand);
    uint32_t unnamed = mask & ~tw_where32(((members >> tw_lane_numbers()) & 1) != 0);
    uint32_t away = tw_union(members & (tw_u32_lanes)tw_mask32(mask)) & ~mask & tw_initial(found, warp);
    if (unnamed)
        tw_report(found, slot, warp, TW_NOT_NAMED, row, unnamed);
    if (away)
        tw_report(found, slot, warp, TW_NOT_THERE, row, mask);
}

// All lanes of a warp must execute a product of matrices, or what moves them, together; none may have ended.
void tw_convergence_together(TW_WHERE, uint32_t mask)
{
    struct tw_found *found = launch;
    if (~mask)
        tw_report(found, slot, warp, TW_NOT_TOGETHER, row, mask);
}

// The same of a product of a warpgroup, which all its warps must execute: the first lane of each counts for it.
void tw_convergence_product(TW_WHERE, uint32_t mask)
{
    struct tw_product *product = &((struct tw_convergence *)block)->products[row % TW_PRODUCTS];
    product->row = row;
    product->times[warp->index] += mask & 1;
    tw_convergence_together(slot, warp, launch, block, counters, row, mask);
}
