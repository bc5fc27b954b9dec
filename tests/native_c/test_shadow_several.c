// Lists of accesses by several warps against a model that keeps the last read of each warp, word by word.

#include "shadow_launch.h"
#define judge_cell judge_global_cell  // `shared.c` has functions of these names too
#define judge_lane judge_global_lane
#define joined joined_global
#define is_lockstep is_global_lockstep
#include "observe/instruments/shadow/global.c"
#undef judge_cell
#undef judge_lane
#undef joined
#undef is_lockstep
#include "observe/instruments/shadow/several.c"
#include "observe/instruments/shadow/shared.c"
#include "observe/instruments/shadow/shared_quick.c"

// No cluster here.
void tw_shadow_visit(const struct access *me, const struct tw_slot *other, const struct tw_warp *warp, uint64_t place)
{
    (void)me, (void)other, (void)warp, (void)place;
}

enum { ROWS = 300, WRITE = 400 };

// Words of global memory and their cells.
static uint8_t states[4 * CELLS], quiet[CELLS];
static uint64_t global_writes[CELLS], global_reads[CELLS], stored[CELLS];
static uint32_t lists[CELLS];

// A block with lists, whose words were all written before: of shared memory, or of global memory.
struct listed {
    bool global;
    struct shadow *shadow;
    struct tw_shadow_block *of;
    struct tw_several *several;
    uint64_t *reads;
    uint64_t random;
    struct {
        uint32_t clock;  // 0: none
        uint32_t row;
        bool behind;  // a later read comes after it, so a write that races with it races with that
    } model[CELLS][WARPS];
};

static struct listed *fresh_lists(uint64_t seed)
{
    struct listed *all = calloc(1, sizeof *all);
    CHECK(all);
    struct shadow *s = all->shadow = fresh(0);
    size_t cells = CELLS * sizeof(uint64_t), end = sizeof *s->of + 2 * cells;
    all->of = aligned_alloc(64, (end + sizeof *all->several + 63) / 64 * 64);
    CHECK(all->of && end % 64 == 0);
    memset(all->of, 0, end + sizeof *all->several);
    memcpy(all->of, s->of, sizeof *s->of);
    all->reads = all->of->writes + CELLS;
    all->several = (struct tw_several *)((char *)all->of + end);
    s->launch.several_at = end;
    all->random = seed;
    s->of = all->of;
    s->reads = all->reads;
    for (uint32_t i = 0; i < CELLS; i++)
        all->of->writes[i] = 1;
    return all;
}

// The same for words of global memory.
static struct listed *fresh_global(uint64_t seed)
{
    struct listed *all = fresh_lists(seed);
    struct tw_shadow_launch *launch = &all->shadow->launch;
    all->global = true;
    launch->states = states, launch->quiet = quiet, launch->lists = lists;
    launch->writes = global_writes, launch->reads = global_reads, launch->stored = stored;
    memset(states, TW_READABLE | TW_WRITABLE, sizeof states);
    memset(global_writes, 0, sizeof global_writes);
    memset(global_reads, 0, sizeof global_reads);
    memset(lists, 0, sizeof lists);
    return all;
}

static void done(struct listed *all)
{
    free(all->of);
    free(all->shadow);
    free(all);
}

static uint32_t drawn(struct listed *all, uint32_t below)
{
    all->random = all->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(all->random >> 33) % below;
}

static void access_word(struct listed *all, uint32_t w, uint32_t cell, uint32_t row, uint32_t how)
{
    struct shadow *s = all->shadow;
    uint64_t addresses[TW_LANES] = {4 * cell};
    if (all->global)
        tw_shadow_turns_global(&s->slot, &s->warps[w], &s->launch, all->of, 0, row, 1, addresses, 4, 0, how, 4, 0);
    else
        tw_shadow_turns_shared(&s->slot, &s->warps[w], &s->launch, all->of, 0, row, 1, addresses, 4, 0, how, 4, 0);
}

// One warp tells another all that it did and knows.
static void tell(struct listed *all, uint32_t from, uint32_t to)
{
    all->of->known[from].of[from] = (uint32_t)++all->of->clocks[from].now;
    join_clocks(&all->of->known[to], &all->of->known[from]);
    uint32_t least = UINT32_MAX;
    for (uint32_t q = 0; q < WARPS; q++)
        least = q != to && all->of->known[to].of[q] < least ? all->of->known[to].of[q] : least;
    if (all->global && least <= all->of->clocks[to].now)
        all->of->clocks[to].limit = (uint64_t)least << TW_CLOCK_SHIFT;
}

