// Shadow memory of global memory, driven access by access, and from several threads at the same time.

#define _POSIX_C_SOURCE 200809L  // barriers of threads

#include <pthread.h>

#include "shadow_launch.h"
#include "observe/instruments/shadow/global.c"
#include "observe/instruments/shadow/several.c"
#include "observe/instruments/shadow/global_quick.c"

enum { ROUNDS = 3000 };

// Global memory and its cells, which blocks share.
static uint8_t states[4 * CELLS + 64];
static uint64_t writes[CELLS + 8], reads_of[CELLS + 8], stored[CELLS + 8];
static uint8_t quiet[CELLS + 8];
static uint8_t values[2 * TW_VALUES_STRIDE_BYTES];
static const struct tw_plain_row ROWS[4] = {{0, 255}, {8, 255}, {16, 255}, {24, 255}};

static struct shadow *block_of_launch(uint64_t number, struct shadow *first)
{
    struct shadow *s = fresh(number);
    s->launch.base = (uint64_t)1 << 36;
    s->launch.states = states;
    s->launch.writes = writes;
    s->launch.reads = reads_of;
    s->launch.stored = stored;
    s->launch.quiet = quiet;
    if (first)
        s->launch.found = first->launch.found;
    return s;
}

static int32_t not_ordered(int64_t what, int64_t block, int64_t warp, int64_t a, int64_t b, int64_t clock)
{
    (void)what, (void)block, (void)warp, (void)a, (void)b, (void)clock;
    return TW_NOT_ORDERED;
}

static void clear(uint8_t state)
{
    memset(states, state, sizeof states);
    memset(writes, 0, sizeof writes);
    memset(reads_of, 0, sizeof reads_of);
    memset(stored, 0, sizeof stored);
    memset(quiet, 0, sizeof quiet);
}

static void access_global(struct shadow *s, struct tw_shadow_launch *launch, uint64_t step, uint32_t how)
{
    uint64_t addresses[TW_LANES];
    lanes_from(addresses, s->launch.base, step);
    tw_shadow_turns_global(&s->slot, &s->warps[0], launch, s->of, 0, how, UINT32_MAX, addresses, 4,
                           how & TW_WRITES && !(how & TW_IS_STRONG) ? values : 0, how, 4, 0);
}

