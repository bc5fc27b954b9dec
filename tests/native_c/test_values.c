// The instruments that look at values: wraparound, infinity and NaN, and shuffles.

#include "check.h"
#include "observe/instruments/nonfinite.c"
#include "observe/instruments/places.c"
#include "observe/instruments/shadow/records.c"
#include "observe/instruments/shuffles.c"
#include "observe/instruments/wraparound.c"

static const struct tw_slot SLOT = {.block = 3};
static const struct tw_warp WARP = {.index = 1};
static uint64_t places[TW_PLACES_ROWS], counters[2];

static void test_a_sum_wraps_where_no_reading_fits(void)
{
    const struct {
        int64_t x, y;
        uint32_t is_signed, wraps;
    } cases[] = {
        {INT32_MAX, 1, 1, 1}, {INT32_MAX, 1, 0, 0}, {5, UINT32_MAX, 0, 0}, {0, UINT32_MAX, 0, 0}, {0, UINT32_MAX, 1, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t values[2 * TW_LANES] = {0};
        values[7] = cases[i].x;
        values[TW_LANES + 7] = cases[i].y;
        places[5] = counters[0] = 0;
        tw_wraparound_value(&SLOT, &WARP, places, 0, counters, 5, UINT32_MAX, values, TW_WRAP_ADD, cases[i].is_signed);
        CHECK(counters[0] == cases[i].wraps && (!counters[0] || ~places[5] == (3 << 10 | 32 | 7)));
    }
}

static void test_infinity_and_nan(void)
{
    uint8_t values[2 * TW_VALUES_STRIDE_BYTES] = {0};
    float *second = (float *)(values + TW_VALUES_STRIDE_BYTES);
    second[2] = __builtin_inff();
    second[3] = second[4] = -__builtin_nanf("");
    second[5] = 1e38f;
    counters[0] = counters[1] = 0;
    tw_nonfinite_affine(&SLOT, &WARP, places, 0, counters, 8, ~(1u << 4), 0, values, 32, 2, 0x7f800000);
    CHECK(counters[0] == 1 && counters[1] == 1 && ~places[16] == (3 << 10 | 34) && ~places[17] == (3 << 10 | 35));
}

static void test_what_a_shuffle_reads_from_nobody(void)
{
    struct tw_record *table = calloc(TW_RECORDS, sizeof *table);
    struct tw_found found = {.table = table, .threads = 64};
    struct tw_chains *chains = calloc(1, sizeof *chains);
    uint64_t values[4 * TW_LANES];
    CHECK(table && chains);
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        values[TW_LANES + lane] = 8;
        values[2 * TW_LANES + lane] = 31;
        values[3 * TW_LANES + lane] = 0xffff;
    }
    tw_shuffles_move(&SLOT, &WARP, &found, chains, counters, 4, 0xffff, values, TW_DOWN, 1, 2, 1);
    CHECK(chains->chains[2].of[1].lanes == 0xff00 && chains->chains[2].of[1].row == 4);
    tw_shuffles_affine(&SLOT, &WARP, &found, chains, counters, 9, 0xff, 0, 1u << 2);
    for (uint32_t i = 0; i < TW_RECORDS; i++)
        CHECK(!table[i].kind);
    tw_shuffles_store(&SLOT, &WARP, &found, chains, counters, 9, 0x300, 0, 4, 1u << 2);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < TW_RECORDS; i++)
        if (table[i].kind) {
            CHECK(table[i].row == 4 && ~table[i].first == (3 << 10 | 40));
            seen++;
        }
    CHECK(seen == 1);
    free(table);
    free(chains);
}

int main(void)
{
    test_a_sum_wraps_where_no_reading_fits();
    test_infinity_and_nan();
    test_what_a_shuffle_reads_from_nobody();
    return 0;
}