static void read_word(struct listed *all, uint32_t w, uint32_t cell)
{
    uint32_t row = drawn(all, ROWS);
    if (all->global && all->model[cell][w].clock == all->of->clocks[w].now)  // the first read at a clock stays
        row = all->model[cell][w].row;
    for (uint32_t q = 0; q < WARPS; q++)
        all->model[cell][q].behind |= all->model[cell][q].clock < all->of->known[w].of[q];
    all->model[cell][w].clock = (uint32_t)all->of->clocks[w].now;
    all->model[cell][w].row = row;
    all->model[cell][w].behind = false;
    access_word(all, w, cell, row, TW_READS);
}

// A warp writes a word: which rows of readers must be recorded, and which were; returns whether any read races.
static bool write_word(struct listed *all, uint32_t w, uint32_t cell, bool *expected, bool *found)
{
    struct shadow *s = all->shadow;
    bool any = false;
    memset(s->table, 0, sizeof s->table);
    memset(expected, 0, ROWS);
    memset(found, 0, TW_SITE_MAX + 1);
    for (uint32_t q = 0; q < WARPS; q++) {
        bool races = q != w && all->model[cell][q].clock && all->model[cell][q].clock >= all->of->known[w].of[q];
        any |= races;
        expected[all->model[cell][q].row] |= races && !all->model[cell][q].behind;
    }
    access_word(all, w, cell, WRITE, TW_WRITES);
    for (uint32_t i = 0; i < TW_RECORDS; i++)
        if (s->table[i].kind)
            found[s->table[i].other] = true;
    all->of->writes[cell] = 1;
    global_writes[cell] = 0;
    return any;
}

static void test_a_write_races_with_the_readers_of_a_model(void)
{
    static bool expected[ROWS], found[TW_SITE_MAX + 1];
    for (uint32_t run = 0; run < 6; run++) {
        uint32_t blurred = run % 3;
        struct listed *all = run < 3 ? fresh_lists(7 + blurred) : fresh_global(7 + blurred);
        uint64_t races = 0, clean = 0, swept = 0, missed = 0;
        all->several->blurred = blurred == 2 ? TW_BLURRED_MAX : blurred;
        for (uint32_t i = 1; blurred == 2 && i < TW_SITE_MAX; i++)  // no room from the start
            all->several->of[i].cell = 1;
        for (uint32_t step = 0; step < 60000; step++) {
            uint32_t w = drawn(all, WARPS), cell = drawn(all, CELLS), what = drawn(all, 8), used = all->several->used;
            if (all->global)  // lists that some warp may need must leave room
                cell %= 16;
            if (all->global && blurred < 2 && step % 1000 == 999)
                sweep(&all->shadow->launch, all->of, 0);
            if (what == 0 || (all->global && what < 4))
                tell(all, w, drawn(all, WARPS));
            else if (what < 6)
                read_word(all, w, cell);
            else {
                bool any = write_word(all, w, cell, expected, found), known = found[TW_SITE_MAX];
                for (uint32_t row = 0; row < ROWS; row++) {
                    CHECK(blurred || expected[row] == found[row]);
                    known |= found[row];
                }
                CHECK(blurred == 2 ? any || !known : any == known);
                any ? races++ : clean++;
                missed += any && !known;
            }
            swept += all->several->used < used;
        }
        CHECK(races > 1000 && clean > 1000 && (blurred == 2) == (missed > 0) && (blurred == 2) == (swept == 0));
        done(all);
    }
}

static void test_lists_are_shared_and_freed(void)
{
    struct listed *all = fresh_lists(1);
    for (uint32_t cell = 0; cell < CELLS; cell++)
        for (uint32_t w = 0; w < WARPS; w++)
            access_word(all, w, cell, 5, TW_READS);
    CHECK(all->several->used == WARPS && all->reads[0] == all->reads[CELLS - 1]);
    struct access me = {.launch = &all->shadow->launch, .home = all->of};
    uint64_t rest = all->reads[0];
    CHECK(warp_of(who_of(take(&me, &rest))) == 2 && warp_of(who_of(take(&me, &rest))) == 1);
    CHECK(warp_of(who_of(take(&me, &rest))) == 0 && rest == 0);
    all->reads[0] = 0;
    sweep(me.launch, me.home, 0);
    CHECK(all->several->of[WARPS].cell && !all->several->of[WARPS + 1].cell);
    memset(all->reads, 0, CELLS * sizeof *all->reads);
    sweep(me.launch, me.home, 0);
    CHECK(!all->several->of[1].cell && all->several->blurred == 0);
    done(all);
}