static void test_states_of_bytes(void)
{
    const struct {
        uint8_t state;
        uint32_t how;
        uint32_t kind;
    } cases[] = {
        {TW_FREE, TW_READS, TW_GLOBAL_OUTSIDE},      {TW_FREED, TW_WRITES, TW_GLOBAL_FREED},
        {TW_ROW_GAP, TW_READS, TW_GLOBAL_ROW_GAP},   {TW_READABLE, TW_WRITES, TW_GLOBAL_CONSTANT},
        {TW_WRITABLE, TW_READS, TW_GLOBAL_UNWRITTEN}, {TW_WRITABLE, TW_WRITES, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clear(cases[i].state);
        struct shadow *s = block_of_launch(0, 0);
        access_global(s, &s->launch, 4, cases[i].how);
        CHECK(findings(s, EVERY) == (cases[i].kind ? 32 : 0) &&
              findings(s, (int32_t)cases[i].kind) == findings(s, EVERY));
        CHECK(cases[i].kind || states[127] == (TW_READABLE | TW_WRITABLE));
        free(s);
    }
}

static void test_blocks_race_unless_they_store_the_same_or_are_strong(void)
{
    const uint32_t strong = TW_READS | TW_WRITES | TW_IS_STRONG;
    for (uint32_t turn = 0; turn < 3; turn++) {
        clear(TW_READABLE | TW_WRITABLE);
        struct shadow *one = block_of_launch(1, 0), *other = block_of_launch(2, one);
        uint32_t how = turn == 2 ? strong : TW_WRITES;
        memset(values, 3, sizeof values);
        access_global(one, &one->launch, 4, how);
        values[8] = turn == 1 ? 4 : 3;  // of lane 2
        access_global(other, &other->launch, 4, how);
        CHECK(findings(one, TW_GLOBAL_BLOCKS) == (turn == 1) && findings(one, EVERY) == (turn == 1));
        CHECK((findings_of(one, TW_GLOBAL_BLOCKS, TW_ONE_VALUE) > 0) == (turn < 2));
        free(one);
        free(other);
    }
}

// A load through the non-coherent cache is a defect after any write in the launch, its own thread's and one that a
// barrier orders before it too; before the first write it is none.
static void test_read_only_loads_race_with_every_write_before_them(void)
{
    const uint32_t read_only = TW_READS | TW_IS_READ_ONLY;
    for (uint32_t turn = 0; turn < 3; turn++) {
        clear(TW_READABLE | TW_WRITABLE);
        struct shadow *s = block_of_launch(1, 0);
        access_global(s, &s->launch, 4, read_only);
        access_global(s, &s->launch, 4, TW_WRITES);
        CHECK(findings(s, EVERY) == 0);
        if (turn == 1)
            synchronise(s);
        access_global(s, &s->launch, turn == 1 ? 0 : 4, turn == 2 ? (uint32_t)TW_READS : read_only);
        CHECK(findings(s, TW_GLOBAL_READ_ONLY) == (turn < 2 ? TW_LANES : 0) &&
              findings(s, EVERY) == findings(s, TW_GLOBAL_READ_ONLY));
        free(s);
    }
}

// All lanes write one place and read it, both volatile: those that follow the last writer read what another lane wrote.
static void test_volatile_accesses_of_a_warp_are_ordered_by_lockstep_alone(void)
{
    const uint32_t strong = TW_IS_STRONG | TW_IS_VOLATILE;
    for (uint32_t turn = 0; turn < 2; turn++) {
        clear(TW_READABLE | TW_WRITABLE);
        struct shadow *s = block_of_launch(1, 0);
        access_global(s, &s->launch, 0, TW_WRITES | strong);
        if (turn)
            synchronise(s);
        access_global(s, &s->launch, 0, TW_READS | strong);
        CHECK((findings_of(s, TW_GLOBAL_LANES, TW_LOCKSTEP) > 0) == !turn && findings(s, EVERY) == 0);
        free(s);
    }
}

static void test_the_quick_test_passes_what_other_blocks_have_read(void)
{
    for (uint32_t cell_bytes = 1; cell_bytes <= 4; cell_bytes *= 2) {
        clear(TW_READABLE);
        struct shadow *one = block_of_launch(1, 0), *other = block_of_launch(2, one);
        one->launch.cell_bytes = other->launch.cell_bytes = cell_bytes;
        int64_t base = (int64_t)one->launch.base;
        CHECK(!tw_shadow_reads_global(&one->slot, one->warps, &one->launch, one->of, base, ROWS, 4, 0));
        for (uint32_t i = 0; i < TW_LANES; i++)
            reads_of[i] = (uint64_t)7 << TW_BLOCK_SHIFT;
        CHECK(tw_shadow_reads_global(&one->slot, one->warps, &one->launch, one->of, base, ROWS, 4, 0));
        CHECK(reads_of[0] == TW_SEVERAL_BLOCKS && reads_of[31] == TW_SEVERAL_BLOCKS && reads_of[32] == 0);
        CHECK(quiet[0] && quiet[31] && !quiet[32]);
        quiet[30] = 0;
        states[9 * cell_bytes] = TW_WRITABLE;
        CHECK(!tw_shadow_reads_global(&other->slot, other->warps, &other->launch, other->of, base, ROWS, 4, 0));
        states[9 * cell_bytes] = TW_READABLE;
        writes[30] = 1;
        CHECK(!tw_shadow_reads_global(&other->slot, other->warps, &other->launch, other->of, base, ROWS, 4, 0));
        free(one);
        free(other);
    }
}

// Cells that several blocks have read are quiet until a write; where fences order accesses, none is quiet.
static void test_cells_are_quiet_until_they_are_written(void)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        clear(TW_READABLE | TW_WRITABLE);
        struct shadow *one = block_of_launch(1, 0), *other = block_of_launch(2, one);
        int64_t base = (int64_t)one->launch.base;
        one->launch.order = turn ? not_ordered : 0;
        for (uint32_t i = 0; i < TW_LANES; i++)
            reads_of[i] = (uint64_t)7 << TW_BLOCK_SHIFT;
        CHECK(tw_shadow_reads_global(&one->slot, one->warps, &one->launch, one->of, base, ROWS, 4, 0));
        CHECK(quiet[0] == (turn ? 0 : UINT8_MAX) && quiet[31] == quiet[0]);
        access_global(other, &other->launch, 4, TW_WRITES);
        CHECK(!quiet[0] && !quiet[31] && findings(one, TW_GLOBAL_BLOCKS) == 32);
        CHECK(!tw_shadow_reads_global(&one->slot, one->warps, &one->launch, one->of, base, ROWS, 4, 0));
        free(one);
        free(other);
    }
}

// Two blocks that access the same cells: one stores, the other reads, by the quick test if it passes.
struct meeting {
    struct shadow *reader;
    struct shadow *writer;
    struct tw_shadow_launch *launch;
    pthread_barrier_t round;
};

static void *read_all(void *given)
{
    struct meeting *meeting = given;
    struct shadow *s = meeting->reader;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&meeting->round);
        if (!tw_shadow_reads_global(&s->slot, s->warps, meeting->launch, s->of, (int64_t)s->launch.base, ROWS, 4, 0))
            access_global(s, meeting->launch, 4, TW_READS);
        pthread_barrier_wait(&meeting->round);
    }
    return 0;
}

