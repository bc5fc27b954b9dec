// The exact judgement of accesses of shared memory, lane by lane: bounds, initialisation and races.

#include "clusters.h"
#include "quick.h"
#include "several.h"

// The addresses of a cell's W and R, and in a cluster of F.
struct cell {
    uint64_t *write;
    uint64_t *read;
    uint64_t *far;
};

// A cell that was judged, and its new values. Neighbours with the same values get the same result, unless there was a
// finding.
struct judged {
    bool known;
    uint64_t low;  // of the access
    uint64_t before[3];
    uint64_t after[3];
};

// Whether eight cells hold what the judged cell held; then they get its new values.
static bool are_alike(const struct judged *last, uint64_t *write, uint64_t *read, uint64_t *far)
{
    const cells none = {0};
    uint32_t alike = where(load(write) == last->before[0]) & where(load(read) == last->before[1]);
    if (far)
        alike &= where(load(far) == last->before[2]);
    if (alike != ALL_CELLS)
        return false;
    store(write, none + last->after[0]);
    store(read, none + last->after[1]);
    if (far)
        store(far, none + last->after[2]);
    return true;
}

// Whether two elements differ by rounding alone, if they are floating-point numbers.
static bool is_near(const uint8_t *mine, const uint8_t *its, uint32_t bytes)
{
    double a, b;
    float x, y;
    int16_t i, j;
    switch (bytes) {
    case 2:
        __builtin_memcpy(&i, mine, sizeof i), __builtin_memcpy(&j, its, sizeof j);
        return (i ^ j) >= 0 && i - j <= 2 && j - i <= 2;
    case 4:
        __builtin_memcpy(&x, mine, sizeof x), __builtin_memcpy(&y, its, sizeof y);
        a = x, b = y;
        break;
    case 8:
        __builtin_memcpy(&a, mine, sizeof a), __builtin_memcpy(&b, its, sizeof b);
        break;
    default:
        return false;
    }
    return __builtin_fabs(a - b) <= __builtin_fabs(a) * 0x1p-10;
}

// How a stored value is like what memory has, or what the last lower lane stores that writes the same place:
// TW_ONE_VALUE, TW_ROUNDED, or 0.
static uint32_t likeness(const struct access *me, bool alike)
{
    const uint8_t *memory = me->shared + me->address;
    uint32_t like = TW_ONE_VALUE;
    int32_t other = -1;
    if (!me->values)
        return 0;
    for (uint32_t lane = me->lane; alike && other < 0 && lane-- > 0;)
        if (me->mask >> lane & 1 && me->addresses[lane] == me->address)
            other = (int32_t)lane;
    for (uint32_t at = 0; at < me->bytes; at += me->element) {
        const uint8_t *mine = value_at(me, me->lane, at);
        const uint8_t *its = other < 0 ? memory + at : value_at(me, (uint32_t)other, at);
        bool same = true;
        for (uint32_t byte = 0; byte < me->element; byte++)
            same &= mine[byte] == its[byte];
        if (!same && !is_near(mine, its, me->element))
            return 0;
        like = same ? like : TW_ROUNDED;
    }
    return like;
}

// Whether an access in a cell of our block is not ordered before ours.
static bool unordered(const struct access *me, uint64_t cell, bool strong)
{
    while (cell)
        if (is_unordered(me, take(me, &cell), strong))
            return true;
    return false;
}

// The races of an access with a cell: of those of one kind and instruction, that with the lowest warp.
struct conflicts {
    uint64_t cells[TW_WARPS_MAX];
    uint32_t kinds[TW_WARPS_MAX];
    uint32_t count;
};

static void add_race(struct conflicts *all, uint32_t kind, uint64_t cell)
{
    uint32_t i = 0;
    while (i < all->count && (all->kinds[i] != kind || (all->cells[i] ^ cell) & TW_SITES))
        i++;
    all->cells[i] = cell, all->kinds[i] = kind;
    all->count += i == all->count;
}

static void report_all(const struct access *me, const struct conflicts *all, bool other_wrote)
{
    for (uint32_t i = 0; i < all->count; i++) {
        bool ours = all->kinds[i] == TW_SHARED_LANES;
        report_as(me, all->kinds[i], all->cells[i], other_wrote, other_wrote ? likeness(me, ours) : 0);
    }
}