// Warps read 32 words, lane i the word i / tile, between barriers: quickly, and lane by lane. Both leave the same
// lists; of a lane's reads by several instructions one has the site.
static void test_quick_reads_leave_the_lists_of_the_exact_judgement(void)
{
    struct listed *quick = fresh_lists(3), *exact = fresh_lists(3);
    struct access of_quick = {.launch = &quick->shadow->launch, .block = quick->of, .home = quick->of};
    struct access of_exact = {.launch = &exact->shadow->launch, .block = exact->of, .home = exact->of};
    uint64_t several = 0;
    for (uint32_t step = 0; step < 3000; step++) {
        struct tw_touched_row rows[TW_LANES / TW_CELL_RUN] = {0};
        uint64_t addresses[TW_LANES];
        uint32_t w = drawn(quick, WARPS), tile = 1u << drawn(quick, 3), row = drawn(quick, 3);
        if (drawn(quick, 4) == 0) {
            synchronise(quick->shadow);
            synchronise(exact->shadow);
        }
        for (uint32_t lane = 0; lane < TW_LANES; lane++) {
            struct tw_touched_row *its = &rows[lane / tile / TW_CELL_RUN];
            uint32_t i = lane / tile % TW_CELL_RUN, node = 32 / tile + lane / tile;
            its->cell = lane / tile / TW_CELL_RUN * TW_CELL_RUN;
            its->used |= 1u << i;
            its->several |= (uint32_t)(tile > 1) << i;
            its->low[i] = tile > 1 ? (node - 1) << 5 : lane;
            addresses[lane] = 4 * (lane / tile);
        }
        uint64_t count = (TW_LANES / tile + TW_CELL_RUN - 1) / TW_CELL_RUN;
        struct shadow *s = exact->shadow;
        CHECK(tw_shadow_reads_shared(&quick->shadow->launch, quick->of, row, w, 0, rows, count));
        tw_shadow_turns_shared(&s->slot, &s->warps[w], &s->launch, s->of, 0, row, UINT32_MAX, addresses, 4, 0, TW_READS,
                               4, 0);
        for (uint32_t cell = 0; cell < TW_LANES / tile; cell++) {
            uint64_t one = quick->reads[cell], other = exact->reads[cell];
            several += who_of(one) == TW_SEVERAL_WARPS;
            CHECK(((one ^ other) & ~TW_SITES) == 0);
            while (one || other) {
                uint64_t left = take(&of_quick, &one), right = take(&of_exact, &other);
                CHECK(((left ^ right) & ~TW_SITES) == 0);
            }
        }
    }
    CHECK(several > 10000 && findings(quick->shadow, EVERY) == 0 && findings(exact->shadow, EVERY) == 0);
    done(quick);
    done(exact);
}

// Copies of two threads read a word beside reads of warps: they stay in flight until each ends, in either order.
static void test_copies_in_flight_stay_beside_reads(void)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct listed *all = fresh_lists(1);
        const struct tw_shadow_launch *launch = &all->shadow->launch;
        uint64_t flies = TW_FLIGHT_CLOCK << TW_CLOCK_SHIFT | 9 << TW_SITE_SHIFT, *read = &all->reads[2];
        uint64_t copies[2] = {flies | 0, flies | 33}, lands = 2 << TW_CLOCK_SHIFT | 9 << TW_SITE_SHIFT;
        access_word(all, 2, 2, 5, TW_READS);
        *read = tw_shadow_hold(launch, all->of, *read, copies[0]);
        *read = tw_shadow_hold(launch, all->of, *read, copies[1]);
        access_word(all, 1, 2, 6, TW_READS);
        CHECK(in_flight(*read));
        access_word(all, 2, 2, 7, TW_WRITES);
        CHECK(findings(all->shadow, TW_SHARED_SOURCE) == 1 && findings(all->shadow, EVERY) == 1);
        for (uint32_t i = 0; i < 2; i++) {
            CHECK(in_flight(*read));
            uint64_t copy = copies[i ^ turn];
            *read = tw_shadow_let_go(launch, all->of, *read, copy, lands | (copy & TW_WHO_MASK));
        }
        CHECK(!in_flight(*read) && who_of(*read) == TW_SEVERAL_WARPS);
        memset(all->shadow->table, 0, sizeof all->shadow->table);
        access_word(all, 0, 2, 7, TW_WRITES);  // thread 0 knows its own copy alone
        CHECK(findings(all->shadow, TW_SHARED_RACE) == 2 && findings(all->shadow, EVERY) == 2);
        done(all);
    }
}

int main(void)
{
    test_copies_in_flight_stay_beside_reads();
    test_quick_reads_leave_the_lists_of_the_exact_judgement();
    test_a_write_races_with_the_readers_of_a_model();
    test_lists_are_shared_and_freed();
    return 0;
}
