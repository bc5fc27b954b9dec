// Accesses of one cell of memory by several warps of a block, kept as lists. Kernels have lists if their warps may wait
// for only some of the others.
//
// Such a cell's `who` is TW_SEVERAL_WARPS, and its site is the number of a list. The list has one cell for each warp,
// the one that its access alone would leave; the highest warp comes first. The clock is the latest of the list, so a
// quick test that passes knows all accesses. Cells with the same accesses share a list, and lists share their ends. If
// there is no room for a list, the site is TW_SITE_MAX, the clock is the earliest, and nothing tells the warps.
//
// A bulk copy in flight that reads the cell is in the list too, before all accesses, with its clock and its thread.
//
// Of global memory, cells are as without lists, with the least clock, because other blocks read them too. The lists of
// R stand beside them. Accesses in these lists have no block.

#ifndef TILEWRIGHT_SHADOW_SEVERAL_H
#define TILEWRIGHT_SHADOW_SEVERAL_H

#include "judgement.h"

static inline struct tw_several *several_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *home)
{
    return (struct tw_several *)((char *)home + launch->several_at);
}

// The number of a cell's list; 0: it has none.
static inline uint32_t list_of(const struct tw_shadow_launch *launch, uint64_t cell)
{
    uint32_t site = (uint32_t)((cell & TW_SITES) >> TW_SITE_SHIFT);
    return launch->several_at && who_of(cell) == TW_SEVERAL_WARPS && site < TW_SITE_MAX ? site : 0;
}

// Take the next access off a cell, which becomes 0 with the last one.
static inline uint64_t take_from(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t *cell)
{
    uint64_t its = *cell;
    uint32_t number = list_of(launch, its), next = 0;
    if (number) {
        its = several_of(launch, home)->of[number].cell;
        next = several_of(launch, home)->of[number].next;
    }
    *cell = next ? (uint64_t)next << TW_SITE_SHIFT | TW_SEVERAL_WARPS : 0;
    return its;
}

// The same for an access of a cell. Where lists no longer keep lanes, those of its warp count as its own.
static inline uint64_t take(const struct access *me, uint64_t *cell)
{
    bool blurred = list_of(me->launch, *cell) && several_of(me->launch, me->home)->blurred;
    uint64_t its = take_from(me->launch, me->home, cell);
    if (blurred && !in_flight(its) && me->home == me->block && is_alike(me, its))
        its = (its & ~(uint64_t)TW_WHO_MASK) | me->who;
    return its;
}

// Whether a list has an access like ours already, of our lane or more of our warp: a warp that waits repeats it.
// What it knows of the others may be more now, but that only makes the list shorter.
static inline bool is_in_list(const struct access *me, uint64_t cell, uint64_t mine)
{
    while (list_of(me->launch, cell)) {
        uint64_t one = take(me, &cell);
        if (in_flight(one) || !is_alike(me, one))
            continue;
        uint64_t differs = (one ^ mine) & ~(uint64_t)TW_WHO_MASK;
        bool alike = (one & TW_SITES) == TW_SITES ? !(differs & ~TW_SITES) : !differs;
        return alike && both_parts(who_of(one), who_of(mine), warp_of(me->who)) == who_of(one);
    }
    return false;
}

// What R says of a bulk copy that reads the cell and is in flight.
static inline uint64_t flight_of(const struct access *me, uint64_t cell)
{
    uint64_t one = cell;
    while (cell && list_of(me->launch, cell))
        if (in_flight(one = take(me, &cell)))
            break;
    return (one & ~(uint64_t)TW_WHO_MASK) | TW_FLIGHT_WHO;
}

// A cell whose site is one, or unknown where it has a list.
static inline uint64_t without_list(const struct access *me, uint64_t cell)
{
    return list_of(me->launch, cell) ? cell | TW_SITES : cell;
}

// Whether one access of our block is not ordered before ours.
static inline bool is_unordered(const struct access *me, uint64_t one, bool strong)
{
    uint64_t its = one >> TW_CLOCK_SHIFT;
    return races(me, one, its, strong) && !is_ordered(me, me->number, one, its);
}

// The cell of a cell's accesses by our block and ours.
uint64_t tw_shadow_join(const struct access *me, uint64_t cell, uint64_t mine);

// The cell of a cell's reads and that of a bulk copy that begins: it has its thread and the clock of copies in flight.
uint64_t tw_shadow_hold(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t cell,
                        uint64_t flight);

// The same when the copy has ended: its read is one of its thread at a clock.
uint64_t tw_shadow_let_go(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint64_t cell,
                          uint64_t flight, uint64_t landed);

// `tw_shadow_join` for a cell of global memory and the number of its list, or 0, which becomes that of the new one. The
// cells have no block, and the result has no site if it is of several warps.
uint64_t tw_shadow_join_global(const struct access *me, uint64_t cell, uint32_t *number, uint64_t mine);

// What `tw_shadow_join` makes of a warp's read where all warps know the same of each other: all below `limit`.
uint64_t tw_shadow_join_level(const struct tw_shadow_launch *launch, struct tw_shadow_block *home, uint32_t warp,
                              uint64_t limit, uint64_t cell, uint64_t mine);

#endif
