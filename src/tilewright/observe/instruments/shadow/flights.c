// Asynchronous copies: what a thread has in flight, in order, and what a wait completes.
//
// A copy is judged as a write when it is issued: earlier accesses must be ordered before it. Until a wait of its thread
// covers its group, any access of its bytes is a finding. The wait makes it a write of its thread at that moment, which
// barriers order like any other.
//
// What a copy reads is judged as a read when it is issued, and again at the wait. Between the two every write by the
// block is a defect, even one that a barrier orders after the copy: W of the bytes must be the same at the wait. If an
// mbarrier counts the copy, W must be the same when a thread first sees that phase complete.
//
// Source: PTX ISA, 9.7.9.25: cp.async.wait_group N waits until at most N of the youngest groups are pending, and covers
// no copy that is in no group; cp.async.wait_all is a commit and a wait for all. Copies of one thread are not ordered.

#include "judgement.h"

void tw_shadow_turns_shared(TW_ACCESSES);
void tw_shadow_free_global(TW_ACCESSES);

static struct tw_flights *flights_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                     uint32_t warp)
{
    return (struct tw_flights *)((char *)block + launch->flights_at) + warp;
}

static struct tw_flight *flight_at(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                                   uint32_t number)
{
    return TW_ENTRY(struct tw_flight, block, launch->flights, warp, number);
}

static struct tw_source *source_at(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                                   uint32_t number)
{
    return TW_ENTRY(struct tw_source, block, launch->sources, warp, number % launch->sources.most);
}

// The lanes that have committed as many groups as the lowest lane of a set.
static uint32_t of_one_group(const struct tw_flights *flights, uint32_t lanes)
{
    return lanes & tw_where32((tw_i32_lanes)(clocks_of(&flights->groups) == flights->groups.of[tw_first_lane(lanes)]));
}

// The number of cells of some bytes; the bytes of a cell are a power of two.
struct range {
    uint64_t first;
    uint64_t end;
};

static struct range range_of(const struct tw_shadow_launch *launch, uint64_t address, uint32_t bytes)
{
    uint32_t shift = tw_first_lane((uint32_t)launch->cell_bytes);
    return (struct range){address >> shift, (address + bytes + launch->cell_bytes - 1) >> shift};
}

// Whether every cell was last touched by the lane itself, or before the last barrier that its warp knows of. Then the
// only possible defect of a copy is that two of its lanes write one place.
static bool is_known(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t warp,
                     uint32_t lanes, const uint64_t *addresses, uint32_t bytes)
{
    const uint64_t *reads = (const uint64_t *)((const char *)block + launch->shared_reads);
    uint64_t limit = block->clocks[warp].limit;
    bool late = false;
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left), thread = warp << 5 | lane;
        struct range range = range_of(launch, addresses[lane], bytes);
        for (uint64_t c = range.first; c < range.end; c++) {
            late |= (block->writes[c] >= limit) & (who_of(block->writes[c]) != thread);
            late |= (reads[c] >= limit) & (who_of(reads[c]) != thread);
        }
    }
    return !late;
}

// Mark the cells of a copy that has no other possible defect.
static void mark(struct access *me)
{
    uint64_t flies = TW_FLIGHT_CLOCK << TW_CLOCK_SHIFT | TW_FLIGHT_WHO;
    for (uint32_t left = me->mask; left; left = tw_other_lanes(left)) {
        turn_to(me, tw_first_lane(left));
        struct range range = range_of(me->launch, me->address, me->bytes);
        for (uint64_t c = range.first; c < range.end; c++) {
            if (in_flight(me->block->writes[c]))
                report(me, TW_SHARED_IN_FLIGHT, me->block->writes[c], true);
            me->block->writes[c] = flies | (me->low & TW_SITES);
        }
    }
    me->block->version++;
}

// W of the cells that a lane reads as one number: two that differ are taken for the same once in 2^32.
static uint32_t hash_of(const struct access *me)
{
    uint64_t hash = 0, factor = UINT64_C(0x9E3779B97F4A7C15);
    struct range range = range_of(me->launch, me->address - me->launch->base, me->bytes);
    for (uint64_t c = range.first; c < range.end; c++, factor += 2)
        hash += __atomic_load_n(&me->launch->writes[c], __ATOMIC_RELAXED) * factor;
    return (uint32_t)(hash >> 32);
}

// A cell that a lane reads and that its block has written, or 0.
static uint64_t written_here(const struct access *me)
{
    struct range range = range_of(me->launch, me->address - me->launch->base, me->bytes);
    for (uint64_t c = range.first; c < range.end; c++) {
        uint64_t cell = __atomic_load_n(&me->launch->writes[c], __ATOMIC_RELAXED);
        if (cell && cell >> TW_BLOCK_SHIFT == me->number)
            return cell;
    }
    return 0;
}

