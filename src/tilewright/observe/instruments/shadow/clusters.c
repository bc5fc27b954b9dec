// Clusters: the order that their barrier makes, and whether a block runs while others access its shared memory.
//
// Each warp knows clocks of all warps of its cluster; this file has those of other blocks. Barriers of a block,
// mbarriers and the cluster's barrier pass them on. The cluster's barrier joins what arriving warps know, and gives the
// union to the warps that resume. A clock of 1 means "this block runs"; a relaxed arrival releases only that.
//
// Source: PTX ISA, 9.7.13.3 (barrier.cluster: arrive has the semantics of .release, wait of .acquire by default; with
// .relaxed "there are no memory ordering and visibility guarantees provided for the memory accesses performed prior");
// 9.7.13.4 (fence.mbarrier_init: the initialisations before it are visible to the cluster after a relaxed arrival);
// CUDA C++ Programming Guide, "Distributed Shared Memory": all blocks must have begun, and none may end before all
// accesses of its memory.

#include "clusters.h"

void tw_shadow_fence(TW_WHERE, uint32_t mask, uint32_t narrow);
void tw_shadow_sent_ended(struct tw_shadow_launch *launch, const struct tw_slot *slot,
                          const struct tw_shadow_block *block, uint32_t rank);

// The first block of a cluster, which keeps what the cluster has once.
static struct tw_shadow_block *first_of(const struct tw_slot *slot, const void *block)
{
    return shadow_of(slot, slot->cluster, block);
}

// The clocks of a block's warps that a round of the cluster's barrier passes on.
TW_INLINE static inline struct knowledge joined_in(const struct tw_shadow_launch *launch,
                                                   const struct tw_shadow_block *first, uint32_t round, uint32_t rank)
{
    return far_row(launch, first, TW_CLUSTER_ROW + (round & 1), rank);
}

// What a warp knows of a block of its cluster.
TW_INLINE static inline struct knowledge known_to(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                  uint32_t warp, uint32_t mine, uint32_t rank)
{
    return rank == mine ? near_row(launch, block, warp) : far_row(launch, block, TW_KNOWN_ROW + warp, rank);
}

// Copy the rows of clocks with one number, of whole warps and of some lanes, to another; without a source, clear them.
static void turn_rows(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t to,
                      const uint32_t *from)
{
    const uint64_t bytes = launch->ranks * sizeof(struct tw_clocks);
    for (uint32_t part = 0; part < 3 && (!part || launch->watched_at); part++) {
        struct tw_clocks *its = row_of(launch, block, to + part * TW_TO_CAME, 0);
        if (from)
            __builtin_memcpy(its, row_of(launch, block, *from + part * TW_TO_CAME, 0), bytes);
        else
            __builtin_memset(its, 0, bytes);
    }
}

// Join what a warp knows of other blocks into a row of a block, or the row into what the warp knows.
void tw_shadow_hand_on(const struct tw_shadow_launch *launch, const struct tw_slot *slot,
                       struct tw_shadow_block *block, uint32_t warp, uint32_t row, uint32_t takes)
{
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        struct knowledge its = far_row(launch, block, row, rank);
        struct knowledge mine = far_row(launch, block, TW_KNOWN_ROW + warp, rank);
        if (rank != rank_of(slot))
            pass_on(takes ? mine : its, takes ? its : mine);
    }
}

// A barrier of a block starts its next round: what it has of other blocks goes to the inbox of a warp that waited.
void tw_shadow_leave_for(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t barrier,
                         uint32_t warp)
{
    turn_rows(launch, block, TW_INBOX_ROW + warp, &(uint32_t){TW_ROUND_ROW + barrier});
}

void tw_shadow_clear_round(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t barrier)
{
    turn_rows(launch, block, TW_ROUND_ROW + barrier, 0);
}

