// How affine accesses are judged: by the quick test of all lanes together, or one access after the other, lane by lane.
// Functions that record their calls replace both.

#include <string.h>

#include "check.h"
#include "observe/instruments/shadow/accesses.c"

enum { MOST = 4, NEITHER = 0, SHARED_READS, SHARED_WRITES, GLOBAL_READS, GLOBAL_REPEATS, SHARED_TURNS, GLOBAL_TURNS };

// A call of the quick test, and those of the lane-by-lane judgement.
static struct {
    int test;
    bool passes;
    uint32_t row;
    uint32_t warp;
    int64_t base;
    const void *rows;
    uint64_t count;
} quick;
static struct {
    int judge;
    uint32_t row;
    uint32_t mask;
    uint64_t addresses[TW_LANES];
    uint32_t bytes;
    uint32_t how;
    uint32_t element;
    uint32_t order_bits;
    const void *values;
} turns_of[MOST];
static uint32_t turns_made;

static struct tw_slot slot_;
static struct tw_warp warp_ = {.index = 3};
static char launch_, block_, counters_at[8] __attribute__((aligned(8)));
static const uint8_t values_of[1];
static const struct tw_member members_of[2] = {{16, 4, 4}, {-8, 8, 2}};
static uint64_t steps_of[TW_LANES] __attribute__((aligned(64)));

static bool asked(int test, const void *launch, const void *block, uint32_t row, uint32_t warp, int64_t base,
                  const void *rows, uint64_t count)
{
    CHECK(quick.test == NEITHER && turns_made == 0 && launch == &launch_ && block == &block_);
    quick.test = test, quick.row = row, quick.warp = warp, quick.base = base, quick.rows = rows, quick.count = count;
    return quick.passes;
}

bool tw_shadow_reads_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t row, uint32_t warp,
                            int64_t base, const struct tw_touched_row *rows, uint64_t count)
{
    return asked(SHARED_READS, launch, block, row, warp, base, rows, count);
}

bool tw_shadow_writes_shared(struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint32_t row,
                             uint32_t warp, int64_t base, const struct tw_touched_row *rows, uint64_t count)
{
    return asked(SHARED_WRITES, launch, block, row, warp, base, rows, count);
}

bool tw_shadow_reads_global(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_shadow_launch *launch,
                            struct tw_shadow_block *block, int64_t base, const struct tw_plain_row *rows,
                            uint64_t count, uint32_t row)
{
    CHECK(slot == &slot_);
    return asked(GLOBAL_READS, launch, block, row, warp->index, base, rows, count);
}

bool tw_shadow_repeats_global(const struct tw_slot *slot, const struct tw_warp *warp, struct tw_shadow_launch *launch,
                              struct tw_shadow_block *block, uint64_t base, const uint64_t *offsets, uint32_t bytes,
                              uint32_t row)
{
    (void)bytes;
    CHECK(slot == &slot_ && offsets != NULL);
    return asked(GLOBAL_REPEATS, launch, block, row, warp->index, (int64_t)base, NULL, 0);
}

static void judged(int judge, TW_ACCESSES)
{
    CHECK(turns_made < MOST && slot == &slot_ && warp == &warp_ && launch == &launch_ && block == &block_);
    CHECK((void *)counters == counters_at);
    memcpy(turns_of[turns_made].addresses, addresses, sizeof turns_of->addresses);
    turns_of[turns_made].judge = judge, turns_of[turns_made].row = row, turns_of[turns_made].mask = mask;
    turns_of[turns_made].bytes = bytes, turns_of[turns_made].how = how, turns_of[turns_made].element = element;
    turns_of[turns_made].values = values, turns_of[turns_made].order_bits = order_bits;
    turns_made++;
}

void tw_shadow_turns_shared(TW_ACCESSES)
{
    judged(SHARED_TURNS, slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
           order_bits);
}

void tw_shadow_free_global(TW_ACCESSES)
{
    judged(GLOBAL_TURNS, slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
           order_bits);
}

typedef void handler(TW_AFFINE);

