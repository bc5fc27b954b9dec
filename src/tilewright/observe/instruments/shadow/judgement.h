// What judgements of accesses share: whether two accesses are ordered or write the same, and what is recorded.

#ifndef TILEWRIGHT_SHADOW_JUDGEMENT_H
#define TILEWRIGHT_SHADOW_JUDGEMENT_H

#include <stdbool.h>

#include "knowledge.h"

#define TW_STRONG ((uint64_t)1 << TW_STRONG_BIT)
#define TW_SITES ((uint64_t)TW_SITE_MAX << TW_SITE_SHIFT)
#define TW_GAP UINT64_MAX
// The clock of a cell into which an asynchronous copy may be writing: no warp reaches it.
#define TW_FLIGHT_CLOCK ((UINT64_C(1) << (64 - TW_CLOCK_SHIFT)) - 2)
// The clock of W of an mbarrier, which no warp reaches.
#define TW_OBJECT_CLOCK ((UINT64_C(1) << (64 - TW_CLOCK_SHIFT)) - 3)
// R of global memory that several blocks read.
#define TW_SEVERAL_BLOCKS (~TW_STRONG)

// Arguments of the handlers of accesses by addresses: bytes of a lane's access, the stored values or null, what it does
// (`how`), the bytes of an element of a vector access, and what orders.py needs to know of it (0: nothing).
#define TW_ACCESSES                                                                                            \
    TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, const uint8_t *values, uint32_t how,   \
        uint32_t element, uint32_t order_bits

// The warps of a warpgroup.
enum { TW_GROUP_WARPS = 4 };

// The number of the warp that stands for the products of a warp's group. If none is left, it is the warp's own, and
// each warp's part of a product is judged by itself.
static inline uint32_t products_of(const struct tw_shadow_launch *launch, uint32_t warp)
{
    const uint32_t warps = (uint32_t)launch->warps, groups = (warps + TW_GROUP_WARPS - 1) / TW_GROUP_WARPS;
    return warps + groups <= TW_WARPS_MAX ? warps + warp / TW_GROUP_WARPS : warp;
}

// One lane's access.
struct access {
    const struct tw_slot *slot;
    struct tw_shadow_launch *launch;
    struct tw_shadow_block *block;
    struct tw_shadow_block *home;  // whose shared memory it accesses
    const uint8_t *shared;      // host address of the block's shared memory; if `away`, of the cluster's first block
    const uint64_t *addresses;  // of all lanes
    const uint8_t *values;      // that are stored; null if none
    uint64_t number;            // of the block
    uint64_t clock;
    uint64_t address;
    uint64_t ahead;  // bytes from there to the 16 that are looked at
    uint64_t low;  // the lower part of its cell: site, strong, thread
    uint32_t warp;
    uint32_t lane;
    uint32_t thread;
    uint32_t who;  // in its cell: the thread, or all lanes of its warp
    uint32_t row;
    uint32_t mask;
    uint32_t bytes;
    uint32_t element;
    uint32_t reads;
    uint32_t writes;
    uint32_t strong;
    uint32_t copies;
    uint32_t by_warp;
    uint32_t reader;  // the number of the warp in `who`, if `by_warp`
    uint32_t narrow;
    uint32_t read_only;
    uint32_t is_volatile;
    uint32_t is_data;
    uint32_t rank;  // of the block in its cluster
    uint32_t away;  // the rank of `home`
};

static inline struct access access_of(TW_ACCESSES)
{
    struct tw_shadow_block *mine = block;
    const struct tw_shadow_launch *of = launch;
    uint32_t rank = of->far_at ? (uint32_t)(slot - slot->cluster) : 0;
    uint32_t reader = how & TW_BY_WARPGROUP ? products_of(of, warp->index) : warp->index;
    uint64_t now = mine->clocks[warp->index].now, later_now = mine->clocks[reader].now;
    (void)counters, (void)order_bits;
    return (struct access){
        .slot = slot,
        .launch = launch,
        .block = mine,
        .home = mine,
        .shared = (const uint8_t *)slot->shared,
        .addresses = addresses,
        .values = values,
        .number = slot->block,
        .clock = later_now > now ? later_now : now,
        .warp = warp->index,
        .row = row,
        .mask = mask,
        .bytes = bytes,
        .element = element,
        .reads = (how & TW_READS) != 0,
        .writes = (how & TW_WRITES) != 0,
        .strong = (how & TW_IS_STRONG) != 0,
        .copies = (how & TW_IS_COPY) != 0,
        .by_warp = (how & TW_BY_WARP) != 0,
        .reader = reader,
        .narrow = (how & TW_IS_NARROW) != 0,
        .read_only = (how & TW_IS_READ_ONLY) != 0,
        .is_volatile = (how & TW_IS_VOLATILE) != 0,
        .is_data = (how & TW_IS_DATA) != 0,
        .rank = rank,
        .away = rank,
    };
}

