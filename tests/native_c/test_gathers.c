// Loads and stores at a place for each lane.

#include "check.h"
#include "simulate/runtime/gathers.c"

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

static char global[64], shared[64], local[TW_LANES * 16];
static const struct tw_context context = {.global_base = global, .global_limit = 60};

static uint32_t outside(uint32_t space, const uint64_t *at, uint32_t bytes, uint32_t alignment)
{
    return tw_places(places, at, &context, shared, 40, local, 12, space, bytes, alignment);
}

// An access that begins or ends behind an arena's end, or at no multiple of its alignment, is named with its lane.
static void lanes_outside(uint32_t space, uint64_t start, uint64_t end, char *memory_of_space, uint64_t stride)
{
    uint64_t at[TW_LANES];
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        at[lane] = start + end - 4 * (1 + lane % 3);
    CHECK(outside(space, at, 4, 4) == 0);
    for (uint64_t lane = 0; lane < TW_LANES; lane++)
        CHECK(places[lane] == memory_of_space + lane * stride + end - 4 * (1 + lane % 3));
    at[5] = start + end - 2;
    at[7] = start + end;
    at[9] = start - 4;  // or at the end of all addresses
    at[30] = start + 2;
    CHECK(outside(space, at, 4, 2) == (1u << 5 | 1u << 7 | 1u << 9));
    CHECK(outside(space, at, 4, 4) == (1u << 5 | 1u << 7 | 1u << 9 | 1u << 30));
    CHECK(outside(space, at, 1, 1) == (1u << 7 | 1u << 9));
}

static void generic_addresses(void)
{
    const uint64_t windows[] = {(uint64_t)TW_GLOBAL_WINDOW << 32, 1ull << 32, 2ull << 32};
    uint64_t at[TW_LANES];
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        at[lane] = windows[lane % 3] + 8;
    at[20] = 8;  // in no space
    at[21] = windows[0] + 60;
    at[22] = windows[1] + 40;
    at[23] = windows[2] + 12;
    at[24] = windows[0] + 10;
    at[25] = windows[0] - 4;
    at[26] = 3ull << 32;
    CHECK(outside(TW_SPACE_GENERIC, at, 4, 4) == 0x07f00000);
    for (uint32_t lane = 0; lane < 20; lane++)
        CHECK(places[lane] == (lane % 3 == 0 ? global : lane % 3 == 1 ? shared : local + lane * 16) + 8);
    CHECK(outside(TW_SPACE_GENERIC, at, 4, 2) == 0x06f00000);
}

int main(void)
{
    lanes_outside(TW_SPACE_GLOBAL, (uint64_t)TW_GLOBAL_WINDOW << 32, 60, global, 0);
    lanes_outside(TW_SPACE_SHARED, 0, 40, shared, 0);
    lanes_outside(TW_SPACE_LOCAL, 0, 12, local, 16);
    generic_addresses();
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
