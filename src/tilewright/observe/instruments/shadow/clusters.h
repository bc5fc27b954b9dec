// Clusters in shadow memory: the cells of accesses by other blocks, and the clocks of other blocks.

#ifndef TILEWRIGHT_SHADOW_CLUSTERS_H
#define TILEWRIGHT_SHADOW_CLUSTERS_H

#include "judgement.h"

#define TW_FAR ((uint64_t)1 << 63)

// An access by a block of a cluster; `low` has its site and whether it is strong.
static inline uint64_t far_cell(uint32_t rank, uint64_t clock, uint64_t low, uint32_t who)
{
    uint64_t kept = clock < TW_FAR_CLOCK_MAX ? clock : TW_FAR_CLOCK_MAX;
    uint64_t upper = (uint64_t)rank << 11 | who;
    return TW_FAR | (upper << TW_FAR_CLOCK_BITS | kept) << TW_CLOCK_SHIFT | (low & (TW_SITES | TW_STRONG)) | TW_FAR_WHO;
}

static inline bool is_far(uint64_t cell)
{
    return cell & TW_FAR && cell >> TW_CLOCK_SHIFT < TW_OBJECT_CLOCK;
}

static inline uint32_t far_rank(uint64_t cell)
{
    return (uint32_t)(cell >> (TW_CLOCK_SHIFT + TW_FAR_CLOCK_BITS + 11)) & 15;
}

static inline uint32_t far_who(uint64_t cell)
{
    return (uint32_t)(cell >> (TW_CLOCK_SHIFT + TW_FAR_CLOCK_BITS)) & TW_WHO_MASK;
}

static inline uint64_t far_clock(uint64_t cell)
{
    return cell >> TW_CLOCK_SHIFT & ((UINT64_C(1) << TW_FAR_CLOCK_BITS) - 1);
}

// The same in the form of its own block: 0 if nothing was written.
static inline uint64_t near_cell(uint64_t cell)
{
    return far_clock(cell) << TW_CLOCK_SHIFT | (cell & (TW_SITES | TW_STRONG)) | far_who(cell);
}

// A cell of a block's memory in the form of clusters; 0 if nothing was written.
static inline uint64_t far_of(uint64_t cell, uint32_t rank)
{
    if (is_far(cell))
        return near_cell(cell) ? cell : 0;
    return cell ? far_cell(rank, cell >> TW_CLOCK_SHIFT, cell, who_of(cell)) : 0;
}

// The form of one block, if the access is the block's own; other cells stay as they are.
static inline uint64_t near_of(uint64_t cell, uint32_t rank)
{
    // a cell that was only read has the rank of its block
    return cell >> (TW_CLOCK_SHIFT + TW_FAR_CLOCK_BITS + 11) == (16 | rank) && is_far(cell) &&
                   far_who(cell) != TW_SEVERAL_RANKS ? near_cell(cell) : cell;
}

static inline struct tw_far *far_part(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block)
{
    return (struct tw_far *)((char *)block + launch->far_at);
}

// The clocks of one block of the cluster in a row of a block; see TW_KNOWN_ROW.
static inline struct tw_clocks *row_of(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block,
                                       uint32_t row, uint32_t rank)
{
    return &far_part(launch, block)->rows[row * launch->ranks + rank];
}

static inline uint32_t rank_of(const struct tw_slot *slot)
{
    return (uint32_t)(slot - slot->cluster);
}

// What our warp knows of the warps of a block.
static inline const struct tw_clocks *known_of(const struct access *me, uint32_t rank)
{
    return rank == me->rank ? &me->block->known[me->warp]
                            : row_of(me->launch, me->block, TW_KNOWN_ROW + me->warp, rank);
}

// A row with its clocks of some lanes.
TW_INLINE static inline struct knowledge far_row(const struct tw_shadow_launch *launch,
                                                 const struct tw_shadow_block *block, uint32_t row, uint32_t rank)
{
    return (struct knowledge){
        row_of(launch, block, row, rank),
        launch->watched_at ? row_of(launch, block, row + TW_TO_CAME, rank) : 0,
        launch->watched_at ? row_of(launch, block, row + TW_TO_LANES, rank) : 0,
    };
}

// What a warp knows of some lanes of each warp of another block: the clocks, or with `lanes` these lanes.
static inline struct tw_clocks *ahead_there(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block,
                                            uint32_t warp, uint32_t rank, bool lanes)
{
    const uint32_t first = lanes ? TW_TO_LANES : TW_TO_CAME;
    return row_of(launch, block, first + TW_KNOWN_ROW + warp, rank);
}

// Whether our warp waited for an arrival at an mbarrier that came after an access by another block; with `by_lane`,
// also whether the arrival released what the lane of that access did.
static inline bool came_there(const struct access *me, uint32_t rank, uint32_t who, uint64_t its, bool by_lane)
{
    if (!me->launch->watched_at || rank == me->rank)
        return false;
    const struct tw_clocks *came = ahead_there(me->launch, me->block, me->warp, rank, false);
    if (who >= TW_SEVERAL_RANKS)
        return beyond(came, its) != 0;
    uint32_t lanes = ahead_there(me->launch, me->block, me->warp, rank, true)->of[warp_of(who)];
    bool handed_on = who >= TW_THREAD_MAX ? lanes != 0 : (lanes >> (who & 31) & 1) != 0;
    return its < came->of[warp_of(who)] && (handed_on || !by_lane);
}

static inline uint32_t latest_of(const struct tw_clocks *clocks)
{
    uint32_t most = 0;
    for (uint32_t warp = 0; warp < TW_WARPS_MAX; warp++)
        most = clocks->of[warp] > most ? clocks->of[warp] : most;
    return most;
}

// Whether an access by another block of our cluster is not ordered before ours. Several warps or blocks are not kept
// apart, so their access races only if it races with those that we know best.
static inline bool races_away(const struct access *me, uint32_t rank, uint32_t who, uint64_t its)
{
    uint32_t any = 0;
    if (who < TW_SEVERAL_RANKS)
        return its >= known_of(me, rank)->of[warp_of(who)] && !came_there(me, rank, who, its, true);
    if (who == TW_SEVERAL_WARPS)
        return !beyond(known_of(me, rank), its) && !came_there(me, rank, who, its, false);
    for (uint32_t other = 0; other < me->launch->ranks; other++)
        any |= other == me->rank ? 0 : beyond(known_of(me, other), its) | came_there(me, other, who, its, false);
    return !any;
}

void tw_shadow_visit(const struct access *me, const struct tw_slot *other, const struct tw_warp *warp,
                     uint64_t place);

#endif
