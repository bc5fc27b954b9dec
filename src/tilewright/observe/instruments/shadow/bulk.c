// Bulk copies: what is in flight until an mbarrier's phase is complete or a wait covers the group, and what a copy
// sees.
//
// A copy is judged as its thread's accesses when it is issued, 16 bytes at a time. What it writes to shared memory is
// in flight until a wait that acquires sees the phase complete; then it is a write of its thread at that time, which
// the mbarrier orders. What a copy to global memory reads is in flight until its thread waits for its group, what it
// writes until the thread waits for the group's completion. Copies that reduce do not race with each other. If an
// mbarrier counts a copy, what it reads is in flight until that phase is complete: R says so in shared memory; in
// global memory W must be the same at both times.
//
// Source: PTX ISA, 9.7.9.25.4 (completion mechanisms; bulk groups), 8.4 and 8.9 (proxies: accesses of one place by the
// generic and by the asynchronous proxy are ordered where a proxy fence is between them).

#include "clusters.h"
#include "origins.h"
#include "several.h"

void tw_shadow_turns_shared(TW_ACCESSES);
void tw_shadow_free_global(TW_ACCESSES);
void tw_shadow_fence(TW_WHERE, uint32_t mask, uint32_t narrow);
void tw_shadow_turns_cluster(TW_ACCESSES);
void tw_shadow_arrived(struct tw_shadow_launch *launch, uint64_t number, const struct tw_outgoing *out, uint64_t start,
                       uint64_t bytes, uint64_t clock);
void tw_shadow_send(const struct tw_slot *slot, struct tw_shadow_launch *launch, const struct tw_shadow_block *there,
                    uint64_t place, uint32_t thread, uint32_t row);
void tw_shadow_sent_counted(const struct tw_shadow_launch *launch, const struct tw_shadow_block *there, uint64_t place,
                            uint32_t phase);
void tw_shadow_sent_seen(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t warp,
                         uint64_t place, uint32_t phases);
void tw_shadow_copy_counted(TW_WHERE, uint32_t mask, uint64_t place);
void tw_shadow_laid_out(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint64_t place,
                        uint32_t bytes, const char *map);

#define NOT_COUNTED UINT32_MAX  // for any phase yet

// One lane's copy.
struct copy {
    const struct tw_slot *slot;
    const struct tw_warp *warp;
    struct tw_shadow_launch *launch;
    struct tw_shadow_block *block;
    uint64_t *counters;
    uint32_t row;
    uint32_t lane;
    uint32_t bytes;
};

typedef void judging(TW_ACCESSES);

static struct tw_bulk *bulk_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t number)
{
    return TW_ENTRY(struct tw_bulk, block, launch->bulks, 0, number);
}

static struct tw_outgoing *outgoing_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                       uint32_t number)
{
    return TW_ENTRY(struct tw_outgoing, block, launch->outgoing, 0, number);
}

// Judge one side: offsets of shared memory, addresses in the cluster, or, in pieces, device addresses.
static void judge(const struct copy *me, uint64_t start, uint32_t how, judging *turns)
{
    uint64_t addresses[TW_LANES] __attribute__((aligned(64))) = {0};
    const uint32_t most = turns == tw_shadow_free_global ? TW_PIECE_BYTES : me->bytes;
    for (uint32_t at = 0, bytes; at < me->bytes; at += bytes) {
        bytes = me->bytes - at < most ? me->bytes - at : most;
        addresses[me->lane] = start + at;
        turns(
            me->slot, me->warp, me->launch, me->block, me->counters, me->row, 1u << me->lane, addresses, bytes, 0, how,
            bytes < TW_PIECE_BYTES ? bytes : TW_PIECE_BYTES, 0);
    }
}

static void record_finding(const struct copy *me, uint64_t address, uint64_t cell, bool writes)
{
    struct tw_record finding = {
        .kind = TW_NOT_FENCED,
        .row = me->row,
        .other = (cell & TW_SITES) >> TW_SITE_SHIFT,
        .wrote = TW_OTHER_WROTE | (writes ? TW_WROTE : 0),
        .count = 1,
        .first = me->slot->block << 10 | me->warp->index << 5 | me->lane,
        .address = address,
        .cell = cell,
    };
    tw_found_add(&me->launch->found, &finding);
}

