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

// Visit a block's warps in rounds until all are done.
static int32_t run_block(struct tw_context *context, struct tw_slot *slot)
{
    for (uint32_t stalls = 0;;) {
        struct round round = {false, false, false};
        for (uint64_t i = 0; i < context->warps; i++) {
            int32_t end = visit(context, slot, tw_warp_of(context, slot, context->warp_order[i]), &round);
            if (end != GOES_ON)
                return end;
        }
        if (!round.undone)
            return GOES_ON;
        if (context->points == 0 && !round.yielded) {
            wake_all(context, slot);
            stalls = 0;
        } else {
            if (!round.progress && !round.yielded) {
                context->fault_block = slot->block;
                return TW_DEADLOCK;
            }
            stalls = round.progress ? 0 : stalls + 1;
            if (stalls >= STALL_ROUNDS && context->may_stall) {
                tw_stop_outside(context, slot);
                return TW_STALLED;
            }
        }
        int32_t end = between_rounds(context, slot);
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
