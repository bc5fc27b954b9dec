// The quick tests of a whole warp's accesses of global memory, eight cells at a time: loads of bytes that may be read,
// of cells that other blocks or nobody have read and nothing has written; and accesses that their threads repeat.

#include "global.h"
#include "quick.h"

// The thread sanitizer knows neither vectors nor fences.
#if defined(__SANITIZE_THREAD__)
enum { ONE_BY_ONE = 1, SPREAD_ORDER = __ATOMIC_SEQ_CST };
#define FENCE() (void)0
#else
enum { ONE_BY_ONE = 0, SPREAD_ORDER = __ATOMIC_RELAXED };
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

// Eight neighbouring cells that other threads may change meanwhile. Each is one aligned word, which no vector load
// tears; `volatile` has it loaded once. Source: Intel SDM 3A, 9.1.1 (aligned quadwords); Arm ARM, B2.2.1 (elements of a
// vector).
TW_INLINE static inline cells look_at(const uint64_t *from)
{
    typedef uint64_t anywhere __attribute__((vector_size(64), aligned(8)));
    cells all = {0};
    if (!ONE_BY_ONE)
        return *(const volatile anywhere *)from;
    for (int i = 0; i < TW_CELL_RUN; i++)
        all[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    return all;
}

// What eight cells lack of a state in all their bytes. States change one by one too, and only gain bits.
TW_INLINE static inline cells lacking(uint64_t state, const uint8_t *states, uint32_t cell_bytes)
{
    typedef uint8_t of_1 __attribute__((vector_size(8), aligned(1)));
    typedef uint16_t of_2 __attribute__((vector_size(16), aligned(1)));
    typedef uint32_t of_4 __attribute__((vector_size(32), aligned(1)));
    uint64_t ones = ((UINT64_C(1) << 8 * cell_bytes) - 1) / 255 * state;
    cells all = {0};
    for (uint32_t i = 0; ONE_BY_ONE && i < TW_CELL_RUN * cell_bytes; i++)
        all[i / cell_bytes] |= (uint64_t)__atomic_load_n(&states[i], __ATOMIC_RELAXED) << 8 * (i % cell_bytes);
    if (!ONE_BY_ONE && cell_bytes == 1)
        all = __builtin_convertvector(*(const volatile of_1 *)states, cells);
    if (!ONE_BY_ONE && cell_bytes == 2)
        all = __builtin_convertvector(*(const volatile of_2 *)states, cells);
    if (!ONE_BY_ONE && cell_bytes == 4)
        all = __builtin_convertvector(*(const volatile of_4 *)states, cells);
    return ~all & ones;
}

// Whether all cells of some rows are quiet: nothing is left to look at, or to put down.
TW_INLINE static inline bool are_quiet(const struct tw_shadow_launch *launch, int64_t start,
                                       const struct tw_plain_row *rows, uint64_t count)
{
    typedef uint64_t anywhere __attribute__((aligned(1)));
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *quiet = launch->quiet + start + rows[i].cell;
        if (!ONE_BY_ONE && *(const volatile anywhere *)quiet == UINT64_MAX)
            continue;
        for (uint32_t left = (uint32_t)rows[i].used; left; left = tw_other_lanes(left))
            if (!__atomic_load_n(&quiet[tw_first_lane(left)], __ATOMIC_RELAXED))
                return false;
    }
    return true;
}

// Cells of a row that several blocks have read, and nothing has written, are quiet from now on. A write puts down its W
// and then looks whether its cell is quiet, we look at W after that: one of the two sees the other. Where fences order
// accesses, R may be one block's again, so nothing is quiet.
static void become_quiet(const struct tw_shadow_launch *launch, int64_t cell, uint32_t used)
{
    uint32_t several = where(look_at(launch->reads + cell) == TW_SEVERAL_BLOCKS) & used;
    if (!several || launch->order)
        return;
    for (uint32_t left = several; left; left = tw_other_lanes(left))
        __atomic_store_n(&launch->quiet[cell + tw_first_lane(left)], UINT8_MAX, SPREAD_ORDER);
    FENCE();
    for (uint32_t left = where(look_at(launch->writes + cell) != 0) & several; left; left = tw_other_lanes(left))
        __atomic_store_n(&launch->quiet[cell + tw_first_lane(left)], 0, SPREAD_ORDER);
}

