// The scheduler and the barriers, driven by warps that are C functions.

#include <pthread.h>

#include "check.h"
#include "simulate/runtime/barriers.c"
#include "simulate/runtime/clusters.c"
#include "simulate/runtime/faults.c"
#include "simulate/runtime/scheduler.c"

// Blocks of these tests have no tensor memory.
bool tw_columns_left(struct tw_context *context, const struct tw_slot *slot)
{
    (void)context;
    return slot->tensor_taken != 0;
}

enum { WARPS = 3, POINTS = 2, THREADS = 70, SHARED = 64 };
enum { WARP_BYTES = sizeof(struct tw_warp) + POINTS * sizeof(struct tw_point) };

// One launch: a thread's context, its only slot, and the warps' records.
struct launch {
    struct tw_context context;
    struct tw_slot slot;
    _Alignas(8) char warps[WARPS][WARP_BYTES];
    uint32_t order[WARPS];
    uint32_t stop;
    uint64_t next;
    char shared[SHARED];
    char observed[8], initial[8];
    uint64_t visits[WARPS];
    uint64_t blocks_seen[16];
    uint64_t blocks;
};

typedef int32_t warp_function(struct tw_context *, struct tw_slot *, struct tw_warp *);

static struct launch *launch_of(struct tw_slot *slot)
{
    return (struct launch *)((char *)slot - offsetof(struct launch, slot));
}

static struct launch *prepared(warp_function *function, uint64_t blocks, uint64_t points)
{
    struct launch *launch = calloc(1, sizeof *launch);
    struct tw_context *context = &launch->context;
    CHECK(launch);
    context->warp_function = function;
    context->warps = WARPS;
    context->threads = THREADS;
    context->warp_bytes = sizeof launch->warps[0];
    context->points = points;
    context->warp_order = launch->order;
    context->stop = &launch->stop;
    context->next_cluster = &launch->next;
    context->clusters = blocks;
    context->cluster_x = context->cluster_y = context->cluster_z = context->cluster_blocks = 1;
    context->order_factor = 1;
    context->grid_x = 2;
    context->grid_y = 2;
    context->grid_z = blocks / 4 + 1;
    context->instruction_limit = context->pause_at = UINT64_MAX;
    context->shared_bytes = SHARED;
    context->shared_fill = 0xff;
    context->reserved_offset = 8;
    context->reserved_bytes = 8;
    context->observed_initial = launch->initial;
    context->observed_bytes = sizeof launch->initial;
    for (uint32_t i = 0; i < WARPS; i++)
        launch->order[i] = WARPS - 1 - i;
    launch->slot.cluster = &launch->slot;
    launch->slot.shared = launch->shared;
    launch->slot.observed_area = launch->observed;
    launch->slot.warp_records = launch->warps[0];
    return launch;
}

// A launch of one block that has run, and its status.
static struct launch *launch_ended(warp_function *function, uint64_t points, int32_t end)
{
    struct launch *launch = prepared(function, 1, points);
    CHECK(tw_run(&launch->context, &launch->slot) == end);
    return launch;
}

static int32_t ends_at_once(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct launch *launch = launch_of(slot);
    (void)context;
    if (warp->index == 0) {
        CHECK(slot->block == slot->ctaid_x + 2 * (slot->ctaid_y + 2 * slot->ctaid_z));
        launch->blocks_seen[slot->block]++;
    }
    CHECK(warp->live == (warp->index == 2 ? 0x3fu : UINT32_MAX));
    if (warp->index == WARPS - 1)  // the first in the order
        CHECK((uint8_t)slot->shared[0] == 0xff && slot->shared[8] == 0 && (uint8_t)slot->shared[16] == 0xff);
    slot->shared[0] = 1;
    return TW_DONE;
}

static void every_block_is_run_once_in_the_order_asked_for(void)
{
    struct launch *launch = prepared(ends_at_once, 6, 0);
    launch->context.order_factor = 5;
    launch->context.order_shift = 2;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_FINISHED);
    for (uint64_t i = 0; i < 16; i++)
        CHECK(launch->blocks_seen[i] == (i < 6));
    CHECK(!launch->slot.active);
    free(launch);
}

// Waits twice at the whole barrier: no warp may be a phase ahead of another.
static int32_t waits_twice(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct launch *launch = launch_of(slot);
    (void)context;
    uint64_t visit = launch->visits[warp->index]++;
    for (uint32_t i = 0; i < WARPS; i++)
        CHECK(launch->visits[i] >= visit);
    return visit == 2 ? TW_DONE : TW_BLOCKED;
}

