// Barriers: which warps have arrived where, and which resume.
//
// A barrier is its number. Lanes of a warp *reach* it, maybe at several instructions; the warp *arrives* when all its
// lanes that have not exited have reached it, and counts as 32 threads then. Arrivals are counted one by one, as they
// happen: the one that completes a barrier releases the warps that wait there and starts the barrier's next
// generation, so a surplus arrival is the first of the next. Without a count a barrier takes every warp that has not
// exited.
//
// Source: PTX ISA, 9.7.13.1 (bar, barrier): an instruction makes a thread "wait for all non-exited threads from its
// warp and marks warps' arrival at barrier"; 9.7.12.7 (exit): exiting threads release barriers that wait for all.

#include "runtime.h"

// A warp's arrival at a barrier.
struct arrival {
    uint32_t site;
    uint32_t id;
    uint32_t count;  // 0: all threads
    uint32_t form;
    uint32_t votes;
    uint32_t voters;
};

// Whether the barrier does not exist, or the given count of threads is invalid.
static bool wrong_operands(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                           uint32_t id, uint32_t count, bool counted)
{
    if (id >= TW_BARRIERS) {
        tw_blame(context, warp, site, mask, TW_BARRIER_ID, id, 0);
        return true;
    }
    if (counted && (count == 0 || count % TW_LANES != 0)) {
        tw_blame(context, warp, site, mask, TW_BARRIER_COUNT, count, 0);
        return true;
    }
    return false;
}

// Lanes wait at a point. True on a fault. If lanes already wait there for another barrier, neither they nor these can
// ever resume.
bool tw_reach(struct tw_context *context, const struct tw_warp *warp, struct tw_point *point, uint32_t site,
              uint32_t mask, uint32_t form, uint32_t predicate, uint32_t id, uint32_t count, uint32_t counted)
{
    if (wrong_operands(context, warp, site, mask, id, count, counted != 0))
        return true;
    if (point->blocked && point->id != id) {
        tw_blame(context, warp, site, mask, TW_BARRIER_IDS, id, point->id);
        return true;
    }
    if (point->blocked && point->count != count) {
        tw_blame(context, warp, site, mask, TW_BARRIER_COUNTS, count, point->count);
        return true;
    }
    point->blocked |= mask;
    point->predicate |= predicate;
    point->id = id;
    point->count = count;
    point->form = form;
    point->site = site;
    return false;
}

// All lanes of a warp that wait at points may resume.
void tw_release(const struct tw_context *context, struct tw_warp *warp)
{
    warp->status = TW_READY;
    for (uint64_t i = 0; i < context->points; i++) {
        struct tw_point *point = &warp->points[i];
        if (point->blocked) {
            point->ready |= point->blocked;
            point->blocked = 0;
            point->predicate = 0;
        }
    }
}

static bool is_complete(const struct tw_context *context, const struct tw_slot *slot, const struct tw_barrier *barrier)
{
    if (barrier->arrived == 0)
        return false;
    if (barrier->count)
        return barrier->arrived >= barrier->count;
    uint64_t every = ((uint64_t)1 << context->warps) - 1;
    return (barrier->joined | slot->gone) == every;
}

// When a barrier's threads have arrived, release the warps that wait there and start the next generation.
static void complete(const struct tw_context *context, struct tw_slot *slot, uint32_t id)
{
    struct tw_barrier *barrier = &slot->barriers[id];
    if (!is_complete(context, slot, barrier))
        return;
    uint32_t votes = barrier->votes, voters = barrier->voters;
    __builtin_memset(barrier, 0, sizeof *barrier);
    for (uint64_t i = 0; i < context->warps; i++) {
        struct tw_warp *warp = tw_warp_of(context, slot, i);
        if (warp->status == TW_BLOCKED && warp->barrier == id) {
            warp->votes = votes;
            warp->voters = voters;
            tw_release(context, warp);
        }
    }
}

