// The cache model: lines that replace each other, against a list that says in which order they were used; and launches
// whose end can be worked out by hand.

#include <string.h>

#include "check.h"
#include "profiling/cache.c"
#include "profiling/cache_requests.c"

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
        uint64_t cache = seed >> 30 & 1, line = (seed >> 20) % 20 + (uint64_t)(seed >> 29 & 1 ? 1 << TW_CACHE_REGION_BITS : 0);
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
    CHECK(caches.soiled == written + left);
}

static void requests_are_counted_and_placed(void)
{
    const uint64_t line = 7, far = (uint64_t)3 << TW_CACHE_REGION_BITS;
    const uint64_t words[] = {1 << 24 | 2, line << 4 | 1, (far + line) << 4 | 15, 0 << 24 | 1, line << 4 | 8};
    uint64_t sizes[2] = {0}, places[2] = {0, 2}, ordered[5], homes[2], regions = 0, used = 0;
    struct tw_cache_region directory[4] = {{0}};
    CHECK(tw_cache_count(words, 5, sizes, 2, 1) == 0 && sizes[0] == 2 && sizes[1] == 3);
    CHECK(tw_cache_count(words, 4, sizes, 2, 1) == 1);  // the last request lacks its word
    CHECK(tw_cache_count(words, 5, sizes, 1, 1) == 1 && tw_cache_count(words, 5, sizes, 2, 0) == 1);
    CHECK(tw_cache_place(words, 5, places, ordered, directory, 3, homes, &regions, &used) == 1);  // room for one region
    memset(directory, 0, sizeof directory);
    struct tw_cache_region larger[8] = {{0}};
    places[0] = regions = 0;
    places[1] = 2;
    CHECK(tw_cache_place(words, 5, places, ordered, larger, 7, homes, &regions, &used) == 0 && regions == 2);
    CHECK(used == ((uint64_t)1 << TW_CACHE_REGION_BITS) + line + 1);
    CHECK(homes[0] == 0 && homes[1] == far && places[0] == 2 && places[1] == 5);
    const uint64_t second = (uint64_t)1 << TW_CACHE_REGION_BITS;
    const uint64_t wanted[] = {words[3], words[4], words[0], words[1], (second + line) << 4 | 15};
    CHECK(memcmp(ordered, wanted, sizeof ordered) == 0);
}

// Four blocks of a warp on two multiprocessors, each loads one line twice and stores to it, and the third asks nothing.
static void a_launch_ends(bool roomy)
{
    enum { BLOCKS = 4 };
    uint64_t words[6 * BLOCKS], starts[BLOCKS + 1] = {0}, homes[1] = {0};
    uint8_t kinds[2] = {TW_CACHE_LOAD, TW_CACHE_STORE}, known[1 << 8] = {0};
    struct tw_cache_counts counts[2] = {{0}};
    struct tw_cache_line lines[CACHES * (SETS + LINES)];
    uint32_t buckets[1 << BUCKET_BITS];
    struct tw_caches first = empty(lines, buckets);
    struct tw_multiprocessor multiprocessors[CACHES] = {{0}};
    for (uint64_t block = 0; block < BLOCKS; block++) {
        starts[block + 1] = starts[block];
        for (uint64_t i = 0; i < 3 && block != 2; i++) {
            words[starts[block + 1]++] = block << 24 | (i == 2 ? 1u << 8 | 1 : 1);
            words[starts[block + 1]++] = 9 << 4 | 3;
        }
    }
    struct tw_cache_launch launch = {.words = words, .kinds = kinds, .counts = counts, .first = &first, .homes = homes,
                                     .known = known, .multiprocessors = multiprocessors, .many = CACHES,
                                     .starts = starts, .blocks = BLOCKS, .warps = 1, .resident = 1};
    uint8_t there[CACHES << 4] = {0};
    uint32_t filled[CACHES * SETS] = {0};
    if (roomy) {
        launch.present = there;
        launch.present_lines = 1 << 4;
        launch.filled = filled;
    }
    tw_cache_start(&launch);
    CHECK(tw_cache_run(&launch, 1) == TW_CACHE_MORE && counts[0].requests == 2);
    while (tw_cache_run(&launch, 1) == TW_CACHE_MORE)
        continue;
    CHECK(counts[0].requests == 6 && counts[1].requests == 3 && launch.soiled == 2);
    CHECK(counts[0].dram_compulsory == 2 && counts[0].l2_hits == 2 && counts[0].l1_hits == 8);
    CHECK(counts[1].l2_hits == 6 && counts[1].l2_allocated == 0);
    forget_first(&launch, 1, 9, 1);
    CHECK(use_first(&launch, at_hand(&launch, 1), 1, 9, 3) == 2);
    for (uint64_t line = 0; line < 1 + WAYS && roomy; line++) {
        CHECK(!launch.crowded);
        use_first(&launch, at_hand(&launch, 0), 0, SETS * line, 1);  // one of these, of the set of line 9, is there
    }
    CHECK(launch.crowded == roomy && tw_cache_run(&launch, 1) == (roomy ? TW_CACHE_CROWDED : TW_CACHE_ENDED));
}

int main(void)
{
    lines_replace_each_other();
    requests_are_counted_and_placed();
    a_launch_ends(false);
    a_launch_ends(true);
    return 0;
}