static void whole_barriers_keep_warps_together(void)
{
    struct launch *launch = launch_ended(waits_twice, 0, TW_FINISHED);
    for (uint32_t i = 0; i < WARPS; i++)
        CHECK(launch->visits[i] == 3);
    free(launch);
}

static int32_t never_ends(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    (void)slot;
    context->instructions += 10;
    warp->loop_site = 7;
    warp->loop_lanes = 6;
    return TW_YIELDED;
}

static void limits_end_a_spinning_block_and_say_where(void)
{
    struct launch *launch = prepared(never_ends, 1, 0);
    launch->context.instruction_limit = 1000;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_STOPPED);
    CHECK(launch->context.instructions == 1010);
    CHECK(launch->context.fault_kind == TW_STOP_REQUEST && launch->context.fault_site == 6);
    CHECK(launch->context.fault_lane == 1 && launch->context.fault_warp == 0);
    launch->context.instruction_limit = UINT64_MAX;
    launch->context.pause_at = 2000;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_PAUSED);
    launch->context.pause_at = UINT64_MAX;
    launch->context.may_stall = 1;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_STALLED);
    launch->stop = 1;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_STOPPED);
    free(launch);
}

// Warp 0 waits at barrier 1 for 64 threads, warp 1 arrives there and continues, warp 2 ends.
static int32_t counted(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct launch *launch = launch_of(slot);
    launch->visits[warp->index]++;
    if (warp->index == 0 && launch->visits[0] == 1) {
        CHECK(!tw_reach(context, warp, &warp->points[0], 3, 0xffff, TW_SYNC, 0, 1, 64, 1));
        CHECK(!tw_reach(context, warp, &warp->points[1], 4, 0xffff0000u, TW_SYNC, 0, 1, 64, 1));
        return TW_BLOCKED;
    }
    if (warp->index == 0)
        CHECK(warp->points[0].ready == 0xffff && warp->points[1].ready == 0xffff0000u && !warp->points[0].blocked);
    if (warp->index == 1)
        CHECK(!tw_pass(context, slot, warp, 5, UINT32_MAX, 1, 64));
    return TW_DONE;
}

static void counted_barriers_release_who_waits(void)
{
    struct launch *launch = launch_ended(counted, POINTS, TW_FINISHED);
    CHECK(launch->visits[0] == 2 && launch->visits[1] == 1);
    CHECK(launch->slot.barriers[1].arrived == 0);
    CHECK(launch->slot.gone == 7);
    free(launch);
}

static int32_t votes(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct launch *launch = launch_of(slot);
    if (launch->visits[warp->index]++ == 0) {
        tw_reach(context, warp, &warp->points[0], 3, warp->live, TW_REDUCE, warp->live & 3, 0, 0, 0);
        return TW_BLOCKED;
    }
    CHECK(warp->votes == 6 && warp->voters == THREADS);
    return TW_DONE;
}

static void reductions_count_every_lane(void)
{
    free(launch_ended(votes, POINTS, TW_FINISHED));
}

static int32_t waits_alone(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    (void)slot;
    if (tw_reach(context, warp, &warp->points[0], 3, warp->live, TW_SYNC, 0, warp->index, 96, 1))
        return TW_FAULT;
    return TW_BLOCKED;
}

// Waits for an mbarrier in vain; warp 0 changes one in each of its first visits, which is progress.
static int32_t awaits(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    uint64_t visit = launch_of(slot)->visits[warp->index]++;
    warp->awaited_site = 4;
    warp->awaited_lanes = 4;
    warp->awaited_place = 8;
    context->moved |= warp->index == 0 && visit < TW_AWAIT_ROUNDS;
    return TW_AWAITS;
}

static void mbarriers_that_nobody_completes_are_a_deadlock(void)
{
    struct launch *launch = launch_ended(awaits, 0, TW_DEADLOCK);
    const struct tw_context *context = &launch->context;
    CHECK(launch->visits[1] == 2 * TW_AWAIT_ROUNDS + 1);
    CHECK(context->fault_site == 4 && context->fault_lane == 2 && context->fault_other == WARPS);
    CHECK(context->fault_address == 8 && context->fault_object == 0);
    free(launch);
}

static void barriers_that_nobody_completes_are_a_deadlock(void)
{
    free(launch_ended(waits_alone, POINTS, TW_DEADLOCK));
}