static void test_a_read_and_a_write_that_meet_are_always_seen(void)
{
    struct meeting meeting = {.reader = block_of_launch(1, 0), .writer = block_of_launch(2, 0)};
    struct shadow *seen = meeting.reader;
    pthread_t thread;
    meeting.launch = &seen->launch;
    pthread_barrier_init(&meeting.round, 0, 2);
    CHECK(pthread_create(&thread, 0, read_all, &meeting) == 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        clear(TW_READABLE | TW_WRITABLE);
        memset(seen->table, 0, sizeof seen->table);
        for (uint32_t cell = 0; cell < TW_LANES; cell++)
            reads_of[cell] = (uint64_t)2 << TW_BLOCK_SHIFT;  // the writer's own, which is no race
        pthread_barrier_wait(&meeting.round);
        access_global(meeting.writer, meeting.launch, 4, TW_WRITES);
        pthread_barrier_wait(&meeting.round);
        for (uint32_t cell = 0; cell < TW_LANES; cell++)
            CHECK(!quiet[cell]);
        CHECK(findings(seen, TW_GLOBAL_BLOCKS) >= 32 && findings(seen, EVERY) == findings(seen, TW_GLOBAL_BLOCKS));
    }
    pthread_join(thread, 0);
    pthread_barrier_destroy(&meeting.round);
    free(meeting.reader);
    free(meeting.writer);
}

// What is known of a cell before an access: one of a few accesses at warp 0's clock, or by another block.
static uint64_t access_before(const struct shadow *s, uint32_t draw, uint32_t lane)
{
    const uint64_t sites[] = {0, 5, TW_SITE_MAX};
    uint64_t low = sites[draw / 8 % 3] << TW_SITE_SHIFT | s->of->clocks[0].now << TW_CLOCK_SHIFT;
    uint64_t mine = s->slot.block << TW_BLOCK_SHIFT | low;
    const uint64_t by[] = {0, mine | lane, mine | TW_THREAD_MAX, mine | 32, mine | TW_SEVERAL_WARPS,
                           (uint64_t)9 << TW_BLOCK_SHIFT | low | 3, TW_SEVERAL_BLOCKS, 0};
    return by[draw % 8];
}

// The quick tests leave what the exact judgement leaves, whatever was known before.
static void test_quick_and_exact_judgements_agree(void)
{
    static uint64_t first[3][CELLS + 8], last[3][CELLS + 8];
    uint64_t *const kept[3] = {writes, reads_of, stored};
    uint32_t draw = 1, passed = 0;
    for (uint32_t turn = 0; turn < 6000; turn++) {
        struct shadow *s = block_of_launch(1, 0);
        uint32_t draws[6];
        for (uint32_t i = 0; i < 6; i++)
            draws[i] = (draw = draw * 1664525 + 1013904223) >> 10;
        uint32_t bytes = draws[0] & 1 ? 8 : 4, how = draws[0] & 2 ? TW_WRITES : TW_READS, row = draws[0] & 4 ? 5 : 0;
        uint32_t lanes_each = (const uint32_t[]){1, 1, 8, 16, 32}[draws[1] % 5];
        clear(TW_READABLE | TW_WRITABLE);
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            uint32_t lane = cell / (bytes / 4) % TW_LANES;
            bool odd = draws[4] % 4 == 0 && cell == draws[5] % CELLS;  // one cell may differ from the others
            reads_of[cell] = access_before(s, draws[2] + odd, lane);
            writes[cell] = access_before(s, draws[3] % 3 ? draws[3] / 4 % 2 + draws[3] / 64 * 8 : draws[3], lane);
            stored[cell] = (uint64_t)1 << 63 | (uint64_t)(draws[4] >> 3 & 1) << TW_MIXED_BIT | 77;
        }
        uint64_t addresses[TW_LANES];
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            addresses[lane] = s->launch.base + (uint64_t)(lane / lanes_each) * bytes;
        for (uint32_t i = 0; i < 3; i++)
            memcpy(first[i], kept[i], sizeof first[i]);
        tw_shadow_turns_global(&s->slot, &s->warps[0], &s->launch, s->of, 0, row, UINT32_MAX, addresses, bytes,
                               how == TW_WRITES ? values : 0, how, 4, 0);
        uint64_t found = findings(s, EVERY);
        memset(s->table, 0, sizeof s->table);
        for (uint32_t i = 0; i < 3; i++) {
            memcpy(last[i], kept[i], sizeof last[i]);
            memcpy(kept[i], first[i], sizeof first[i]);
        }
        tw_shadow_free_global(&s->slot, &s->warps[0], &s->launch, s->of, 0, row, UINT32_MAX, addresses, bytes,
                              how == TW_WRITES ? values : 0, how, 4, 0);
        CHECK(findings(s, EVERY) == found);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(memcmp(last[i], kept[i], sizeof last[i]) == 0);
        passed += !found;
        free(s);
    }
    CHECK(passed > 1000);
}

int main(void)
{
    test_quick_and_exact_judgements_agree();
    test_states_of_bytes();
    test_blocks_race_unless_they_store_the_same_or_are_strong();
    test_read_only_loads_race_with_every_write_before_them();
    test_volatile_accesses_of_a_warp_are_ordered_by_lockstep_alone();
    test_the_quick_test_passes_what_other_blocks_have_read();
    test_cells_are_quiet_until_they_are_written();
    test_a_read_and_a_write_that_meet_are_always_seen();
    return 0;
}
