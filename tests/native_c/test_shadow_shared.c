// Shadow memory of shared memory, and records, driven access by access.

#include "shadow_launch.h"
#include "observe/instruments/shadow/several.c"
#include "observe/instruments/shadow/shared.c"
#include "observe/instruments/shadow/shared_quick.c"

// No cluster here.
void tw_shadow_visit(const struct access *me, const struct tw_slot *other, const struct tw_warp *warp, uint64_t place)
{
    (void)me, (void)other, (void)warp, (void)place;
}

static uint8_t stored[8 * TW_VALUES_STRIDE_BYTES];

static void access_shared(struct shadow *s, uint32_t w, uint32_t mask, uint64_t first, uint64_t step, uint32_t how)
{
    uint64_t addresses[TW_LANES];
    lanes_from(addresses, first, step);
    tw_shadow_turns_shared(&s->slot, &s->warps[w], &s->launch, s->of, 0, how, mask, addresses, 4,
                           how & TW_WRITES ? stored : 0, how, 4, 0);
}

// A table of one access: lane i at cell i / tile.
static uint64_t table_of(struct tw_touched_row *rows, uint32_t tile)
{
    uint32_t count = TW_LANES / tile;
    memset(rows, 0, 4 * sizeof *rows);
    for (uint32_t cell = 0; cell < count; cell++) {
        struct tw_touched_row *row = &rows[cell / TW_CELL_RUN];
        row->cell = cell / TW_CELL_RUN * TW_CELL_RUN;
        row->used |= 1u << cell % TW_CELL_RUN;
        row->several |= (uint32_t)(tile > 1) << cell % TW_CELL_RUN;
        row->low[cell % TW_CELL_RUN] = tile > 1 ? 32 * (count + cell - 1) : cell;
    }
    return (count + TW_CELL_RUN - 1) / TW_CELL_RUN;
}

static void test_what_is_no_variable_or_not_written(void)
{
    struct shadow *s = fresh(0);
    s->of->writes[31] = TW_GAP;
    access_shared(s, 0, UINT32_MAX, 0, 4, TW_READS);
    CHECK(findings(s, TW_SHARED_GAP) == 1 && findings(s, TW_SHARED_UNWRITTEN) == 31 && findings(s, EVERY) == 32);
    free(s);
}

static void test_a_barrier_orders_warps(void)
{
    struct shadow *s = fresh(0);
    memset(stored, 1, sizeof stored);
    access_shared(s, 0, UINT32_MAX, 0, 4, TW_WRITES);
    access_shared(s, 0, UINT32_MAX, 0, 4, TW_READS);
    CHECK(findings(s, EVERY) == 0);
    access_shared(s, 1, UINT32_MAX, 0, 4, TW_READS);
    CHECK(findings(s, TW_SHARED_RACE) == 32);
    synchronise(s);
    access_shared(s, 1, UINT32_MAX, 0, 4, TW_READS);
    CHECK(findings(s, EVERY) == 32);
    access_shared(s, 2, 1, 0, 4, TW_WRITES);  // after a read of this round
    CHECK(findings(s, TW_SHARED_RACE) == 33);
    free(s);
}

static void test_lanes_of_a_warp_race_unless_they_write_the_same(void)
{
    for (uint8_t other = 1; other < 3; other++) {
        struct shadow *s = fresh(0);
        memset(stored, 1, sizeof stored);
        stored[4] = other;  // of lane 1
        access_shared(s, 0, 3, 0, 0, TW_WRITES);
        CHECK(findings(s, TW_SHARED_LANES) == (other == 1 ? 0 : 1));
        CHECK(findings_of(s, TW_SHARED_LANES, TW_ONE_VALUE) == (other == 1 ? 1 : 0));
        free(s);
    }
}

// Lane 1 reads what lane 0 has written, and lane 0 writes there again: both volatile, without and with a barrier.
static void test_volatile_accesses_of_a_warp_are_ordered_by_lockstep_alone(void)
{
    const uint32_t strong = TW_IS_STRONG | TW_IS_VOLATILE;
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct shadow *s = fresh(0);
        memset(stored, 1, sizeof stored);
        access_shared(s, 0, 1, 0, 0, TW_WRITES | strong);
        if (turn == 1)
            synchronise(s);
        access_shared(s, 0, 2, 0, 0, TW_READS | (turn == 2 ? (uint32_t)TW_IS_STRONG : strong));
        CHECK(findings_of(s, TW_SHARED_LANES, TW_LOCKSTEP) == (turn == 0));
        if (turn == 1)
            synchronise(s);
        access_shared(s, 0, 1, 0, 0, TW_WRITES | strong);
        CHECK(findings_of(s, TW_SHARED_LANES, TW_LOCKSTEP) == (turn == 0 ? 2 : turn == 1 ? 0 : 1));
        access_shared(s, 1, 1, 0, 0, TW_READS | strong);  // another warp: that may be a flag
        CHECK(findings_of(s, EVERY, TW_LOCKSTEP) < 3 && findings(s, EVERY) == 0);
        free(s);
    }
}