// Whether what wrote a cell is known, and wrote by the generic proxy.
static bool needs_fence(const struct tw_shadow_launch *launch, uint64_t cell)
{
    uint64_t site = (cell & TW_SITES) >> TW_SITE_SHIFT;
    return site < TW_SITE_MAX && !(__atomic_load_n(&launch->unfenced[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1);
}

// Whether a cell needs no proxy fence: it is no store of one known warp, or a fence has followed the store.
static bool is_fenced(const struct copy *me, const struct tw_slot *where, uint64_t cell)
{
    const struct tw_slot *by = is_far(cell) ? &me->slot->cluster[far_rank(cell)] : where;
    uint64_t its = is_far(cell) ? far_clock(cell) : cell >> TW_CLOCK_SHIFT;
    uint32_t who = is_far(cell) ? far_who(cell) : who_of(cell);
    if (!its || cell == TW_GAP || its >= TW_OBJECT_CLOCK || who == TW_SEVERAL_WARPS || who == TW_SEVERAL_RANKS)
        return true;
    const struct tw_bulks *bulks =
        bulks_of(me->launch, by == me->slot ? me->block : shadow_of(me->slot, by, me->block));
    return its < bulks->proxied.of[warp_of(who)];
}

// Whether a store in a block's memory is ordered before the copy, apart from the fence; otherwise it is a race.
static bool is_before(const struct copy *me, const struct tw_slot *where, uint64_t cell)
{
    uint64_t addresses[TW_LANES] __attribute__((aligned(64))) = {0};
    struct access mine = access_of(me->slot, me->warp, me->launch, me->block, me->counters, me->row, 1u << me->lane,
                                   addresses, TW_PIECE_BYTES, 0, TW_WRITES, TW_PIECE_BYTES, 0);
    uint64_t its = cell >> TW_CLOCK_SHIFT;
    turn_to(&mine, me->lane);
    if (is_far(cell))
        return far_rank(cell) == mine.rank ? !races(&mine, near_cell(cell), far_clock(cell), false)
                                           : !races_away(&mine, far_rank(cell), far_who(cell), far_clock(cell));
    return where == me->slot ? !races(&mine, cell, its, false)
                             : !races_away(&mine, rank_of(where), who_of(cell), its);
}

// Report a store that the copy would read or overwrite, and that no proxy fence has followed.
static void ask_for_fences(const struct copy *me, const struct tw_slot *where, uint64_t start, bool writes)
{
    struct tw_shadow_block *block = where == me->slot ? me->block : shadow_of(me->slot, where, me->block);
    uint64_t size = me->launch->cell_bytes;
    for (uint64_t c = start / size; c < (start + me->bytes) / size; c++) {
        if (c > start / size && block->writes[c] == block->writes[c - 1])
            continue;
        uint64_t written = me->launch->far_at ? near_of(block->writes[c], rank_of(where)) : block->writes[c];
        if (needs_fence(me->launch, written) && !is_fenced(me, where, written) &&
            (!writes || is_before(me, where, written))) {
            record_finding(me, c * size, written, writes);
            return;
        }
    }
}

// Copies need no fence to see what an instruction writes: it is a copy, or ends an mbarrier, whose bytes hold no value.
void tw_shadow_unfenced(struct tw_shadow_launch *launch, uint32_t row)
{
    uint64_t bit = (uint64_t)1 << row % 64, *bits = &launch->unfenced[row / 64 % TW_SITE_WORDS];
    if (row < TW_SITE_MAX && !(__atomic_load_n(bits, __ATOMIC_RELAXED) & bit))
        __atomic_fetch_or(bits, bit, __ATOMIC_RELAXED);
}

// Follow a copy. If there are too many, nothing of it is in flight.
static struct tw_bulk *follow(const struct copy *me, struct tw_shadow_block *block, uint64_t start, bool strong)
{
    struct tw_bulks *bulks = bulks_of(me->launch, block);
    if (bulks->count == me->launch->bulks.most) {
        __atomic_fetch_add(&me->launch->untracked, 1, __ATOMIC_RELAXED);
        return 0;
    }
    struct tw_bulk *bulk = bulk_of(me->launch, block, bulks->count++);
    uint32_t w = me->warp->index;
    *bulk = (struct tw_bulk){
        .group = bulks->groups[w].of[me->lane],
        .thread = w << 5 | me->lane,
        .row = me->row,
        .start = (uint32_t)start,
        .end = (uint32_t)start + me->bytes,
        .clock = (uint32_t)me->block->clocks[w].now,
        .phase = NOT_COUNTED,
        .strong = strong,
        .from = block == me->block ? 0 : rank_of(me->slot) + 1,
    };
    return bulk;
}

// Keep what a copy writes to global memory, some bytes or a box. Returns TW_IS_COPY if it is in flight.
static uint32_t keep_outgoing(const struct copy *me, uint32_t how, uint64_t start, uint64_t bytes,
                              const struct tw_box *box)
{
    struct tw_bulks *bulks = bulks_of(me->launch, me->block);
    const uint32_t w = me->warp->index;
    _Static_assert(sizeof *box <= TW_BOX_WORDS * sizeof(uint64_t), "a box has room");
    if (bulks->outgoing == me->launch->outgoing.most) {
        __atomic_fetch_add(&me->launch->untracked, 1, __ATOMIC_RELAXED);
        return 0;
    }
    struct tw_outgoing *out = outgoing_of(me->launch, me->block, bulks->outgoing++);
    out->group = bulks->groups[w].of[me->lane];
    out->row = me->row;
    out->thread = w << 5 | me->lane;
    out->strong = (how & TW_IS_STRONG) != 0;
    out->start = start;
    out->bytes = bytes;
    if (box)
        __builtin_memcpy(out->box, box, sizeof *box);
    return TW_IS_COPY;
}

static uint64_t *reads_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block)
{
    return (uint64_t *)((char *)block + launch->shared_reads);
}

// A copy is complete: its cells in flight become what its thread wrote.
static void land(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, const struct tw_bulk *bulk,
                 uint64_t landed)
{
    uint64_t size = launch->cell_bytes;
    for (uint64_t c = bulk->start / size; c < bulk->end / size; c++)
        if (in_flight(block->writes[c]) && ((block->writes[c] ^ landed) & TW_SITES) == 0)
            block->writes[c] = landed;
    block->version++;
}

// The access of a copy's thread at a clock, as a cell of its block has it.
static uint64_t cell_of(const struct tw_bulk *bulk, uint64_t clock)
{
    uint64_t site = bulk->row < TW_SITE_MAX ? bulk->row : TW_SITE_MAX;
    return clock << TW_CLOCK_SHIFT | site << TW_SITE_SHIFT | (uint64_t)bulk->strong << TW_STRONG_BIT | bulk->thread;
}

// A copy begins or ends to read its block's shared memory from `start` on: R says so beside other reads. `landed` is 0
// or what its thread has read at the end. Neighbours with the same R get the same.
static void read_source(const struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                        const struct tw_bulk *bulk, uint64_t start, uint64_t landed)
{
    uint64_t size = launch->cell_bytes, flight = cell_of(bulk, TW_FLIGHT_CLOCK), *reads = reads_of(launch, block);
    uint64_t before = TW_GAP, after = 0;
    for (uint64_t c = start / size; c < (start + bulk->end - bulk->start) / size; c++) {
        if (reads[c] != before) {
            before = reads[c];
            after = landed ? tw_shadow_let_go(launch, block, before, flight, landed)
                           : tw_shadow_hold(launch, block, before, flight);
        }
        reads[c] = after;
    }
    block->version++;
}

static void forget(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t number)
{
    *bulk_of(launch, block, number) = *bulk_of(launch, block, --bulks_of(launch, block)->count);
}

// Lanes' copies have counted their bytes at mbarriers; lanes with the same mbarrier count together.
static void count_at_mbarriers(const struct copy *me, uint32_t lanes, const uint64_t *barriers)
{
    for (uint32_t left = lanes, same; left; left &= ~same) {
        const uint64_t place = barriers[tw_first_lane(left)];
        same = 0;
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            same |= (uint32_t)(left >> lane & 1 && barriers[lane] == place) << lane;
        tw_shadow_copy_counted(me->slot, me->warp, me->launch, me->block, me->counters, me->row, same, place);
    }
}

// Keep what a copy reads that an mbarrier counts; the box of a tensor is the one that was judged right before.
static void keep_source(const struct copy *me, struct tw_bulk *bulk, uint64_t origin, uint32_t sides)
{
    if (!(sides & TW_FROM_GLOBAL))
        bulk->source = (uint32_t)origin + 1;
    else if (sides & TW_IS_TENSOR)
        bulk->origin = bulks_of(me->launch, me->block)->boxes[me->lane];
    else
        tw_shadow_keep_origin(me->launch, &bulk->origin, me->launch->base + origin, me->bytes, 0);
}

// Lanes have issued copies; the mbarriers at `barriers`, where there are any, have counted them.
void tw_shadow_bulk(TW_WHERE, uint32_t mask, const uint64_t *targets, const uint64_t *origins, const uint32_t *sizes,
                    const uint64_t *barriers, uint32_t sides)
{
    struct copy me = {slot, warp, launch, block, counters, row, 0, 0};
    bool from = (sides & TW_FROM_GLOBAL) != 0, to = (sides & TW_TO_GLOBAL) != 0, counted = !(sides & TW_IS_TENSOR);
    const bool held = sides & TW_FROM_REGISTERS;
    uint32_t landing = 0;
    bool away = slot->target != slot;  // it lands in another block
    struct tw_shadow_block *there = away ? shadow_of(slot, slot->target, block) : me.block;
    if (!held)
        tw_shadow_unfenced(me.launch, row);
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        me.lane = tw_first_lane(left);
        me.bytes = sizes[me.lane];
        uint64_t origin = origins[me.lane], target = targets[me.lane];
        if (held && !barriers) {  // zeros, which are there at once
            judge(&me, target, TW_WRITES, tw_shadow_turns_shared);
            continue;
        }
        if (!from && !held)
            ask_for_fences(&me, slot, origin, false);
        if (!to && !held)
            ask_for_fences(&me, slot->target, target, true);
        if (!held && (!from || counted))
            judge(&me, from ? me.launch->base + origin : origin, TW_READS,
                  from ? tw_shadow_free_global : tw_shadow_turns_shared);
        if (!to)  // the origin of a tensor's copy is its map
            tw_shadow_laid_out(launch, there, target, me.bytes, counted ? 0 : (const char *)(uintptr_t)origin);
        struct tw_bulk *bulk = follow(&me, there, barriers ? target : origin, sides & TW_COMBINES);
        uint32_t how = sides & TW_COMBINES ? TW_READS | TW_WRITES | TW_IS_STRONG : TW_WRITES;
        how |= to && counted ? keep_outgoing(&me, how, me.launch->base + target, me.bytes, 0)
                          : bulk && !to ? TW_IS_COPY : 0;
        if (away)
            judge(&me, (uint64_t)rank_of(slot->target) << TW_RANK_SHIFT | target, how, tw_shadow_turns_cluster);
        else if (!to || counted)
            judge(&me, to ? me.launch->base + target : target, how,
                  to ? tw_shadow_free_global : tw_shadow_turns_shared);
        if (bulk && !from && !held)
            read_source(me.launch, me.block, bulk, origin, 0);
        if (bulk && barriers && !held)
            keep_source(&me, bulk, origin, sides);
        if (away && !from && !held)
            tw_shadow_send(slot, launch, there, barriers[me.lane], warp->index << 5 | me.lane, row);
        if (barriers && bulk)
            bulk->barrier = (uint32_t)barriers[me.lane] + 1;
        landing |= barriers ? 1u << me.lane : 0;
    }
    count_at_mbarriers(&me, landing, barriers);
}

