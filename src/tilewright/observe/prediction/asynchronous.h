// Asynchronous work of warps: products of a warpgroup, and arrivals at mbarriers, also by bulk copies.

#ifndef TILEWRIGHT_ASYNCHRONOUS_H
#define TILEWRIGHT_ASYNCHRONOUS_H

#include <stdbool.h>

#include "multiprocessor.h"

// Later than every known clock: an event that it depends on has not happened.
#define FAR (UINT64_MAX - 1)

static void look_ahead(const struct tw_sm *sm, struct tw_sm_warp *warp);
static void look_again(struct tw_sm *sm);
static double take(double *stage, double *busy, double from, double clocks);

static void note_flights(struct tw_sm *sm, double flying)
{
    sm->flights[0]++;
    sm->flights[1] += flying;
    if (flying > sm->flights[2])
        sm->flights[2] = flying;
}

// A warp starts to wait for a phase: count the mbarriers of its block with missing bytes.
static void note_phases(struct tw_sm *sm, const struct tw_sm_warp *warp, uint64_t place)
{
    double flying = 0;
    if (!sm->mbarriers[place].copied)
        return;
    for (uint64_t n = 0; n < sm->block_mbarriers; n++)
        flying += sm->mbarriers[warp->block * sm->block_mbarriers + n].bytes > 0;
    note_flights(sm, flying);
}

// A warp starts to wait for groups of copies: count those that have not ended.
static void note_groups(struct tw_sm *sm, const struct tw_sm_warp *warp)
{
    double flying = 0;
    if (!warp->committed || sm->code[sm->roles[warp->role].trace[warp->position]].kind != TW_SM_AWAIT)
        return;
    for (uint64_t n = 0; n < TW_SM_GROUPS && n < warp->committed; n++)
        flying += warp->groups[n] > sm->clock;
    note_flights(sm, flying);
}

// Adds an arrival to the heap. A full heap loses it; then warps wait for ever, and the run ends with an error.
static void expect(struct tw_sm *sm, struct tw_sm_arrival one)
{
    if (sm->coming == TW_SM_ARRIVALS)
        return;
    uint64_t at = sm->coming++;
    for (; at && sm->arrivals[(at - 1) / 2].at > one.at; at = (at - 1) / 2)
        sm->arrivals[at] = sm->arrivals[(at - 1) / 2];
    sm->arrivals[at] = one;
}

