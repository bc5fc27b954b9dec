// Runs blocks until the grid is finished or something must be decided by Python.

#include "runtime.h"

enum {
    GOES_ON = 0,
    STALL_ROUNDS = 4,  // without a warp that finished or reached a barrier: then another block gets its turn
};

// What happened in one round of visits to a block's warps.
struct round {
    bool progress;  // a warp finished or came to a barrier
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

// A fresh block in a slot: the `taken`-th of the launch's order.
static void begin_block(const struct tw_context *context, struct tw_slot *slot, uint64_t taken)
{
    uint64_t block = (taken * context->order_factor + context->order_shift) % context->blocks;
    uint64_t row = block / context->grid_x;
    slot->active = 1;
    slot->block = block;
    slot->ctaid_x = block % context->grid_x;
    slot->ctaid_y = row % context->grid_y;
    slot->ctaid_z = row / context->grid_y;
    slot->gone = 0;
    __builtin_memset(slot->barriers, 0, sizeof slot->barriers);
    __builtin_memset(slot->shared, (int)context->shared_fill, context->shared_bytes);
    __builtin_memset(slot->shared + context->reserved_offset, 0, context->reserved_bytes);
    __builtin_memcpy(slot->observed_area, context->observed_initial, context->observed_bytes);
    for (uint64_t i = 0; i < context->warps; i++)
        begin_warp(context, slot, i);
}

// Take the next block of the grid, if nothing speaks against it.
static int32_t take_block(struct tw_context *context, struct tw_slot *slot)
{
    if (asked_to_stop(context)) {
        context->fault_block = slot->block;
        context->fault_warp = 0;
        return TW_STOPPED;
    }
    if (context->instructions > context->pause_at)
        return TW_PAUSED;
    uint64_t taken = __atomic_fetch_add(context->next_block, 1, __ATOMIC_SEQ_CST);
    if (taken >= context->blocks) {
        slot->active = 0;
        return TW_FINISHED;
    }
    begin_block(context, slot, taken);
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
        round->progress = true;
        return GOES_ON;
    case TW_BLOCKED:
        warp->status = TW_BLOCKED;
        if (context->points && tw_arrive(context, slot, warp))
            return faulty(context, slot);
        round->progress = true;
        return GOES_ON;
    case TW_YIELDED:
        round->yielded = true;
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

// A loop that only comes to barriers never runs out of fuel: the limits are looked at after a round too.
static int32_t between_rounds(struct tw_context *context, const struct tw_slot *slot)
{
    if (beyond_limits(context))
        return stopped(context, slot);
    if (context->instructions > context->pause_at) {
        tw_stop_outside(context, slot);
        return TW_PAUSED;
    }
    return GOES_ON;
}

// Whether an mbarrier has its arrivals, and bytes are pending.
static bool lacks_bytes(uint64_t object)
{
    return (object >> TW_MBARRIER_PENDING_SHIFT & TW_MBARRIER_MOST) == 0;
}

// No warp can move: the record says what the first that waits for an mbarrier waits for, of those that lack bytes alone
// where there are any, for others may wait for these.
static int32_t deadlock(struct tw_context *context, const struct tw_slot *slot)
{
    context->fault_block = slot->block;
    context->fault_kind = context->fault_other = 0;
    for (uint64_t i = 0; i < context->warps; i++) {
        const struct tw_warp *warp = tw_warp_of(context, slot, i);
        uint64_t object;
        if (warp->status != TW_READY)
            continue;
        __builtin_memcpy(&object, slot->shared + warp->awaited_place, sizeof object);
        if (context->fault_other++ && (lacks_bytes(context->fault_object) || !lacks_bytes(object)))
            continue;
        tw_stop(context, warp, warp->awaited_site, warp->awaited_lanes, TW_AWAITS);
        context->fault_got = warp->awaited_phase;
        context->fault_address = warp->awaited_place;
        context->fault_object = object;
    }
    return TW_DEADLOCK;
}

// How long a block has not moved, in rounds.
struct pause {
    uint32_t stalls;  // while a warp runs without coming anywhere: it may wait for another block
    uint32_t awaits;  // while all wait, for mbarriers that only the block itself can complete
};

// What follows from a round of visits.
static int32_t after_round(struct tw_context *context, struct tw_slot *slot, struct round round, struct pause *pause)
{
    round.progress |= context->moved != 0;
    context->moved = 0;
    if (context->points == 0 && !round.yielded && !round.awaits) {
        wake_all(context, slot);
        *pause = (struct pause){0, 0};
        return GOES_ON;
    }
    bool idle = !round.progress && !round.yielded;
    pause->awaits = idle ? pause->awaits + 1 : 0;
    if (idle && (!round.awaits || pause->awaits > TW_AWAIT_ROUNDS))
        return deadlock(context, slot);
    pause->stalls = round.yielded && !round.progress ? pause->stalls + 1 : 0;
    if (pause->stalls >= STALL_ROUNDS && context->may_stall) {
        tw_stop_outside(context, slot);
        return TW_STALLED;
    }
    return GOES_ON;
}

// Visit a block's warps in rounds until all are done.
static int32_t run_block(struct tw_context *context, struct tw_slot *slot)
{
    for (struct pause pause = {0, 0};;) {
        struct round round = {false, false, false, false};
        for (uint64_t i = 0; i < context->warps; i++) {
            int32_t end = visit(context, slot, tw_warp_of(context, slot, context->warp_order[i]), &round);
            if (end != GOES_ON)
                return end;
        }
        if (!round.undone)
            return GOES_ON;
        int32_t end = after_round(context, slot, round, &pause);
        if (end == GOES_ON)
            end = between_rounds(context, slot);
        if (end != GOES_ON)
            return end;
    }
}

// Run blocks in a slot; returns why it stopped. It may be called again unless something went wrong.
int32_t tw_run(struct tw_context *context, struct tw_slot *slot)
{
    context->stack_low = (char *)__builtin_frame_address(0) - TW_CALL_STACK_BYTES;
    int32_t end = slot->active ? run_block(context, slot) : GOES_ON;
    while (end == GOES_ON) {
        end = take_block(context, slot);
        if (end == GOES_ON)
            end = run_block(context, slot);
    }
    return end;
}
