// Maps of the bytes that accesses touch, against maps that are set byte by byte.

#include <string.h>

#include "check.h"
#include "observe/instruments/touched.c"

enum { BASE = 4096, BYTES = 2048, TRIES = 2000 };

static uint32_t seed = 1;

static uint32_t chance(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static uint8_t reads[BYTES], writes[BYTES], wanted[BYTES];
static struct tw_touched launch_ = {BASE, BYTES, reads, writes};

static void clear(void)
{
    memset(reads, 0, sizeof reads);
    memset(writes, 0, sizeof writes);
    memset(wanted, 0, sizeof wanted);
}

static void want(const uint64_t *addresses, uint32_t mask, uint32_t bytes)
{
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        for (uint32_t i = 0; (mask >> lane & 1) && i < bytes; i++)
            if (addresses[lane] >= BASE && addresses[lane] + bytes <= BASE + BYTES)
                wanted[addresses[lane] - BASE + i] = 1;
}

// Lanes in a row, in rows of some lanes each, or anywhere; some are before or after the memory, or across its end.
// Some of the bytes were touched before.
static void free_addresses(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t bytes = 1u << chance(6), kind = chance(3), row = 8u << chance(3), start = BASE + bytes * chance(8);
        uint32_t mask = chance(2) ? UINT32_MAX : chance(1 << 24) << chance(9);
        uint64_t addresses[TW_LANES] __attribute__((aligned(64)));
        for (uint32_t lane = 0; lane < TW_LANES; lane++)
            addresses[lane] = kind ? start + lane * bytes + lane / row * 64 : BASE - 64 + bytes * chance(2176 / bytes);
        if (chance(2)) {  // else the touched bytes stay
            uint32_t lane = chance(TW_LANES);
            clear();
            addresses[lane] = BASE + BYTES - bytes / 2;
        }
        want(addresses, mask, bytes);
        tw_touched_free(0, 0, &launch_, 0, 0, 0, mask, addresses, bytes, TW_TOUCHED_READS | TW_TOUCHED_WRITES);
        CHECK(!memcmp(reads, wanted, BYTES) && !memcmp(writes, wanted, BYTES));
    }
}

// Rows of lanes at this many strides from the base, which may be before it, or overlap.
static void offsets_and_strides(void)
{
    static const struct tw_touched_run runs[] = {{0, (uint64_t)0 - 8, 12}, {2, 0, 92}, {2, 160, 4}};
    static const uint64_t strides[] = {0, 8, 256, (uint64_t)0 - 256};
    uint64_t offsets[TW_LANES] __attribute__((aligned(64))), rows[TW_LANES] __attribute__((aligned(64)));
    uint64_t addresses[TW_LANES];
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t stride = strides[i / 2];
        uint32_t mask = i % 2 ? 0x306 : UINT32_MAX;
        for (uint32_t lane = 0; lane < TW_LANES; lane++) {
            rows[lane] = lane < 8 ? 0 : 2;
            offsets[lane] = lane == 31 ? 160 : lane < 8 ? (uint64_t)4 * (lane % 3) - 8 : (uint64_t)4 * (lane - 8);
            addresses[lane] = BASE + 1024 + offsets[lane] + stride * rows[lane];
        }
        clear();
        want(addresses, mask, 4);
        tw_touched_rows(0, 0, &launch_, 0, 0, 0, mask, BASE + 1024, stride, runs, 3, offsets, rows, 4,
                        TW_TOUCHED_WRITES);
        CHECK(!memcmp(writes, wanted, BYTES));
        memset(wanted, 0, sizeof wanted);
        CHECK(!memcmp(reads, wanted, BYTES));
    }
}

int main(void)
{
    free_addresses();
    offsets_and_strides();
    return 0;
}
