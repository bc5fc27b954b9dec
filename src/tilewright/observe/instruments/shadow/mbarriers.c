// Mbarriers in shadow memory: the order that they make, and their misuse.
//
// An arrival releases what its warp knows and what the arriving lanes did. It does not release what other lanes of the
// warp did since the warp was last synchronised. A test that sees a phase complete acquires what its arrivals released.
// `.relaxed` forms do neither. An event follows the change of its mbarrier, so memory says if the phase is complete.
//
// Source: PTX ISA, 9.7.13.15.13 (mbarrier.arrive: release by default), 9.7.13.15.16 (mbarrier.test_wait: acquire by
// default; "phaseParity indicates the parity of either the current phase or the immediately preceding phase"),
// 9.7.13.15.9 (an object is used after mbarrier.init, and by these instructions only, until mbarrier.inval).

#include "clusters.h"

void tw_shadow_exit(TW_WHERE, uint32_t mask);
void tw_shadow_product_end(TW_WHERE, uint32_t mask);
void tw_shadow_counts_copies(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t warp,
                             uint32_t lanes, uint64_t place, uint32_t phase);
void tw_shadow_flights_landed(const struct tw_slot *slot, struct tw_shadow_launch *launch,
                              struct tw_shadow_block *block, uint64_t place, uint32_t phases);
void tw_shadow_unfenced(struct tw_shadow_launch *launch, uint32_t row);
void tw_shadow_landed(struct tw_shadow_launch *launch, const struct tw_slot *slot, struct tw_shadow_block *block,
                      uint32_t warp, uint64_t place, uint32_t phases);
void tw_shadow_counted(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint64_t place, uint32_t phase);
void tw_shadow_hand_on(const struct tw_shadow_launch *launch, const struct tw_slot *slot,
                       struct tw_shadow_block *block, uint32_t warp, uint32_t row, uint32_t takes);
void tw_shadow_arrive_there(const struct tw_shadow_launch *launch, const struct tw_slot *slot,
                            struct tw_shadow_block *block, const struct tw_warp *warp, uint32_t lanes,
                            struct tw_shadow_block *there, struct tw_watched *object);
void tw_shadow_turn_there(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t number);

// Lanes of a warp that perform the same operation on one mbarrier.
struct visit {
    struct tw_shadow_launch *launch;
    struct tw_shadow_block *block;
    const struct tw_slot *slot;
    const struct tw_warp *warp;
    struct tw_watched *object;
    uint64_t place;
    uint32_t row;
    uint32_t lanes;
};

static struct tw_watched *watched_of(const struct visit *me, uint32_t number)
{
    return (struct tw_watched *)((char *)me->block + me->launch->watched_at) + number;
}

// The record of a place, or a free one; null if there are too many.
static struct tw_watched *find(const struct visit *me)
{
    for (uint32_t i = 0; i < TW_WATCHED_MAX; i++) {
        struct tw_watched *object = watched_of(me, i);
        if (object->place == me->place + 1 || object->place == 0)
            return object;
    }
    return 0;
}

static void record_finding(const struct visit *me, uint32_t kind, uint32_t row, uint32_t thread, uint64_t what)
{
    struct tw_record finding = {
        .kind = kind,
        .row = row,
        .other = TW_SITE_MAX,
        .count = 1,
        .first = me->slot->block << 10 | thread,
        .address = me->place,
        .cell = what,
    };
    tw_found_add(&me->launch->found, &finding);
}

static void report_at(const struct visit *me, uint32_t kind, uint32_t lanes, uint64_t what)
{
    record_finding(me, kind, me->row, me->warp->index << 5 | tw_first_lane(lanes), what);
}

// Set W of the object's bytes, and clear R.
static void mark(const struct visit *me, uint64_t write)
{
    uint64_t size = me->launch->cell_bytes;
    uint64_t *reads = (uint64_t *)((char *)me->block + me->launch->shared_reads);
    for (uint64_t c = me->place / size; c < (me->place + sizeof(uint64_t)) / size; c++) {
        me->block->writes[c] = write;
        reads[c] = 0;
    }
    me->block->version++;
}

static void make(const struct visit *me)
{
    uint32_t w = me->warp->index;
    if (me->object->place && me->object->live)
        report_at(me, TW_MBARRIER_REMADE, me->lanes, 0);
    __builtin_memset(me->object, 0, sizeof *me->object);
    me->object->place = (uint32_t)me->place + 1;
    me->object->live = 1;
    me->object->made_by = w << 5 | tw_first_lane(me->lanes);
    me->object->made_at = (uint32_t)me->block->clocks[w].now;
    mark(me, TW_OBJECT_CLOCK << TW_CLOCK_SHIFT | TW_MBARRIER_WHO);
}

