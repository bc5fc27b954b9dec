// What the quick tests and the exact judgement of global memory share.

#ifndef TILEWRIGHT_SHADOW_GLOBAL_H
#define TILEWRIGHT_SHADOW_GLOBAL_H

#include "judgement.h"

void tw_shadow_turns_global(TW_ACCESSES);
void tw_shadow_ends(struct access *me, uint64_t start, uint64_t end);

// Whether a cell can describe an access of a block at a clock.
static inline bool fits(uint64_t number, uint64_t clock)
{
    return clock <= TW_CLOCK_MAX && number <= TW_BLOCK_MAX;
}

// Whether the read of one more block of a cell can be kept.
static inline bool has_room(const struct tw_shadow_launch *launch, uint64_t cell)
{
    return launch->readers &&
           !__atomic_load_n(&launch->readers[(cell + 1) * TW_READERS_MAX - 1], __ATOMIC_RELAXED);
}

// One lane's load of one cell: whether it is readable, not written in this launch, and put down in R by one exchange at
// most.
static inline bool tw_global_reads_one(const struct access *me)
{
    const struct tw_shadow_launch *launch = me->launch;
    uint64_t offset = me->address - launch->base, cell = offset / launch->cell_bytes;
    for (uint64_t i = 0; i < launch->cell_bytes; i++)
        if (!(__atomic_load_n(&launch->states[offset + i], __ATOMIC_RELAXED) & TW_READABLE))
            return false;
    uint64_t read = __atomic_load_n(&launch->reads[cell], __ATOMIC_RELAXED);
    uint64_t mine = me->number << TW_BLOCK_SHIFT | me->clock << TW_CLOCK_SHIFT | me->low;
    if (read && read >> TW_BLOCK_SHIFT != me->number && has_room(launch, cell))
        return false;
    if (read != TW_SEVERAL_BLOCKS && (read ^ mine) & ~TW_SITES) {
        if ((read && (read >> TW_BLOCK_SHIFT == me->number || launch->ranks > 1)) || !fits(me->number, me->clock))
            return false;
        uint64_t next = read ? TW_SEVERAL_BLOCKS : mine;
        if (!__atomic_compare_exchange_n(&launch->reads[cell], &read, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return false;
    }
    return __atomic_load_n(&launch->writes[cell], __ATOMIC_RELAXED) == 0;
}

#endif
