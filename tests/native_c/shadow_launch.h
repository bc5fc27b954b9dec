// A launch and a block of the shadow-memory instrument, for the tests of its parts.

#ifndef TILEWRIGHT_TESTS_SHADOW_LAUNCH_H
#define TILEWRIGHT_TESTS_SHADOW_LAUNCH_H

#include <string.h>

#include "check.h"
#include "observe/instruments/shadow/records.c"
#include "observe/instruments/shadow/judgement.h"

enum { CELLS = 128, WARPS = 3, EVERY = -1 };

struct shadow {
    struct tw_shadow_launch launch;
    struct tw_record table[TW_RECORDS];
    struct tw_slot slot;
    struct tw_warp warps[WARPS];
    uint8_t shared[4 * CELLS];
    struct tw_shadow_block *of;  // W, R and clocks of lanes follow it
    uint64_t *reads;
    struct tw_clocks *lanes;
};

static inline struct shadow *fresh(uint64_t number)
{
    size_t of_shared = CELLS * sizeof(uint64_t), of_lanes = WARPS * TW_LANES * sizeof(struct tw_clocks);
    struct shadow *s = calloc(1, sizeof *s + sizeof *s->of + 2 * of_shared + of_lanes);
    CHECK(s);
    s->of = (struct tw_shadow_block *)(s + 1);
    s->reads = s->of->writes + CELLS;
    s->lanes = (struct tw_clocks *)(s->reads + CELLS);
    s->launch.found.table = s->table;
    s->launch.found.threads = WARPS * TW_LANES;
    s->launch.cell_bytes = 4;
    s->launch.warps = WARPS;
    s->launch.shared_reads = sizeof *s->of + of_shared;
    s->slot.block = number;
    s->slot.shared = (char *)s->shared;
    for (uint32_t w = 0; w < TW_WARPS_MAX; w++) {
        s->of->clocks[w] = (struct tw_clock){1, (uint64_t)1 << TW_CLOCK_SHIFT};
        s->of->whole[w] = 1;
        for (uint32_t q = 0; q < TW_WARPS_MAX; q++)
            s->of->known[w].of[q] = 1;
    }
    for (uint32_t w = 0; w < WARPS; w++) {
        s->warps[w].index = w;
        s->warps[w].live = UINT32_MAX;
    }
    return s;
}

// All warps after a barrier of the whole block.
static inline void synchronise(struct shadow *s)
{
    for (uint32_t w = 0; w < WARPS; w++) {
        uint64_t now = ++s->of->clocks[w].now;
        s->of->clocks[w].limit = now << TW_CLOCK_SHIFT;
        s->of->whole[w] = now;
        for (uint32_t q = 0; q < WARPS; q++)
            s->of->known[w].of[q] = (uint32_t)now;
    }
}

// How many findings of a kind there are, or of every kind; with `strict` of those that only `--strict` reports.
static inline uint64_t findings_of(const struct shadow *s, int32_t kind, uint64_t strict)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < TW_RECORDS; i++)
        if (s->table[i].kind && (kind == EVERY || s->table[i].kind == (uint64_t)kind) &&
            (s->table[i].wrote & (TW_ONE_VALUE | TW_LOCKSTEP)) == strict)
            count += s->table[i].count;
    return count;
}

static inline uint64_t findings(const struct shadow *s, int32_t kind)
{
    return findings_of(s, kind, 0);
}

static inline void lanes_from(uint64_t *addresses, uint64_t first, uint64_t step)
{
    for (uint32_t i = 0; i < TW_LANES; i++)
        addresses[i] = first + i * step;
}

#endif