static int32_t breaks_rules(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    struct launch *launch = launch_of(slot);
    tw_reach(context, warp, &warp->points[0], 3, 1, TW_SYNC, 0, 1, 0, 0);
    switch (launch->blocks) {
    case 0:
        return tw_reach(context, warp, &warp->points[1], 4, 2, TW_SYNC, 0, 16, 0, 0) ? TW_FAULT : TW_DONE;
    case 1:
        return tw_reach(context, warp, &warp->points[1], 4, 2, TW_SYNC, 0, 1, 33, 1) ? TW_FAULT : TW_DONE;
    case 2:
        tw_reach(context, warp, &warp->points[1], 4, 2, TW_SYNC, 0, 2, 0, 0);
        return TW_BLOCKED;
    case 3:
        tw_reach(context, warp, &warp->points[1], 4, 2, TW_SYNC, 0, 1, 64, 1);
        return TW_BLOCKED;
    default:
        tw_reach(context, warp, &warp->points[1], 4, 2, TW_ARRIVE, 0, 1, 0, 0);
        return TW_BLOCKED;
    }
}

static void broken_rules_are_faults_with_their_values(void)
{
    static const struct {
        uint64_t kind, got, other;
    } expected[] = {{TW_BARRIER_ID, 16, 0},
                    {TW_BARRIER_COUNT, 33, 0},
                    {TW_BARRIER_IDS, 2, 1},
                    {TW_BARRIER_COUNTS, 64, 0},
                    {TW_BARRIER_FORMS, 1, 0}};
    for (uint64_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct launch *launch = prepared(breaks_rules, 1, POINTS);
        launch->blocks = i;
        CHECK(tw_run(&launch->context, &launch->slot) == TW_FAULT);
        CHECK(launch->context.fault_kind == expected[i].kind);
        CHECK(launch->context.fault_got == expected[i].got && launch->context.fault_other == expected[i].other);
        CHECK(launch->context.fault_site == 4 && launch->context.fault_lanes == 2 && launch->context.fault_warp == 2);
        free(launch);
    }
}

static void rechecks_forgive_lanes_that_are_off(void)
{
    struct launch *launch = prepared(ends_at_once, 1, 0);
    int32_t lanes[TW_LANES];
    const struct member members[] = {{8, 0, 4}, {9, 4, 4}, {10, 2, 4}};
    for (int32_t i = 0; i < TW_LANES; i++)
        lanes[i] = 4 * i;
    struct tw_context *context = &launch->context;
    const struct tw_warp *warp = (const struct tw_warp *)launch->warps[1];
    CHECK(!tw_recheck(context, warp, 0, 128, 1000, UINT32_MAX, lanes, members, 1));
    CHECK(!tw_recheck(context, warp, 0, 128, 1000, UINT32_MAX >> 1, lanes, members, 2));
    CHECK(tw_recheck(context, warp, 0, 128, 1000, UINT32_MAX, lanes, members, 2));
    CHECK(context->fault_kind == TW_OUT_OF_BOUNDS && context->fault_site == 9 && context->fault_lane == 31);
    CHECK(context->fault_address == 1000 + 128 && context->fault_lanes == 1u << 31);
    CHECK(tw_recheck(context, warp, (uint64_t)-4, 128, 1000, 1, lanes, members, 1));
    CHECK(context->fault_kind == TW_OUT_OF_BOUNDS && context->fault_address == 996);
    CHECK(tw_recheck(context, warp, 0, 128, 1000, 4, lanes, members + 2, 1));
    CHECK(context->fault_kind == TW_MISALIGNED && context->fault_lane == 2);
    free(launch);
}

// Each warp arrives at its cluster's barrier, is visited again, and waits; the last block's warp arrives late.
static int32_t meets_its_cluster(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    uint64_t rank = slot->shared_start >> TW_RANK_SHIFT, *visit = (uint64_t *)(void *)slot->local + warp->index;
    struct tw_slot *last = &slot->cluster[context->cluster_blocks - 1];
    CHECK(slot->ctaid_x % 2 == rank % 2 && slot->ctaid_y == rank / 2 && warp->barrier <= TW_CLUSTER_BARRIER);
    switch ((*visit)++ % 3) {
    case 0:
        if (rank == 3 && warp->index == 1)
            return (*visit = 3), TW_DONE;  // no warp waits for those that have ended
        CHECK(!tw_cluster_arrive(context, slot, warp, 1, warp->live));
        return TW_YIELDED;
    case 1:
        warp->points[0].blocked = warp->live;
        warp->points[0].id = TW_CLUSTER_BARRIER;
        warp->points[0].form = TW_SYNC;
        return TW_BLOCKED;
    default:
        for (uint64_t i = 0; i < WARPS; i++)
            CHECK(((uint64_t *)(void *)last->local)[i] % 3 != 1 || i == 1);
        CHECK(warp->points[0].ready == warp->live);
        return TW_DONE;
    }
}

