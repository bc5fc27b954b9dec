// Products of a warpgroup: their reads of shared memory, from the issue until a wait covers their group.
//
// A product is judged as a read twice: when it is issued, and when its warp waits for its group. A write of these bytes
// must come after that wait. Between the two every write is a defect, even one that a barrier orders: W of the bytes
// must be the same at the wait as it was before. The end of the warp counts as a wait for all that is left.
//
// A product is complete for all four warps of its warpgroup at once. So its parts are reads by one warp that stands for
// the warpgroup's products, whose clock no warp knows before its wait, and the first warp that waits ends the reads
// of all four. One warp's wait, and what it releases afterwards, thus orders a write behind all of them.
//
// Source: PTX ISA, 9.7.15.7.3 (wgmma.wait_group: at most N of the youngest groups are pending after it; before it
// nobody may change the matrices in shared memory).

#include "clusters.h"
#include "several.h"

void tw_shadow_turns_shared(TW_ACCESSES);
void tw_shadow_ask_for_fences(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes);

static struct tw_readings *readings_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                       uint32_t warp)
{
    return (struct tw_readings *)((char *)block + launch->readings_at) + warp;
}

static struct tw_reading *reading(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                                  uint32_t number)
{
    const uint32_t at = (readings_of(launch, block, warp)->first + number) % launch->readings.most;
    return TW_ENTRY(struct tw_reading, block, launch->readings, warp, at);
}

void tw_shadow_unfenced(struct tw_shadow_launch *launch, uint32_t row);

// W of a piece as one number: two that differ are taken for the same once in 2^32.
static uint32_t hash_of(const struct access *me)
{
    uint64_t hash = 0, factor = UINT64_C(0x9E3779B97F4A7C15), size = me->launch->cell_bytes;
    for (uint64_t c = me->address / size; c < (me->address + TW_PIECE_BYTES) / size; c++, factor += 2)
        hash += near_of(me->block->writes[c], me->rank) * factor;
    return (uint32_t)(hash >> 32);
}

// A cell of a piece that was written since: an unordered one, if there is any.
static uint64_t written_since(const struct access *me)
{
    uint64_t size = me->launch->cell_bytes, first = me->address / size, found = me->block->writes[first];
    for (uint64_t c = first; c < (me->address + TW_PIECE_BYTES) / size; c++) {
        uint64_t cell = near_of(me->block->writes[c], me->rank);
        if (is_far(cell) ? races_away(me, far_rank(cell), far_who(cell), far_clock(cell))
                         : in_flight(cell) || races(me, cell, cell >> TW_CLOCK_SHIFT, false))
            found = cell;
    }
    return found;
}

// How a warp reads for a product of its warpgroup.
enum { OF_PRODUCT = TW_READS | TW_BY_WARP | TW_BY_WARPGROUP };

// Lanes of a warp read 16 bytes each for a product, as copies do: by the asynchronous proxy.
void tw_shadow_product(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    struct tw_readings *readings = readings_of(launch, block, warp->index);
    tw_shadow_ask_for_fences(slot, warp, launch, block, counters, row, mask, addresses, bytes);
    tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, 0, OF_PRODUCT, bytes, 0);
    const struct tw_shadow_launch *of = launch;
    if (readings->count == of->readings.most) {  // what is forgotten was judged when it was issued
        readings->first++;
        readings->count--;
    }
    struct tw_reading *mine = reading(launch, block, warp->index, readings->count++);
    mine->row = row, mine->lanes = mask, mine->group = readings->groups;
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, TW_PIECE_BYTES, 0, TW_READS,
                                 TW_PIECE_BYTES, 0);
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        mine->at[me.lane] = (uint32_t)me.address;
        mine->seen[me.lane] = hash_of(&me);
    }
}

void tw_shadow_product_commit(TW_WHERE, uint32_t mask)
{
    if (mask)
        readings_of(launch, block, warp->index)->groups++;
}