// Lanes read the source of a copy, which comes next. If its lanes read different numbers of bytes, the first one
// counts.
void tw_shadow_source(TW_ACCESSES)
{
    struct tw_shadow_launch *of = launch;
    struct tw_flights *flights = flights_of(of, block, warp->index);
    struct tw_source *source = source_at(of, block, warp->index, flights->sources);
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    tw_shadow_free_global(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                          order_bits);
    if (!flights->coming || source->row != row)
        source->row = row, source->lanes = 0, source->bytes = bytes;
    flights->coming = 1;
    for (uint32_t left = bytes == source->bytes ? mask : 0; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        uint64_t from = (me.address - of->base) >> TW_SOURCE_SHIFT;
        if (from > UINT32_MAX || from << TW_SOURCE_SHIFT != me.address - of->base)
            continue;
        source->lanes |= 1u << me.lane;
        source->from[me.lane] = (uint32_t)from;
        source->seen[me.lane] = hash_of(&me);
    }
}

// What a copy reads, if that is still known; with the addresses of its lanes.
static const struct tw_source *source_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                         uint32_t warp, const struct tw_flight *flight, uint64_t *addresses)
{
    if (!flight->source || flights_of(launch, block, warp)->sources - flight->source >= launch->sources.most - 1)
        return 0;
    const struct tw_source *source = source_at(launch, block, warp, flight->source - 1);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        addresses[lane] = launch->base + ((uint64_t)source->from[lane] << TW_SOURCE_SHIFT);
    return source;
}

// Report the lanes of a copy whose source the block has changed since; returns the others.
static uint32_t find_changes(struct access *me, const struct tw_source *source)
{
    uint32_t same = me->mask;
    for (uint32_t left = me->mask; left; left = tw_other_lanes(left)) {
        turn_to(me, tw_first_lane(left));
        uint64_t cell = hash_of(me) == source->seen[me->lane] ? 0 : written_here(me);
        if (!cell)
            continue;
        report(me, TW_GLOBAL_IN_FLIGHT, cell, true);
        same &= ~(1u << me->lane);
    }
    return same;
}

// Lanes of a copy have read all of its source: nobody of the block may have written it since; later writes may.
static void read_again(TW_WHERE, const struct tw_flight *flight, uint32_t lanes)
{
    uint64_t addresses[TW_LANES] __attribute__((aligned(64)));
    const struct tw_source *source = source_of(launch, block, warp->index, flight, addresses);
    if (!source)
        return;
    struct access me = access_of(slot, warp, launch, block, counters, source->row, lanes & source->lanes, addresses,
                                 source->bytes, 0, TW_READS, source->bytes, 0);
    const uint32_t same = find_changes(&me, source);
    if (same)
        tw_shadow_free_global(slot, warp, launch, block, counters, source->row, same, addresses, source->bytes, 0,
                              TW_READS, source->bytes, 0);
    (void)row;
}

// The same of a copy that an mbarrier counts, of another warp perhaps: its read stays where it was issued.
static void end_source(const struct tw_slot *slot, struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                       uint32_t warp, const struct tw_flight *flight)
{
    const struct tw_warp by = {.index = warp};
    uint64_t addresses[TW_LANES] __attribute__((aligned(64)));
    const struct tw_source *source = source_of(launch, block, warp, flight, addresses);
    if (!source)
        return;
    struct access me = access_of(slot, &by, launch, block, 0, source->row, flight->lanes & source->lanes, addresses,
                                 source->bytes, 0, TW_READS, source->bytes, 0);
    find_changes(&me, source);
}

// Judge a copy as a write, and follow it. If too many are in flight, it counts as a store.
__attribute__((noinline)) void tw_shadow_copy(TW_ACCESSES)
{
    struct tw_shadow_launch *of = launch;
    struct tw_flights *flights = flights_of(of, block, warp->index);
    uint32_t source = flights->coming ? ++flights->sources : 0;
    flights->coming = 0;
    for (uint32_t left = mask, with; left; left &= ~with) {
        with = of_one_group(flights, left);
        bool room = flights->count < of->flights.most;
        if (room && is_known(of, block, warp->index, with, addresses, bytes)) {
            struct access me = access_of(slot, warp, launch, block, counters, row, with, addresses, bytes, values, how,
                                         element, order_bits);
            mark(&me);
        } else {
            tw_shadow_turns_shared(slot, warp, launch, block, counters, row, with, addresses, bytes, values,
                                   room ? how | TW_IS_COPY : how, element, order_bits);
        }
        if (!room) {
            __atomic_fetch_add(&of->untracked, tw_lane_count(with), __ATOMIC_RELAXED);
            continue;
        }
        struct tw_flight *flight = flight_at(of, block, warp->index, flights->count++);
        *flight = (struct tw_flight){row, with, bytes, flights->groups.of[tw_first_lane(with)], 0, 0, 0, source,
                                     {0}};
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            flight->at[lane] = (uint32_t)addresses[lane];
    }
}