// Two accesses together, where the quick test passes or fails.
static void access_affine(handler *handle, uint32_t mask, uint32_t how, bool passes)
{
    memset(&quick, 0, sizeof quick);
    memset(turns_of, 0, sizeof turns_of);
    turns_made = 0;
    quick.passes = passes;
    handle(&slot_, &warp_, &launch_, &block_, (uint64_t *)counters_at, 7, mask, 4096, values_of, how, steps_of, 5,
           members_of, 2, steps_of);
}

static void test_what_the_quick_test_passes_is_done(void)
{
    access_affine(tw_shadow_affine_shared, UINT32_MAX, TW_READS, true);
    CHECK(quick.test == SHARED_READS && turns_made == 0);
    CHECK(quick.row == 7 && quick.warp == 3 && quick.base == 4096 && quick.rows == steps_of && quick.count == 5);
    access_affine(tw_shadow_affine_shared, UINT32_MAX, TW_WRITES, true);
    CHECK(quick.test == SHARED_WRITES && turns_made == 0);
    CHECK(quick.row == 7 && quick.warp == 3 && quick.base == 4096 && quick.rows == steps_of && quick.count == 5);
    access_affine(tw_shadow_affine_global, UINT32_MAX, TW_READS, true);
    CHECK(quick.test == GLOBAL_READS && turns_made == 0);
    CHECK(quick.row == TW_SITE_MAX && quick.warp == 3);
    CHECK(quick.base == 4096 && quick.rows == steps_of && quick.count == 5);
    access_affine(tw_shadow_affine_global, UINT32_MAX, TW_WRITES, true);
    CHECK(quick.test == GLOBAL_REPEATS && turns_made == 0);
    CHECK(quick.row == 7 && quick.warp == 3 && quick.base == 4096 + members_of[0].ahead);
}

// Each member lane by lane, at its own distance from the base, as its own instruction.
static void check_turns(int judge, uint32_t mask, uint32_t how)
{
    CHECK(turns_made == 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(turns_of[i].judge == judge && turns_of[i].row == 7 + i && turns_of[i].mask == mask);
        CHECK(turns_of[i].how == how && turns_of[i].values == values_of && turns_of[i].order_bits == 0);
        CHECK(turns_of[i].bytes == (uint64_t)members_of[i].bytes);
        CHECK(turns_of[i].element == (uint64_t)members_of[i].element_bytes);
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            CHECK(turns_of[i].addresses[lane] == (uint64_t)(4096 + (int64_t)members_of[i].ahead) + steps_of[lane]);
    }
}

static void test_what_it_does_not_pass_is_judged_lane_by_lane(void)
{
    access_affine(tw_shadow_affine_shared, UINT32_MAX, TW_READS, false);
    CHECK(quick.test == SHARED_READS);
    check_turns(SHARED_TURNS, UINT32_MAX, TW_READS);
    access_affine(tw_shadow_affine_shared, UINT32_MAX, TW_WRITES, false);
    CHECK(quick.test == SHARED_WRITES);
    check_turns(SHARED_TURNS, UINT32_MAX, TW_WRITES);
    access_affine(tw_shadow_affine_global, UINT32_MAX, TW_READS, false);
    CHECK(quick.test == GLOBAL_READS);
    check_turns(GLOBAL_TURNS, UINT32_MAX, TW_READS);
    access_affine(tw_shadow_affine_global, UINT32_MAX, TW_WRITES, false);
    CHECK(quick.test == GLOBAL_REPEATS);
    check_turns(GLOBAL_TURNS, UINT32_MAX, TW_WRITES);
}

static void test_lanes_that_are_off_keep_the_quick_test_from_being_asked(void)
{
    access_affine(tw_shadow_affine_shared, UINT32_MAX >> 1, TW_WRITES, true);
    CHECK(quick.test == NEITHER);
    check_turns(SHARED_TURNS, UINT32_MAX >> 1, TW_WRITES);
    access_affine(tw_shadow_affine_global, 1, TW_READS, true);
    CHECK(quick.test == NEITHER);
    check_turns(GLOBAL_TURNS, 1, TW_READS);
}

int main(void)
{
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        steps_of[lane] = (uint64_t)0 - 64 + 12 * lane;
    test_what_the_quick_test_passes_is_done();
    test_what_it_does_not_pass_is_judged_lane_by_lane();
    test_lanes_that_are_off_keep_the_quick_test_from_being_asked();
    return 0;
}