// A product has been read to its end: nobody may have written since, and writes come after this.
static void finish(TW_WHERE, const struct tw_reading *mine)
{
    uint64_t addresses[TW_LANES] __attribute__((aligned(64)));
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        addresses[lane] = mine->at[lane];
    struct access me = access_of(slot, warp, launch, block, counters, mine->row, mine->lanes, addresses, TW_PIECE_BYTES,
                                 0, TW_READS, TW_PIECE_BYTES, 0);
    uint32_t same = mine->lanes;
    for (uint32_t left = mine->lanes; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        if (hash_of(&me) == mine->seen[me.lane])
            continue;
        report(&me, TW_SHARED_SOURCE, without_list(&me, written_since(&me)), true);
        same &= ~(1u << me.lane);
    }
    tw_shadow_turns_shared(slot, warp, launch, block, counters, mine->row, same, addresses, TW_PIECE_BYTES, 0,
                           OF_PRODUCT, TW_PIECE_BYTES, 0);
    (void)row;
}

// A warp's part of the first `complete` groups has been read; returns whether there was any.
static bool finish_all(TW_WHERE, uint32_t complete)
{
    struct tw_readings *readings = readings_of(launch, block, warp->index);
    bool any = false;
    while (readings->count) {
        const struct tw_reading *oldest = reading(launch, block, warp->index, 0);
        if (oldest->group >= complete)
            break;
        finish(slot, warp, launch, block, counters, row, oldest);
        readings->first++;
        readings->count--;
        any = true;
    }
    return any;
}

// The first `complete` groups of a warpgroup are, at a clock that only those know that wait for them.
static void complete_groups(struct tw_readings *of_group, uint64_t now, uint32_t complete)
{
    uint32_t from = of_group->complete < complete ? of_group->complete : complete - 1;
    for (from = complete - from > TW_WARPS_MAX ? complete - TW_WARPS_MAX : from; from < complete; from++)
        of_group->completed.of[from % TW_WARPS_MAX] = (uint32_t)now;
    of_group->complete = of_group->complete > complete ? of_group->complete : complete;
}

// All groups but the youngest `groups` are complete, for the whole warpgroup.
void tw_shadow_product_wait(TW_WHERE, uint32_t mask, uint32_t groups)
{
    const struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    const uint32_t w = warp->index, committed = readings_of(of, mine, w)->groups, products = products_of(of, w);
    const uint32_t complete = committed > groups ? committed - groups : 0, first = w - w % TW_GROUP_WARPS;
    if (!mask || !complete)
        return;
    if (products == w) {
        finish_all(slot, warp, launch, block, counters, row, complete);
        return;
    }
    struct tw_readings *of_group = readings_of(of, mine, first);
    uint64_t latest = mine->clocks[products].now;
    bool any = of_group->complete < complete;
    for (uint32_t q = first; q < of->warps && q < first + TW_GROUP_WARPS; q++) {
        const struct tw_warp other = {.index = q};
        any |= finish_all(slot, &other, launch, block, counters, row, complete);
        latest = mine->clocks[q].now > latest ? mine->clocks[q].now : latest;
    }
    if (any)
        complete_groups(of_group, mine->clocks[products].now = latest + 1, complete);
    const uint32_t at = of_group->completed.of[(complete - 1) % TW_WARPS_MAX];
    uint32_t *known = &mine->known[w].of[products];
    *known = *known > at ? *known : at;
    mine->clocks[w].now = mine->clocks[w].now > at ? mine->clocks[w].now : at;  // for orders.py
}

// A warp ends: products that it has not waited for read until now, and those without a group too.
void tw_shadow_product_end(TW_WHERE, uint32_t mask)
{
    tw_shadow_product_commit(slot, warp, launch, block, counters, row, mask);
    if (mask)
        finish_all(slot, warp, launch, block, counters, row, readings_of(launch, block, warp->index)->groups);
}

// Lanes read 16 bytes each for a thread's product in tensor memory; `instruments/tensor_memory.c` follows its end.
void tw_shadow_operands(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    if (!mask)
        return;
    tw_shadow_ask_for_fences(slot, warp, launch, block, counters, row, mask, addresses, bytes);
    tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, 0, TW_READS | TW_BY_WARP,
                           bytes, 0);
}

// The address of tensor memory is stored, by a proxy that keeps its order with all others. Source: PTX ISA, 9.7.16.6.1.
void tw_shadow_allocated(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    tw_shadow_unfenced(launch, row);
    tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, 0, TW_WRITES, bytes, 0);
}