// Removes the earliest arrival from the heap.
static struct tw_sm_arrival taken(struct tw_sm *sm)
{
    struct tw_sm_arrival *heap = sm->arrivals, first = heap[0], last = heap[--sm->coming];
    uint64_t at = 0;
    for (uint64_t child; (child = 2 * at + 1) < sm->coming; at = child) {
        child += child + 1 < sm->coming && heap[child + 1].at < heap[child].at;
        if (heap[child].at >= last.at)
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

static bool is_over(const struct tw_sm_mbarrier *object, uint64_t parity)
{
    return (object->phase & 1) != parity;
}

// Releases the warps that wait for a completed phase.
static void wake(struct tw_sm *sm, uint64_t place, double at)
{
    for (uint64_t n = 0; n < sm->many; n++) {
        struct tw_sm_warp *warp = &sm->warps[n];
        if (!warp->live || !warp->awaits || warp->place != place || !is_over(&sm->mbarriers[place], warp->parity))
            continue;
        uint64_t clock = (uint64_t)(at + 0.999);
        warp->awaits = 0;
        if (warp->counter < TW_SM_COUNTERS)
            warp->counters[warp->counter] = clock > warp->answered ? clock : warp->answered;
        look_ahead(sm, warp);
    }
    look_again(sm);
}

// Handles what has arrived: a piece of a copy is written to shared memory; the last one arrives at the mbarrier.
static void arrive(struct tw_sm *sm)
{
    while (sm->coming && sm->arrivals[0].at <= (double)sm->clock) {
        struct tw_sm_arrival one = taken(sm);
        if (one.pieces) {
            double written = take(&sm->data, &sm->busy[2], one.at, one.clocks) + one.clocks;
            one.at = --one.pieces ? one.at + one.step : written;
            expect(sm, one);
            continue;
        }
        if (one.place == sm->block_mbarriers * sm->many)
            continue;
        struct tw_sm_mbarrier *object = &sm->mbarriers[one.place];
        object->pending -= one.arrivals;
        object->bytes += one.bytes;
        object->copied |= one.bytes > 0;
        if (object->pending > 0 || object->bytes)
            continue;
        object->phase++;
        object->pending = object->expected;
        wake(sm, one.place, one.at);
    }
}

// Starts waiting products as soon as their tensor cores are free; they read shared memory while they run.
static void multiply(struct tw_sm *sm)
{
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++) {
        struct tw_sm_partition *partition = &sm->partitions[n];
        while (partition->started < partition->asked && partition->pipes[TW_SM_TENSOR] <= sm->clock) {
            const struct tw_sm_product *product = &partition->products[partition->started++ % TW_SM_PRODUCTS];
            const struct tw_sm_instruction *code = &sm->code[product->code];
            struct tw_sm_warp *warp = &sm->warps[product->warp];
            double read = take(&sm->data, &sm->busy[2], (double)sm->clock, code->wavefronts) + code->wavefronts;
            uint64_t end = sm->clock + code->interval;
            if (read > (double)end)
                end = (uint64_t)(read + 0.999);
            partition->pipes[TW_SM_TENSOR] = end;
            sm->busy[5] += (double)code->interval / (double)TW_SM_PARTITIONS;
            partition->next = 0;
            if (!code->ends)
                continue;
            warp->products[product->group % TW_SM_GROUPS] = end + sm->product_clocks;
            look_ahead(sm, warp);
        }
    }
}

// The clock of the next of these events.
static uint64_t next_happening(const struct tw_sm *sm)
{
    uint64_t first = UINT64_MAX;
    if (sm->coming)
        first = sm->arrivals[0].at > (double)sm->clock ? (uint64_t)(sm->arrivals[0].at + 0.999) : sm->clock + 1;
    for (uint64_t n = 0; n < TW_SM_PARTITIONS; n++) {
        const struct tw_sm_partition *partition = &sm->partitions[n];
        if (partition->started < partition->asked && partition->pipes[TW_SM_TENSOR] < first)
            first = partition->pipes[TW_SM_TENSOR];
    }
    return first;
}

// A product waits for the tensor cores of its partition.
static void ask_product(struct tw_sm_partition *partition, struct tw_sm_warp *warp, uint64_t number, uint64_t code,
                        uint32_t ends)
{
    partition->products[partition->asked++ % TW_SM_PRODUCTS] = (struct tw_sm_product){number, code, warp->grouped};
    if (ends)
        warp->products[warp->grouped++ % TW_SM_GROUPS] = FAR;
}

// The multiprocessor that holds an mbarrier of the cluster, and the mbarrier's number among that one's resident blocks.
static struct tw_sm *owner(const struct tw_sm *sm, const struct tw_sm_warp *warp, uint32_t number, uint64_t *place)
{
    if (number == sm->block_mbarriers * sm->cluster_blocks) {
        *place = sm->block_mbarriers * sm->many;
        return &sm->cluster[sm - sm->cluster];
    }
    *place = warp->block * sm->block_mbarriers + number % sm->block_mbarriers;
    return &sm->cluster[number / sm->block_mbarriers];
}

// A bulk copy, whose bytes come in pieces from the second level or from memory, to each block that it names.
static void copy(struct tw_sm *sm, struct tw_sm_warp *warp, const struct tw_sm_instruction *code,
                 const struct tw_sm_operation *operation, double from)
{
    double sectors = operation->number / 32.0, clocks = sectors / sm->l2_sectors_per_clock;
    double begin = take(&sm->l2, &sm->busy[3], from + (double)sm->copy_clocks, clocks), end = begin + clocks;
    if (code->dram_sectors > 0) {
        double far = sectors * code->dram_sectors / sm->dram_sectors_per_clock;
        double last = take(&sm->dram, &sm->busy[4], from, far) + far;
        end = last > end ? last : end;
    }
    uint64_t pieces = (operation->number + TW_SM_PIECE_BYTES - 1) / TW_SM_PIECE_BYTES, place;
    double step = (end - begin) / (double)pieces, data = operation->number / sm->data_bytes_per_clock / (double)pieces;
    if (operation->kind == TW_SM_OP_STORE) {
        warp->copied = (uint64_t)(end + 0.999) > warp->copied ? (uint64_t)(end + 0.999) : warp->copied;
        take(&sm->data, &sm->busy[2], from, data * (double)pieces);
        return;
    }
    double first = begin + step + code->miss_clocks;
    for (;; operation++) {
        struct tw_sm *to = owner(sm, warp, operation->place, &place);
        expect(to, (struct tw_sm_arrival){first, step, data, pieces, place, 0, -(int64_t)operation->number});
        if (!operation->more || operation[1].kind != TW_SM_OP_DELIVER)
            break;
    }
}

// Its own request was made, and its answer comes at `end`.
static void do_one(struct tw_sm *sm, struct tw_sm_warp *warp, const struct tw_sm_instruction *code,
                   const struct tw_sm_operation *operation, double from, double end)
{
    uint64_t place;
    struct tw_sm *to = owner(sm, warp, operation->place, &place);
    double way = to == sm ? 0 : (double)sm->remote_clocks;
    const uint32_t lanes = operation->kind == TW_SM_OP_EXPECT ? 0 : operation->lanes;
    switch (operation->kind) {
    case TW_SM_OP_COPY:
    case TW_SM_OP_STORE:
        copy(sm, warp, code, operation, from);
        break;
    case TW_SM_OP_WAIT:
        note_phases(sm, warp, place);
        if (is_over(&sm->mbarriers[place], operation->number))
            break;
        warp->awaits = 1;
        warp->place = place;
        warp->parity = operation->number;
        warp->counter = code->sets;
        warp->answered = (uint64_t)(end + 0.999);
        if (code->sets < TW_SM_COUNTERS) {
            warp->counters[code->sets] = FAR;
            warp->causes[code->sets] = TW_SM_WAITED_MBARRIER;
        }
        break;
    case TW_SM_OP_ARRIVE:
        expect(to, (struct tw_sm_arrival){end + way, 0, 0, 0, place, operation->number, 0});
        break;
    case TW_SM_OP_FOLLOW:
        expect(to, (struct tw_sm_arrival){from, 0, 0, 0, place, -(int64_t)operation->number, 0});
        end = (double)warp->copied > end ? (double)warp->copied : end;
        expect(to, (struct tw_sm_arrival){end, 0, 0, 0, place, operation->number, 0});
        break;
    case TW_SM_OP_EXPECT:
    case TW_SM_OP_ARRIVE_EXPECT:
        expect(to, (struct tw_sm_arrival){from + way, 0, 0, 0, place, lanes, operation->number});
    }
}

// An instruction of a warp performs one or several operations on mbarriers.
static void do_deed(struct tw_sm *sm, struct tw_sm_warp *warp, const struct tw_sm_instruction *code, double from,
                    double end)
{
    const struct tw_sm_operation *operation;
    do {
        operation = &sm->roles[warp->role].operations[warp->operation++];
        do_one(sm, warp, code, operation, from, end);
    } while (operation->more);
}

#endif
