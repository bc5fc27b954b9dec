// The exact judgement of accesses of global memory, lane by lane: the state of its bytes, then races, cell by cell.
//
// Host threads run blocks in parallel, so cells are exchanged atomically: a write stores its W and then looks at R, a
// read stores its R and then looks at W. So one of two such accesses always sees the other.

#include "clusters.h"
#include "global.h"
#include "several.h"

static uint64_t block_of(uint64_t cell)
{
    return cell >> TW_BLOCK_SHIFT;
}

static uint64_t clock_of(uint64_t cell)
{
    return cell >> TW_CLOCK_SHIFT & UINT16_MAX;
}

// Whether a cell's block is of our cluster; its rank there.
static bool is_beside(const struct access *me, uint64_t cell, uint32_t *rank)
{
    for (*rank = 0; me->launch->ranks > 1 && *rank < me->launch->ranks; ++*rank)
        if (me->slot->cluster[*rank].block == block_of(cell))
            return true;
    return false;
}

static bool is_of_ranks(uint64_t cell)
{
    return (cell & TW_WHO_MASK) == TW_SEVERAL_RANKS;
}

// Whether barriers of the block or the cluster, or mbarriers, order a cell's access before ours.
static bool is_behind(const struct access *me, uint64_t cell, bool strong)
{
    if (block_of(cell) == me->number && !is_of_ranks(cell))
        return !races(me, cell, clock_of(cell), strong);
    uint32_t rank;
    return is_beside(me, cell, &rank) && !races_away(me, rank, who_of(cell), clock_of(cell));
}

// Whether fences and atomics do.
static bool is_fenced(const struct access *me, uint64_t cell)
{
    return is_ordered(me, is_of_ranks(cell) ? TW_BLOCK_MAX + 1 : block_of(cell), cell, clock_of(cell));
}

