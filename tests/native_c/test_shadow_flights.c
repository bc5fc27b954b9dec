// Asynchronous copies in flight, driven copy by copy: one warp of 32 lanes, a cell each.

#include "shadow_launch.h"
#include "observe/instruments/shadow/clocks.c"
#include "observe/instruments/shadow/clusters.c"
#include "observe/instruments/shadow/sent.c"
#include "observe/instruments/shadow/several.c"
#include "observe/instruments/shadow/shared.c"
#include "observe/instruments/shadow/flights.c"

enum { MOST = 64 };

// Copies of these tests have no sources in global memory.
void tw_shadow_free_global(TW_ACCESSES)
{
    CHECK(false);
}

static struct shadow *new_shadow(void)
{
    struct shadow *s = fresh(0);
    size_t used = sizeof *s->of + 2 * CELLS * sizeof(uint64_t) + WARPS * TW_LANES * sizeof(struct tw_clocks);
    size_t end = used + WARPS * sizeof(struct tw_flights);
    size_t lists = WARPS * MOST * (sizeof(struct tw_flight) + sizeof(struct tw_source));
    struct shadow *more = realloc(s, sizeof *s + end + lists);
    CHECK(more);
    more->of = (struct tw_shadow_block *)(more + 1);
    more->launch.found.table = more->table;
    more->launch.flights_at = used;
    more->launch.flights = (struct tw_behind){end, MOST};
    more->launch.sources = (struct tw_behind){end + WARPS * MOST * sizeof(struct tw_flight), MOST};
    memset((char *)more->of + used, 0, WARPS * sizeof(struct tw_flights));
    return more;
}

static void copy(struct shadow *s, uint32_t w, uint32_t mask, uint64_t first, uint32_t row)
{
    uint64_t addresses[TW_LANES];
    lanes_from(addresses, first, 4);
    tw_shadow_copy(&s->slot, &s->warps[w], &s->launch, s->of, 0, row, mask, addresses, 4, 0, TW_WRITES, 4, 0);
}

static void commit(struct shadow *s, uint32_t w, uint32_t mask)
{
    tw_shadow_commit(&s->slot, &s->warps[w], &s->launch, s->of, 0, 0, mask);
}

static void wait_for(struct shadow *s, uint32_t w, uint32_t mask, uint32_t groups)
{
    tw_shadow_wait(&s->slot, &s->warps[w], &s->launch, s->of, 0, 0, mask, groups);
}

static uint64_t found(struct shadow *s, uint32_t w, uint32_t mask, uint64_t first, uint32_t how)
{
    uint64_t before = findings(s, EVERY), flights = findings(s, TW_SHARED_IN_FLIGHT), addresses[TW_LANES];
    lanes_from(addresses, first, 4);
    tw_shadow_turns_shared(&s->slot, &s->warps[w], &s->launch, s->of, 0, 9, mask, addresses, 4, 0, how, 4, 0);
    CHECK(findings(s, EVERY) - before == findings(s, TW_SHARED_IN_FLIGHT) - flights);
    return findings(s, EVERY) - before;
}

static void test_a_wait_covers_groups_but_the_youngest(void)
{
    struct shadow *s = new_shadow();
    for (uint32_t group = 0; group < 3; group++) {
        copy(s, 0, UINT32_MAX, 128 * group, group);
        commit(s, 0, UINT32_MAX);
    }
    wait_for(s, 0, UINT32_MAX, 3);
    CHECK(found(s, 0, UINT32_MAX, 0, TW_READS) == 32);
    wait_for(s, 0, UINT32_MAX, 2);
    CHECK(found(s, 0, UINT32_MAX, 0, TW_READS) == 0);
    CHECK(found(s, 0, UINT32_MAX, 128, TW_READS) == 32);
    CHECK(found(s, 0, 1, 256, TW_WRITES) == 1);
    wait_for(s, 0, UINT32_MAX, UINT32_MAX);
    CHECK(found(s, 0, UINT32_MAX, 128, TW_READS) == 32);
    wait_for(s, 0, UINT32_MAX, 0);
    CHECK(found(s, 0, UINT32_MAX, 128, TW_READS) == 0 && found(s, 0, UINT32_MAX, 256, TW_READS) == 0);
    free(s);
}

