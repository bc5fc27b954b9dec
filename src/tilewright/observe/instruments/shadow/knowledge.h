// What warps know of each other's clocks, and how this is passed on.

#ifndef TILEWRIGHT_SHADOW_KNOWLEDGE_H
#define TILEWRIGHT_SHADOW_KNOWLEDGE_H

#include "cells.h"
#include "simulate/runtime/instrument.h"

// What a warp or barrier knows of the warps of a block: for each warp the clock below which it knows what all lanes
// did. If the kernel has mbarriers, also a later clock below which it knows what some lanes did, and these lanes.
struct knowledge {
    struct tw_clocks *all;
    struct tw_clocks *came;  // null without mbarriers
    struct tw_clocks *lanes;
};

static inline tw_u32_lanes clocks_of(const struct tw_clocks *clocks)
{
    tw_u32_lanes all;
    __builtin_memcpy(&all, clocks->of, sizeof all);
    return all;
}

static inline void set_clocks(struct tw_clocks *to, tw_u32_lanes all)
{
    __builtin_memcpy(to->of, &all, sizeof all);
}

static inline tw_u32_lanes chosen(tw_u32_lanes mask, tw_u32_lanes a, tw_u32_lanes b)
{
    return (a & mask) | (b & ~mask);
}

static inline tw_u32_lanes later(tw_u32_lanes a, tw_u32_lanes b)
{
    return chosen((tw_u32_lanes)(a > b), a, b);
}

static inline void join_clocks(struct tw_clocks *to, const struct tw_clocks *from)
{
    set_clocks(to, later(clocks_of(to), clocks_of(from)));
}

// Clocks of some lanes count only above the clock of all lanes; lanes of two times get the later one.
TW_INLINE static inline void pass_on(struct knowledge to, struct knowledge from)
{
    join_clocks(to.all, from.all);
    if (!to.came)
        return;
    tw_u32_lanes all = clocks_of(to.all), mine = clocks_of(to.came), its = clocks_of(from.came);
    tw_u32_lanes new = (tw_u32_lanes)(its > all), old = (tw_u32_lanes)(mine > all);
    set_clocks(to.lanes, (clocks_of(to.lanes) & old) | (clocks_of(from.lanes) & new));
    set_clocks(to.came, later(mine & old, its & new));
}

// What the arrivals of a phase of an mbarrier have released.
TW_INLINE static inline struct knowledge arrivals(struct tw_arrivals *its)
{
    return (struct knowledge){&its->joined, &its->some.came, &its->some.lanes};
}

// A row of a block's clocks of its own warps: what a warp knows, what a barrier left for it, or what a barrier has.
TW_INLINE static inline struct knowledge near_row(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                  uint32_t row)
{
    struct tw_some *some = (struct tw_some *)((char *)block + launch->ahead_at) + row;
    struct tw_clocks *all = row >= TW_ROUND_ROW   ? &block->rounds[row - TW_ROUND_ROW].joined
                            : row >= TW_INBOX_ROW ? &block->inbox[row - TW_INBOX_ROW]
                                                  : &block->known[row];
    return (struct knowledge){all, launch->ahead_at ? &some->came : 0, launch->ahead_at ? &some->lanes : 0};
}

// Notify orders.py of an event or a strong access of a warp. Answers from before do not hold any more.
static inline void notify_order(struct tw_shadow_launch *launch, enum tw_order_call what, uint64_t block, uint32_t warp,
                                uint64_t a, uint64_t b, uint64_t clock)
{
    launch->order(what, (int64_t)block, warp, (int64_t)a, (int64_t)b, (int64_t)clock);
    __atomic_fetch_add(&launch->notices, 1, __ATOMIC_SEQ_CST);
}

#endif
