// Runs clusters of blocks until the grid is finished or something must be decided by Python.

#include "runtime.h"

enum {
    GOES_ON = 0,
    STALL_ROUNDS = 4,     // without a warp that finished or reached a barrier: then another cluster gets its turn
    CIRCLE_ROUNDS = 256,  // without a warp that finished: its loop may wait for another cluster between barriers
};

// What happened in one round of visits to the warps of a cluster's blocks.
struct round {
    bool progress;  // a warp finished or came to a barrier
    bool finished;  // a warp did
    bool yielded;
    bool awaits;  // a warp waits for an mbarrier, and its turn is over
    bool undone;  // a warp was visited, or waits
};

static bool asked_to_stop(const struct tw_context *context)
{
    return __atomic_load_n(context->stop, __ATOMIC_RELAXED) != 0;
}

static bool beyond_limits(const struct tw_context *context)
{
    return asked_to_stop(context) || context->instructions > context->instruction_limit;
}

static int32_t stopped(struct tw_context *context, const struct tw_slot *slot)
{
    context->fault_block = slot->block;
    tw_stop_outside(context, slot);
    return TW_STOPPED;
}

static void begin_warp(const struct tw_context *context, const struct tw_slot *slot, uint64_t index)
{
    struct tw_warp *warp = tw_warp_of(context, slot, index);
    uint64_t threads = context->threads - index * TW_LANES;
    __builtin_memset(warp, 0, sizeof *warp + context->points * sizeof *warp->points);
    warp->status = TW_READY;
    warp->live = threads >= TW_LANES ? UINT32_MAX : (1u << threads) - 1;
    warp->index = (uint32_t)index;
}

// A fresh block in a slot of its cluster, by its indices in the grid.
static void begin_block(const struct tw_context *context, struct tw_slot *slot, uint64_t x, uint64_t y, uint64_t z)
{
    slot->active = 1;
    slot->block = x + context->grid_x * (y + context->grid_y * z);
    slot->ctaid_x = x;
    slot->ctaid_y = y;
    slot->ctaid_z = z;
    slot->gone = slot->arrived = 0;
    __builtin_memset(slot->barriers, 0, sizeof slot->barriers);
    __builtin_memset(slot->shared, (int)context->shared_fill, context->shared_bytes);
    __builtin_memset(slot->shared + context->reserved_offset, 0, context->reserved_bytes);
    __builtin_memcpy(slot->observed_area, context->observed_initial, context->observed_bytes);
    slot->tensor_taken = slot->tensor_firsts = slot->tensor_closed = slot->tensor_site = 0;
    if (slot->tensor)
        __builtin_memset(slot->tensor, (int)context->shared_fill,
                         TW_TENSOR_LANES * TW_TENSOR_COLUMNS * sizeof(uint32_t));
    for (uint64_t i = 0; i < context->warps; i++)
        begin_warp(context, slot, i);
}

// The blocks of a fresh cluster in its slots: the `taken`-th of the launch's order.
static void begin_cluster(const struct tw_context *context, struct tw_slot *slots, uint64_t taken)
{
    uint64_t cluster = (taken * context->order_factor + context->order_shift) % context->clusters;
    uint64_t across = context->grid_x / context->cluster_x, along = context->grid_y / context->cluster_y;
    uint64_t first_x = cluster % across * context->cluster_x;
    uint64_t first_y = cluster / across % along * context->cluster_y;
    uint64_t first_z = cluster / across / along * context->cluster_z;
    for (uint64_t rank = 0; rank < context->cluster_blocks; rank++) {
        uint64_t row = rank / context->cluster_x;
        begin_block(context, &slots[rank], first_x + rank % context->cluster_x, first_y + row % context->cluster_y,
                    first_z + row / context->cluster_y);
    }
}

// Take the next cluster of the grid, if nothing speaks against it.
static int32_t take_cluster(struct tw_context *context, struct tw_slot *slots)
{
    if (asked_to_stop(context)) {
        context->fault_block = slots->block;
        context->fault_warp = 0;
        return TW_STOPPED;
    }
    if (context->instructions > context->pause_at)
        return TW_PAUSED;
    uint64_t taken = __atomic_fetch_add(context->next_cluster, 1, __ATOMIC_SEQ_CST);
    if (taken >= context->clusters) {
        slots->active = 0;
        return TW_FINISHED;
    }
    begin_cluster(context, slots, taken);
    return GOES_ON;
}

