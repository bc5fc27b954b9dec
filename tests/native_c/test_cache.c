// The cache model: lines that replace each other, against a list in the order of use; and launches
// whose results can be calculated by hand.

#include <string.h>

#include "check.h"
#include "observe/profiling/cache.c"
#include "observe/profiling/cache_requests.c"

enum { SETS = 3, WAYS = 4, LINES = SETS * WAYS, CACHES = 2, BUCKET_BITS = 2, USES = 20000 };

static struct tw_caches empty(struct tw_cache_line *lines, uint32_t *buckets)
{
    memset(buckets, 0, sizeof *buckets << BUCKET_BITS);
    for (uint32_t i = 0; i < CACHES * SETS; i++)
        lines[i] = (struct tw_cache_line){.prev = i, .next = i};
    return (struct tw_caches){.lines = lines, .buckets = buckets, .sets = SETS, .mask = UINT64_MAX, .ways = WAYS,
                              .shift = 64 - BUCKET_BITS, .taken = CACHES * SETS};
}

// One set as a list of lines, the last used first.
struct list {
    uint64_t lines[WAYS];
    uint32_t bits[WAYS];
    int many;
};

static uint32_t use_list(struct list *list, uint64_t line, uint32_t bits, uint64_t *written)
{
    int i = 0;
    while (i < list->many && list->lines[i] != line)
        i++;
    uint32_t before = i < list->many ? list->bits[i] : 0;
    if (i == list->many && i < WAYS) {
        list->many++;
    } else if (i == list->many) {
        i--;
        *written += count(list->bits[i] >> DIRTY_SHIFT);
    }
    memmove(list->lines + 1, list->lines, (size_t)i * sizeof *list->lines);
    memmove(list->bits + 1, list->bits, (size_t)i * sizeof *list->bits);
    list->lines[0] = line;
    list->bits[0] = before | bits;
    return before & bits & VALID;
}

static void lines_replace_each_other(void)
{
    static struct tw_cache_line lines[CACHES * (SETS + LINES)];
    static uint32_t buckets[1 << BUCKET_BITS];
    static struct list lists[CACHES][SETS];
    struct tw_caches caches = empty(lines, buckets);
    const uint64_t homes[2] = {5 << TW_CACHE_REGION_BITS, 9 << TW_CACHE_REGION_BITS};
    uint64_t written = 0;
    uint32_t seed = 1;
    for (int i = 0; i < USES; i++) {
        seed = seed * 1664525 + 1013904223;
        uint64_t cache = seed >> 30 & 1;
        uint64_t line = (seed >> 20) % 20 + (uint64_t)(seed >> 29 & 1 ? 1 << TW_CACHE_REGION_BITS : 0);
        uint64_t real = homes[line >> TW_CACHE_REGION_BITS] + line % (1 << TW_CACHE_REGION_BITS);
        uint32_t bits = 1u << (seed >> 10 & 3), dirty = seed >> 12 & 1 ? bits << DIRTY_SHIFT : 0;
        uint32_t found = use(&caches, cache, homes, line, bits | dirty);
        CHECK(found == use_list(&lists[cache][real % SETS], line, bits | dirty, &written));
        CHECK(caches.written == written);
    }
    CHECK(written > USES / 100 && caches.taken == CACHES * (SETS + LINES));
    uint32_t left = 0;
    for (int c = 0; c < CACHES; c++)
        for (int s = 0; s < SETS; s++)
            for (int i = 0; i < lists[c][s].many; i++)
                left += (uint32_t)count(lists[c][s].bits[i] >> DIRTY_SHIFT);
    CHECK(caches.dirtied == written + left);
}

enum { REGION = 1 << TW_CACHE_REGION_BITS };

static struct tw_cache_requests asks(struct tw_cache_request *requests, struct tw_cache_warp *warps,
                                     uint64_t warp_count, struct tw_cache_hint *hints,
                                     struct tw_cache_region *directory, uint64_t places, uint64_t *homes)
{
    return (struct tw_cache_requests){.requests = requests, .warps = warps, .warp_count = warp_count, .hints = hints,
                                      .sites = 2, .directory = directory, .mask = places - 1, .homes = homes};
}