void tw_shadow_commit(TW_WHERE, uint32_t mask)
{
    struct tw_flights *flights = flights_of(launch, block, warp->index);
    tw_u32_lanes groups = clocks_of(&flights->groups) - (tw_u32_lanes)tw_mask32(mask);
    __builtin_memcpy(flights->groups.of, &groups, sizeof groups);
}

// The bytes that some lanes of a copy wrote become writes of their threads at a clock.
static void land(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                 const struct tw_flight *flight, uint32_t lanes, uint64_t clock)
{
    uint64_t site = flight->row < TW_SITE_MAX ? flight->row : TW_SITE_MAX;
    uint64_t now = clock << TW_CLOCK_SHIFT | site << TW_SITE_SHIFT | warp << 5;
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        struct range range = range_of(launch, flight->at[lane], flight->bytes);
        for (uint64_t c = range.first; c < range.end; c++)
            if (in_flight(block->writes[c]))
                block->writes[c] = now | lane;
    }
}

// All groups of a lane but the youngest `groups` are complete.
__attribute__((noinline)) void tw_shadow_wait(TW_WHERE, uint32_t mask, uint32_t groups)
{
    struct tw_shadow_block *mine = block;
    struct tw_flights *flights = flights_of(launch, mine, warp->index);
    tw_u32_lanes made = clocks_of(&flights->groups);
    uint32_t more = mask & tw_where32((tw_i32_lanes)(made > groups)), kept = 0;
    for (uint32_t i = 0; i < flights->count; i++) {
        struct tw_flight *flight = flight_at(launch, mine, warp->index, i);
        uint32_t grouped = more & tw_where32((tw_i32_lanes)(made - groups > flight->group));
        uint32_t over = flight->lanes & grouped;
        read_again(slot, warp, launch, block, counters, row, flight, over);
        land(launch, mine, warp->index, flight, over, mine->clocks[warp->index].now);
        flight->lanes &= ~over;
        if (flight->lanes && kept++ < i)
            *flight_at(launch, mine, warp->index, kept - 1) = *flight;
    }
    flights->count = kept;
    mine->version++;
}

// An mbarrier counts all copies of lanes that no other counts: they are in flight until a thread sees that phase
// complete. If there is no room to keep lanes of a copy apart, the copy counts as complete.
void tw_shadow_counts_copies(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                             uint32_t lanes, uint64_t place, uint32_t phase)
{
    struct tw_flights *flights = flights_of(launch, block, warp);
    for (uint32_t i = 0, count = flights->count; launch->flights_at && i < count; i++) {
        struct tw_flight *flight = flight_at(launch, block, warp, i);
        uint32_t counted = flight->lanes & lanes;
        if (flight->barrier || !counted)
            continue;
        if (counted != flight->lanes && flights->count == launch->flights.most) {
            land(launch, block, warp, flight, counted, block->clocks[warp].now);
            flight->lanes &= ~counted;
            continue;
        }
        if (counted != flight->lanes) {
            flight->lanes &= ~counted;
            const struct tw_flight rest = *flight;
            flight = flight_at(launch, block, warp, flights->count++);
            *flight = rest;
        }
        flight->lanes = counted;
        flight->barrier = (uint32_t)place + 1;
        flight->phase = phase;
        flight->clock = (uint32_t)block->clocks[warp].now;
    }
}

// A wait that acquires has seen phases of an mbarrier complete, and so the copies that these counted.
void tw_shadow_flights_landed(const struct tw_slot *slot, struct tw_shadow_launch *launch,
                              struct tw_shadow_block *block, uint64_t place, uint32_t phases)
{
    for (uint32_t warp = 0; launch->flights_at && warp < launch->warps; warp++) {
        struct tw_flights *flights = flights_of(launch, block, warp);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < flights->count; i++) {
            struct tw_flight *flight = flight_at(launch, block, warp, i);
            if (flight->barrier == place + 1 && flight->phase < phases) {
                land(launch, block, warp, flight, flight->lanes, flight->clock);
                end_source(slot, launch, block, warp, flight);
            } else if (kept++ < i) {
                *flight_at(launch, block, warp, kept - 1) = *flight;
            }
        }
        block->version += kept != flights->count;
        flights->count = kept;
    }
}
