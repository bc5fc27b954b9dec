// Vector clocks of warps, which barriers join.
//
// A warp's clock grows when it reaches a barrier, and at `bar.warp.sync`. What warp q did at a clock below
// `known[w][q]` is ordered before what warp w does now. Arriving warps join what they know into the barrier. The first
// warp that resumes closes the barrier's round and gives the union to all that waited, so a warp that has run ahead to
// the next round adds nothing to this one. After a barrier of the whole block all clocks are equal again, so that a
// cell's one clock is right for several readers.
//
// A barrier orders the lanes of a warp that wait at it; `bar.warp.sync` orders the lanes that it names. If it does not
// always name all lanes, each lane has clocks of the others, in the warp's own time.
//
// Source: vector clocks, as in Flanagan and Freund, "FastTrack" (PLDI 2009), with warps for threads; PTX ISA, 8.9
// (causality order), 9.7.13.1 (bar): a barrier orders the memory accesses of the threads that take part, and those of
// threads that only arrive for the threads that wait; 9.7.13.2: bar.warp.sync orders those of the threads that take
// part. `shfl.sync`, `vote.sync`, `match.sync` and `redux.sync` order nothing (CUDA C++ Programming Guide, warp vote,
// match, reduce and shuffle functions: "These intrinsics do not imply a memory barrier"); racecheck sees it so too.

#include <stdbool.h>

#include "knowledge.h"

void tw_shadow_hand_on(const struct tw_shadow_launch *launch, const struct tw_slot *slot,
                       struct tw_shadow_block *block, uint32_t warp, uint32_t row, uint32_t takes);
void tw_shadow_leave_for(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t barrier,
                         uint32_t warp);
void tw_shadow_clear_round(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t barrier);
void tw_shadow_cluster_wait(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp);
void tw_shadow_cluster_leave(struct tw_shadow_launch *launch, const struct tw_slot *slot,
                             struct tw_shadow_block *block, uint32_t warp);
void tw_shadow_ended(struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block);

// Notify orders.py of an event of the warp at its clock.
static void notify_event(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint64_t number, uint32_t warp,
                         enum tw_order_call what, uint32_t a, uint32_t b)
{
    if (!launch->order)
        return;
    block->seen[warp] = 0;
    notify_order(launch, what, number, warp, a, b, block->clocks[warp].now);
}

void tw_shadow_arrive(TW_WHERE, uint32_t mask, uint32_t barrier, uint32_t threads, uint32_t waits)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    uint32_t w = warp->index, known = barrier < TW_ROUNDS ? barrier : TW_ROUNDS - 1;  // others are a fault right after
    if (barrier == TW_CLUSTER_BARRIER && of->far_at) {
        tw_shadow_cluster_wait(of, mine, w);
        return;
    }
    struct tw_round *round = &mine->rounds[known];
    uint64_t now = ++mine->clocks[w].now;
    if (of->far_at)
        tw_shadow_hand_on(of, slot, mine, w, TW_ROUND_ROW + known, 0);
    pass_on(near_row(of, mine, TW_ROUND_ROW + known), near_row(of, mine, w));
    const bool of_all = !threads || threads >= of->found.threads;
    round->unheard |= !of_all ? UINT32_MAX : waits ? 0 : 1u << w;
    round->joined.of[w] = (uint32_t)now;
    mine->waits[w] = (struct tw_wait){waits ? known + 1 : 0, round->number};
    if (waits)  // lanes that only arrive do not wait for each other
        mine->whole[w] = now;
    notify_event(launch, block, slot->block, w, TW_BARRIER_ARRIVED, known,
                 round->number << 2 | (uint32_t)of_all << 1 | (waits != 0));
}

// What the resuming warps know. If no warp of the block is missing, they know all that every warp did.
static tw_u32_lanes known_behind(const struct tw_shadow_block *block, uint64_t warps, struct tw_wait wait)
{
    const struct tw_round *round = &block->rounds[wait.barrier - 1];
    tw_u32_lanes none = {0};
    uint32_t latest = 0;
    struct tw_clocks ended;
    set_clocks(&ended, chosen((tw_u32_lanes)tw_mask32(round->unheard), none, clocks_of(&block->gone)));
    for (uint32_t q = 0; q < warps; q++)
        if (!ended.of[q] && (block->waits[q].barrier != wait.barrier || block->waits[q].round != wait.round))
            return later(clocks_of(&round->joined), clocks_of(&ended));
    for (uint32_t q = 0; q < warps; q++) {
        uint32_t joined = round->joined.of[q];
        latest = joined > latest ? joined : latest;
        latest = ended.of[q] > latest ? ended.of[q] : latest;
    }
    return none + latest;
}