// Report the accesses in a cell of our block that are not ordered before ours.
static void report_races(const struct access *me, uint64_t cell, bool strong, bool other_wrote)
{
    struct conflicts all;
    all.count = 0;
    while (cell) {
        uint64_t one = take(me, &cell);
        bool arrived = came_before(me, who_of(one), one >> TW_CLOCK_SHIFT, false);
        if (is_unordered(me, one, strong))
            add_race(&all, is_ours(me, one) ? TW_SHARED_LANES : arrived ? TW_SHARED_ARRIVED : TW_SHARED_RACE, one);
    }
    report_all(me, &all, other_wrote);
}

// Whether our volatile access and a strong one by another lane of our warp are ordered by lockstep alone.
static bool is_lockstep(const struct access *me, uint64_t cell)
{
    return me->is_volatile && cell & TW_STRONG && is_ours(me, cell) && unordered(me, cell, false);
}

// Whether some bytes of an element were written; others may be padding. `at` is the number of a cell of the access.
static bool is_partly_written(const struct access *me, const uint64_t *first, uint64_t at)
{
    uint64_t size = (me->element + me->launch->cell_bytes - 1) / me->launch->cell_bytes;
    uint64_t from = at / size * size;
    uint64_t some = 0;
    for (uint64_t i = from; i < from + size; i++)
        some |= near_of(first[i], me->away);
    return some != 0;
}

// What the access leaves in a cell.
static void leave(const struct access *me, const struct cell *cell, uint64_t written, uint64_t read)
{
    uint64_t mine = me->clock << TW_CLOCK_SHIFT | me->low;
    if (me->copies) {
        *cell->write = TW_FLIGHT_CLOCK << TW_CLOCK_SHIFT | (me->low & (TW_SITES | TW_STRONG)) | TW_FLIGHT_WHO;
    } else if (me->writes) {
        // a weak access may race with either of two unordered strong writes
        bool beside = me->strong && written & TW_STRONG && unordered(me, written, false);
        if (!keeps(me, written))
            *cell->write = beside ? tw_shadow_join(me, written, mine) : mine;
    } else if (!in_flight(read) || list_of(me->launch, read)) {
        *cell->read = read ? tw_shadow_join(me, read, mine) : mine;
    }
}

// Whether one access of another block's warps, or of several blocks, is not ordered before ours.
static bool is_apart_there(const struct access *me, uint32_t rank, uint64_t one, bool strong)
{
    uint64_t its = one >> TW_CLOCK_SHIFT, number = me->slot->cluster[rank].block;
    uint32_t who = who_of(one);
    return !(strong && one & TW_STRONG) && races_away(me, rank, who, its) &&
           !is_ordered(me, who == TW_SEVERAL_RANKS ? TW_BLOCK_MAX + 1 : number, one, its);
}

static bool is_of_our_block(const struct access *me, uint64_t cell)
{
    return far_who(cell) != TW_SEVERAL_RANKS && far_rank(cell) == me->rank;
}

// Whether an access of a cell is unordered with ours; both have the form of clusters.
static bool apart(const struct access *me, uint64_t cell, bool strong)
{
    if (cell && is_of_our_block(me, cell))
        return unordered(me, near_cell(cell), strong);
    for (uint64_t rest = cell ? near_cell(cell) : 0; rest;)
        if (is_apart_there(me, far_rank(cell), take(me, &rest), strong))
            return true;
    return false;
}

// Report the accesses of a cell that are unordered with ours.
static void report_conflicts(const struct access *me, uint64_t cell, bool strong, bool other_wrote)
{
    struct conflicts all;
    uint32_t rank = far_rank(cell);
    all.count = 0;
    if (is_of_our_block(me, cell)) {
        report_races(me, near_cell(cell), strong, other_wrote);
        return;
    }
    for (uint64_t rest = near_cell(cell); rest;) {
        uint64_t one = take(me, &rest), its = one >> TW_CLOCK_SHIFT;
        bool arrived = came_there(me, rank, who_of(one), its, false);
        if (is_apart_there(me, rank, one, strong))
            add_race(&all, arrived ? TW_SHARED_ARRIVED : TW_SHARED_BLOCKS, far_cell(rank, its, one, who_of(one)));
    }
    report_all(me, &all, other_wrote);
}

