// Barriers and warp operations at which lanes do not arrive together.

#include <string.h>

#include "check.h"
#include "observe/instruments/convergence.c"
#include "observe/instruments/shadow/records.c"

enum { THREADS = 40 };

static struct tw_record table[TW_RECORDS];
static struct tw_found found = {.table = table, .threads = THREADS};
static struct tw_convergence own;
static struct tw_slot slot = {.block = 3};
static struct {
    struct tw_warp head;
} warps[2] = {{{.live = UINT32_MAX}}, {{.live = 0xff, .index = 1}}};

// How often a kind was found at an instruction, and where first.
static uint64_t seen(uint32_t kind, uint32_t row, uint64_t *thread)
{
    for (uint32_t i = 0; i < TW_RECORDS; i++)
        if (table[i].kind == kind && table[i].row == row) {
            CHECK(~table[i].first >> 10 == slot.block);
            *thread = ~table[i].first & 1023;
            return table[i].count;
        }
    return 0;
}

static void begin(void)
{
    memset(table, 0, sizeof table);
    memset(&own, 0, sizeof own);
}

static void come(uint32_t warp, uint32_t row, uint32_t mask)
{
    tw_convergence_arrive_aligned(&slot, &warps[warp].head, &found, &own, 0, row, mask, 0, 0, 1);
}

static void parts_of_a_warp(void)
{
    uint64_t thread;
    begin();
    come(0, 4, UINT32_MAX);
    come(0, 5, 0xffff0000);
    come(0, 5, 0x0000ffff);  // the rest, at the same barrier
    CHECK(seen(TW_DIVERGENT, 5, &thread) == 0);
    come(1, 4, 0xf0);
    come(1, 6, 0x0f);
    CHECK(seen(TW_DIVERGENT, 6, &thread) == 1 && thread == 32);
    CHECK(seen(TW_DIVERGENT, 4, &thread) == 1 && thread == 36);
    tw_convergence_arrive(&slot, &warps[0].head, &found, &own, 0, 7, 1, 0, 0, 1);
    tw_convergence_arrive(&slot, &warps[0].head, &found, &own, 0, 8, 2, 0, 0, 1);
    CHECK(seen(TW_DIVERGENT, 8, &thread) == 0);
    tw_convergence_arrive_aligned(&slot, &warps[0].head, &found, &own, 0, 9, 8, 1, 32, 1);  // not of the whole block
    CHECK(own.came[0] == 3 && own.came[3] == 2 && own.came[32] == 1);
}

static void some_leave(void)
{
    uint64_t thread;
    begin();
    for (uint32_t n = 0; n < 100; n++) {
        come(0, 20 + n % 2, n < 10 ? UINT32_MAX : 0xfffffff7);
        come(1, 20 + n % 2, 0xff);
    }
    for (uint32_t w = 0; w < 2; w++) {
        tw_convergence_exit(&slot, &warps[w].head, &found, &own, 0, 30, 1);  // others continue
        warps[w].head.live = 0;
        CHECK(seen(TW_LEFT, 20, &thread) == 0);
        tw_convergence_exit(&slot, &warps[w].head, &found, &own, 0, 30, 1);
    }
    CHECK(seen(TW_LEFT, 20, &thread) == TW_MISSED / 2 && thread == 3);
    CHECK(seen(TW_LEFT, 21, &thread) == TW_MISSED / 2 && thread == 3);
    warps[0].head.live = UINT32_MAX;
    warps[1].head.live = 0xff;
}

static void members(void)
{
    static uint64_t values[2][TW_LANES];
    uint64_t thread;
    begin();
    for (uint32_t i = 0; i < TW_LANES; i++)
        values[1][i] = 0xffffffff;
    tw_convergence_members(&slot, &warps[0].head, &found, &own, 0, 40, UINT32_MAX, (char *)values, 1);
    // all lanes that this warp ever had
    tw_convergence_members(&slot, &warps[1].head, &found, &own, 0, 40, 0xff, (char *)values, 1);
    CHECK(seen(TW_NOT_NAMED, 40, &thread) == 0 && seen(TW_NOT_THERE, 40, &thread) == 0);
    values[1][5] = 0xff0f;
    tw_convergence_members(&slot, &warps[0].head, &found, &own, 0, 41, 1 << 5 | 1 << 9, (char *)values, 1);
    CHECK(seen(TW_NOT_NAMED, 41, &thread) == 1 && thread == 5);
    CHECK(seen(TW_NOT_THERE, 41, &thread) == 1 && thread == 5);
}

// Eight warps, and two instructions: the first group executes one uniformly, the second another, except its third warp.
static void products(void)
{
    uint64_t thread;
    begin();
    found.threads = 8 * TW_LANES;
    for (uint32_t w = 0; w < 8; w++) {
        struct tw_warp warp = {.index = w};
        for (uint32_t n = 0; n < 2; n++)
            if (w != 6 || n)
                tw_convergence_product(&slot, &warp, &found, &own, 0, w < 4 ? 50 : 51, UINT32_MAX);
    }
    compare_groups(&slot, &found, &own);
    CHECK(seen(TW_NOT_ALL_WARPS, 50, &thread) == 0 && seen(TW_NOT_TOGETHER, 50, &thread) == 0);
    CHECK(seen(TW_NOT_ALL_WARPS, 51, &thread) == 1 && thread == 4 * TW_LANES);
    begin();
    found.threads = 2 * TW_LANES;  // half a group
    for (uint32_t w = 0; w < 2; w++)
        tw_convergence_product(&slot, &warps[w].head, &found, &own, 0, 52, UINT32_MAX);
    compare_groups(&slot, &found, &own);
    CHECK(seen(TW_NOT_ALL_WARPS, 52, &thread) == 1 && thread == 0);
    found.threads = THREADS;
}

int main(void)
{
    parts_of_a_warp();
    some_leave();
    members();
    products();
    return 0;
}