// A cell that another block has read becomes one that several have. Nothing else follows that, so it may simply be
// stored, but before W is looked at. Others exchange these cells meanwhile, so each is stored atomically.
static void spread(uint64_t *reads, uint32_t used)
{
    for (uint32_t left = used; left; left = tw_other_lanes(left))
        __atomic_store_n(&reads[tw_first_lane(left)], TW_SEVERAL_BLOCKS, SPREAD_ORDER);
}

// R of a cell that a `who` of our block reads now, but for its site.
static inline uint64_t read_by(const struct access *me, uint64_t who)
{
    return me->number << TW_BLOCK_SHIFT | me->clock << TW_CLOCK_SHIFT | who;
}

static inline uint64_t site_of(const struct access *me)
{
    return (me->row < TW_SITE_MAX ? me->row : (uint64_t)TW_SITE_MAX) << TW_SITE_SHIFT;
}

// Cells that nobody has read are stored as read by a `who`, of which each next cell has the one `step` higher; which of
// them another block took meanwhile.
static uint32_t claim(const struct access *me, uint64_t *reads, uint32_t free, uint64_t who, uint32_t step)
{
    uint64_t mine = read_by(me, who) | site_of(me);
    for (uint32_t left = free; left; left = tw_other_lanes(left)) {
        uint32_t i = tw_first_lane(left);
        uint64_t nobody = 0;
        if (__atomic_compare_exchange_n(&reads[i], &nobody, mine + i * step, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            free ^= 1u << i;
    }
    return free;
}

// The cells whose R one more read by any of our lanes does not change: all of the warp, or several warps that
// have no lists, have read them at its clock, and their site stays.
TW_INLINE static inline uint32_t settled(const struct access *me, cells read)
{
    cells sites = read & TW_SITES, others = read & ~TW_SITES;
    uint32_t several = me->launch->lists ? 0 : where(others == read_by(me, TW_SEVERAL_WARPS));
    uint32_t all = several | where(others == read_by(me, TW_THREAD_MAX | me->warp));
    return all & (where(sites == TW_SITES) | where(sites == site_of(me)));
}

// With `by_lane`, each row's cells are those of eight lanes, in their order. A row's `used` may have a `who` from bit
// 32 on, whose lanes all load all its cells.
TW_INLINE static inline bool reads_rows(const struct access *me, int64_t start, const struct tw_plain_row *rows,
                                        uint64_t count, uint32_t cell_bytes, bool by_lane)
{
    const struct tw_shadow_launch *launch = me->launch;
    bool stored = false;
    for (uint64_t i = 0; i < count; i++) {
        int64_t cell = start + rows[i].cell;
        uint32_t unused = ~(uint32_t)rows[i].used & ALL_CELLS;
        cells unreadable = lacking(TW_READABLE, launch->states + cell * (int64_t)cell_bytes, cell_bytes);
        if ((where(unreadable == 0) | unused) != ALL_CELLS)
            return false;
        cells read = look_at(launch->reads + cell);
        uint32_t others = launch->readers ? where(read != 0) & where(read >> TW_BLOCK_SHIFT != me->number) : 0;
        for (uint32_t left = others & ~unused; left; left = tw_other_lanes(left))
            if (has_room(launch, (uint64_t)cell + tw_first_lane(left)))
                return false;
        uint32_t several = where(read == TW_SEVERAL_BLOCKS) | settled(me, read) | unused;
        if (several == ALL_CELLS)
            continue;
        uint32_t free = where(read == 0) & ~several;
        uint32_t far = where(read >> TW_BLOCK_SHIFT != me->number) & ~(free | several);
        if (far && launch->ranks > 1)  // it may be of our cluster
            return false;
        uint64_t lanes = rows[i].used >> 32, who = lanes ? lanes : me->warp << 5 | i * TW_CELL_RUN;
        if ((far | several | (by_lane || lanes ? free : 0)) != ALL_CELLS || !fits(me->number, me->clock))
            return false;
        if (free && claim(me, launch->reads + cell, free, who, !lanes))
            return false;
        spread(launch->reads + cell, far);
        stored = true;
    }
    if (stored)
        FENCE();
    for (uint64_t i = 0; i < count; i++) {
        uint32_t unused = ~(uint32_t)rows[i].used & ALL_CELLS;
        if ((where(look_at(launch->writes + start + rows[i].cell) == 0) | unused) != ALL_CELLS)
            return false;
    }
    for (uint64_t i = 0; i < count; i++)
        become_quiet(launch, start + rows[i].cell, (uint32_t)rows[i].used);
    return true;
}

TW_INLINE static inline bool reads(const struct access *me, int64_t start, const struct tw_plain_row *rows,
                                   uint64_t count, bool by_lane)
{
    switch (me->launch->cell_bytes) {
    case 1:
        return reads_rows(me, start, rows, count, 1, by_lane);
    case 2:
        return reads_rows(me, start, rows, count, 2, by_lane);
    default:
        return reads_rows(me, start, rows, count, 4, by_lane);
    }
}

// Has what is known of each eighth lane's cell fetched, all at once: it is far apart, and the tests wait for one after
// the other. Of a cell of 1, 2 or 4 bytes the number of bits below its number is half its size.
static inline void foresee(const struct access *me)
{
    const struct tw_shadow_launch *launch = me->launch;
    for (uint32_t lane = 0; lane < TW_LANES; lane += TW_CELL_RUN) {
        uint64_t offset = me->addresses[lane] - launch->base, cell = offset >> (launch->cell_bytes >> 1);
        __builtin_prefetch(launch->states + offset);
        __builtin_prefetch(launch->reads + cell);
        __builtin_prefetch(launch->writes + cell);
        if (me->writes)
            __builtin_prefetch(launch->stored + cell);
    }
}

enum { GROUPS = (int)TW_LANES / TW_CELL_RUN };

// How many groups of eight lanes, from one on, load from one address: an aligned 4, 2 or 1 of them; 0: not even one.
static uint32_t groups_at_once(const uint64_t *addresses, uint32_t group)
{
    for (uint32_t groups = GROUPS; groups; groups /= 2) {
        uint32_t same = group % groups ? 0 : ALL_CELLS;
        for (uint32_t n = group; n < group + groups && same == ALL_CELLS; n++)
            same = where(load(addresses + TW_CELL_RUN * n) == addresses[TW_CELL_RUN * group]);
        if (same == ALL_CELLS)
            return groups;
    }
    return 0;
}

// The same for addresses that are known now only: each eight lanes must be in a row, or at one place.
static bool reads_runs(const struct access *me)
{
    enum { WIDEST_BYTES = 32 };
    struct tw_plain_row rows[GROUPS * WIDEST_BYTES] __attribute__((aligned(64)));
    const cells steps = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t size = me->launch->cell_bytes, cells_each = me->bytes >> (size >> 1), count = 0;
    for (uint32_t group = 0; group < GROUPS;) {
        const uint64_t *addresses = me->addresses + TW_CELL_RUN * group;
        uint32_t together = groups_at_once(me->addresses, group), node = (GROUPS + group) / (together ? together : 1);
        uint64_t who = together ? (uint64_t)((node + TW_THREAD_MAX / TW_WARPS_MAX - 1) << 5 | me->warp) << 32 : 0;
        if (!together && where(load(addresses) == addresses[0] + steps * me->bytes) != ALL_CELLS)
            return false;
        int64_t cell = (int64_t)((addresses[0] - me->launch->base) >> (size >> 1));  // see `foresee`
        for (uint64_t left = together ? cells_each : TW_CELL_RUN * cells_each; left; cell += TW_CELL_RUN) {
            uint64_t now = left < TW_CELL_RUN ? left : TW_CELL_RUN;
            rows[count++] = (struct tw_plain_row){cell, who | ALL_CELLS >> (TW_CELL_RUN - now)};
            left -= now;
        }
        group += together ? together : 1;
    }
    if (are_quiet(me->launch, 0, rows, count))
        return true;
    foresee(me);
    return reads(me, 0, rows, count, cells_each == 1);
}

// Stores eight neighbouring cells. Other threads may look at them meanwhile: see `look_at`.
TW_INLINE static inline void put_down(uint64_t *to, cells all)
{
    typedef uint64_t anywhere __attribute__((vector_size(64), aligned(8)));
    if (!ONE_BY_ONE)
        *(volatile anywhere *)to = all;
    for (int i = 0; ONE_BY_ONE && i < TW_CELL_RUN; i++)
        __atomic_store_n(&to[i], all[i], __ATOMIC_RELAXED);
}

// Whether threads repeat what each has done since its last event, to cells that it alone has accessed: a sum in memory.
// W and R stay but for the site of W, and so does what is known of the stored values, if they are known to differ. Each
// eight lanes are in a row, of which `starts` has the first address.
TW_INLINE static inline bool repeats(const struct access *me, const uint64_t *starts)
{
    enum { BOTH = TW_READABLE | TW_WRITABLE, MIXED = 3 };
    const struct tw_shadow_launch *launch = me->launch;
    const cells steps = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t size = (uint32_t)launch->cell_bytes, cells_each = me->bytes / size, shift = 0;
    cells wrong = {0};
    while (1u << shift < cells_each)
        shift++;
    if (!fits(me->number, me->clock))
        return false;
    for (uint32_t lane = 0; lane < TW_LANES; lane += TW_CELL_RUN) {
        uint64_t first = (starts[lane / TW_CELL_RUN] - launch->base) >> (size >> 1);
        for (uint64_t i = 0; i < (uint64_t)TW_CELL_RUN << shift; i += TW_CELL_RUN) {
            cells own = read_by(me, me->warp << 5 | lane) + ((steps + i) >> shift);
            cells written = look_at(launch->writes + first + i), read = look_at(launch->reads + first + i);
            cells of_writer = (written ^ own) & ~TW_SITES, of_reader = (read ^ own) & ~TW_SITES;
            wrong |= lacking(me->writes ? BOTH : TW_READABLE, launch->states + (first + i) * size, size);
            if (me->writes)
                wrong |= of_writer | (of_reader & (cells)(read != 0)) |
                         (look_at(launch->stored + first + i) >> TW_MIXED_BIT ^ MIXED);
            else
                wrong |= of_reader | (of_writer & (cells)(written != 0));
        }
    }
    if (where(wrong == 0) != ALL_CELLS)
        return false;
    // Another thread that writes now has seen that we wrote, so W may simply be stored, too.
    for (uint32_t lane = 0; me->writes && lane < TW_LANES; lane += TW_CELL_RUN) {
        uint64_t first = (starts[lane / TW_CELL_RUN] - launch->base) >> (size >> 1);
        cells own = (cells){0} + (read_by(me, me->warp << 5 | lane) | site_of(me));
        for (uint64_t i = 0; i < (uint64_t)TW_CELL_RUN << shift; i += TW_CELL_RUN)
            put_down(launch->writes + first + i, own + ((steps + i) >> shift));
    }
    return true;
}

// The same for addresses that are known now only.
static bool repeats_freely(const struct access *me)
{
    const cells steps = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t starts[GROUPS];
    for (uint32_t group = 0; group < GROUPS; group++) {
        const uint64_t *addresses = me->addresses + TW_CELL_RUN * group;
        if (where(load(addresses) == addresses[0] + steps * me->bytes) != ALL_CELLS)
            return false;
        starts[group] = addresses[0];
    }
    return repeats(me, starts);
}

// Whether stores of global memory with one base are repeated so.
__attribute__((noinline)) bool tw_shadow_repeats_global(const struct tw_slot *slot, const struct tw_warp *warp,
                                                        struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                        uint64_t base, const uint64_t *offsets, uint32_t bytes,
                                                        uint32_t row)
{
    struct access me = {.launch = launch, .number = slot->block, .clock = block->clocks[warp->index].now,
                        .warp = warp->index, .row = row, .bytes = bytes, .writes = true};
    uint64_t starts[GROUPS];
    for (uint32_t group = 0; group < GROUPS; group++)
        starts[group] = base + offsets[TW_CELL_RUN * group];
    return repeats(&me, starts);
}

// Accesses of global memory by addresses that are known now only: rows of lanes, or lanes that differ freely.
void tw_shadow_free_global(TW_ACCESSES)
{
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                                 order_bits);
    if (mask == UINT32_MAX && (how & ~(uint32_t)TW_IS_READ_ONLY) == TW_READS && reads_runs(&me))
        return;
    if (mask == UINT32_MAX && (how == TW_READS || (how == TW_WRITES && values)) && repeats_freely(&me))
        return;
    foresee(&me);
    tw_shadow_turns_global(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                           order_bits);
}

// Loads of global memory with one base; see tables.py.
__attribute__((noinline)) bool tw_shadow_reads_global(const struct tw_slot *slot, const struct tw_warp *warp,
                                                      struct tw_shadow_launch *launch, struct tw_shadow_block *block,
                                                      int64_t base, const struct tw_plain_row *rows, uint64_t count,
                                                      uint32_t row)
{
    uint64_t now = block->clocks[warp->index].now;
    struct access me = {.launch = launch, .number = slot->block, .clock = now, .warp = warp->index, .row = row};
    int64_t start = (base - (int64_t)launch->base) / (int64_t)launch->cell_bytes;
    return are_quiet(launch, start, rows, count) || reads(&me, start, rows, count, false);
}