static void the_blocks_of_a_cluster_meet(void)
{
    enum { BLOCKS = 4 };
    struct launch *launch = prepared(meets_its_cluster, 2, POINTS);
    struct tw_context *context = &launch->context;
    static struct tw_slot slots[BLOCKS];
    static struct launch memory[BLOCKS];
    context->cluster_x = context->cluster_y = 2;
    context->cluster_blocks = BLOCKS;
    context->grid_x = 4;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        slots[i].cluster = slots;
        slots[i].shared_start = i << TW_RANK_SHIFT;
        slots[i].shared = memory[i].shared;
        slots[i].observed_area = memory[i].observed;
        slots[i].warp_records = memory[i].warps[0];
        slots[i].local = (char *)memory[i].visits;
    }
    CHECK(tw_run(context, slots) == TW_FINISHED);
    for (uint64_t i = 0; i < BLOCKS; i++)
        CHECK(slots[i].block == 2 + i % 2 + 4 * (i / 2) && memory[i].visits[0] == 3 + 3);
    free(launch);
}

static uint64_t shared_next;
static uint32_t shared_stop;
static uint64_t times_seen[1000];

static int32_t notes_its_block(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp)
{
    context->instructions++;
    if (warp->index == 0)
        times_seen[slot->block]++;
    return TW_DONE;
}

static void *runs_blocks(void *unused)
{
    struct launch *launch = prepared(notes_its_block, 1000, 0);
    (void)unused;
    launch->context.next_cluster = &shared_next;
    launch->context.stop = &shared_stop;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_FINISHED);
    free(launch);
    return 0;
}

static void *never_returns_by_itself(void *unused)
{
    struct launch *launch = prepared(never_ends, 1, 0);
    (void)unused;
    launch->context.stop = &shared_stop;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_STOPPED);
    free(launch);
    return 0;
}

static void threads_share_the_blocks_and_the_word_that_stops_them(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], 0, runs_blocks, 0) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], 0) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK(times_seen[i] == 1);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], 0, never_returns_by_itself, 0) == 0);
    __atomic_store_n(&shared_stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], 0) == 0);
}

uint32_t tw_gives_way(struct tw_context *context);

// How many of 4096 strong accesses a warp gives way before.
static uint32_t given_ways(uint64_t ways, uint64_t seed)
{
    struct tw_context context = {.ways = ways, .ways_drawn = seed};
    uint32_t given = 0;
    for (uint32_t i = 0; i < 4096; i++)
        given += tw_gives_way(&context);
    return given;
}

static void warps_give_way_as_often_as_asked(void)
{
    CHECK(given_ways(0, 1) == 0 && given_ways(256, 1) == 4096 - 4 * 64);
    CHECK(given_ways(128, 1) > 1720 && given_ways(128, 1) < 2120 && given_ways(128, 2) != given_ways(128, 1));
}

// Where warps give way, a block is left after one round, so that another one gets its turn.
static void another_cluster_runs_where_warps_give_way(void)
{
    struct launch *launch = prepared(never_ends, 2, 0);
    launch->context.may_stall = 1;
    launch->context.ways = 256;
    CHECK(tw_run(&launch->context, &launch->slot) == TW_STALLED);
    CHECK(launch->context.instructions == 10 * WARPS);
    free(launch);
}

int main(void)
{
    warps_give_way_as_often_as_asked();
    another_cluster_runs_where_warps_give_way();
    every_block_is_run_once_in_the_order_asked_for();
    whole_barriers_keep_warps_together();
    limits_end_a_spinning_block_and_say_where();
    counted_barriers_release_who_waits();
    reductions_count_every_lane();
    barriers_that_nobody_completes_are_a_deadlock();
    mbarriers_that_nobody_completes_are_a_deadlock();
    broken_rules_are_faults_with_their_values();
    rechecks_forgive_lanes_that_are_off();
    threads_share_the_blocks_and_the_word_that_stops_them();
    the_blocks_of_a_cluster_meet();
    return 0;
}