// Start a barrier's next round, and give what this one joined to all warps that waited.
static void close_round(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, struct tw_wait wait)
{
    struct tw_round *round = &block->rounds[wait.barrier - 1];
    struct tw_some *some = (struct tw_some *)((char *)block + launch->ahead_at);
    tw_u32_lanes known = known_behind(block, launch->warps, wait), none = {0};
    round->number++;
    round->unheard = 0;
    set_clocks(&round->joined, none);
    for (uint32_t q = 0; q < launch->warps; q++) {
        if (block->waits[q].barrier != wait.barrier || block->waits[q].round != wait.round)
            continue;
        set_clocks(&block->inbox[q], known);
        if (launch->ahead_at)
            some[TW_INBOX_ROW + q] = some[TW_ROUND_ROW + wait.barrier - 1];
        if (launch->far_at)
            tw_shadow_leave_for(launch, block, wait.barrier - 1, q);
    }
    if (launch->ahead_at)
        some[TW_ROUND_ROW + wait.barrier - 1] = (struct tw_some){0};
    if (launch->far_at)
        tw_shadow_clear_round(launch, block, wait.barrier - 1);
}

// A warp acquires what a barrier of its block has left for it.
static void acquire(const struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block,
                    uint32_t w)
{
    struct tw_wait wait = block->waits[w];
    if (block->rounds[wait.barrier - 1].number == wait.round)
        close_round(launch, block, wait);
    pass_on(near_row(launch, block, w), near_row(launch, block, TW_INBOX_ROW + w));
    if (launch->far_at)
        tw_shadow_hand_on(launch, slot, block, w, TW_INBOX_ROW + w, 1);
}

void tw_shadow_release(TW_WHERE, uint32_t mask)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    uint32_t w = warp->index, least = UINT32_MAX;
    struct tw_clock *clock = &mine->clocks[w];
    const struct tw_wait wait = mine->waits[w];
    if (!wait.barrier)
        return;
    if (wait.barrier == TW_CLUSTER_BARRIER + 1)
        tw_shadow_cluster_leave(of, slot, mine, w);
    else
        acquire(of, slot, mine, w);
    mine->waits[w].barrier = 0;
    for (uint32_t q = 0; q < of->warps; q++)
        if (q != w && mine->known[w].of[q] < least)
            least = mine->known[w].of[q];
    uint64_t bound = least == UINT32_MAX ? clock->now : least;  // a warp that is alone knows itself
    clock->now = bound > clock->now ? bound : clock->now;
    clock->limit = bound << TW_CLOCK_SHIFT;
    notify_event(launch, block, slot->block, w, TW_BARRIER_LEFT, wait.barrier - 1, wait.round);
}

// Lanes of a group know all that any of them knows, and each other up to now.
static void join_lanes(struct tw_clocks *lanes, uint32_t group, uint32_t now)
{
    tw_u32_lanes known = {0}, mask = (tw_u32_lanes)tw_mask32(group);
    for (uint32_t left = group; left; left = tw_other_lanes(left))
        known = later(known, clocks_of(&lanes[tw_first_lane(left)]));
    known = chosen(mask, (tw_u32_lanes){0} + now, known);
    for (uint32_t left = group; left; left = tw_other_lanes(left))
        set_clocks(&lanes[tw_first_lane(left)], known);
}

// `bar.warp.sync`: lanes with the same mask are ordered, and all that the mask names. A named lane that is elsewhere is
// TW404.
void tw_shadow_sync(TW_WHERE, uint32_t mask, const uint32_t *members)
{
    struct tw_shadow_block *mine = block;
    uint32_t w = warp->index, common = UINT32_MAX;
    uint64_t now = ++mine->clocks[w].now;
    for (uint32_t left = mask; left; left = tw_other_lanes(left))
        common &= members[tw_first_lane(left)];
    if (common == UINT32_MAX) {
        mine->whole[w] = now;
        return;
    }
    struct tw_clocks *lanes = (struct tw_clocks *)((char *)block + mine->lanes_at) + w * TW_LANES;
    for (uint32_t left = mask, with; left; left &= ~with) {
        uint32_t group = members[tw_first_lane(left)];
        with = 0;
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            with |= (uint32_t)(members[lane] == group) << lane;
        with &= left;
        join_lanes(lanes, group | with, (uint32_t)now);
    }
}

// A fence orders nothing by itself: lanes of a warp do not wait for each other. Accesses after it get another clock,
// because it does not release them. The scope of a narrow fence is its own block.
void tw_shadow_fence(TW_WHERE, uint32_t mask, uint32_t narrow)
{
    struct tw_shadow_block *mine = block;
    notify_event(launch, block, slot->block, warp->index, TW_FENCE, narrow, 0);
    mine->clocks[warp->index].now++;
}

// A warp that has ended counts as arrived at every barrier: the others neither wait for it nor learn more of it.
void tw_shadow_exit(TW_WHERE, uint32_t mask)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    if (!warp->live) {
        mine->gone.of[warp->index] = (uint32_t)mine->clocks[warp->index].now + 1;
        notify_event(of, mine, slot->block, warp->index, TW_ENDED, 0, 0);
    }
    if (!warp->live && of->ranks > 1)
        tw_shadow_ended(of, slot, mine);
}