static void test_what_is_in_no_group_is_not_covered(void)
{
    struct shadow *s = new_shadow();
    copy(s, 0, UINT32_MAX, 0, 0);
    wait_for(s, 0, UINT32_MAX, 0);
    CHECK(found(s, 0, UINT32_MAX, 0, TW_READS) == 32);
    commit(s, 0, UINT32_MAX);
    wait_for(s, 0, UINT32_MAX, 0);
    CHECK(found(s, 0, UINT32_MAX, 0, TW_READS) == 0);
    free(s);
}

static void test_lanes_have_groups_of_their_own(void)
{
    struct shadow *s = new_shadow();
    commit(s, 0, 0xffff);
    copy(s, 0, UINT32_MAX, 0, 0);
    commit(s, 0, UINT32_MAX);
    commit(s, 0, 0xff);
    wait_for(s, 0, UINT32_MAX, 1);  // of 3, 2 and 1 groups; the copy is in the second-last, the last and the last
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        CHECK(found(s, 0, 1u << lane, 0, TW_READS) == (lane >= 8));
    wait_for(s, 0, 0xff00, 0);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        CHECK(found(s, 0, 1u << lane, 0, TW_READS) == (lane >= 16));
    free(s);
}

static void test_what_has_ended_is_a_write_of_then(void)
{
    struct shadow *s = new_shadow();
    copy(s, 0, UINT32_MAX, 0, 5);
    CHECK(found(s, 1, UINT32_MAX, 0, TW_READS) == 32);
    commit(s, 0, UINT32_MAX);
    synchronise(s);
    CHECK(found(s, 1, UINT32_MAX, 0, TW_READS) == 32);
    wait_for(s, 0, UINT32_MAX, 0);
    CHECK((s->of->writes[3] & TW_SITES) >> TW_SITE_SHIFT == 5 && who_of(s->of->writes[3]) == 3);
    CHECK(s->of->writes[3] >> TW_CLOCK_SHIFT == s->of->clocks[0].now);
    uint64_t addresses[TW_LANES];
    lanes_from(addresses, 0, 4);
    tw_shadow_turns_shared(&s->slot, &s->warps[1], &s->launch, s->of, 0, 9, UINT32_MAX, addresses, 4, 0, TW_READS, 4,
                           0);
    CHECK(findings(s, TW_SHARED_RACE) == 32);
    synchronise(s);
    CHECK(found(s, 2, UINT32_MAX, 0, TW_READS) == 0);
    free(s);
}

static void test_a_copy_races_with_what_came_before(void)
{
    struct shadow *s = new_shadow();
    memset(s->of->writes, 1, 4);
    s->of->writes[0] = 1;
    CHECK(found(s, 1, 1, 0, TW_READS) == 0);
    copy(s, 0, 1, 0, 0);
    CHECK(findings(s, TW_SHARED_RACE) == 1);
    copy(s, 0, 1, 0, 1);
    CHECK(findings(s, TW_SHARED_IN_FLIGHT) == 1);
    free(s);
}

static void test_too_many_are_stores_and_counted(void)
{
    struct shadow *s = new_shadow();
    for (uint32_t i = 0; i < MOST; i++)
        copy(s, 0, 1, 0, 0);
    CHECK(s->launch.untracked == 0);
    copy(s, 0, 3, 256, 0);
    CHECK(s->launch.untracked == 2 && found(s, 0, 1, 256, TW_READS) == 0);
    commit(s, 0, UINT32_MAX);
    wait_for(s, 0, UINT32_MAX, 0);
    copy(s, 0, 1, 256, 0);
    CHECK(s->launch.untracked == 2 && found(s, 0, 1, 256, TW_READS) == 1);
    free(s);
}

int main(void)
{
    test_a_wait_covers_groups_but_the_youngest();
    test_what_is_in_no_group_is_not_covered();
    test_lanes_have_groups_of_their_own();
    test_what_has_ended_is_a_write_of_then();
    test_a_copy_races_with_what_came_before();
    test_too_many_are_stores_and_counted();
    return 0;
}