// Whether nothing has waited for a bulk copy that this mbarrier counts; `row` becomes the copy's instruction.
static bool is_busy(const struct visit *me, uint32_t *row)
{
    const struct tw_bulks *bulks = bulks_of(me->launch, me->block);
    for (uint32_t i = 0; me->launch->bulks_at && i < bulks->count; i++) {
        const struct tw_bulk *bulk = TW_ENTRY(struct tw_bulk, me->block, me->launch->bulks, 0, i);
        if (bulk->barrier == me->place + 1) {
            *row = bulk->row;
            return true;
        }
    }
    return false;
}

static void end(const struct visit *me)
{
    uint32_t row;
    if (is_busy(me, &row))
        report_at(me, TW_MBARRIER_BUSY, me->lanes, row);
    uint64_t site = me->row < TW_SITE_MAX ? me->row : TW_SITE_MAX, w = me->warp->index;
    me->object->live = 0;
    tw_shadow_unfenced(me->launch, me->row);
    mark(me, me->block->clocks[w].now << TW_CLOCK_SHIFT | site << TW_SITE_SHIFT | w << 5 | tw_first_lane(me->lanes));
}

// Whether it may be used: it is initialised, and our warp knows that.
static bool is_fit(const struct visit *me)
{
    const struct tw_watched *object = me->object;
    uint32_t w = me->warp->index, by = object->made_by >> 5;
    if (object->place == 0 || !object->live) {
        report_at(me, TW_MBARRIER_UNSET, me->lanes, object->place != 0);
        return false;
    }
    bool met = me->launch->far_at && object->round && far_part(me->launch, me->block)->waited.of[w] >= object->round;
    if (by != w && object->made_at >= me->block->known[w].of[by] && !met)
        report_at(me, TW_MBARRIER_UNKNOWN, me->lanes, object->made_by);
    return true;
}

static uint64_t bits_of(const struct visit *me)
{
    uint64_t bits;
    __builtin_memcpy(&bits, me->slot->shared + me->place, sizeof bits);
    return bits;
}

// Its number among the block's.
static uint32_t number_of(const struct visit *me)
{
    return (uint32_t)(me->object - watched_of(me, 0));
}

// If memory says that the phase is complete, the next waits acquire what its arrivals released.
static void follow(const struct visit *me)
{
    struct tw_watched *object = me->object;
    object->bits = bits_of(me);
    uint32_t low = (uint32_t)(object->bits >> TW_MBARRIER_PHASE_SHIFT);
    if (low == object->low_phase)
        return;
    object->bytes = object->waits_row = 0;
    object->phase += (low - object->low_phase) & 7;
    object->low_phase = low;
    object->before = object->now;
    __builtin_memset(&object->now, 0, sizeof object->now);
    if (me->launch->far_at)
        tw_shadow_turn_there(me->launch, me->block, number_of(me));
}

// Notify orders.py that our warp arrives in a phase, or has seen it complete: an access of a place of that phase, which
// orders by the fences around it if it is relaxed. `end` is the clock below which it releases what our warp did.
static void notify(const struct visit *me, uint32_t does, uint32_t phase, uint64_t end)
{
    const bool tests = (does & TW_DOES) == TW_TESTS;
    const uint64_t place = me->place | (uint64_t)(phase + 1) << TW_PHASE_SHIFT;
    uint32_t how = TW_IS_STRONG | (tests ? TW_READS : TW_WRITES);
    uint32_t orders = does & TW_RELAXED ? 0 : tests ? TW_ACQUIRES : TW_RELEASES;
    uint32_t where = TW_IN_SHARED;
    if (me->launch->order)
        notify_order(me->launch, TW_ACCESS, me->slot->block, me->warp->index, place, how | orders | where, end - 1);
}