// The least clock of a cell's accesses.
static uint64_t least_of(const struct access *me, uint64_t cell)
{
    uint64_t least = UINT64_MAX;
    while (cell) {
        uint64_t its = take(me, &cell) >> TW_CLOCK_SHIFT;
        least = its < least ? its : least;
    }
    return least;
}

// One cell for two unordered accesses: several warps of one block, or several blocks.
static uint64_t together(const struct access *me, uint64_t cell, uint64_t mine)
{
    uint64_t its = least_of(me, near_cell(cell)), now = far_clock(mine), before = without_list(me, near_cell(cell));
    uint64_t low = (cell & mine & TW_STRONG) | ((before ^ mine) & TW_SITES ? TW_SITES : mine & TW_SITES);
    if (!is_of_our_block(me, cell))
        return far_cell(0, its < now ? its : now, low, TW_SEVERAL_RANKS);
    uint64_t all = tw_shadow_join(me, near_cell(cell), near_cell(mine));
    return far_cell(me->rank, all >> TW_CLOCK_SHIFT, all, who_of(all));
}

// What an access leaves in a cell that blocks of a cluster share.
static void leave_shared(const struct access *me, const struct cell *cell, uint64_t written, uint64_t far)
{
    uint64_t mine = far_cell(me->rank, me->clock, me->low, me->who), read = *cell->read;
    bool covers = !(me->strong && written && !(written & TW_STRONG) && apart(me, written, false));
    if (me->copies) {
        *cell->write = TW_FLIGHT_CLOCK << TW_CLOCK_SHIFT | (me->low & (TW_SITES | TW_STRONG)) | TW_FLIGHT_WHO;
    } else if (me->writes) {
        bool beside = me->strong && written & TW_STRONG && apart(me, written, false);
        uint64_t next = covers ? beside ? together(me, written, mine) : mine : written;
        if (covers && !apart(me, far, me->strong))  // the write covers all reads before
            far = *cell->far = 0;
        *cell->write = far ? next : near_of(next, me->away);
    } else if (me->away == me->rank) {
        leave(me, cell, near_of(written, me->away), read);
    } else {
        bool weak = far && !(far & TW_STRONG) && me->strong;
        if (!weak || !apart(me, far, false))
            *cell->far = apart(me, far, false) ? together(me, far, mine) : mine;
        *cell->write = written ? written : far_cell(me->away, 0, 0, 0);
    }
}

// Judge a cell of another block, or one that another block has accessed; returns whether there is no defect.
static bool judge_shared(const struct access *me, const struct cell *cell, const uint64_t *first, uint64_t at)
{
    uint64_t written = far_of(*cell->write, me->away), read = far_of(*cell->read, me->away), far = *cell->far;
    bool unset = !written && me->reads, after = apart(me, written, me->strong);
    bool over = me->writes && apart(me, read, me->strong), over_far = me->writes && apart(me, far, me->strong);
    if (unset)
        report(me, is_partly_written(me, first, at) ? TW_SHARED_PARTLY : TW_SHARED_UNWRITTEN, 0, false);
    if (after)
        report_conflicts(me, written, me->strong, true);
    if (over)
        report_conflicts(me, read, me->strong, false);
    if (over_far)
        report_conflicts(me, far, me->strong, false);
    leave_shared(me, cell, written, far);
    return !(unset || after || over || over_far);
}

// The same for a cell that only its own block has accessed.
static bool judge_own(const struct access *me, const struct cell *cell, const uint64_t *first, uint64_t at)
{
    uint64_t written = *cell->write, read = *cell->read;
    bool unset = !written && me->reads, after = unordered(me, written, me->strong);
    // what reads before the first write may find nothing there, which being strong does not mend
    bool over = me->writes && unordered(me, read, me->strong && written);
    if (unset)
        report(me, is_partly_written(me, first, at) ? TW_SHARED_PARTLY : TW_SHARED_UNWRITTEN, 0, false);
    if (after)
        report_races(me, written, me->strong, true);
    else if (is_lockstep(me, written) && likeness(me, true) != TW_ONE_VALUE)
        report_as(me, TW_SHARED_LANES, written, true, TW_LOCKSTEP);
    if (over && !unset)
        report_races(me, read, me->strong && written, false);
    else if (me->writes && is_lockstep(me, read))
        report_as(me, TW_SHARED_LANES, read, false, TW_LOCKSTEP);
    leave(me, cell, written, read);
    return !(unset || after || over);
}