// Judge bytes of global memory that begin and end anywhere, in pieces as wide as addresses allow.
static void judge_bytes(const struct copy *me, uint64_t start, uint64_t end, uint32_t how)
{
    uint64_t addresses[TW_LANES] __attribute__((aligned(64))) = {0};
    uint32_t bytes;
    for (uint64_t at = start; at < end; at += bytes) {
        for (bytes = TW_PIECE_BYTES; at % bytes || at + bytes > end;)
            bytes /= 2;
        addresses[me->lane] = at;
        tw_shadow_free_global(me->slot, me->warp, me->launch, me->block, me->counters, me->row, 1u << me->lane,
                              addresses, bytes, 0, how, bytes, 0);
    }
}

// Lanes have copied boxes: their side in global memory.
void tw_shadow_tensor(TW_WHERE, uint32_t mask, char *const *maps, const int32_t *corners, uint32_t rank, uint32_t how)
{
    struct copy me = {slot, warp, launch, block, counters, row, 0, 0};
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        me.lane = tw_first_lane(left);
        const struct tw_box box = tw_box_of(maps[me.lane], corners, me.lane, rank);
        const uint32_t held = how & TW_WRITES ? keep_outgoing(&me, how, 0, 0, &box) : 0;
        for (uint64_t number = 0, end; number < tw_box_rows(&box); number++) {
            const uint64_t at = tw_box_bytes(&box, number, &end);
            judge_bytes(&me, at, end, how | held);
        }
        if (!(how & TW_WRITES))
            tw_shadow_keep_origin(me.launch, &bulks_of(me.launch, me.block)->boxes[me.lane], 0, 0, &box);
    }
}