// Our lanes arrive. Of our warp they release what all its lanes did before `whole`, and all that they did themselves.
static void arrive(const struct visit *me, uint32_t does)
{
    struct tw_arrivals *now = &me->object->now;
    uint32_t w = me->warp->index;
    now->arrived.of[w] |= me->lanes;
    bool all = (now->arrived.of[w] & me->warp->live) == me->warp->live;
    uint32_t clock = (uint32_t)me->block->clocks[w].now + !(does & TW_RELAXED);
    uint32_t most = all ? clock : (uint32_t)me->block->whole[w];
    notify(me, does, me->object->phase, most);
    if (does & TW_RELAXED)
        return;
    me->block->clocks[w].now = clock;
    pass_on(arrivals(now), near_row(me->launch, me->block, w));
    if (me->launch->far_at)
        tw_shadow_hand_on(me->launch, me->slot, me->block, w, TW_NOW_ROW + number_of(me), 0);
    now->joined.of[w] = most > now->joined.of[w] ? most : now->joined.of[w];
    now->some.lanes.of[w] |= me->lanes;
    now->some.came.of[w] = clock;
}

// Our warp saw the phase before complete, and acquires what its arrivals released.
static void acquire(const struct visit *me)
{
    struct tw_arrivals *before = &me->object->before;
    uint32_t w = me->warp->index, least = UINT32_MAX;
    const struct tw_clocks *known = &me->block->known[w];
    pass_on(near_row(me->launch, me->block, w), arrivals(before));
    if (me->launch->far_at)
        tw_shadow_hand_on(me->launch, me->slot, me->block, w, TW_BEFORE_ROW + number_of(me), 1);
    for (uint32_t q = 0; q < me->launch->warps; q++)
        least = q != w && known->of[q] < least ? known->of[q] : least;
    uint32_t met = before->some.came.of[w] > before->joined.of[w] ? before->some.came.of[w] : before->joined.of[w];
    if (before->arrived.of[w] && met > me->block->whole[w])  // lanes of our warp synchronised there
        me->block->whole[w] = met;
    if (least != UINT32_MAX && (uint64_t)least << TW_CLOCK_SHIFT > me->block->clocks[w].limit &&
        least <= me->block->clocks[w].now)
        me->block->clocks[w].limit = (uint64_t)least << TW_CLOCK_SHIFT;
}

// Lanes wait for a phase that may never complete; `ahead` phases were complete that their warp has not seen.
static void wait_in_vain(const struct visit *me, uint32_t ahead)
{
    struct tw_watched *object = me->object;
    uint32_t thread = me->warp->index << 5 | tw_first_lane(me->lanes);
    if (object->waits_row && thread > object->waits_by)
        return;
    object->bits = bits_of(me);
    object->waits_row = me->row + 1;
    object->waits_by = thread;
    object->waits_ahead = ahead;
}

// Lanes test a phase: the one before, which is complete, the current one, or another.
static void test(const struct visit *me, uint32_t does, uint64_t token)
{
    struct tw_watched *object = me->object;
    uint32_t w = me->warp->index, phase = object->phase;
    bool parity = (does & TW_OF_PARITY) != 0;
    if (parity && token > 1)
        report_at(me, TW_MBARRIER_PARITY, me->lanes, token);
    uint32_t awaited = (uint32_t)(parity ? token : token >> TW_MBARRIER_PHASE_SHIFT);
    uint32_t mask = parity ? 1 : 7, last = object->awaited.of[w] - 1;
    bool complete = ((object->low_phase ^ awaited) & mask) != 0;
    uint32_t again = object->awaited.of[w] ? me->lanes & object->awaited_lanes.of[w] : 0;
    if (!parity && complete && ((awaited + 1) & mask) != object->low_phase)
        report_at(me, TW_MBARRIER_STALE, me->lanes, (object->low_phase - awaited) & mask);
    if (!complete) {
        wait_in_vain(me, parity && !(object->skipping >> w & 1) ? phase - object->awaited.of[w] : 0);
        return;
    }
    if (phase > object->awaited.of[w] + 1)  // it skips phases on purpose
        object->skipping |= 1u << w;
    if (parity && last + 1 == phase && again & object->now.arrived.of[w])
        report_at(me, TW_MBARRIER_AGAIN, again & object->now.arrived.of[w], last);
    if (object->awaited.of[w] != phase)
        object->awaited_lanes.of[w] = 0;
    object->awaited.of[w] = phase;
    object->awaited_lanes.of[w] |= me->lanes;
    notify(me, does, phase - 1, me->block->clocks[w].now + 1);
    if (does & TW_RELAXED)
        return;
    acquire(me);
    tw_shadow_landed(me->launch, me->slot, me->block, w, me->place, phase);
    tw_shadow_flights_landed(me->slot, me->launch, me->block, me->place, phase);
}