// Lanes of a warp arrive at another block's mbarrier. Of their warp they release what all its lanes did before `whole`,
// and all that they did themselves.
void tw_shadow_arrive_there(const struct tw_shadow_launch *launch, const struct tw_slot *slot,
                            struct tw_shadow_block *block, const struct tw_warp *warp, uint32_t lanes,
                            struct tw_shadow_block *there, struct tw_watched *object)
{
    uint32_t mine = rank_of(slot), away = rank_of(slot->target), w = warp->index;
    uint32_t number = (uint32_t)(object - (struct tw_watched *)((char *)there + launch->watched_at));
    uint32_t now = (uint32_t)++block->clocks[w].now;
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        struct knowledge to = rank == away ? arrivals(&object->now) : far_row(launch, there, TW_NOW_ROW + number, rank);
        pass_on(to, known_to(launch, block, w, mine, rank));
        if (rank != mine)
            continue;
        to.lanes->of[w] |= lanes;
        to.came->of[w] = now;
        uint32_t most = (to.lanes->of[w] & warp->live) == warp->live ? now : (uint32_t)block->whole[w];
        if (to.all->of[w] < (most ? most : 1))
            to.all->of[w] = most ? most : 1;
    }
}

// The phase of an mbarrier is complete: the next waits acquire what other blocks released to it.
void tw_shadow_turn_there(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t number)
{
    turn_rows(launch, block, TW_BEFORE_ROW + number, &(uint32_t){TW_NOW_ROW + number});
    turn_rows(launch, block, TW_NOW_ROW + number, 0);
}

// Initialisations that a warp has fenced are known after the round in which it arrives.
static void make_known(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                       uint32_t round)
{
    struct tw_watched *objects = (struct tw_watched *)((char *)block + launch->watched_at);
    for (uint32_t i = 0; launch->watched_at && i < TW_WATCHED_MAX && objects[i].place; i++)
        if (!objects[i].round && objects[i].made_by >> 5 == warp &&
            objects[i].made_at < far_part(launch, block)->fenced.of[warp])
            objects[i].round = round + 1;
}

// Lanes arrive at the barrier of the cluster.
void tw_shadow_cluster_arrive(TW_WHERE, uint32_t mask, uint32_t relaxed)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block, *first = first_of(slot, block);
    uint32_t w = warp->index, round = far_part(of, first)->number, own = rank_of(slot);
    uint32_t now = (uint32_t)++mine->clocks[w].now;
    for (uint32_t rank = 0; rank < of->ranks && !relaxed; rank++)
        pass_on(joined_in(of, first, round, rank), known_to(of, mine, w, own, rank));
    if (!relaxed)
        joined_in(of, first, round, own).all->of[w] = now;
    far_part(of, mine)->came.of[w] = round + 1;
    make_known(of, mine, w, round);
    if (of->order)
        notify_order(of, TW_CLUSTER_ARRIVED, slot->block, w, slot->cluster->block, relaxed, now);
}

// A warp starts to wait there, which synchronises its lanes.
void tw_shadow_cluster_wait(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp)
{
    uint32_t came = far_part(launch, block)->came.of[warp];
    block->whole[warp] = ++block->clocks[warp].now;
    block->waits[warp] = (struct tw_wait){TW_CLUSTER_BARRIER + 1, came - 1};
}

// The first warp that resumes ends the round. All blocks run, and warps that ended without arriving are complete.
static void end_round(const struct tw_shadow_launch *launch, const struct tw_slot *slot, const void *block,
                      uint32_t round)
{
    struct tw_shadow_block *first = first_of(slot, block);
    far_part(launch, first)->number = round + 1;
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        const struct tw_shadow_block *one = shadow_of(slot, &slot->cluster[rank], block);
        struct tw_clocks *joined = joined_in(launch, first, round, rank).all;
        for (uint32_t q = 0; q < launch->warps; q++) {
            uint32_t gone = far_part(launch, one)->came.of[q] == round + 1 ? 0 : one->gone.of[q];
            uint32_t least = gone > 1 ? gone : 1;
            joined->of[q] = joined->of[q] > least ? joined->of[q] : least;
        }
    }
    turn_rows(launch, first, TW_CLUSTER_ROW + ((round + 1) & 1), 0);
}

// A warp resumes after the barrier, and acquires what the arrivals released. Its clock is then above theirs, so that
// one clock says for several blocks whether their accesses came after the barrier.
void tw_shadow_cluster_leave(struct tw_shadow_launch *launch, const struct tw_slot *slot,
                             struct tw_shadow_block *block, uint32_t warp)
{
    struct tw_shadow_block *first = first_of(slot, block);
    uint32_t round = block->waits[warp].round, most = 0;
    if (far_part(launch, first)->number == round)
        end_round(launch, slot, block, round);
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        struct knowledge joined = joined_in(launch, first, round, rank);
        uint32_t latest = latest_of(joined.all);
        pass_on(known_to(launch, block, warp, rank_of(slot), rank), joined);
        most = latest > most ? latest : most;
    }
    far_part(launch, block)->waited.of[warp] = round + 1;
    if (most > block->clocks[warp].now)
        block->clocks[warp].now = most;
    if (launch->order)
        notify_order(launch, TW_CLUSTER_LEFT, slot->block, warp, slot->cluster->block, 0, 0);
}