// Make it the access of another of its lanes.
static inline void turn_to(struct access *me, uint32_t lane)
{
    uint64_t site = me->row < TW_SITE_MAX ? me->row : TW_SITE_MAX;
    me->lane = lane;
    me->thread = me->warp << 5 | lane;
    me->address = me->addresses[lane];
    me->who = me->by_warp ? TW_THREAD_MAX | me->reader : me->thread;
    me->low = site << TW_SITE_SHIFT | (uint64_t)me->strong << TW_STRONG_BIT | me->who;
}

// Record a finding. For a race, `cell` is the other access, and `other_wrote` says whether that wrote; `strict` is
// of TW_ONE_VALUE, TW_LOCKSTEP and TW_UNORDERED where only `--strict` reports it, else 0.
static inline void report_as(const struct access *me, uint32_t kind, uint64_t cell, bool other_wrote, uint32_t strict)
{
    struct tw_record finding = {
        .kind = kind,
        .row = me->row,
        .other = (cell & TW_SITES) >> TW_SITE_SHIFT,
        .wrote = (me->writes ? TW_WROTE : 0) | (other_wrote ? TW_OTHER_WROTE : 0) | strict,
        .count = 1,
        .first = me->number << 10 | me->thread,
        .address = me->address + me->ahead,
        .cell = cell,
    };
    tw_found_add(&me->launch->found, &finding);
}

static inline void report(const struct access *me, uint32_t kind, uint64_t cell, bool other_wrote)
{
    report_as(me, kind, cell, other_wrote, 0);
}

// The warps whose clock is known beyond a time.
static inline uint32_t beyond(const struct tw_clocks *known, uint64_t its)
{
    return tw_where32((tw_i32_lanes)(clocks_of(known) > (uint32_t)its));
}

// The same instrument's memory of another block of the cluster.
static inline struct tw_shadow_block *shadow_of(const struct tw_slot *slot, const struct tw_slot *other,
                                                const void *block)
{
    return (struct tw_shadow_block *)(other->observed_area + ((const char *)block - slot->observed_area));
}

static inline uint32_t who_of(uint64_t cell)
{
    return (uint32_t)(cell & TW_WHO_MASK);
}

// An entry of a list behind a block's memory; `number` counts on from that of the list's owner.
#define TW_ENTRY(type, block, list, owner, number)                                                             \
    ((type *)((char *)(block) + (list).at) + (owner) * (list).most + (number))

// The bulk copies of a block.
static inline struct tw_bulks *bulks_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block)
{
    return (struct tw_bulks *)((char *)block + launch->bulks_at);
}

// Whether an asynchronous copy may still be writing to a cell of shared memory.
static inline bool in_flight(uint64_t cell)
{
    return cell >> TW_CLOCK_SHIFT == TW_FLIGHT_CLOCK;
}

// The warp of a `who` that is not several warps.
static inline uint32_t warp_of(uint32_t who)
{
    return who >= TW_THREAD_MAX ? who % TW_WARPS_MAX : who >> 5;
}

// Whether a cell's access was by this warp alone.
static inline bool is_ours(const struct access *me, uint64_t cell)
{
    return who_of(cell) != TW_SEVERAL_WARPS && warp_of(who_of(cell)) == me->warp;
}

// Whether a cell's access has the place of ours in a list: it is by our warp, or by the products of our warpgroup.
static inline bool is_alike(const struct access *me, uint64_t cell)
{
    return who_of(cell) != TW_SEVERAL_WARPS && warp_of(who_of(cell)) == warp_of(me->who);
}