// Ask for fences of what lanes read of shared memory for a product of their warpgroup.
void tw_shadow_ask_for_fences(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    struct copy me = {slot, warp, launch, block, counters, row, 0, bytes};
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        me.lane = tw_first_lane(left);
        ask_for_fences(&me, slot, addresses[me.lane], false);
    }
}

// A copy that an mbarrier counts has read its source to the end.
static void end_source(struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block,
                       const struct tw_bulk *bulk)
{
    const struct tw_slot *by = bulk->from ? &slot->cluster[bulk->from - 1] : slot;
    struct tw_shadow_block *home = by == slot ? block : shadow_of(slot, by, block);
    if (bulk->source)
        read_source(launch, home, bulk, bulk->source - 1, cell_of(bulk, bulk->clock));
    else
        tw_shadow_end_origin(launch, by->block, bulk);
}

// A wait that acquires has seen a phase of an mbarrier complete, and so the copies that the phase counted.
void tw_shadow_landed(struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block,
                      uint32_t warp, uint64_t place, uint32_t phases)
{
    struct tw_bulks *bulks = bulks_of(launch, block);
    if (launch->bulks_at && launch->ranks > 1)
        tw_shadow_sent_seen(launch, block, warp, place, phases);
    for (uint32_t i = bulks->count; launch->bulks_at && i-- > 0;) {
        const struct tw_bulk *bulk = bulk_of(launch, block, i);
        if (bulk->barrier != place + 1 || bulk->phase >= phases)
            continue;
        uint64_t landed = cell_of(bulk, bulk->clock);
        if (bulk->from)
            landed = far_cell(bulk->from - 1, bulk->clock, landed, bulk->thread);
        land(launch, block, bulk, landed);
        end_source(launch, slot, block, bulk);
        forget(launch, block, i);
    }
}