// A warp adds its arrival to a generation, which must have the same count. No count agrees with the count of all warps
// of the block, and stays none. True on a fault.
static bool join(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp,
                 const struct arrival *arrival)
{
    struct tw_barrier *barrier = &slot->barriers[arrival->id];
    uint32_t all = (uint32_t)context->warps * TW_LANES;
    uint32_t takes = arrival->count ? arrival->count : all;
    uint32_t took = barrier->count ? barrier->count : all;
    uint32_t forms = barrier->forms | arrival->form;
    if (barrier->arrived && takes != took) {
        tw_blame(context, warp, arrival->site, warp->live, TW_BARRIER_COUNTS, arrival->count, barrier->count);
        return true;
    }
    if (forms > TW_REDUCE) {
        tw_blame(context, warp, arrival->site, warp->live, TW_BARRIER_REDUCED, arrival->id, 0);
        return true;
    }
    if (barrier->arrived == 0) {
        barrier->count = arrival->count;
        barrier->site = arrival->site;
    }
    barrier->count &= arrival->count;
    barrier->arrived += TW_LANES;
    barrier->joined |= 1u << warp->index;
    barrier->forms = forms;
    barrier->votes += arrival->votes;
    barrier->voters += arrival->voters;
    complete(context, slot, arrival->id);
    return false;
}

// The kind of fault if the lanes that wait at a point disagree with earlier ones, or 0.
static uint64_t disagreement(const struct tw_point *point, const struct arrival *arrival)
{
    if (point->id != arrival->id)
        return TW_BARRIER_IDS;
    if (point->count != arrival->count)
        return TW_BARRIER_COUNTS;
    return point->form != arrival->form ? TW_BARRIER_FORMS : 0;
}

static void blame_point(struct tw_context *context, const struct tw_warp *warp, const struct tw_point *point,
                        const struct arrival *arrival, uint64_t kind)
{
    uint32_t got = kind == TW_BARRIER_IDS ? point->id : kind == TW_BARRIER_COUNTS ? point->count : arrival->id;
    uint32_t other = kind == TW_BARRIER_IDS ? arrival->id : kind == TW_BARRIER_COUNTS ? arrival->count : 0;
    tw_blame(context, warp, point->site, point->blocked, kind, got, other);
}

// No lane of a blocked warp can run, so the warp arrives at its barrier. True if its lanes wait at different barriers:
// they can never agree, because each waits for all of them.
bool tw_arrive(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct arrival arrival = {0, 0, 0, 0, 0, 0};
    uint32_t lanes = 0;
    for (uint64_t i = 0; i < context->points; i++) {
        const struct tw_point *point = &warp->points[i];
        if (point->blocked == 0)
            continue;
        uint64_t kind = lanes ? disagreement(point, &arrival) : 0;
        if (kind) {
            blame_point(context, warp, point, &arrival, kind);
            return true;
        }
        lanes |= point->blocked;
        arrival.site = point->site;
        arrival.id = point->id;
        arrival.count = point->count;
        arrival.form = point->form;
        arrival.votes += tw_lane_count(point->predicate);
        arrival.voters += tw_lane_count(point->blocked);
    }
    warp->barrier = arrival.id;
    if (arrival.id == TW_CLUSTER_BARRIER)
        return tw_cluster_wait(context, slot, warp, arrival.site, lanes);
    if (arrival.form == TW_ARRIVE)
        tw_release(context, warp);
    return join(context, slot, warp, &arrival);
}

// A warp whose lanes are all here arrives and continues. True on a fault.
bool tw_pass(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
             uint32_t mask, uint32_t id, uint32_t count)
{
    struct arrival arrival = {site, id, count, TW_ARRIVE, 0, 0};
    return wrong_operands(context, warp, site, mask, id, count, true) || join(context, slot, warp, &arrival);
}

// A warp has exited, and barriers no longer wait for it.
void tw_depart(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp)
{
    slot->gone |= (uint64_t)1 << warp->index;
    for (uint32_t id = 0; id < TW_BARRIERS; id++)
        complete(context, slot, id);
    tw_cluster_look(context, slot, warp);
}