static int32_t faulty(struct tw_context *context, const struct tw_slot *slot)
{
    context->fault_block = slot->block;
    return TW_FAULT;
}

// Let one warp run until it ends, waits or must give way.
static int32_t visit(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp, struct round *round)
{
    if (warp->status != TW_READY) {
        round->undone |= warp->status != TW_DONE;
        return GOES_ON;
    }
    round->undone = true;
    switch (context->warp_function(context, slot, warp)) {
    case TW_DONE:
        warp->status = TW_DONE;
        if (context->points)
            tw_depart(context, slot, warp);
        round->progress = round->finished = true;
        return GOES_ON;
    case TW_BLOCKED:
        warp->status = TW_BLOCKED;
        if (context->points && tw_arrive(context, slot, warp))
            return faulty(context, slot);
        round->progress = true;
        return GOES_ON;
    case TW_GAVE_WAY:
        round->progress = true;
        __attribute__((fallthrough));
    case TW_YIELDED:
        round->yielded = true;
        if (warp->cluster_arrived)
            tw_cluster_look(context, slot, warp);  // its other lanes may have exited
        return beyond_limits(context) ? stopped(context, slot) : GOES_ON;
    case TW_AWAITS:
        round->awaits = true;
        return GOES_ON;
    default:
        return faulty(context, slot);
    }
}

// Without points, every warp that waits does so at a whole barrier.
static void wake_all(const struct tw_context *context, const struct tw_slot *slot)
{
    for (uint64_t i = 0; i < context->warps; i++) {
        struct tw_warp *warp = tw_warp_of(context, slot, i);
        if (warp->status == TW_BLOCKED)
            warp->status = TW_READY;
    }
}

// A loop that only reaches barriers never runs out of fuel: the limits are looked at after a round too.
static int32_t between_rounds(struct tw_context *context, const struct tw_slot *slots)
{
    if (beyond_limits(context))
        return stopped(context, slots);
    if (context->instructions > context->pause_at) {
        tw_stop_outside(context, slots);
        return TW_PAUSED;
    }
    return GOES_ON;
}

// Whether an mbarrier has its arrivals, and bytes are pending.
static bool lacks_bytes(uint64_t object)
{
    return (object >> TW_MBARRIER_PENDING_SHIFT & TW_MBARRIER_MOST) == 0;
}

// Say what a block's first warp that waits for an mbarrier waits for, of those that lack bytes alone where there are
// any, for others may wait for these.
static void blame_mbarriers(struct tw_context *context, const struct tw_slot *slot)
{
    for (uint64_t i = 0; i < context->warps; i++) {
        const struct tw_warp *warp = tw_warp_of(context, slot, i);
        uint64_t object;
        if (warp->status != TW_READY)
            continue;
        __builtin_memcpy(&object, slot->shared + warp->awaited_place, sizeof object);
        if (context->fault_other++ && (lacks_bytes(context->fault_object) || !lacks_bytes(object)))
            continue;
        context->fault_block = slot->block;
        tw_stop(context, warp, warp->awaited_site, warp->awaited_lanes, TW_AWAITS);
        context->fault_got = warp->awaited_phase;
        context->fault_address = warp->awaited_place;
        context->fault_object = object;
    }
}

// Look where a block's warps wait at barriers. True where one waits at one of the block's own.
static bool blame_barriers(struct tw_context *context, const struct tw_slot *slot)
{
    bool own = false;
    for (uint64_t i = 0; i < context->warps; i++) {
        const struct tw_warp *warp = tw_warp_of(context, slot, i);
        if (warp->status == TW_BLOCKED && warp->barrier != TW_CLUSTER_BARRIER)
            own = true;
        for (uint64_t k = 0; k < context->points && warp->status == TW_BLOCKED; k++)
            if (warp->points[k].blocked && warp->points[k].id == TW_CLUSTER_BARRIER)
                context->fault_cluster = warp->points[k].site + 1;
    }
    return own;
}

// No warp of a cluster can move: the record names a block that others wait for, one at an mbarrier where there is any,
// else one at a barrier of its own.
static int32_t deadlock(struct tw_context *context, const struct tw_slot *slots)
{
    context->fault_kind = context->fault_other = context->fault_cluster = 0;
    context->fault_block = slots->block;
    for (uint64_t rank = context->cluster_blocks; rank-- > 0;)
        if (blame_barriers(context, &slots[rank]))
            context->fault_block = slots[rank].block;
    for (uint64_t rank = 0; rank < context->cluster_blocks; rank++)
        blame_mbarriers(context, &slots[rank]);
    return TW_DEADLOCK;
}