static inline uint32_t leading_zeros(uint32_t x)
{
    return x ? (uint32_t)__builtin_clz(x) : 32;
}

// A lane or tile of a warp as a node of the tree above 32 leaves: 1 all lanes, 2 and 3 halves of them.
static inline uint32_t node_of(uint32_t who)
{
    return who >= TW_THREAD_MAX ? (who >> 5) - (TW_THREAD_MAX / TW_WARPS_MAX - 1) : (who & 31) | 32;
}

// The fewest lanes of a warp that hold two parts of it, as `who`.
static inline uint32_t both_parts(uint32_t a, uint32_t b, uint32_t warp)
{
    uint32_t one = node_of(a), other = node_of(b);
    uint32_t one_depth = 32 - leading_zeros(one), other_depth = 32 - leading_zeros(other);
    if (one_depth > other_depth)
        one >>= one_depth - other_depth;
    else
        other >>= other_depth - one_depth;
    uint32_t node = one >> (32 - leading_zeros(one ^ other));
    return node >= 32 ? warp << 5 | (node & 31) : (node + TW_THREAD_MAX / TW_WARPS_MAX - 1) << 5 | warp;
}

// The cell of two unordered accesses of a block.
static inline uint64_t both(const struct access *me, uint64_t cell, uint64_t mine)
{
    uint64_t its = cell >> TW_CLOCK_SHIFT, now = mine >> TW_CLOCK_SHIFT;
    uint64_t time = (its < now ? its : now) << TW_CLOCK_SHIFT;
    uint64_t site = (cell ^ mine) & TW_SITES ? TW_SITES : mine & TW_SITES;
    uint32_t who = is_alike(me, cell) ? both_parts(who_of(cell), who_of(mine), warp_of(me->who)) : TW_SEVERAL_WARPS;
    return time | site | (cell & mine & TW_STRONG) | who;
}

// Whether our lane does not know an access by lanes of our warp since these were last ordered. For an access by a warp,
// lane 0 decides. A tile has an accessing lane in each half, so it is enough that one half is unknown.
static inline bool is_apart(const struct access *me, uint32_t who, uint64_t its)
{
    if (!me->block->lanes_at)
        return true;
    const struct tw_clocks *lanes = (const struct tw_clocks *)((const char *)me->block + me->block->lanes_at);
    uint32_t lane = me->by_warp ? 0 : me->lane;
    uint32_t unknown = tw_where32(clocks_of(&lanes[me->warp << 5 | lane]) <= (uint32_t)its) & ~(1u << lane);
    if (who < TW_THREAD_MAX)
        return unknown >> (who & 31) & 1;
    uint32_t node = node_of(who);
    uint32_t levels = leading_zeros(node) - 26;  // from its tile down to single lanes
    uint32_t size = 1u << (levels - 1);
    uint32_t lower = ((1u << size) - 1) << ((node << levels) - 32);
    uint32_t upper = lower << size;
    return (unknown & lower) == lower || (unknown & upper) == upper;
}

// Whether our warp waited for an arrival at an mbarrier that came after an access of another warp; with `by_lane`, also
// whether the arrival released what the lane of that access did.
static inline bool came_before(const struct access *me, uint32_t who, uint64_t its, bool by_lane)
{
    if (!me->launch->ahead_at || who == TW_SEVERAL_WARPS || warp_of(who) == me->warp)
        return false;
    const struct tw_some *some = (const struct tw_some *)((const char *)me->block + me->launch->ahead_at) + me->warp;
    uint32_t lanes = some->lanes.of[warp_of(who)];
    bool handed_on = who >= TW_THREAD_MAX ? lanes != 0 : (lanes >> (who & 31) & 1) != 0;
    return its < some->came.of[warp_of(who)] && (handed_on || !by_lane);
}

// The warps of which our warp waited for an arrival at an mbarrier that came after a time.
static inline uint32_t ahead_of(const struct access *me, uint64_t its)
{
    if (!me->launch->ahead_at)
        return 0;
    const struct tw_some *some = (const struct tw_some *)((const char *)me->block + me->launch->ahead_at) + me->warp;
    return beyond(&some->came, its);
}