// Whether the scope of the instruction in a cell is its own block.
static bool is_narrow(const struct access *me, uint64_t cell)
{
    uint64_t site = (cell & TW_SITES) >> TW_SITE_SHIFT;
    return site < TW_SITE_MAX && __atomic_load_n(&me->launch->narrow[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1;
}

// Whether a strong access and the one in a cell are strong against each other: each is in the other's scope. Source:
// PTX ISA, 8.6 (morally strong operations).
static bool are_strong(const struct access *me, uint64_t cell)
{
    if (!(cell & TW_STRONG))
        return false;
    return (block_of(cell) == me->number && !is_of_ranks(cell)) || !(me->narrow || is_narrow(me, cell));
}

// The cell of two unordered accesses by blocks; of blocks of one cluster the least clock is kept.
static uint64_t of_blocks(const struct access *me, uint64_t cell, uint64_t mine)
{
    uint64_t least = cell & ~(TW_SITES | TW_STRONG | TW_WHO_MASK);
    uint64_t strong = are_strong(me, cell) ? mine & TW_STRONG : 0;
    uint32_t rank;
    if (!is_beside(me, cell, &rank))
        return strong | TW_SEVERAL_BLOCKS;
    if (clock_of(mine) < clock_of(cell))
        least = block_of(cell) << TW_BLOCK_SHIFT | clock_of(mine) << TW_CLOCK_SHIFT;
    uint64_t site = (cell ^ mine) & TW_SITES ? TW_SITES : mine & TW_SITES;
    return least | site | strong | TW_SEVERAL_RANKS;
}

// Whether a bulk copy of some thread may still be writing to a cell.
static bool is_outgoing(uint64_t cell)
{
    return clock_of(cell) == TW_CLOCK_OUTGOING && block_of(cell) <= TW_BLOCK_MAX;
}

// The number of the list of R of a cell; 0: it has none.
static inline uint32_t list_in(const struct access *me, uint64_t cell, uint64_t value, bool lists)
{
    if (!lists || block_of(value) != me->number || who_of(value) != TW_SEVERAL_WARPS)
        return 0;
    uint32_t list = __atomic_load_n(&me->launch->lists[cell], __ATOMIC_RELAXED);
    uint32_t number = list & UINT16_MAX;
    const struct tw_one_access *first = &several_of(me->launch, me->block)->of[number];
    return number && first->cell && first->born == list >> 16 ? number : 0;
}

// The kind of race of the access with a cell's, or 0.
static uint32_t race_of(const struct access *me, uint64_t cell, bool strong)
{
    if (!cell || (strong && are_strong(me, cell)))
        return 0;
    if (is_outgoing(cell) && block_of(cell) == me->number)
        return TW_GLOBAL_IN_FLIGHT;
    if (is_behind(me, cell, strong) || is_fenced(me, cell))
        return 0;
    if (block_of(cell) != me->number || is_of_ranks(cell))
        return TW_GLOBAL_BLOCKS;
    return is_ours(me, cell) ? TW_GLOBAL_LANES : TW_GLOBAL_RACE;
}

// The cell of two unordered accesses by our block. If one is strong in this block alone, its site stays.
static uint64_t both_here(const struct access *me, uint64_t cell, uint64_t mine)
{
    uint64_t of = me->narrow ? mine : is_narrow(me, cell) ? cell : both(me, cell, mine);
    return (both(me, cell, mine) & ~TW_SITES) | (of & TW_SITES);
}

// Whether R of a cell is by another warp of our block, or by several, so that it has a list after one more read.
static inline bool is_listed(const struct access *me, uint64_t value)
{
    return value && block_of(value) == me->number && !is_of_ranks(value) && !is_outgoing(value) &&
           !is_ours(me, value);
}

// R of a cell after such reads and ours; its list changes.
__attribute__((noinline)) static uint64_t joined_here(const struct access *me, uint64_t cell, uint64_t value,
                                                      uint64_t mine)
{
    const uint64_t block = me->number << TW_BLOCK_SHIFT;
    uint32_t number = list_in(me, cell, value, true);
    if (number && is_in_list(me, (uint64_t)number << TW_SITE_SHIFT | TW_SEVERAL_WARPS, mine ^ block))
        return value;
    uint64_t all = tw_shadow_join_global(me, value ^ block, &number, mine ^ block) | block;
    uint32_t born = several_of(me->launch, me->block)->of[number].born;
    __atomic_store_n(&me->launch->lists[cell], born << 16 | number, __ATOMIC_RELAXED);
    return who_of(all) == TW_SEVERAL_WARPS ? (all & ~TW_SITES) | (both_here(me, value, mine) & TW_SITES) : all;
}

// W after one more strong write: a weak access may race with either of two unordered ones.
static uint64_t over(const struct access *me, uint64_t cell, uint64_t mine)
{
    uint32_t kind = race_of(me, cell, false);
    if (!kind || kind == TW_GLOBAL_IN_FLIGHT)
        return mine;
    if (kind != TW_GLOBAL_BLOCKS)
        return both_here(me, cell, mine);
    uint64_t site = (cell ^ mine) & TW_SITES ? TW_SITES : mine & TW_SITES;
    return (of_blocks(me, cell, mine) & ~TW_SITES) | site;
}

// R after one more read. A read by the same thread at the same clock changes nothing, so most reads write nothing.
static uint64_t joined(const struct access *me, uint64_t cell, uint64_t mine)
{
    if (!cell)
        return mine;
    if (mine & TW_STRONG & ~cell)  // a strong read does not hide a weak one
        return cell;
    bool other = block_of(cell) != me->number || is_of_ranks(cell);
    if (!is_behind(me, cell, false))
        return is_fenced(me, cell) ? mine : other ? of_blocks(me, cell, mine) : both_here(me, cell, mine);
    if (other)
        return mine;
    return (cell ^ mine) & ~TW_SITES ? mine : cell;
}

// Remember whether unordered stores store the same value. Stores that are ordered after one W start afresh together,
// whichever is first; `joins`: that W is not ordered before us.
static void store_value(uint64_t *stored, uint64_t written, bool joins, uint64_t value)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15), mixed = (uint64_t)1 << TW_MIXED_BIT;
    uint64_t phase = (written * golden) >> (64 - TW_PHASE_BITS) << 32;
    uint64_t phases = (((uint64_t)1 << TW_PHASE_BITS) - 1) << 32;
    uint64_t fresh = (uint64_t)1 << 63 | phase | value;
    uint64_t old = __atomic_load_n(stored, __ATOMIC_SEQ_CST);
    for (;;) {
        uint64_t next = fresh;
        if (old && (joins || (old & phases) == phase))
            next = (uint32_t)old == value ? old : old | mixed;
        if (next == old || __atomic_compare_exchange_n(stored, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
}

// The bytes that a lane stores to a cell.
static uint64_t value_of(const struct access *me, uint64_t cell, uint64_t offset)
{
    uint64_t size = me->launch->cell_bytes, value = 0;
    const uint8_t *from = value_at(me, me->lane, (uint32_t)(cell * size - offset));
    for (uint64_t i = 0; i < size; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

// Store W of a write; returns the W before it. A strong write does not hide a weak one, with which others may race.
// Several warps' strong writes are kept as one: warps that wait for a lock would change a list again and again.
static uint64_t put_write(const struct access *me, uint64_t *cell, uint64_t mine)
{
    if (!me->strong)
        return __atomic_exchange_n(cell, mine, __ATOMIC_SEQ_CST);
    uint64_t before = __atomic_load_n(cell, __ATOMIC_SEQ_CST);
    for (;;) {
        uint64_t next = before && !(before & TW_STRONG) ? before : over(me, before, mine);
        if (next == before ||
            __atomic_compare_exchange_n(cell, &before, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return before;
    }
}

// Keep the read of one block among those of a cell that several blocks read. Reads of further blocks are dropped.
static void keep_reader(const struct access *me, uint64_t cell, uint64_t value)
{
    uint64_t *all = me->launch->readers + cell * TW_READERS_MAX;
    for (uint32_t n = 0; n < TW_READERS_MAX;) {
        uint64_t its = __atomic_load_n(&all[n], __ATOMIC_RELAXED), next = value;
        if (its && block_of(its) != block_of(value)) {
            n++;
            continue;
        }
        if (its && who_of(its) != who_of(value))
            next = block_of(value) == me->number ? both_here(me, its, value) : its;
        if (next == its || __atomic_compare_exchange_n(&all[n], &its, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
}

// Whether R is of several blocks.
static bool is_of_blocks(uint64_t value)
{
    return block_of(value) > TW_BLOCK_MAX || is_of_ranks(value);
}

// The same for R before and after our read.
static void keep_readers(const struct access *me, uint64_t cell, uint64_t before, uint64_t after, uint64_t mine)
{
    if (!me->launch->readers || !is_of_blocks(after))
        return;
    if (!is_of_blocks(before))
        keep_reader(me, cell, before);
    keep_reader(me, cell, mine);
}

TW_INLINE static inline void put_read(const struct access *me, uint64_t cell, uint64_t mine, bool lists)
{
    uint64_t *read = &me->launch->reads[cell], before = __atomic_load_n(read, __ATOMIC_RELAXED);
    for (;;) {
        bool listed = lists && is_listed(me, before);
        uint64_t next = listed ? joined_here(me, cell, before, mine) : joined(me, before, mine);
        if (next == before ||
            __atomic_compare_exchange_n(read, &before, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            keep_readers(me, cell, before, next, mine);
            return;
        }
    }
}

// Whether all unordered stores of a cell stored one value. Each has recorded its value before its W; the value of an
// atomic is unknown.
static bool stores_the_same(const struct access *me, uint64_t cell, uint64_t written)
{
    if (!me->writes || !me->values || is_outgoing(written))
        return false;
    return !(__atomic_load_n(&me->launch->stored[cell], __ATOMIC_SEQ_CST) >> TW_MIXED_BIT & 1);
}

// Whether our volatile access and a strong one by another lane of our warp are ordered by lockstep alone.
static bool is_lockstep(const struct access *me, uint64_t cell)
{
    bool candidates = me->is_volatile && cell & TW_STRONG && block_of(cell) == me->number && !is_of_ranks(cell);
    return candidates && is_ours(me, cell) && race_of(me, cell, false) == TW_GLOBAL_LANES;
}

// The kind of our access of data and a strong one in a cell, by another warp or block, that nothing orders; or 0.
static uint32_t unordered_of(const struct access *me, uint64_t cell)
{
    uint32_t kind = me->is_data && cell & TW_STRONG ? race_of(me, cell, false) : 0;
    return kind == TW_GLOBAL_RACE || kind == TW_GLOBAL_BLOCKS ? kind : 0;
}

// Report a race with W or R of a cell, if it is one; returns whether it is.
static bool report_one(const struct access *me, uint64_t cell, uint64_t value, bool wrote)
{
    uint32_t kind = race_of(me, value, me->strong);
    if (kind)
        report_as(me, kind, value, wrote,
                  wrote && !(value & TW_STRONG) && stores_the_same(me, cell, value) ? TW_ONE_VALUE : 0);
    return kind != 0;
}

// The same with each read of a list.
__attribute__((noinline)) static bool report_each(const struct access *me, uint64_t cell, uint32_t list)
{
    uint64_t rest = (uint64_t)list << TW_SITE_SHIFT | TW_SEVERAL_WARPS;
    bool any = false;
    while (rest)
        any |= report_one(me, cell, take(me, &rest) | me->number << TW_BLOCK_SHIFT, false);
    return any;
}

// The same with each read of several blocks. What a weak write is behind is forgotten: what is behind the write, too.
static bool report_readers(const struct access *me, uint64_t cell)
{
    bool any = false;
    for (uint32_t n = 0; me->launch->readers && n < TW_READERS_MAX; n++) {
        uint64_t *place = &me->launch->readers[cell * TW_READERS_MAX + n];
        uint64_t its = __atomic_load_n(place, __ATOMIC_SEQ_CST);
        bool races = its && report_one(me, cell, its, false);
        any |= races;
        if (its && !races && !me->strong)
            __atomic_compare_exchange_n(place, &its, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    return any;
}

// `lists`: whether the kernel has lists. Code for those that have none is not to grow.
TW_INLINE static inline void judge_one_cell(const struct access *me, uint64_t cell, uint64_t offset, bool lists)
{
    uint64_t *write = &me->launch->writes[cell], *read = &me->launch->reads[cell];
    uint64_t clock = me->copies ? TW_CLOCK_OUTGOING : me->clock;
    uint64_t mine = me->number << TW_BLOCK_SHIFT | clock << TW_CLOCK_SHIFT | me->low;
    uint64_t written, seen = 0;
    if (me->writes) {
        if (me->values) {
            uint64_t now = __atomic_load_n(write, __ATOMIC_SEQ_CST);
            bool own = !((now ^ mine) & ~(TW_SITES | TW_STRONG));
            store_value(&me->launch->stored[cell], now, race_of(me, now, false) || own, value_of(me, cell, offset));
        }
        written = put_write(me, write, mine);
        if (__atomic_load_n(&me->launch->quiet[cell], __ATOMIC_SEQ_CST))
            __atomic_store_n(&me->launch->quiet[cell], 0, __ATOMIC_SEQ_CST);
        seen = __atomic_load_n(read, __ATOMIC_SEQ_CST);
    } else {
        put_read(me, cell, mine, lists);
        written = __atomic_load_n(write, __ATOMIC_SEQ_CST);
    }
    uint32_t kind;
    bool races = report_one(me, cell, written, true);
    if (!races && me->reads && is_lockstep(me, written))
        report_as(me, TW_GLOBAL_LANES, written, true, TW_LOCKSTEP);
    else if (!races && (kind = unordered_of(me, written)) != 0)
        report_as(me, kind, written, true,
                  TW_UNORDERED | (stores_the_same(me, cell, written) ? TW_ONE_VALUE : 0));
    else if (!races && me->read_only && written)  // whatever orders the two: its cache may hold what was there before
        report(me, TW_GLOBAL_READ_ONLY, written, true);
    if (!me->writes)
        return;
    uint32_t list = list_in(me, cell, seen, lists);
    races = list ? report_each(me, cell, list) : report_one(me, cell, seen, false);
    races |= report_readers(me, cell);
    if (!races && is_lockstep(me, seen))
        report_as(me, TW_GLOBAL_LANES, seen, false, TW_LOCKSTEP);
    else if (!races && (kind = unordered_of(me, seen)) != 0)
        report_as(me, kind, seen, false, TW_UNORDERED);
    else if (!races && seen && me->launch->has_read_only &&
             ((seen ^ mine) >> TW_BLOCK_SHIFT || who_of(seen) != me->who))
        report(me, TW_GLOBAL_READ_ONLY, seen, false);  // if it was by such a load, a compiler may move that behind us
}

static void judge_cell(const struct access *me, uint64_t cell, uint64_t offset)
{
    judge_one_cell(me, cell, offset, false);
}

__attribute__((noinline)) static void judge_listed_cell(const struct access *me, uint64_t cell, uint64_t offset)
{
    judge_one_cell(me, cell, offset, true);
}

static uint8_t state_at(const struct access *me, uint64_t byte)
{
    return __atomic_load_n(&me->launch->states[byte], __ATOMIC_RELAXED);
}

// The defect of an access of a byte in this state.
static uint32_t wrong(uint8_t state)
{
    if (state & TW_READABLE)
        return TW_GLOBAL_CONSTANT;
    if (state & TW_WRITABLE)
        return TW_GLOBAL_UNWRITTEN;
    return state == TW_ROW_GAP ? TW_GLOBAL_ROW_GAP : state == TW_FREED ? TW_GLOBAL_FREED : TW_GLOBAL_OUTSIDE;
}

// Whether an unwritten byte may be padding: others of its element were written.
static bool is_padding(const struct access *me, uint64_t offset, uint64_t byte)
{
    uint64_t from = offset + (byte - offset) / me->element * me->element;
    uint8_t some = 0;
    for (uint64_t i = from; i < from + me->element; i++)
        some |= state_at(me, i);
    return some & TW_READABLE;
}

// The defect of the first byte that must not be accessed, or 0; bytes before it count as written from now on.
static uint32_t judge_bytes(const struct access *me, uint64_t offset)
{
    uint8_t need = (uint8_t)((me->reads ? TW_READABLE : 0) | (me->writes ? TW_WRITABLE : 0));
    bool partly = false;
    for (uint64_t byte = offset; byte < offset + me->bytes; byte++) {
        uint8_t state = state_at(me, byte);
        if ((state & need) != need) {
            if (state != TW_WRITABLE || !is_padding(me, offset, byte))
                return wrong(state);
            if (!partly)
                report(me, TW_GLOBAL_PARTLY, 0, false);
            partly = true;
        }
        if (me->writes && !(state & TW_READABLE))
            __atomic_store_n(&me->launch->states[byte], (uint8_t)(state | TW_READABLE), __ATOMIC_RELAXED);
    }
    return 0;
}

// Judge the bytes of a lane's access; returns the defect, or 0. If nothing orders the access and a `free` of this
// launch, it is a race, whichever comes first.
static uint32_t judge_place(const struct access *me)
{
    uint64_t offset = me->address - me->launch->base;
    uint32_t kind = judge_bytes(me, offset);
    uint64_t ends = kind == TW_GLOBAL_FREED ? __atomic_load_n(&me->launch->writes[offset / me->launch->cell_bytes],
                                                               __ATOMIC_SEQ_CST) : 0;
    uint32_t race = ends && fits(me->number, me->clock) ? race_of(me, ends, false) : 0;
    if (kind)
        report(me, race ? race : kind, race ? ends : 0, race != 0);
    return kind;
}

static void judge_lane(const struct access *me)
{
    uint64_t size = me->launch->cell_bytes, offset = me->address - me->launch->base;
    uint32_t kind = judge_place(me);
    // another block may write the unwritten bytes later: a race; a clock beyond a cell's range gives no finding
    if ((kind && kind != TW_GLOBAL_UNWRITTEN) || !fits(me->number, me->clock))
        return;
    for (uint64_t cell = offset / size; cell < (offset + me->bytes + size - 1) / size; cell++)
        me->launch->lists ? judge_listed_cell(me, cell, offset) : judge_cell(me, cell, offset);
}

// A block of the heap ends: `free` counts as one more write of every byte of it that was written.
void tw_shadow_ends(struct access *me, uint64_t start, uint64_t end)
{
    uint64_t size = me->launch->cell_bytes;
    for (uint64_t cell = start / size; cell < (end + size - 1) / size && fits(me->number, me->clock); cell++) {
        me->address = cell * size + me->launch->base;
        if (state_at(me, cell * size) & TW_READABLE)
            me->launch->lists ? judge_listed_cell(me, cell, cell * size) : judge_cell(me, cell, cell * size);
    }
}

// Judge an access of global memory lane by lane.
__attribute__((noinline)) void tw_shadow_turns_global(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    bool simple = (how & ~(uint32_t)TW_IS_READ_ONLY) == TW_READS && bytes == me.launch->cell_bytes;
    if (me.narrow && row < TW_SITE_MAX)
        __atomic_fetch_or(&me.launch->narrow[row / 64], (uint64_t)1 << row % 64, __ATOMIC_RELAXED);
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        notify_access(&me, order_bits);
        if (!(simple && tw_global_reads_one(&me)))
            judge_lane(&me);
    }
    advance_after_release(&me, order_bits);
}

// Judge a load whose value some lanes of each warp do not use: whatever they read, it is no race.
void tw_shadow_idle_global(TW_ACCESSES, const uint64_t *idle)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    uint32_t unused = (uint32_t)idle[warp->index];
    for (uint32_t left = mask & unused; left; left = tw_other_lanes(left)) {
        turn_to(&me, tw_first_lane(left));
        judge_place(&me);
    }
    tw_shadow_turns_global(slot, warp, launch, block, counters, row, mask & ~unused, addresses, bytes, values, how,
                           element, order_bits);
}

// A bulk copy is complete: its bytes become a write of its thread at a clock.
void tw_shadow_arrived(struct tw_shadow_launch *launch, uint64_t number, const struct tw_outgoing *out, uint64_t start,
                       uint64_t bytes, uint64_t clock)
{
    uint64_t size = launch->cell_bytes, first = (start - launch->base) / size, site = out->row;
    uint64_t low = (site < TW_SITE_MAX ? site : TW_SITE_MAX) << TW_SITE_SHIFT | out->thread;
    low |= number << TW_BLOCK_SHIFT | (uint64_t)out->strong << TW_STRONG_BIT;
    uint64_t now = low | (clock < TW_CLOCK_MAX ? clock : TW_CLOCK_MAX) << TW_CLOCK_SHIFT;
    for (uint64_t c = first; c < (start - launch->base + bytes + size - 1) / size; c++) {
        uint64_t outgoing = low | (uint64_t)TW_CLOCK_OUTGOING << TW_CLOCK_SHIFT;
        __atomic_compare_exchange_n(&launch->writes[c], &outgoing, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
}