static void test_several_readers_are_their_smallest_tile(void)
{
    struct shadow *s = fresh(0);
    synchronise(s);
    for (uint32_t i = 0; i < CELLS; i++)
        s->of->writes[i] = 1 << TW_CLOCK_SHIFT;
    access_shared(s, 1, 3u << 6, 0, 0, TW_READS);  // lanes 6 and 7: tile 3 of 16
    CHECK(who_of(s->reads[0]) == 1024 + 32 * (15 + 3) + 1);
    access_shared(s, 1, 1u << 4, 0, 0, TW_READS);  // and 4: tile 1 of 8
    CHECK(who_of(s->reads[0]) == 1024 + 32 * (7 + 1) + 1);
    access_shared(s, 1, 1u << 31, 0, 0, TW_READS);
    CHECK(who_of(s->reads[0]) == 1024 + 1);
    access_shared(s, 2, 1, 0, 0, TW_READS);
    CHECK(who_of(s->reads[0]) == TW_SEVERAL_WARPS);
    free(s);
}

static void test_a_settled_read_is_remembered_until_a_cell_changes(void)
{
    struct shadow *s = fresh(0);
    struct tw_touched_row rows[4];
    uint64_t count = table_of(rows, 2);
    for (uint32_t i = 0; i < CELLS; i++)
        s->of->writes[i] = 1 << TW_CLOCK_SHIFT;
    synchronise(s);
    for (uint32_t turn = 0; turn < 4; turn++)  // the last two find the second one's state
        CHECK(tw_shadow_reads_shared(&s->launch, s->of, 5, turn % WARPS, 0, rows, count));
    CHECK(s->of->settled[5].row == 6 && s->of->settled[5].version == s->of->version);
    access_shared(s, 0, 1, 0, 4, TW_READS);
    CHECK(s->of->settled[5].version != s->of->version);
    CHECK(findings(s, EVERY) == 0);
    free(s);
}

// The exact judgement, of which the quick test must be a part: if the quick test passes, nothing is wrong.
static void judge_exactly(struct shadow *s, uint32_t w, uint32_t tile, uint32_t how)
{
    uint64_t addresses[TW_LANES];
    for (uint32_t i = 0; i < TW_LANES; i++)
        addresses[i] = 4 * (i / tile);
    tw_shadow_turns_shared(&s->slot, &s->warps[w], &s->launch, s->of, 0, 0, UINT32_MAX, addresses, 4, 0, how, 4, 0);
}

static void test_the_quick_test_passes_only_where_nothing_is_wrong(void)
{
    uint64_t passed = 0, failed = 0;
    for (uint32_t seed = 1; seed < 200; seed++) {
        struct shadow *quick = fresh(0), *exact = fresh(0);
        uint64_t random = seed;
        for (uint32_t step = 0; step < 24; step++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint32_t w = (uint32_t)(random >> 33) % WARPS, tile = 1u << (random >> 40) % 3;
            uint32_t how = step == 0 || (tile == 1 && random >> 61 == 0) ? TW_WRITES : TW_READS;
            struct tw_touched_row rows[4];
            uint64_t before = findings(exact, EVERY), count = table_of(rows, how == TW_WRITES ? 1 : tile);
            if (random >> 50 & 1) {
                synchronise(quick);
                synchronise(exact);
            }
            bool fine = how == TW_WRITES
                            ? tw_shadow_writes_shared(&quick->launch, quick->of, 0, w, 0, rows, count)
                            : tw_shadow_reads_shared(&quick->launch, quick->of, 0, w, 0, rows, count);
            judge_exactly(exact, w, how == TW_WRITES ? 1 : tile, how);
            CHECK(!fine || findings(exact, EVERY) == before);
            if (!fine)
                judge_exactly(quick, w, how == TW_WRITES ? 1 : tile, how);
            CHECK(findings(quick, EVERY) == findings(exact, EVERY));
            fine ? passed++ : failed++;
        }
        free(quick);
        free(exact);
    }
    CHECK(passed > 1000 && failed > 300);
}

static void test_records_keep_the_lowest_place_and_count_what_is_lost(void)
{
    struct shadow *s = fresh(0);
    for (uint32_t place = 9; place > 3; place--)
        tw_found_at(&s->launch.found, 1, 2, place);
    CHECK(findings(s, 1) == 6);
    for (uint32_t row = 3; row < TW_RECORDS + 10; row++)
        tw_found_at(&s->launch.found, 1, row, 0);
    uint64_t records = 0;
    for (uint32_t i = 0; i < TW_RECORDS; i++) {
        records += s->table[i].kind != 0;
        CHECK(s->table[i].row != 2 || ~s->table[i].first == 4);
    }
    CHECK(records == TW_RECORDS && s->launch.found.lost == 8);
    free(s);
}

int main(void)
{
    test_what_is_no_variable_or_not_written();
    test_a_barrier_orders_warps();
    test_lanes_of_a_warp_race_unless_they_write_the_same();
    test_volatile_accesses_of_a_warp_are_ordered_by_lockstep_alone();
    test_several_readers_are_their_smallest_tile();
    test_a_settled_read_is_remembered_until_a_cell_changes();
    test_the_quick_test_passes_only_where_nothing_is_wrong();
    test_records_keep_the_lowest_place_and_count_what_is_lost();
    return 0;
}
