// The judgement of accesses of local memory, lane by lane: bounds, and initialisation.
//
// A load whose value only stores to local memory use is a copy, of a structure with its padding: it reads no unset
// memory, but the bytes that it copies stay unset. Its thread's slot keeps which bytes of the load were unset, and the
// load's row, until the store takes them. A generic store may turn out to leave local memory; then the load is a use.

#include "judgement.h"

void tw_shadow_turns_shared(TW_ACCESSES);
void tw_shadow_turns_cluster(TW_ACCESSES);
void tw_shadow_free_global(TW_ACCESSES);

// Whether some bytes of an element were written; others may be padding.
static bool is_partly_set(const struct access *me, const uint8_t *states, uint32_t at)
{
    uint32_t from = at / me->element * me->element;
    uint8_t some = 0;
    for (uint32_t i = from; i < from + me->element; i++)
        some |= states[i];
    return some != 0;
}

// Judge one lane's local memory, byte by byte: a state is 0 if nothing was written, 255 outside all variables.
static void judge_local(const struct access *me, uint8_t *states)
{
    for (uint32_t at = 0; at < me->bytes; at++) {
        if (states[at] == UINT8_MAX) {
            report(me, TW_LOCAL_OUTSIDE, 0, false);
            return;
        }
        if (states[at] == 0 && me->reads) {
            report(me, is_partly_set(me, states, at) ? TW_LOCAL_PARTLY : TW_LOCAL_UNWRITTEN, 0, false);
            return;
        }
        states[at] |= me->writes != 0;
    }
}

// Lanes allocate or free memory of their stacks: `state` is the new state of its bytes.
void tw_shadow_stack(TW_WHERE, uint32_t mask, const uint64_t *starts, const uint64_t *ends, uint32_t state)
{
    const struct tw_shadow_launch *about = launch;
    (void)slot, (void)counters, (void)row;
    for (uint32_t left = mask; left && about->local_bytes; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint8_t *states = (uint8_t *)block + about->local_states + (warp->index * 32 + lane) * about->local_bytes;
        for (uint64_t at = starts[lane]; at < ends[lane]; at++)
            states[at] = (uint8_t)state;
    }
}

// Judge an access of local memory lane by lane.
__attribute__((noinline)) void tw_shadow_turns_local(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    uint8_t *states = (uint8_t *)block + me.launch->local_states;
    if (!me.launch->local_bytes)
        return;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        judge_local(&me, states + me.thread * me.launch->local_bytes + me.address);
    }
}

static uint64_t *kept_of(const struct access *me, uint64_t slot)
{
    uint64_t *all = (uint64_t *)((char *)me->block + me->launch->carried_at);
    return &all[slot * me->launch->warps * TW_LANES + me->thread];
}

// Loads that only copy: `slots` has one for each store that takes the value.
void tw_shadow_carried_from(TW_ACCESSES, const uint64_t *slots, uint64_t count)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    if (!me.launch->local_bytes || !me.launch->carried_at) {
        tw_shadow_turns_local(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                              order_bits);
        return;
    }
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        const uint8_t *states = (uint8_t *)block + me.launch->local_states;
        states += me.thread * me.launch->local_bytes + me.address;
        uint64_t unset = 0;
        for (uint32_t at = 0; at < bytes; at++)
            unset |= (uint64_t)(states[at] == 0) << at;
        for (uint32_t at = 0; at < bytes; at++) {
            if (states[at] == UINT8_MAX) {
                report(&me, TW_LOCAL_OUTSIDE, 0, false);
                break;
            }
        }
        for (uint64_t i = 0; i < count; i++)
            *kept_of(&me, slots[i]) = unset ? (uint64_t)row << 32 | unset : 0;
    }
}

static void forget(const struct access *me, const struct tw_carried *carried, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        *kept_of(me, carried[i].slot) = 0;
}

// Stores of such values to local memory: bytes that were unset are unset here too.
void tw_shadow_carried_local(TW_ACCESSES, const struct tw_carried *carried, uint64_t count)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    tw_shadow_turns_local(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                          order_bits);
    bool kept = me.launch->local_bytes && me.launch->carried_at;
    for (uint32_t left = kept ? mask : 0; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        uint8_t *states = (uint8_t *)block + me.launch->local_states;
        states += me.thread * me.launch->local_bytes + me.address;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t unset = *kept_of(&me, carried[i].slot) & carried[i].bytes;
            for (uint64_t at = carried[i].from; unset >> at; at++)
                if (unset >> at & 1 && states[carried[i].to + at - carried[i].from] != UINT8_MAX)
                    states[carried[i].to + at - carried[i].from] = 0;
        }
        forget(&me, carried, count);
    }
}

// Such a store elsewhere: the load is a read of local memory, wholly unset or not at all.
static void leave_local(const struct access *from, const struct tw_carried *carried, uint64_t count)
{
    struct access me = *from;
    for (uint32_t left = me.launch->carried_at ? me.mask : 0; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        for (uint64_t i = 0; i < count; i++) {
            struct access load = me;
            uint64_t kept = *kept_of(&me, carried[i].slot);
            load.row = (uint32_t)(kept >> 32);
            if (kept && (kept & carried[i].element) == carried[i].element)
                report(&load, TW_LOCAL_UNWRITTEN, 0, false);
        }
        forget(&me, carried, count);
    }
}

// Stores of such values to another state space: 0 global memory, 1 shared memory, 2 that of the cluster.
void tw_shadow_carried_out(TW_ACCESSES, const struct tw_carried *carried, uint64_t count, uint32_t space)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    leave_local(&me, carried, count);
    if (space == 0)
        tw_shadow_free_global(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                              order_bits);
    else if (space == 1)
        tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                               order_bits);
    else
        tw_shadow_turns_cluster(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                order_bits);
}