// How long a cluster has not moved, in rounds.
struct pause {
    uint32_t stalls;  // while a warp runs without coming anywhere: it may wait for another cluster
    uint32_t circles;  // in which warps come to barriers, and none finishes
    uint32_t awaits;  // while all wait, for mbarriers that only the cluster itself can complete
};

// What follows from a round of visits.
static int32_t after_round(struct tw_context *context, struct tw_slot *slots, struct round round, struct pause *pause)
{
    round.progress |= context->moved != 0;
    context->moved = 0;
    bool idle = !round.progress && !round.yielded;
    pause->awaits = idle ? pause->awaits + 1 : 0;
    if (idle && (!round.awaits || pause->awaits > TW_AWAIT_ROUNDS))
        return deadlock(context, slots);
    pause->stalls = round.yielded && !round.progress ? pause->stalls + 1 : 0;
    pause->circles = round.finished ? 0 : pause->circles + round.progress;
    uint32_t patience = context->ways ? 1 : STALL_ROUNDS;
    if ((pause->stalls >= patience || pause->circles >= CIRCLE_ROUNDS) && context->may_stall) {
        tw_stop_outside(context, slots);
        return TW_STALLED;
    }
    return GOES_ON;
}

// Visit the warps of a block once.
static int32_t visit_block(struct tw_context *context, struct tw_slot *slot, struct round *round)
{
    struct round mine = {false, false, false, false, false};
    for (uint64_t i = 0; i < context->warps; i++) {
        int32_t end = visit(context, slot, tw_warp_of(context, slot, context->warp_order[i]), &mine);
        if (end != GOES_ON)
            return end;
    }
    if (context->points == 0 && !mine.yielded && !mine.awaits) {
        wake_all(context, slot);
        mine.progress = true;
    }
    round->progress |= mine.progress;
    round->finished |= mine.finished;
    round->yielded |= mine.yielded;
    round->awaits |= mine.awaits;
    round->undone |= mine.undone;
    return GOES_ON;
}

// All warps of a cluster are done: no block may have columns of tensor memory left.
static int32_t ended(struct tw_context *context, const struct tw_slot *slots)
{
    for (uint64_t rank = 0; rank < context->cluster_blocks; rank++)
        if (tw_columns_left(context, &slots[rank]))
            return faulty(context, &slots[rank]);
    return GOES_ON;
}

// Visit the warps of a cluster's blocks in rounds until all are done.
static int32_t run_cluster(struct tw_context *context, struct tw_slot *slots)
{
    for (struct pause pause = {0, 0, 0};;) {
        struct round round = {false, false, false, false, false};
        for (uint64_t rank = 0; rank < context->cluster_blocks; rank++) {
            int32_t end = visit_block(context, &slots[rank], &round);
            if (end != GOES_ON)
                return end;
        }
        if (!round.undone)
            return ended(context, slots);
        int32_t end = after_round(context, slots, round, &pause);
        if (end == GOES_ON)
            end = between_rounds(context, slots);
        if (end != GOES_ON)
            return end;
    }
}

// Whether a warp gives way to others before a strong access, so that theirs may come between two of its own. Of 1021
// times 64 in a row do not: lanes that wait for others of their own warp let these run only after some rounds.
uint32_t tw_gives_way(struct tw_context *context)
{
    if (!context->ways)
        return 0;
    context->ways += (uint64_t)1 << 16;  // above the share, how often it was asked
    if ((context->ways >> 16) % 1021 >= 957)
        return 0;
    context->ways_drawn = context->ways_drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return context->ways_drawn >> 56 < (context->ways & UINT16_MAX);
}

// Run clusters in the slots of one; returns why it stopped. It may be called again unless something went wrong.
int32_t tw_run(struct tw_context *context, struct tw_slot *slots)
{
    context->stack_low = (char *)__builtin_frame_address(0) - TW_CALL_STACK_BYTES;
    int32_t end = slots->active ? run_cluster(context, slots) : GOES_ON;
    while (end == GOES_ON) {
        end = take_cluster(context, slots);
        if (end == GOES_ON)
            end = run_cluster(context, slots);
    }
    return end;
}