// Whether the access in a cell of this block is not ordered before ours; `its` is its clock. It is inlined because
// targets differ in whether they would inline it.
TW_INLINE static inline bool races(const struct access *me, uint64_t cell, uint64_t its, bool strong)
{
    uint32_t who = who_of(cell);
    const struct tw_clocks *known = &me->block->known[me->warp];
    if ((strong && cell & TW_STRONG) || who == me->who)
        return false;
    if (who == TW_SEVERAL_WARPS)  // which warps is not known: it races only if it races with the one we know best
        return !((beyond(known, its) | ahead_of(me, its)) & ~(1u << me->warp));
    if (warp_of(who) == me->warp)
        return its >= me->block->whole[me->warp] && is_apart(me, who, its);
    return its >= known->of[warp_of(who)] && !came_before(me, who, its, true);
}

// Whether fences and atomics order an access by `who` before ours.
TW_INLINE static inline bool is_ordered_by(const struct access *me, uint64_t its_block, uint64_t who, uint64_t its)
{
    struct tw_asked *last = &me->block->asked[me->warp][its_block % TW_ASKED_MAX];
    int64_t block = its_block == TW_BLOCK_MAX + 1 ? -1 : (int64_t)its_block;
    uint64_t notices = __atomic_load_n(&me->launch->notices, __ATOMIC_SEQ_CST) + 1;
    if (last->notices != notices || last->block != block || last->who != who || last->clock != its) {
        int32_t answer = me->launch->order(TW_ASK, (int64_t)me->number, me->warp, block, (int64_t)who, (int64_t)its);
        *last = (struct tw_asked){block, who, its, notices, answer == TW_NOT_ORDERED};
    }
    return !last->answer;
}

// The same for the access in a block's cell. That of a product is complete when one warp of its warpgroup has waited.
TW_INLINE static inline bool is_ordered(const struct access *me, uint64_t its_block, uint64_t cell, uint64_t its)
{
    const uint32_t warps = (uint32_t)me->launch->warps, who = who_of(cell), number = who - TW_THREAD_MAX;
    const bool of_product = number < TW_WARPS_MAX && number >= warps;
    uint32_t first = of_product ? TW_THREAD_MAX | (number - warps) * TW_GROUP_WARPS : who;
    uint32_t end = first + (of_product ? TW_GROUP_WARPS : 1);
    bool ordered = false;
    for (uint32_t one = first; me->launch->order && !ordered && one < end; one++)
        ordered = is_ordered_by(me, its_block, one, its);
    return ordered;
}

// Whether a strong access leaves a cell as it is: it does not hide a weak one since the last barrier, with which others
// may race.
static inline bool keeps(const struct access *me, uint64_t cell)
{
    return me->strong && !(cell & TW_STRONG) && cell >= me->block->clocks[me->warp].limit;
}

// Notify orders.py of a lane's strong access; once of one that a waiting warp repeats, unless it releases.
static inline void notify_access(const struct access *me, uint32_t order_bits)
{
    if (!order_bits || !me->launch->order)
        return;
    uint64_t place = (me->address + 1) | (uint64_t)(order_bits & (TW_IN_SHARED | TW_ACQUIRES)) << 40;  // 0 is no place
    uint64_t where = me->address, how = order_bits;
    if (me->away != me->rank) {  // the place is in another block, which orders.py needs as that block's own
        where &= ((uint64_t)1 << TW_RANK_SHIFT) - 1;
        how |= (me->slot->cluster[me->away].block + 1) << 32;
    }
    uint64_t mark = order_bits & TW_RELEASES ? 0 : place | (uint64_t)(order_bits & 63) << 50;
    uint64_t *seen = &me->block->seen[me->warp];
    if (mark && *seen == mark)
        return;
    *seen = mark;
    notify_order(me->launch, TW_ACCESS, me->number, me->warp, where, how, me->clock);
}

// Accesses after a releasing access get another clock, because it does not release them.
static inline void advance_after_release(const struct access *me, uint32_t order_bits)
{
    if (order_bits & TW_RELEASES)
        me->block->clocks[me->warp].now++;
}

// The address of a lane's value, from byte `at` of its access on.
static inline const uint8_t *value_at(const struct access *me, uint32_t lane, uint32_t at)
{
    return me->values + at / me->element * TW_VALUES_STRIDE_BYTES + lane * me->element + at % me->element;
}

#endif
