// Clocks of warps and lanes, driven event by event.

#include "shadow_launch.h"
#include "observe/instruments/shadow/clocks.c"
#include "observe/instruments/shadow/clusters.c"
#include "observe/instruments/shadow/sent.c"

static void arrive(struct shadow *s, uint32_t w, uint32_t barrier, uint32_t waits)
{
    tw_shadow_arrive(&s->slot, &s->warps[w], &s->launch, s->of, 0, 0, UINT32_MAX, barrier, 0, waits);
}

static void go_on(struct shadow *s, uint32_t w)
{
    tw_shadow_release(&s->slot, &s->warps[w], &s->launch, s->of, 0, 0, UINT32_MAX);
}

static void test_behind_a_barrier_of_all_clocks_are_the_same(void)
{
    struct shadow *s = fresh(0);
    s->of->clocks[1].now = 9;
    for (uint32_t w = 0; w < WARPS; w++)
        arrive(s, w, 0, 1);
    for (uint32_t w = 0; w < WARPS; w++)
        go_on(s, w);
    for (uint32_t w = 0; w < WARPS; w++) {
        CHECK(s->of->clocks[w].now == 10 && s->of->clocks[w].limit == (uint64_t)10 << TW_CLOCK_SHIFT);
        for (uint32_t q = 0; q < WARPS; q++)
            CHECK(s->of->known[w].of[q] == 10);
    }
    free(s);
}

static void test_a_barrier_of_two_orders_these_alone(void)
{
    struct shadow *s = fresh(0);
    arrive(s, 0, 3, 0);  // only arrives, and continues
    arrive(s, 1, 3, 1);
    go_on(s, 0);
    go_on(s, 1);
    CHECK(s->of->known[1].of[0] == 2 && s->of->known[0].of[1] == 1 && s->of->known[1].of[2] == 1);
    CHECK(s->of->whole[0] == 1 && s->of->whole[1] == 2);
    free(s);
}

static void test_a_warp_that_runs_ahead_adds_nothing_to_a_round_that_is_over(void)
{
    struct shadow *s = fresh(0);
    arrive(s, 0, 1, 1);
    arrive(s, 1, 1, 1);
    go_on(s, 0);
    arrive(s, 0, 1, 1);  // the next round, before the other has left the first
    go_on(s, 1);
    CHECK(s->of->known[1].of[0] == 2 && s->of->clocks[0].now == 3);
    free(s);
}

static void test_a_warp_that_has_ended_comes_to_every_barrier(void)
{
    struct shadow *s = fresh(0);
    s->warps[2].live = 0;
    s->of->clocks[2].now = 5;
    tw_shadow_exit(&s->slot, &s->warps[2], &s->launch, s->of, 0, 0, UINT32_MAX);
    for (uint32_t w = 0; w < 2; w++)
        arrive(s, w, 0, 1);
    go_on(s, 0);
    CHECK(s->of->known[0].of[2] == 6 && s->of->known[0].of[1] == 6);
    free(s);
}

static void test_lanes_that_name_each_other_know_each_other(void)
{
    struct shadow *s = fresh(0);
    uint32_t members[TW_LANES];
    s->of->lanes_at = (uint64_t)((char *)s->lanes - (char *)s->of);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        members[lane] = lane < 4 ? 0xf : 0xfffffff0;
    tw_shadow_sync(&s->slot, &s->warps[1], &s->launch, s->of, 0, 0, UINT32_MAX, members);
    struct tw_clocks *lanes = s->lanes + TW_LANES;
    CHECK(lanes[0].of[3] == 2 && lanes[0].of[4] == 0 && lanes[31].of[4] == 2 && lanes[31].of[0] == 0);
    CHECK(s->of->whole[1] == 1 && s->lanes[0].of[0] == 0);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        members[lane] = UINT32_MAX;
    tw_shadow_sync(&s->slot, &s->warps[1], &s->launch, s->of, 0, 0, UINT32_MAX, members);
    CHECK(s->of->whole[1] == 3);
    free(s);
}

int main(void)
{
    test_behind_a_barrier_of_all_clocks_are_the_same();
    test_a_barrier_of_two_orders_these_alone();
    test_a_warp_that_runs_ahead_adds_nothing_to_a_round_that_is_over();
    test_a_warp_that_has_ended_comes_to_every_barrier();
    test_lanes_that_name_each_other_know_each_other();
    return 0;
}
