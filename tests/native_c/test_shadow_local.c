// Shadow memory of local memory, driven access by access.

#include "shadow_launch.h"
#include "observe/instruments/shadow/local.c"

// What judges accesses of the other state spaces has tests of its own.
static uint32_t judged;

void tw_shadow_turns_shared(TW_ACCESSES)
{
    (void)slot, (void)warp, (void)launch, (void)block, (void)counters, (void)row, (void)mask, (void)addresses;
    (void)bytes, (void)values, (void)how, (void)element, (void)order_bits;
    judged++;
}

void tw_shadow_turns_cluster(TW_ACCESSES)
{
    tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                           order_bits);
}

void tw_shadow_free_global(TW_ACCESSES)
{
    tw_shadow_turns_shared(slot, warp, launch, block, counters, row, mask, addresses, bytes, values, how, element,
                           order_bits);
}

static uint8_t values[TW_VALUES_STRIDE_BYTES];

static void test_local_memory(void)
{
    struct shadow *s = fresh(0);
    uint64_t addresses[TW_LANES];
    uint8_t *states = (uint8_t *)s->reads;
    s->launch.local_states = s->launch.shared_reads;
    s->launch.local_bytes = 8;
    for (uint32_t i = 0; i < CELLS * sizeof *s->reads; i++)
        states[i] = i % 8 < 6 ? 0 : UINT8_MAX;  // a variable of six bytes a thread
    lanes_from(addresses, 0, 0);
    for (uint32_t turn = 0; turn < 3; turn++) {
        uint32_t how = turn == 1 ? TW_WRITES : TW_READS;
        tw_shadow_turns_local(&s->slot, &s->warps[0], &s->launch, s->of, 0, turn, UINT32_MAX, addresses, 2,
                              how == TW_WRITES ? values : 0, how, 2, 0);
    }
    CHECK(findings(s, TW_LOCAL_UNWRITTEN) == 32);
    addresses[3] = 5;
    tw_shadow_turns_local(&s->slot, &s->warps[0], &s->launch, s->of, 0, 3, UINT32_MAX, addresses, 2, values, TW_WRITES,
                          2, 0);
    CHECK(findings(s, TW_LOCAL_OUTSIDE) == 1 && findings(s, EVERY) == 33);
    free(s);
}

enum { LOCAL_BYTES = 32, LOAD_ROW = 7, STORE_ROW = 8 };

// A block whose threads have variables of 32 bytes, of which nothing is written, and room for one slot each.
static struct shadow *with_slots(void)
{
    struct shadow *s = fresh(0);
    s->launch.local_states = s->launch.shared_reads;
    s->launch.local_bytes = LOCAL_BYTES;
    s->launch.warps = 1;
    s->launch.carried_at = s->launch.local_states + TW_LANES * LOCAL_BYTES;
    return s;
}

static uint8_t *states_of(struct shadow *s, uint32_t thread)
{
    return (uint8_t *)s->of + s->launch.local_states + (size_t)thread * LOCAL_BYTES;
}

static void load_8(struct shadow *s, const uint64_t *addresses)
{
    const uint64_t slots[] = {0};
    tw_shadow_carried_from(&s->slot, &s->warps[0], &s->launch, s->of, 0, LOAD_ROW, UINT32_MAX, addresses, 8, 0,
                           TW_READS, 8, 0, slots, 1);
}

// Eight bytes, of which four are set, are copied; what a part keeps is unset where it was unset.
static void test_a_copy_leaves_unset_what_was_unset(void)
{
    const struct tw_carried parts[] = {{0, 0, 0, 0xff, 0xff}, {0, 0, 0, 0x7f, 0xff}};
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct shadow *s = with_slots();
        uint64_t from[TW_LANES], to[TW_LANES];
        lanes_from(from, 0, 0);
        lanes_from(to, 16, 0);
        memset(states_of(s, 5), 1, 4);
        memset(states_of(s, 5) + 16, 1, 8);
        load_8(s, from);
        tw_shadow_carried_local(&s->slot, &s->warps[0], &s->launch, s->of, 0, STORE_ROW, UINT32_MAX, to, 8, values,
                                TW_WRITES, 8, 0, &parts[turn], 1);
        const uint8_t copied[] = {1, 1, 1, 1, 0, 0, 0, (uint8_t)turn};
        CHECK(memcmp(states_of(s, 5) + 16, copied, sizeof copied) == 0 && findings(s, EVERY) == 0);
        tw_shadow_carried_local(&s->slot, &s->warps[0], &s->launch, s->of, 0, STORE_ROW, UINT32_MAX, to, 8, values,
                                TW_WRITES, 8, 0, &parts[turn], 1);  // of a value that comes from elsewhere
        CHECK(states_of(s, 5)[20] == 1);
        free(s);
    }
}

// A thread's wholly unset element that is stored elsewhere was read.
static void test_what_leaves_local_memory_was_used(void)
{
    const struct tw_carried part = {0, 0, 0, 0xff, 0xff};
    for (uint32_t space = 0; space < 3; space++) {
        struct shadow *s = with_slots();
        uint64_t from[TW_LANES];
        lanes_from(from, 0, 0);
        states_of(s, 5)[2] = 1;
        load_8(s, from);
        CHECK(findings(s, EVERY) == 0);
        judged = 0;
        tw_shadow_carried_out(&s->slot, &s->warps[0], &s->launch, s->of, 0, STORE_ROW, UINT32_MAX, from, 8, values,
                              TW_WRITES, 8, 0, &part, 1, space);
        CHECK(findings(s, TW_LOCAL_UNWRITTEN) == TW_LANES - 1 && judged == 1);
        for (uint32_t i = 0; i < TW_RECORDS; i++)
            CHECK(!s->table[i].kind || s->table[i].row == LOAD_ROW);
        free(s);
    }
}

int main(void)
{
    test_local_memory();
    test_a_copy_leaves_unset_what_was_unset();
    test_what_leaves_local_memory_was_used();
    return 0;
}