// A phase counts the copies issued since the last one.
void tw_shadow_counted(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint64_t place, uint32_t phase)
{
    struct tw_bulks *bulks = bulks_of(launch, block);
    for (uint32_t i = 0; i < bulks->count; i++) {
        struct tw_bulk *bulk = bulk_of(launch, block, i);
        if (bulk->barrier == place + 1 && bulk->phase == NOT_COUNTED)
            bulk->phase = phase;
    }
    if (launch->ranks > 1)
        tw_shadow_sent_counted(launch, block, place, phase);
}

void tw_shadow_bulk_commit(TW_WHERE, uint32_t mask)
{
    struct tw_clocks *made = &bulks_of(launch, block)->groups[warp->index];
    tw_u32_lanes groups = clocks_of(made) - (tw_u32_lanes)tw_mask32(mask);
    __builtin_memcpy(made->of, &groups, sizeof groups);
}

// What a copy writes to global memory is complete.
static void arrive(struct tw_shadow_launch *launch, uint64_t number, const struct tw_outgoing *out, uint64_t clock)
{
    struct tw_box box;
    __builtin_memcpy(&box, out->box, sizeof box);
    if (out->bytes) {
        tw_shadow_arrived(launch, number, out, out->start, out->bytes, clock);
        return;
    }
    for (uint64_t row = 0, end; row < tw_box_rows(&box); row++) {
        const uint64_t at = tw_box_bytes(&box, row, &end);
        if (at < end)
            tw_shadow_arrived(launch, number, out, at, end - at, clock);
    }
}

