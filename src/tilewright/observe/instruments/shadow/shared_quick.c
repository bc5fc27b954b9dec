// The quick tests of a whole warp's affine accesses of shared memory: one comparison a cell, eight cells at a time.
// They pass when nothing can be wrong and what is stored does not depend on the order of the lanes. Either all cells
// are judged, or all are left as they were.

#include "quick.h"
#include "several.h"

// What the rows of one access have in common.
struct quick {
    struct tw_shadow_block *block;
    const struct tw_touched_row *rows;
    uint64_t count;
    uint64_t *writes;  // of the cell of the base
    uint64_t *reads;
    int64_t base;
    uint64_t row;
    uint64_t warp;
    uint64_t time;   // the upper part of what is stored
    uint64_t limit;  // below which every cell is known
    bool level;      // all warps know the same of each other
    const struct tw_shadow_launch *lists;  // null if the accesses of several warps have no lists
};

// What a row's accesses put down, and its parts.
struct touch {
    cells who;
    cells site;
    cells all;
};

enum noted { NOT_NOTED, BY_US, BY_SEVERAL };

TW_INLINE static inline struct quick quick_of(struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                              uint32_t row, uint32_t warp, int64_t base,
                                              const struct tw_touched_row *rows, uint64_t count)
{
    int64_t cell = base / (int64_t)launch->cell_bytes;
    uint64_t *reads = (uint64_t *)((char *)block + launch->shared_reads);
    uint64_t time = block->clocks[warp].now << TW_CLOCK_SHIFT, limit = block->clocks[warp].limit;
    return (struct quick){block, rows, count, block->writes + cell, reads + cell, base, row, warp, time, limit,
                          time == limit, launch->several_at ? launch : 0};
}

TW_INLINE static inline struct touch touch_of(const struct quick *quick, const struct tw_touched_row *row)
{
    cells_low low32;
    __builtin_memcpy(&low32, row->low, sizeof low32);
    cells low = __builtin_convertvector(low32, cells), none = {0};
    cells group = choose(row->several, none + (TW_THREAD_MAX + quick->warp), none + (quick->warp << 5));
    cells who = group | (low & (TW_THREAD_MAX - 1));
    cells site = (low & TW_SITES) + (quick->row << TW_SITE_SHIFT);
    site = choose(where(site < TW_SITES), site, none + TW_SITES);
    return (struct touch){who, site, quick->time | site | who};
}

// Write a row's used cells; a block's cells are its own, so the others may be written as they are.
TW_INLINE static inline void put(const struct tw_touched_row *row, uint64_t *place, cells new, cells old)
{
    store(place, choose(row->used, new, old));
}

// Whether R says already what a read would store, in all of a row's cells: because the warp itself has read some of
// them before, or several warps have read all.
TW_INLINE static inline enum noted noted(const struct quick *quick, const struct tw_touched_row *row, cells read)
{
    struct touch mine = touch_of(quick, row);
    uint32_t several = where((read & TW_WHO_MASK) == TW_SEVERAL_WARPS) & (quick->lists ? 0 : ALL_CELLS) &
                       (where((read & TW_SITES) == mine.site) | where((read & TW_SITES) == TW_SITES));
    uint32_t own = where((read & TW_WHO_MASK) == mine.who);
    uint32_t known = (several | own) & where(read >= quick->time);
    if (((known | ~row->used) & ALL_CELLS) != ALL_CELLS)
        return NOT_NOTED;
    return ((several | ~row->used) & ALL_CELLS) == ALL_CELLS ? BY_SEVERAL : BY_US;
}

// R of a row that others have read in this round, where all warps know the same of each other.
TW_INLINE static inline cells joined(const struct quick *quick, const struct tw_touched_row *row, cells read)
{
    struct touch mine = touch_of(quick, row);
    cells whose = read & TW_WHO_MASK, none = {0}, several = none + TW_SEVERAL_WARPS;
    uint32_t fresh = where(read < quick->limit), own = where(whose == mine.who);
    uint32_t many = where(whose >= TW_THREAD_MAX);
    uint32_t ours = where(choose(many, whose % TW_WARPS_MAX, whose >> 5) == quick->warp) &
                    where(whose != TW_SEVERAL_WARPS) & row->used & ~(fresh | own);
    for (uint32_t left = ours; left; left = tw_other_lanes(left)) {
        uint32_t i = tw_first_lane(left);
        several[i] = both_parts((uint32_t)whose[i], (uint32_t)mine.who[i], (uint32_t)quick->warp);
    }
    cells who = choose(fresh | own, mine.who, several);
    uint32_t clear = fresh | (own & ~row->several) | where((read & TW_SITES) == mine.site);
    return quick->time | choose(clear, mine.site, none + TW_SITES) | who;
}