static bool judge_cell(const struct access *me, const struct cell *cell, const uint64_t *first, uint64_t at)
{
    uint64_t written = *cell->write, read = *cell->read;
    if (written == TW_GAP)
        report(me, TW_SHARED_GAP, 0, false);
    else if (in_flight(written) && !(me->strong && written & TW_STRONG))
        report(me, TW_SHARED_IN_FLIGHT, written, true);
    else if (me->writes && in_flight(read))
        report(me, TW_SHARED_SOURCE, flight_of(me, read), false);
    else if (in_flight(written))  // two copies that reduce, in either order
        return true;
    else if (written >> TW_CLOCK_SHIFT == TW_OBJECT_CLOCK)
        report(me, TW_SHARED_OBJECT, 0, false);
    else
        return is_far(written) || me->away != me->rank ? judge_shared(me, cell, first, at)
                                                       : judge_own(me, cell, first, at);
    return false;
}

// Judge a lane's bytes, which start at an offset of a block's shared memory.
static void judge_lane(struct access *me, struct tw_shadow_block *block, uint64_t offset, struct judged *last)
{
    const struct tw_shadow_launch *launch = me->launch;
    uint64_t size = launch->cell_bytes, first = offset / size, none = 0;
    uint64_t *reads = (uint64_t *)((char *)block + launch->shared_reads);
    uint64_t *far = launch->far_reads ? (uint64_t *)((char *)block + launch->far_reads) : 0;
    last->known = last->known && last->low == me->low;
    last->low = me->low;
    const uint64_t end = (offset + me->bytes + size - 1) / size;
    for (uint64_t c = first, count; c < end; c += count) {
        struct cell cell = {&block->writes[c], &reads[c], far ? &far[c] : &none};
        count = TW_CELL_RUN;
        if (last->known && end - c >= count && are_alike(last, cell.write, cell.read, far ? cell.far : 0))
            continue;
        count = 1;
        const uint64_t before[3] = {*cell.write, *cell.read, *cell.far};
        if (last->known && before[0] == last->before[0] && before[1] == last->before[1] &&
            before[2] == last->before[2]) {
            *cell.write = last->after[0], *cell.read = last->after[1], *cell.far = last->after[2];
            continue;
        }
        me->ahead = c * size > offset ? (c * size - offset) / TW_PIECE_BYTES * TW_PIECE_BYTES : 0;
        last->known = judge_cell(me, &cell, &block->writes[first], c - first);
        __builtin_memcpy(last->before, before, sizeof before);
        last->after[0] = *cell.write, last->after[1] = *cell.read, last->after[2] = *cell.far;
    }
}

// Judge an access of shared memory lane by lane.
__attribute__((noinline)) void tw_shadow_turns_shared(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    struct judged last = {0};
    me.block->version++;  // reads that were settled before no longer are
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        notify_access(&me, order_bits);
        judge_lane(&me, me.block, me.address, &last);
    }
    advance_after_release(&me, order_bits);
}

// The same for shared memory of other blocks of a cluster; the addresses have the ranks of the blocks.
__attribute__((noinline)) void tw_shadow_turns_cluster(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    struct judged last = {0};
    uint32_t visited = 0;
    me.shared = (const uint8_t *)slot->arena;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        me.away = (uint32_t)(me.address >> TW_RANK_SHIFT);
        uint64_t offset = me.address & ((1u << TW_RANK_SHIFT) - 1);
        const struct tw_slot *other = &slot->cluster[me.away];
        struct tw_shadow_block *there = me.home = shadow_of(slot, other, block);
        if (!(visited >> me.away & 1))
            tw_shadow_visit(&me, other, warp, offset);
        visited |= 1u << me.away;
        there->version++;
        notify_access(&me, order_bits);
        last.known = false;  // it may be another block's
        judge_lane(&me, there, offset, &last);
    }
    advance_after_release(&me, order_bits);
}