// `fence.mbarrier_init`: a relaxed arrival makes the warp's initialisations known.
void tw_shadow_init_fence(TW_WHERE, uint32_t mask)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    if (of->far_at)
        far_part(of, mine)->fenced.of[warp->index] = (uint32_t)++mine->clocks[warp->index].now;
    tw_shadow_fence(slot, warp, launch, block, counters, row, mask, 0);
}

// How often a lane has arrived at the cluster's barrier: once less than its warp if other lanes arrived before it.
static uint32_t round_of(const struct access *me, const struct tw_warp *warp)
{
    uint32_t came = far_part(me->launch, me->block)->came.of[me->warp];
    return came - (warp->cluster_owes && !(warp->cluster_owes >> me->lane & 1));
}

// A lane accesses another block's shared memory. It must know that the block has started; the block must not end first.
void tw_shadow_visit(const struct access *me, const struct tw_slot *other, const struct tw_warp *warp, uint64_t place)
{
    const struct tw_clocks *known = known_of(me, rank_of(other));
    struct tw_far *far = far_part(me->launch, shadow_of(me->slot, other, me->block));
    uint32_t by = me->rank << 5 | me->warp, slots = TW_VISITS_MAX, at = (by * 61 + me->row * 7) % slots, tries = 0;
    if (!latest_of(known) && !is_ordered(me, other->block, 0, 0))
        report(me, TW_AWAY_EARLY, 0, false);
    while (tries < slots && far->visits[at].by && (far->visits[at].by != by + 1 || far->visits[at].row != me->row)) {
        at = (at + 1) % slots;
        tries++;
    }
    if (tries == slots)
        __atomic_fetch_add(&me->launch->unvisited, 1, __ATOMIC_RELAXED);
    else
        far->visits[at] = (struct tw_visit){by + 1, me->row, me->lane, (uint32_t)me->clock, round_of(me, warp),
                                            (uint32_t)place};
}

// Whether some warp of a block knew, before it ended, that an access of the block's memory was complete.
static bool was_awaited(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block,
                        const struct tw_visit *visit)
{
    uint32_t by = visit->by - 1;
    const struct tw_far *far = far_part(launch, block);
    for (uint32_t q = 0; q < launch->warps; q++)
        if (visit->round < far->waited.of[q] ||
            visit->clock < row_of(launch, block, TW_KNOWN_ROW + q, by >> 5)->of[by & 31] ||
            (launch->watched_at && visit->clock < ahead_there(launch, block, q, by >> 5, false)->of[by & 31]))
            return true;
    return false;
}

static void report_late(struct tw_shadow_launch *launch, const struct tw_slot *slot, const struct tw_visit *visit,
                      uint32_t rank)
{
    uint32_t by = visit->by - 1;
    struct tw_record finding = {
        .kind = TW_AWAY_LATE,
        .row = visit->row,
        .count = 1,
        .first = slot->cluster[by >> 5].block << 10 | (by & 31) << 5 | visit->lane,
        .address = (uint64_t)rank << TW_RANK_SHIFT | visit->place,
    };
    tw_found_add(&launch->found, &finding);
}

// A warp has ended. After the last one of the cluster, accesses that their block did not wait for are reported.
void tw_shadow_ended(struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block)
{
    for (uint32_t rank = 0; rank < launch->ranks; rank++)
        for (uint32_t q = 0; q < launch->warps; q++)
            if (!shadow_of(slot, &slot->cluster[rank], block)->gone.of[q])
                return;
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        const struct tw_shadow_block *one = shadow_of(slot, &slot->cluster[rank], block);
        const struct tw_visit *visits = far_part(launch, one)->visits;
        for (uint32_t i = 0; launch->ranks > 1 && i < TW_VISITS_MAX; i++)
            if (visits[i].by && !was_awaited(launch, one, &visits[i]))
                report_late(launch, slot, &visits[i], rank);
        tw_shadow_sent_ended(launch, slot, block, rank);
    }
}