// Whether a wait by lanes of a warp for all but `groups` of their groups covers a group of a thread.
static bool is_covered(const struct tw_bulks *bulks, uint32_t warp, uint32_t mask, uint32_t groups, uint32_t thread,
                       uint32_t group)
{
    const uint32_t lane = thread % TW_LANES;
    return thread >> 5 == warp && mask >> lane & 1 && bulks->groups[warp].of[lane] > group + groups;
}

// All groups of a lane but the youngest `groups` are complete or, with `read`, have read their sources.
void tw_shadow_bulk_wait(TW_WHERE, uint32_t mask, uint32_t groups, uint32_t read)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    struct tw_bulks *bulks = bulks_of(of, mine);
    uint64_t now = mine->clocks[warp->index].now;
    for (uint32_t i = bulks->count; i-- > 0;) {
        const struct tw_bulk *bulk = bulk_of(of, mine, i);
        if (bulk->barrier || bulk->from || !is_covered(bulks, warp->index, mask, groups, bulk->thread, bulk->group))
            continue;
        read_source(of, mine, bulk, bulk->start, cell_of(bulk, now));
        forget(of, mine, i);
    }
    for (uint32_t i = bulks->outgoing; !read && i-- > 0;) {
        struct tw_outgoing *out = outgoing_of(of, mine, i);
        if (!is_covered(bulks, warp->index, mask, groups, out->thread, out->group))
            continue;
        arrive(of, slot->block, out, now);
        *out = *outgoing_of(of, mine, --bulks->outgoing);
    }
}

// A proxy fence: copies may see the stores that the warp knows of, in other blocks too, and its own.
void tw_shadow_proxy_fence(TW_WHERE, uint32_t mask)
{
    struct tw_shadow_launch *of = launch;
    struct tw_shadow_block *mine = block;
    struct tw_clocks *proxied = &bulks_of(of, mine)->proxied;
    uint32_t w = warp->index;
    join_clocks(proxied, &mine->known[w]);
    if (of->ahead_at)
        join_clocks(proxied, near_row(of, mine, w).came);
    for (uint32_t rank = 0; of->far_at && rank < of->ranks; rank++) {
        struct tw_clocks *there = &bulks_of(of, shadow_of(slot, &slot->cluster[rank], block))->proxied;
        if (rank == rank_of(slot))
            continue;
        join_clocks(there, row_of(of, mine, TW_KNOWN_ROW + w, rank));
        if (of->watched_at)
            join_clocks(there, ahead_there(of, mine, w, rank, false));
    }
    proxied->of[w] = (uint32_t)++mine->clocks[w].now;
    tw_shadow_fence(slot, warp, launch, block, counters, row, mask, 0);
}