// Lanes test a phase of an mbarrier that is not followed. If it is complete, they acquire all that any warp did.
static void know_all(const struct visit *me, uint32_t does, uint64_t token)
{
    const bool parity = (does & TW_OF_PARITY) != 0;
    const uint64_t awaited = parity ? token : token >> TW_MBARRIER_PHASE_SHIFT;
    const uint64_t phase = bits_of(me) >> TW_MBARRIER_PHASE_SHIFT;
    const uint32_t w = me->warp->index;
    if (((phase ^ awaited) & (parity ? 1 : 7)) == 0)
        return;
    for (uint32_t q = 0; q < me->launch->warps; q++)
        me->block->known[w].of[q] = (uint32_t)++me->block->clocks[q].now;
    for (uint32_t rank = 0; me->launch->far_at && rank < me->launch->ranks; rank++) {
        struct tw_shadow_block *other = shadow_of(me->slot, &me->slot->cluster[rank], me->block);
        for (uint32_t q = 0; other != me->block && q < me->launch->warps; q++)
            row_of(me->launch, me->block, TW_KNOWN_ROW + w, rank)->of[q] = (uint32_t)++other->clocks[q].now;
    }
    me->block->whole[w] = me->block->clocks[w].now;
    tw_shadow_landed(me->launch, me->slot, me->block, w, me->place, UINT32_MAX);
    tw_shadow_flights_landed(me->slot, me->launch, me->block, me->place, UINT32_MAX);
}

// A thread expects more bytes.
static void expect(const struct visit *me, uint32_t thread, uint32_t bytes)
{
    me->object->expects = 1;
    me->object->expects_row = me->row;
    me->object->expects_by = thread;
    me->object->bytes += bytes;
}

static void visit_one(struct visit *me, uint32_t does, uint64_t operand, uint32_t bytes)
{
    uint32_t what = does & TW_DOES;
    me->object = find(me);
    if (!me->object) {
        __atomic_fetch_add(&me->launch->unwatched, 1, __ATOMIC_RELAXED);
        if (what == TW_TESTS)
            know_all(me, does, operand);
        return;
    }
    if (what == TW_MAKES) {
        make(me);
        return;
    }
    if (!is_fit(me))
        return;
    if (does & TW_OF_COPIES)
        tw_shadow_counts_copies(me->launch, me->block, me->warp->index, me->lanes, me->place, me->object->phase);
    if (does & TW_EXPECTS)
        expect(me, me->warp->index << 5 | tw_first_lane(me->lanes), bytes);
    if (what == TW_ARRIVES)
        arrive(me, does);
    if (what == TW_TESTS)
        test(me, does, operand);
    else if (what == TW_ENDS)
        end(me);
    else
        follow(me);
}

// Whether our warp may know that another block's mbarrier was initialised.
static bool is_known_there(const struct visit *me, const struct tw_watched *object)
{
    uint32_t w = me->warp->index;
    const struct tw_clocks *known = row_of(me->launch, me->block, TW_KNOWN_ROW + w, rank_of(me->slot->target));
    bool met = object->round && far_part(me->launch, me->block)->waited.of[w] >= object->round;
    // if the block may not have started, that is another finding
    const struct tw_clocks *ahead = ahead_there(me->launch, me->block, w, rank_of(me->slot->target), false);
    uint32_t by = object->made_by >> 5;
    return met || object->made_at < known->of[by] || object->made_at < ahead->of[by] || !latest_of(known);
}

// The record of the mbarrier that lanes use, perhaps in another block.
static struct tw_watched *find_target(const struct visit *me)
{
    struct visit its = *me;
    its.block = shadow_of(me->slot, me->slot->target, me->block);
    return find(&its);
}