// The same with lists, which a cell must have before the next one is made.
static void put_lists(const struct quick *quick, const struct tw_touched_row *row, uint64_t *place, cells read)
{
    cells mine = touch_of(quick, row).all;
    uint32_t fresh = where(read < quick->limit);
    store(place, choose(row->used & fresh, mine, read));
    for (uint32_t left = row->used & ~fresh; left; left = tw_other_lanes(left)) {
        uint32_t i = tw_first_lane(left);
        place[i] = tw_shadow_join_level(quick->lists, quick->block, (uint32_t)quick->warp, quick->limit, read[i],
                                        mine[i]);
    }
}

// Put down a read: where `stale`, some of the cells were read in this round before.
static void put_reads(const struct quick *quick, bool stale)
{
    for (uint64_t i = 0; i < quick->count; i++) {
        const struct tw_touched_row *row = &quick->rows[i];
        uint64_t *place = quick->reads + row->cell;
        cells old = load(place);
        if (!stale)
            put(row, place, touch_of(quick, row).all, old);
        else if (noted(quick, row, old) != NOT_NOTED)
            continue;
        else if (quick->lists)
            put_lists(quick, row, place, old);
        else
            put(row, place, joined(quick, row, old), old);
    }
}

// Whether this very read was found settled before by a warp that knew as much, and no cell has changed since.
TW_INLINE static inline bool is_settled(const struct quick *quick)
{
    const struct tw_shadow_block *block = quick->block;
    const struct tw_settled *kept = &block->settled[quick->row % TW_SETTLED_MAX];
    return quick->level && kept->row == quick->row + 1 && kept->base == (uint64_t)quick->base &&
           kept->version == block->version && kept->limit == quick->limit;
}

// Whether a row may be read: every cell written before the last barrier, or by the same thread, and R fit to take the
// read. Notes whether R was `stale`, read in this round before, and `unsettled`: not all by several warps already.
TW_INLINE static inline bool may_read(const struct quick *quick, const struct tw_touched_row *row, bool *stale,
                                      bool *unsettled)
{
    cells written = load(quick->writes + row->cell);
    uint32_t fine = where(written - 1 < quick->limit - 1) | (~row->used & ALL_CELLS);
    bool by_own = fine != ALL_CELLS;
    if (by_own) {  // several lanes' atomics are not one lane's
        uint32_t own = where((written & TW_WHO_MASK) == touch_of(quick, row).who) & where(written != 0) & ~row->several;
        if ((fine | own) != ALL_CELLS)
            return false;
    }
    cells read = load(quick->reads + row->cell);
    if ((where(read < quick->limit) | (~row->used & ALL_CELLS)) == ALL_CELLS) {
        *unsettled = true;
        return true;
    }
    enum noted by = noted(quick, row, read);
    *stale = true;
    *unsettled |= by != BY_SEVERAL || by_own;
    return by != NOT_NOTED || quick->level;
}

__attribute__((noinline)) bool tw_shadow_reads_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                      uint32_t row, uint32_t warp, int64_t base,
                                                      const struct tw_touched_row *rows, uint64_t count)
{
    struct quick quick = quick_of(launch, block, row, warp, base, rows, count);
    bool stale = false, unsettled = false;
    if (is_settled(&quick))
        return true;
    for (uint64_t i = 0; i < count; i++)
        if (!may_read(&quick, &rows[i], &stale, &unsettled))
            return false;
    bool current = quick.level && block->version_limit == quick.limit;
    if (!unsettled) {  // the next warps that know as much find the same, while no cell changes
        if (current)
            block->settled[quick.row % TW_SETTLED_MAX] =
                (struct tw_settled){quick.row + 1, (uint64_t)base, block->version, quick.limit};
        return true;
    }
    if (!current) {  // warps that know more or less put down what a settled read may depend on
        block->version++;
        block->version_limit = quick.level ? quick.limit : 0;
    }
    put_reads(&quick, stale);
    return true;
}

// Every cell known, or last touched by the same thread; the write takes it.
__attribute__((noinline)) bool tw_shadow_writes_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                       uint32_t row, uint32_t warp, int64_t base,
                                                       const struct tw_touched_row *rows, uint64_t count)
{
    struct quick quick = quick_of(launch, block, row, warp, base, rows, count);
    for (uint64_t i = 0; i < count; i++) {
        cells written = load(quick.writes + rows[i].cell), read = load(quick.reads + rows[i].cell);
        cells who = touch_of(&quick, &rows[i]).who;
        uint32_t fine = (where(written < quick.limit) | where((written & TW_WHO_MASK) == who)) &
                        (where(read < quick.limit) | where((read & TW_WHO_MASK) == who));
        if (((fine | ~rows[i].used) & ALL_CELLS) != ALL_CELLS)
            return false;
    }
    block->version++;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t *place = quick.writes + rows[i].cell;
        put(&rows[i], place, touch_of(&quick, &rows[i]).all, load(place));
    }
    return true;
}
