// Loads and stores at a place for each lane.

#include "check.h"
#include "simt/runtime/gathers.c"

static char memory[4096], values[8 * TW_LANES * 16];
static char *places[TW_LANES];

// The byte that element `element` of a lane has at `byte`.
static char expected(uint32_t lane, uint32_t element, uint32_t byte)
{
    return (char)(1 + lane * 5 + element * 3 + byte);
}

static void move(uint32_t bytes, uint32_t count, uint32_t lanes)
{
    __builtin_memset(memory, 0, sizeof memory);
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        // unaligned by one, and in another order than the lanes'; inactive lanes have invalid places
        places[lane] = lanes >> lane & 1 ? memory + 1 + (31 - lane) * count * bytes : NULL;
        for (uint32_t e = 0; e < count; e++)
            for (uint32_t i = 0; i < bytes; i++)
                values[(e * TW_LANES + lane) * bytes + i] = expected(lane, e, i);
    }
    tw_scatter(values, places, bytes, count, lanes);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        for (uint32_t e = 0; e < count; e++)
            for (uint32_t i = 0; i < bytes; i++)
                CHECK(memory[1 + ((31 - lane) * count + e) * bytes + i] ==
                      (lanes >> lane & 1 ? expected(lane, e, i) : 0));
    __builtin_memset(values, 1, sizeof values);
    tw_gather(values, places, bytes, count, lanes);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        for (uint32_t e = 0; e < count; e++)
            for (uint32_t i = 0; i < bytes; i++)
                CHECK(values[(e * TW_LANES + lane) * bytes + i] == (lanes >> lane & 1 ? expected(lane, e, i) : 0));
    if (count * bytes < 128)
        CHECK(values[count * TW_LANES * bytes] == 1);
}

// Each lane reads as many bytes as its number, or all.
static void copy(uint32_t bytes, uint32_t lanes, int all)
{
    static char *to[TW_LANES];
    uint32_t sizes[TW_LANES];
    __builtin_memset(memory, 1, sizeof memory);
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        sizes[lane] = lane % (bytes + 1);
        places[lane] = lanes >> lane & 1 ? values + 1 + lane * bytes : NULL;
        to[lane] = lanes >> lane & 1 ? memory + 1 + (31 - lane) * bytes : NULL;
        for (uint32_t i = 0; i < bytes; i++)
            values[1 + lane * bytes + i] = expected(lane, 0, i);
    }
    tw_move(to, places, all ? NULL : sizes, bytes, lanes);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        for (uint32_t i = 0; i < bytes; i++) {
            const char copied = all || i < sizes[lane] ? expected(lane, 0, i) : 0;
            CHECK(memory[1 + (31 - lane) * bytes + i] == (lanes >> lane & 1 ? copied : 1));
        }
    CHECK(memory[0] == 1 && memory[1 + TW_LANES * bytes] == 1);
}

// Registers load their elements from anywhere in a matrix, and store them back.
static void exchange_elements(uint32_t bytes, uint32_t each)
{
    static char registers[2 * TW_LANES * 8], matrix[2 * TW_LANES * 8];
    static uint32_t at[2 * TW_LANES * 8];
    uint32_t count = 2 * TW_LANES * each;
    for (uint32_t i = 0; i < count; i++)
        at[i] = (i * 7 + 3) % count * bytes;
    for (uint32_t i = 0; i < count * bytes; i++)
        matrix[i] = (char)(i % 127);
    tw_spread(registers, matrix, at, 2, each, bytes);
    for (uint32_t i = 0; i < count; i++)
        CHECK(__builtin_memcmp(registers + i * bytes, matrix + at[i], bytes) == 0);
    __builtin_memset(matrix, -1, sizeof matrix);
    tw_collect(registers, matrix, at, 2, each, bytes);
    for (uint32_t i = 0; i < count * bytes; i++)
        CHECK(matrix[i] == (char)(i % 127));
}

static void unpack(uint32_t bits)
{
    static char rows[TW_LANES * 16], before[TW_LANES * 16];
    for (uint32_t i = 0; i < sizeof rows; i++)
        rows[i] = before[i] = (char)(i * 37 + 11);
    tw_unpack(rows, bits);
    for (uint32_t row = 0; row < TW_LANES; row++)
        for (uint32_t bit = 0; bit < 16 * 8; bit++) {
            const uint32_t at = bit / 8 * bits + bit % 8;
            const int set = bit % 8 < bits && before[row * 16 + at / 8] >> at % 8 & 1;
            CHECK((rows[row * 16 + bit / 8] >> bit % 8 & 1) == set);
        }
}

int main(void)
{
    unpack(4);
    unpack(6);
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
        exchange_elements(bytes, bytes < 4 ? 4 / bytes : 1);
    for (uint32_t bytes = 4; bytes <= 16; bytes *= 2)
        for (int all = 0; all < 2; all++) {
            copy(bytes, ~0u, all);
            copy(bytes, 0x80010006, all);
        }
    for (uint32_t bytes = 1; bytes <= 16; bytes *= 2)
        for (uint32_t count = 1; count * bytes <= 32; count *= 2) {
            move(bytes, count, ~0u);
            move(bytes, count, 0);
            move(bytes, count, 0x80010006);
        }
    int32_t numbers[TW_LANES], place = -1;
    for (int lane = 0; lane < TW_LANES; lane++) {
        numbers[lane] = lane;
        places[lane] = (char *)&place;
    }
    tw_scatter((char *)numbers, places, 4, 1, 0x00ff0000);
    CHECK(place == 23);
    return 0;
}