static void requests_are_linked(void)
{
    const uint64_t line = 7, far = (uint64_t)3 * REGION;
    const uint64_t words[] = {1 << 24 | 2, line << 4 | 1, (far + line) << 4 | 15, 0 << 24 | 1, line << 4 | 8,
                              1 << 24 | 1 << 8 | 1, line << 4 | 2};
    enum { WORDS = 7 };
    struct tw_cache_request requests[8] = {{0}};
    struct tw_cache_warp warps[2] = {{0}};
    struct tw_cache_hint hints[2] = {{0}};
    struct tw_cache_region directory[4] = {{0}}, larger[8] = {{0}};
    uint64_t homes[2];
    struct tw_cache_requests asked = asks(requests, warps, 2, hints, directory, 4, homes);
    CHECK(tw_cache_link(&asked, words, WORDS) == TW_CACHE_FULL);  // room for one region
    memset(warps, 0, sizeof warps);
    memset(hints, 0, sizeof hints);
    asked = asks(requests, warps, 2, hints, larger, 8, homes);
    CHECK(tw_cache_link(&asked, words, 5) == TW_CACHE_LINKED && asked.many == 2);
    CHECK(tw_cache_link(&asked, words + 5, WORDS - 5) == TW_CACHE_LINKED && asked.many == 3);  // in the next buffer
    CHECK(asked.regions == 2 && asked.lines == REGION + line + 1 && homes[0] == 0 && homes[1] == far);
    CHECK(warps[0].first == 2 && warps[0].requests == 1 && requests[2].words == words + 3 && requests[2].next == 0);
    CHECK(warps[1].first == 1 && warps[1].requests == 2 && requests[1].words == words && requests[1].next == 3);
    CHECK(requests[3].words == words + 5 && requests[3].next == 0);
    CHECK(hints[0].key == 1 && hints[0].base == 0);  // of the last word of site 0
    CHECK(tw_cache_link(&asked, words, 4) == TW_CACHE_WRONG);  // the last request lacks its word
    asked.warp_count = 1;
    CHECK(tw_cache_link(&asked, words, WORDS) == TW_CACHE_WRONG);
    asked.warp_count = 2;
    asked.sites = 0;
    CHECK(tw_cache_link(&asked, words, WORDS) == TW_CACHE_WRONG);
}

// Blocks of one warp on two multiprocessors with two places each; block 1 makes no requests.
static void blocks_take_places_that_become_free(void)
{
    enum { BLOCKS = 9, MANY = 2, RESIDENT = 2 };
    const uint64_t rounds[BLOCKS] = {5, 0, 3, 2, 3, 1, 4, 1, 1};
    const struct { uint64_t on, place, start; } wanted[BLOCKS] = {
        {0, 0, 0}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 1, 2}, {0, 1, 3}, {1, 0, 3}, {1, 1, 3}};
    struct tw_cache_warp warps[BLOCKS] = {{0}};
    struct tw_cache_block blocks[BLOCKS];
    struct tw_multiprocessor multiprocessors[MANY] = {{0}};
    uint64_t heap[MANY * RESIDENT], seen = 0;
    for (int block = 0; block < BLOCKS; block++)
        warps[block].requests = rounds[block];
    struct tw_cache_requests asked = {.warps = warps, .warp_count = BLOCKS};
    struct tw_cache_launch launch = {.asked = &asked, .multiprocessors = multiprocessors, .many = MANY,
                                     .blocks = blocks, .block_count = BLOCKS, .warps = 1, .resident = RESIDENT,
                                     .heap = heap};
    tw_cache_schedule(&launch);
    for (uint64_t m = 0; m < MANY; m++)
        for (uint64_t next = multiprocessors[m].next; next; next = blocks[next - 1].next, seen++) {
            CHECK(wanted[next - 1].on == m && wanted[next - 1].place == blocks[next - 1].place);
            CHECK(wanted[next - 1].start == blocks[next - 1].start);
        }
    CHECK(seen == BLOCKS - 1);
}