// Lanes change an mbarrier of another block of their cluster.
static void visit_there(struct visit *me, uint32_t does, uint32_t bytes)
{
    const struct tw_slot *target = me->slot->target;
    struct tw_shadow_block *there = shadow_of(me->slot, target, me->block);
    struct tw_watched *object = me->object = find_target(me);
    struct visit its = {me->launch, there, target, me->warp, object, me->place, me->row, me->lanes};
    uint64_t addresses[TW_LANES] __attribute__((aligned(64))) = {0};
    struct access access = access_of(me->slot, me->warp, me->launch, me->block, 0, me->row, me->lanes, addresses, 0, 0,
                                     0, 1, 0);
    addresses[tw_first_lane(me->lanes)] = (uint64_t)rank_of(target) << TW_RANK_SHIFT | me->place;
    turn_to(&access, tw_first_lane(me->lanes));
    tw_shadow_visit(&access, target, me->warp, me->place);
    if (!object)
        return;
    if (object->place == 0 || !object->live) {
        report_at(me, TW_MBARRIER_UNSET, me->lanes, object->place != 0);
        return;
    }
    if (!is_known_there(me, object))
        report_at(me, TW_MBARRIER_UNKNOWN, me->lanes, object->made_by);
    if (does & TW_EXPECTS)
        expect(me, me->warp->index << 5 | tw_first_lane(me->lanes), bytes);
    if (!(does & TW_RELAXED))
        tw_shadow_arrive_there(me->launch, me->slot, me->block, me->warp, does ? me->lanes : me->warp->live, there,
                               object);  // a copy that counts its bytes releases what its warp did
    follow(&its);
}

static uint32_t sum_of(const uint32_t *numbers, uint32_t lanes)
{
    uint32_t sum = 0;
    for (uint32_t left = lanes; left; left = tw_other_lanes(left))
        sum += numbers[tw_first_lane(left)];
    return sum;
}

// Lanes have initialised, changed or tested mbarriers at these offsets of shared memory; `operands` are the lanes'
// phases, or 32 bits each with the arrivals or bytes that they count.
void tw_shadow_mbarrier(TW_WHERE, uint32_t mask, const uint64_t *places, const uint64_t *operands, uint32_t does)
{
    for (uint32_t left = mask, with; left; left &= ~with) {
        uint32_t lane = tw_first_lane(left);
        bool tests = (does & TW_DOES) == TW_TESTS;
        with = 0;
        for (uint32_t i = lane; i < TW_LANES; i++)
            with |= (uint32_t)(places[i] == places[lane] && (!tests || operands[i] == operands[lane])) << i;
        with &= left;
        struct visit me = {launch, block, slot, warp, 0, places[lane], row, with};
        const uint32_t bytes = does & TW_EXPECTS ? sum_of((const uint32_t *)operands, with) : 0;
        if (slot->target != slot)
            visit_there(&me, does, bytes);
        else
            visit_one(&me, does, tests ? operands[lane] : 0, bytes);
    }
}

// A lane's bulk copy has counted its bytes at an mbarrier, and so releases what its warp did before it.
void tw_shadow_copy_counted(TW_WHERE, uint32_t mask, uint64_t place)
{
    struct visit me = {launch, block, slot, warp, 0, place, row, mask};
    uint32_t w = warp->index;
    me.object = find_target(&me);
    if (slot->target != slot) {
        tw_shadow_counted(me.launch, shadow_of(slot, slot->target, block), place, me.object ? me.object->phase : 0);
        visit_there(&me, 0, 0);
        return;
    }
    tw_shadow_counted(me.launch, me.block, place, me.object ? me.object->phase : 0);
    if (!me.object || !is_fit(&me))
        return;
    me.object->now.joined.of[w] = me.object->now.some.came.of[w] = (uint32_t)++me.block->clocks[w].now;
    follow(&me);
}

// A warp has ended, with products that it did not wait for. After the last one, bytes that an mbarrier still expects
// never come.
void tw_shadow_mbarrier_exit(TW_WHERE, uint32_t mask)
{
    struct tw_shadow_launch *of = launch;
    struct visit me = {of, block, slot, warp, 0, 0, row, mask};
    if (of->readings_at)
        tw_shadow_product_end(slot, warp, launch, block, counters, row, mask);
    tw_shadow_exit(slot, warp, launch, block, counters, row, mask);
    if (!of->watched_at)
        return;
    for (uint32_t q = 0; q < of->warps; q++)
        if (!me.block->gone.of[q])
            return;
    for (uint32_t i = 0; i < TW_WATCHED_MAX && watched_of(&me, i)->place; i++) {
        me.object = watched_of(&me, i);
        me.place = me.object->place - 1;
        uint64_t bytes = bits_of(&me) >> TW_MBARRIER_BYTES_SHIFT & (2 * TW_MBARRIER_MOST + 1);
        if (me.object->live && me.object->expects && bytes)
            record_finding(&me, TW_MBARRIER_LEFT_BYTES, me.object->expects_row, me.object->expects_by,
                 (uint64_t)me.object->bytes << 32 | bytes);
    }
}
