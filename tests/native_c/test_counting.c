// Instruments that count accesses, against counts by lane and by byte; and the requests that they record.

#include <string.h>

#include "check.h"
#include "observe/instruments/banks.c"
#include "observe/instruments/divergence.c"
#include "observe/instruments/mix.c"
#include "observe/instruments/sectors.c"

enum { TRIES = 1000, CHUNKS = 2 };

static uint32_t seed = 1;

static uint32_t chance(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static struct tw_slot slot_;
static struct {
    struct tw_warp head;
} warp_;
static uint64_t counters[6];

// Addresses of a warp, aligned by a lane's width: rising, or anywhere in a few lines.
static uint32_t any_access(tw_addresses *addresses, uint32_t bytes)
{
    uint32_t kind = chance(3), stride = chance(9);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        (*addresses)[lane] = (uint64_t)bytes * (kind ? 100 + lane * stride / kind : chance(64));
    return chance(3) ? UINT32_MAX : chance(1 << 24) << chance(9);
}

static void wavefronts_are_the_busiest_banks(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t bytes = 1u << chance(5), unit = bytes < 4 ? 4 : bytes, group = 128 / unit, most = 0, ideal = 0;
        tw_addresses addresses;
        uint32_t mask = any_access(&addresses, bytes);
        for (uint32_t first = 0; first < TW_LANES; first += group) {
            uint32_t busiest = 0;
            for (uint32_t bank = 0; bank < group; bank++) {
                uint64_t seen[TW_LANES];
                uint32_t words = 0;
                for (uint32_t lane = first; lane < first + group; lane++) {
                    uint64_t word = addresses[lane] / unit;
                    uint32_t k = 0;
                    while (k < words && seen[k] != word)
                        k++;
                    if ((mask >> lane & 1) && word % group == bank && k == words)
                        seen[words++] = word;
                }
                busiest = words > busiest ? words : busiest;
            }
            most += busiest;
            ideal += busiest != 0;
        }
        memset(counters, 0, sizeof counters);
        tw_banks_access(&slot_, &warp_.head, 0, 0, counters, 0, mask, &addresses, bytes);
        CHECK(counters[0] == (mask != 0) && counters[1] == tw_lane_count(mask));
        CHECK(counters[2] == most && counters[3] == ideal);
    }
}

static uint64_t place_in(uint32_t local, uint64_t address, uint32_t lane)
{
    return local ? address / 4 * 128 + 4 * lane + address % 4 : address;
}

static struct {
    struct tw_requests head;
    uint64_t chunks[CHUNKS + 1][TW_CHUNK_WORDS];
} memory;

// Checks the counters and the last recorded request against the bytes that lanes access.
static void check_request(uint32_t local, uint32_t mask, const tw_addresses *addresses, uint32_t bytes,
                          const uint64_t *request)
{
    static uint8_t touched[1 << 20], sectors[1 << 15];
    uint64_t used = 0, many = 0, written = 0;
    memset(touched, 0, sizeof touched);
    memset(sectors, 0, sizeof sectors);
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        for (uint32_t byte = 0; byte < bytes && (mask >> lane & 1); byte++) {
            uint64_t at = place_in(local, (*addresses)[lane] + byte, lane);
            used += !touched[at];
            many += !sectors[at / 32];
            touched[at] = sectors[at / 32] = 1;
        }
    CHECK(counters[0] == 1 && counters[1] == tw_lane_count(mask) && counters[2] == many && counters[3] == used);
    CHECK(counters[4] == (used + 31) / 32);
    for (uint64_t i = 1; i <= tw_request_words(*request); i++)
        for (uint64_t s = 0; s < 4; s++)
            if (request[i] >> s & 1) {
                uint64_t sector = (request[i] >> 4) * 4 + s - (local ? LOCAL_SECTORS : 0);
                CHECK(sectors[sector] == 1);  // and so each only once
                sectors[sector] = 0;
                written++;
            }
    CHECK(written == many && tw_request_site(*request) == 3 && tw_request_warp(*request) == 5 * 2 + 1);
}

static void sectors_are_those_of_the_bytes(void)
{
    uint64_t all[4 * 6] = {0}, *own = all + 3 * 6;
    slot_.block = 5;
    warp_.head.index = 1;
    memory.head = (struct tw_requests){.chunks = CHUNKS, .warps = 2};
    for (int i = 0; i < TRIES; i++) {
        uint32_t local = chance(2), bytes = 1u << chance(local ? 5 : 6);
        tw_addresses addresses;
        uint32_t mask = any_access(&addresses, bytes);
        uint64_t before = all[5] ? **(uint64_t **)&all[5] : 1;
        memset(own, 0, 5 * sizeof *own);
        (local ? tw_coalescing_local_recorded : tw_coalescing_global_recorded)(&slot_, &warp_.head, &memory, 0, own, 3,
                                                                               mask, &addresses, bytes);
        if (!mask) {
            CHECK(own[0] == 0 && (all[5] ? **(uint64_t **)&all[5] : 1) == before);
            continue;
        }
        uint64_t *chunk = *(uint64_t **)&all[5];
        memcpy(counters, own, 5 * sizeof *own);
        if (*chunk < before)
            before = 1;
        check_request(local, mask, &addresses, bytes, chunk + before);
        CHECK(*chunk == before + 1 + tw_request_words(chunk[before]));
        memset(own, 0, 5 * sizeof *own);
        (local ? tw_coalescing_local : tw_coalescing_global)(&slot_, &warp_.head, 0, 0, own, 3, mask, &addresses,
                                                             bytes);
        CHECK(memcmp(own, counters, 5 * sizeof *own) == 0);
    }
}

static void what_finds_no_chunk_is_lost(void)
{
    uint64_t *state = 0;
    memory.head = (struct tw_requests){.chunks = CHUNKS};
    for (int i = 0; i < CHUNKS + 2; i++) {
        uint64_t *room = tw_room(&memory.head, &state, TW_CHUNK_WORDS - 1);
        CHECK(room == memory.chunks[i < CHUNKS ? i + 1 : 0] + 1 && memory.head.lost == (i >= CHUNKS));
        tw_keep(0, 0, &state, room, TW_CHUNK_WORDS);  // more words than a header can count
        CHECK(*state == 1 + 1 + TW_REQUEST_WORDS);
        *state = TW_CHUNK_WORDS;
    }
}

static void branches_and_lanes(void)
{
    memset(counters, 0, sizeof counters);
    tw_divergence_branch(0, 0, 0, 0, counters, 0, 0xff, 0xff);
    tw_divergence_branch(0, 0, 0, 0, counters, 0, 0xff, 0);
    tw_divergence_branch(0, 0, 0, 0, counters, 0, 0xff, 0x0f);
    CHECK(counters[0] == 3 && counters[1] == 1 && counters[2] == 24 && counters[3] == 12);
    tw_mix_run(0, 0, 0, 0, counters + 4, 0, 0x70);
    CHECK(counters[4] == 1 && counters[5] == 3);
}

int main(void)
{
    wavefronts_are_the_busiest_banks();
    sectors_are_those_of_the_bytes();
    what_finds_no_chunk_is_lost();
    branches_and_lanes();
    return 0;
}
