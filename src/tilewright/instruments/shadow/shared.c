// The exact judgement of accesses of shared and of local memory, lane by lane: bounds, initialisation and races.

#include "judgement.h"

// Where a cell's W and R are.
struct cell {
    uint64_t *write;
    uint64_t *read;
};

// Whether what is written is there already: in memory, or, of lanes of one instruction, by the last lower lane that
// writes the same place.
static bool is_same(const struct access *me, bool alike)
{
    const uint8_t *memory = me->shared + me->address;
    int32_t other = -1;
    if (!me->values)
        return false;
    for (uint32_t lane = me->lane; alike && other < 0 && lane-- > 0;)
        if (me->mask >> lane & 1 && me->addresses[lane] == me->address)
            other = (int32_t)lane;
    for (uint32_t at = 0; at < me->bytes; at++) {
        uint8_t its = other < 0 ? memory[at] : *value_at(me, (uint32_t)other, at);
        if (*value_at(me, me->lane, at) != its)
            return false;
    }
    return true;
}

static bool unordered(const struct access *me, uint64_t cell, bool strong)
{
    uint64_t its = cell >> TW_CLOCK_SHIFT;
    return cell && races(me, cell, its, strong) && !is_ordered(me, me->number, cell, its);
}

static void tell_race(const struct access *me, uint64_t cell, bool other_wrote)
{
    bool arrived = came_before(me, who_of(cell), cell >> TW_CLOCK_SHIFT, false);
    report(me, is_ours(me, cell) ? TW_SHARED_LANES : arrived ? TW_SHARED_ARRIVED : TW_SHARED_RACE, cell, other_wrote);
}

// Whether W of an element has anything; `at` is the number of a cell of the access. Padding: an element of which some
// byte was written counts as written.
static bool is_partly_written(const struct access *me, const uint64_t *first, uint64_t at)
{
    uint64_t size = (me->element + me->launch->cell_bytes - 1) / me->launch->cell_bytes;
    uint64_t from = at / size * size;
    uint64_t some = 0;
    for (uint64_t i = from; i < from + size; i++)
        some |= first[i];
    return some != 0;
}

// Whether a cell stays as it is under a strong access: that does not cover up a weak one of this round, for others may
// race with that one only.
static bool keeps(const struct access *me, uint64_t cell)
{
    return me->strong && !(cell & TW_STRONG) && cell >= me->block->clocks[me->warp].limit;
}

// What the access leaves in a cell.
static void leave(const struct access *me, struct cell cell, uint64_t written, uint64_t read)
{
    uint64_t mine = me->clock << TW_CLOCK_SHIFT | me->low;
    if (me->copies) {
        *cell.write = TW_FLIGHT_CLOCK << TW_CLOCK_SHIFT | (me->low & TW_SITES) | TW_FLIGHT_WHO;
    } else if (me->writes) {
        // of two strong writes that nothing orders, a weak access may race with either
        bool beside = me->strong && written & TW_STRONG && unordered(me, written, false);
        if (!keeps(me, written))
            *cell.write = beside ? both(me, written, mine) : mine;
    } else if (!keeps(me, read) && !in_flight(read)) {
        *cell.read = unordered(me, read, false) ? both(me, read, mine) : mine;
    }
}

static void judge_cell(const struct access *me, struct cell cell, const uint64_t *first, uint64_t at)
{
    uint64_t written = *cell.write, read = *cell.read;
    if (written == TW_GAP) {
        report(me, TW_SHARED_GAP, 0, false);
        return;
    }
    if (in_flight(written)) {
        report(me, TW_SHARED_IN_FLIGHT, written, true);
        return;
    }
    if (me->writes && in_flight(read)) {
        report(me, TW_SHARED_SOURCE, read, false);
        return;
    }
    if (written >> TW_CLOCK_SHIFT == TW_OBJECT_CLOCK) {
        report(me, TW_SHARED_OBJECT, 0, false);
        return;
    }
    if (!written && me->reads) {
        if (!is_partly_written(me, first, at))
            report(me, TW_SHARED_UNWRITTEN, 0, false);
    } else {
        if (written && races(me, written, written >> TW_CLOCK_SHIFT, me->strong) && !is_same(me, is_ours(me, written)) &&
            !is_ordered(me, me->number, written, written >> TW_CLOCK_SHIFT))
            tell_race(me, written, true);
        if (me->writes && unordered(me, read, me->strong))
            tell_race(me, read, false);
    }
    leave(me, cell, written, read);
}

// Judge an access of shared memory lane by lane.
__attribute__((noinline)) void tw_shadow_turns_shared(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 heard);
    uint64_t size = me.launch->cell_bytes;
    uint64_t *reads = (uint64_t *)((char *)block + me.launch->shared_reads);
    me.block->version++;  // nothing found settled before holds any more
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        hear(&me, heard);
        uint64_t first = me.address / size, end = (me.address + bytes + size - 1) / size;
        for (uint64_t c = first; c < end; c++) {
            struct cell cell = {&me.block->writes[c], &reads[c]};
            judge_cell(&me, cell, &me.block->writes[first], c - first);
        }
    }
}

// Padding of local memory, as above.
static bool is_partly_set(const struct access *me, const uint8_t *states, uint32_t at)
{
    uint32_t from = at / me->element * me->element;
    uint8_t some = 0;
    for (uint32_t i = from; i < from + me->element; i++)
        some |= states[i];
    return some != 0;
}

// One lane's local memory, byte by byte: a state is 0 where nothing was written, 255 outside of all variables.
static void judge_local(const struct access *me, uint8_t *states)
{
    for (uint32_t at = 0; at < me->bytes; at++) {
        if (states[at] == UINT8_MAX) {
            report(me, TW_LOCAL_OUTSIDE, 0, false);
            return;
        }
        if (states[at] == 0 && me->reads && !is_partly_set(me, states, at)) {
            report(me, TW_LOCAL_UNWRITTEN, 0, false);
            return;
        }
        states[at] |= me->writes != 0;
    }
}

// Judge an access of local memory lane by lane.
__attribute__((noinline)) void tw_shadow_turns_local(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 heard);
    uint8_t *states = (uint8_t *)block + me.launch->local_states;
    if (!me.launch->local_bytes)
        return;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        judge_local(&me, states + me.thread * me.launch->local_bytes + me.address);
    }
}