// Four blocks of a warp on two multiprocessors. Each loads one line twice and stores to it; the third requests nothing.
static void a_launch_ends(bool roomy)
{
    enum { BLOCKS = 4, REQUESTS = 3 * BLOCKS, LINES_ASKED = 10 };
    uint64_t words[2 * REQUESTS], used = 0, homes[2], heap[CACHES];
    uint8_t kinds[2] = {TW_CACHE_LOAD, TW_CACHE_STORE}, known[LINES_ASKED] = {0}, there[2 * TW_CACHE_LANES] = {0};
    struct tw_cache_request requests[1 + REQUESTS];
    struct tw_cache_warp warps[BLOCKS] = {{0}};
    struct tw_cache_hint hints[2] = {{0}};
    struct tw_cache_region directory[4] = {{0}};
    struct tw_cache_counts counts[2] = {{0}};
    struct tw_cache_block blocks[BLOCKS];
    struct tw_cache_touches touches[LINES_ASKED];
    struct tw_cache_line lines[CACHES * (SETS + LINES)];
    uint32_t buckets[1 << BUCKET_BITS];
    struct tw_caches first = empty(lines, buckets);
    struct tw_multiprocessor multiprocessors[CACHES] = {{0}};
    for (uint64_t block = 0; block < BLOCKS; block++) {
        for (uint64_t i = 0; i < 3 && block != 2; i++) {
            words[used++] = block << 24 | (i == 2 ? 1u << 8 | 1 : 1);
            words[used++] = 9 << 4 | 3;
        }
    }
    for (int i = 0; i < LINES_ASKED * TW_LINE_SECTORS; i++)
        touches[i / TW_LINE_SECTORS].first[i % TW_LINE_SECTORS] = TW_CACHE_UNTOUCHED;
    struct tw_cache_requests asked = asks(requests, warps, BLOCKS, hints, directory, 4, homes);
    CHECK(tw_cache_link(&asked, words, used) == TW_CACHE_LINKED && asked.lines == LINES_ASKED);
    struct tw_cache_launch launch = {.asked = &asked, .kinds = kinds, .counts = counts, .first = &first,
                                     .touches = touches, .known = known, .multiprocessors = multiprocessors,
                                     .many = CACHES, .blocks = blocks, .block_count = BLOCKS, .warps = 1,
                                     .resident = 1, .heap = heap};
    if (roomy) {
        first.sets = 1;
        launch.present = there;
    }
    tw_cache_schedule(&launch);
    CHECK(tw_cache_run(&launch, 1) == TW_CACHE_MORE && counts[0].requests == 1);
    while (tw_cache_run(&launch, 1) == TW_CACHE_MORE)
        continue;
    CHECK(counts[0].requests == 6 && counts[1].requests == 3 && launch.dirtied == 2);
    CHECK(counts[0].dram_compulsory == 2 && counts[0].l2_hits == 2 && counts[0].l1_hits == 8);
    CHECK(counts[1].l2_hits == 6 && counts[1].l2_allocated == 0);
    const struct at_hand hand = at_hand(&launch, 1);
    forget_first(&launch, hand, roomy, 1, 9, 1);
    CHECK(use_first(&launch, hand, roomy, 1, 9, 3) == 2);
}

// Only the first access to a sector misses, by round, then by multiprocessor, in whatever order they are processed.
static void the_first_to_touch_a_sector_pays(void)
{
    uint8_t kinds[3] = {TW_CACHE_STORE, TW_CACHE_LOAD, TW_CACHE_LOAD}, known[1] = {0};
    struct tw_cache_touches touches = {
        {TW_CACHE_UNTOUCHED, TW_CACHE_UNTOUCHED, TW_CACHE_UNTOUCHED, TW_CACHE_UNTOUCHED}};
    struct tw_cache_counts counts[3] = {{.l2_hits = 2}, {.l2_hits = 3}, {.l2_hits = 1}};
    struct tw_cache_requests asked = {.lines = 1};
    struct tw_cache_launch launch = {.asked = &asked, .kinds = kinds, .counts = counts, .known = known,
                                     .touches = &touches};
    struct at_hand hand = {.kinds = kinds, .known = known, .touches = &touches};
    hand.now = 5 << SITE_BITS;
    touch(hand, 0, 7, TW_CACHE_LOAD, 1);
    touch(hand, 0, 1, TW_CACHE_LOAD, 2);  // in the same round, but later
    hand.now = 4 << SITE_BITS;
    touch(hand, 0, 6, TW_CACHE_STORE, 0);
    count_first_touches(&launch);
    CHECK(counts[0].l2_hits == 0 && counts[0].l2_allocated == 2 && launch.dirtied == 2);
    CHECK(counts[1].l2_hits == 2 && counts[1].dram_compulsory == 1 && counts[2].l2_hits == 1);
}

// Two sets of 400 ways, of which the lines in use fill one; more lines than a counter of eight bits holds.
static void a_full_set_is_crowded_by_one_more(void)
{
    enum { MANY = 400 * TW_CACHE_LANES };
    static uint8_t there[MANY];
    struct tw_caches first = {.sets = 2, .ways = 400};
    struct tw_cache_requests asked = {.lines = MANY - 5};
    struct tw_cache_launch launch = {.asked = &asked, .first = &first, .present = there};
    for (uint64_t i = 0; i < 400; i++)
        there[i * TW_CACHE_LANES + 2] = PRESENT;
    CHECK(!crowded(&launch));
    there[7] = PRESENT | VALID;
    CHECK(!crowded(&launch));
    there[8] = PRESENT;
    CHECK(crowded(&launch));
}

int main(void)
{
    lines_replace_each_other();
    requests_are_linked();
    blocks_take_places_that_become_free();
    a_launch_ends(false);
    a_launch_ends(true);
    the_first_to_touch_a_sector_pays();
    a_full_set_is_crowded_by_one_more();
    return 0;
}
