// A launch runs on the caches: blocks on multiprocessors, warps in turns, and where each sector is found. `cache.py`
// states the model.

#include "cache.h"

#include <stdbool.h>
#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))

enum { VALID = 15, PRESENT = 16, DIRTY_SHIFT = 4, SET_SHIFT = 8, CACHE_SHIFT = 44, SITE_BITS = 16, SITES = 0xffff };

typedef uint8_t tw_lines __attribute__((vector_size(TW_CACHE_LANES), aligned(1)));
typedef int64_t tw_four_rounds __attribute__((vector_size(32), aligned(8)));

// Counts of up to eight bits, for hosts without an instruction.
INLINE uint64_t count(uint32_t sectors)
{
    return (uint64_t)__builtin_popcount(sectors);
}

INLINE uint64_t tag_of(uint64_t cache, uint64_t line)
{
    return cache << CACHE_SHIFT | line;
}

INLINE uint32_t *bucket_of(const struct tw_caches *caches, uint64_t tag)
{
    // 2^64 over the golden ratio: Knuth, The Art of Computer Programming 3, 6.4
    return &caches->buckets[(tag * 0x9e3779b97f4a7c15) >> caches->shift];
}

// The line of a tag, or 0.
INLINE uint32_t find(const struct tw_cache_line *lines, uint32_t first, uint64_t tag)
{
    uint32_t n = first;
    while (n && lines[n].tag != tag)
        n = lines[n].chain;
    return n;
}

INLINE void unlink(struct tw_cache_line *lines, const struct tw_cache_line *line)
{
    lines[line->prev].next = line->next;
    lines[line->next].prev = line->prev;
}

INLINE void put_first(struct tw_cache_line *lines, uint32_t n, uint32_t set)
{
    uint32_t first = lines[set].next;
    lines[n].prev = set;
    lines[n].next = first;
    lines[set].next = n;
    lines[first].prev = n;
}

// Removes the least recently used line from a full set; its dirty sectors are written back.
static __attribute__((noinline)) uint32_t evict(struct tw_caches *caches, uint32_t set)
{
    struct tw_cache_line *lines = caches->lines;
    uint32_t n = lines[set].prev, *link = bucket_of(caches, lines[n].tag);
    caches->written += count((lines[n].state >> DIRTY_SHIFT) & VALID);
    unlink(lines, &lines[n]);
    while (*link != n)
        link = &lines[*link].chain;
    *link = lines[n].chain;
    return n;
}

// The record of a line's set. A mask only needs the low bits of the line's number, which a region does not change.
INLINE uint32_t set_of(const struct tw_caches *caches, uint64_t cache, const uint64_t *homes, uint64_t line)
{
    uint64_t within = line & caches->mask;
    if (caches->mask == UINT64_MAX) {
        uint64_t low = line % (1 << TW_CACHE_REGION_BITS);
        within = (homes[line >> TW_CACHE_REGION_BITS] | low) % caches->sets;
    }
    return (uint32_t)(cache * caches->sets + within);
}

// Adds a missing line, as the first of its set and of its bucket.
INLINE void enter_line(struct tw_caches *caches, uint32_t *bucket, uint64_t tag, uint32_t set, uint32_t bits)
{
    struct tw_cache_line *lines = caches->lines;
    bool room = lines[set].state < caches->ways;
    uint32_t n = room ? (uint32_t)caches->taken++ : evict(caches, set);
    if (room)
        lines[set].state++;
    caches->dirtied += count(bits >> DIRTY_SHIFT);
    lines[n].tag = tag;
    lines[n].state = set << SET_SHIFT | bits;
    lines[n].chain = *bucket;
    *bucket = n;
    put_first(lines, n, set);
}

// Uses sectors of a line: `bits` has their valid bits, and their dirty bits if they are written. Returns those that
// were present, as valid bits.
INLINE uint32_t use(struct tw_caches *caches, uint64_t cache, const uint64_t *homes, uint64_t line, uint32_t bits)
{
    struct tw_cache_line *lines = caches->lines;
    uint64_t tag = tag_of(cache, line);
    uint32_t *bucket = bucket_of(caches, tag), n = find(lines, *bucket, tag);
    if (!n) {
        enter_line(caches, bucket, tag, set_of(caches, cache, homes, line), bits);
        return 0;
    }
    uint32_t before = lines[n].state, set = before >> SET_SHIFT;
    lines[n].state = before | bits;
    caches->dirtied += count((bits & ~before) >> DIRTY_SHIFT);
    if (lines[n].prev != set) {
        unlink(lines, &lines[n]);
        put_first(lines, n, set);
    }
    return before & bits & VALID;
}

// Invalidates sectors, if they are present.
static void forget(struct tw_caches *caches, uint64_t cache, uint64_t line, uint32_t bits)
{
    uint64_t tag = tag_of(cache, line);
    uint32_t n = find(caches->lines, *bucket_of(caches, tag), tag);
    if (n)
        caches->lines[n].state &= ~bits;
}

// State that a multiprocessor's turn uses all the time. The compiler keeps it in registers; it would read the fields of
// `launch` again after each byte that is written.
struct at_hand {
    const struct tw_cache_request *requests;
    const uint8_t *kinds;
    uint8_t *present;
    uint8_t *known;
    struct tw_cache_touches *touches;
    int64_t now;  // the round, above the bits of a site
};

INLINE struct at_hand at_hand(const struct tw_cache_launch *launch, uint64_t multiprocessor)
{
    return (struct at_hand){
        .requests = launch->asked->requests, .kinds = launch->kinds,
        .present = launch->present, .known = launch->known, .touches = launch->touches,
        .now = (int64_t)launch->multiprocessors[multiprocessor].round << SITE_BITS,
    };
}

// Uses sectors of a line at a first level; returns those that were present. With `quick`, only presence is tracked: the
// order of use and the buckets take four times as long.
INLINE uint32_t use_first(struct tw_cache_launch *launch, struct at_hand hand, bool quick, uint64_t multiprocessor,
                          uint64_t line, uint32_t valid)
{
    if (!quick)
        return use(launch->first, multiprocessor, launch->asked->homes, line, valid);
    uint32_t before = hand.present[line];
    hand.present[line] = (uint8_t)(before | valid | PRESENT);
    return before & valid;
}

INLINE void forget_first(struct tw_cache_launch *launch, struct at_hand hand, bool quick, uint64_t multiprocessor,
                         uint64_t line, uint32_t valid)
{
    if (quick)
        hand.present[line] &= (uint8_t)~valid;
    else
        forget(launch->first, multiprocessor, line, valid);
}

// Whether a set of a first level has more lines than ways. Sets are a power of two, and no more than lanes.
static bool crowded(const struct tw_cache_launch *launch)
{
    _Alignas(TW_CACHE_LANES) uint64_t many[TW_CACHE_LANES] = {0};
    uint64_t sets = launch->first->sets;
    for (uint64_t line = 0; line < launch->asked->lines;) {
        tw_lines there = {0};
        for (uint32_t i = 0; i < UINT8_MAX && line < launch->asked->lines; i++, line += TW_CACHE_LANES)
            there -= (tw_lines)(*(const tw_lines *)(launch->present + line) != 0);
        for (uint32_t lane = 0; lane < TW_CACHE_LANES; lane++)
            many[lane % sets] += there[lane];
    }
    for (uint64_t set = 0; set < sets; set++)
        if (many[set] > launch->first->ways)
            return true;
    return false;
}

// Uses sectors of a line at a second level with replacement.
INLINE void second_level(struct tw_cache_launch *launch, uint64_t line, uint32_t valid, uint32_t kind,
                         struct tw_cache_counts *counts)
{
    uint32_t known = launch->known[line], before = known & valid;
    launch->known[line] = (uint8_t)(known | valid);
    uint32_t bits = valid | (kind >= TW_CACHE_STORE ? valid << DIRTY_SHIFT : 0);
    uint32_t found = use(launch->second, 0, launch->asked->homes, line, bits);
    uint32_t kept = use(launch->shadow, 0, launch->asked->homes, line, valid);
    uint32_t missed = valid ^ found, again = missed & before;
    counts->l2_hits += count(found);
    if (!missed)
        return;
    if (kind == TW_CACHE_STORE) {
        counts->l2_allocated += count(missed);
        return;
    }
    counts->dram_compulsory += count(missed ^ again);
    counts->dram_conflict += count(again & kept);
    counts->dram_capacity += count(again & ~kept);
}

// A second level without replacement: only the first touch of a sector misses, which `count_first_touches` counts at
// the end. In one round, multiprocessors are in order.
INLINE void touch(struct at_hand hand, uint64_t line, uint32_t valid, uint32_t kind, int64_t site)
{
    const tw_four_rounds bits = {1, 2, 4, 8}, mine = (tw_four_rounds){0} + (hand.now | site);
    tw_four_rounds *first = (tw_four_rounds *)hand.touches[line].first;
    const tw_four_rounds earlier = (*first > (hand.now | SITES)) & ((bits & (int64_t)valid) != 0);
    *first = (*first & ~earlier) | (mine & earlier);
    if (kind >= TW_CACHE_STORE)
        hand.known[line] |= (uint8_t)(valid << DIRTY_SHIFT);
}

// Counts first touches, and dirty sectors.
static void count_first_touches(struct tw_cache_launch *launch)
{
    for (uint64_t line = 0; line < launch->asked->lines; line++) {
        launch->dirtied += count(launch->known[line] >> DIRTY_SHIFT);
        for (uint32_t s = 0; s < TW_LINE_SECTORS; s++) {
            int64_t first = launch->touches[line].first[s];
            if (first == TW_CACHE_UNTOUCHED)
                continue;
            struct tw_cache_counts *counts = &launch->counts[first & SITES];
            counts->l2_hits--;
            if (launch->kinds[first & SITES] == TW_CACHE_STORE)
                counts->l2_allocated++;
            else
                counts->dram_compulsory++;
        }
    }
}

// The words of a request of one kind; `quick`: neither level replaces lines.
INLINE void request_of(struct tw_cache_launch *launch, struct at_hand hand, bool quick, uint32_t kind,
                       uint64_t multiprocessor, const uint64_t *words)
{
    uint64_t many = tw_request_words(*words), site = tw_request_site(*words), found_first = 0, found_second = 0;
    struct tw_cache_counts *counts = &launch->counts[site];
    struct tw_cache_hint hint = launch->asked->hints[site];
    for (uint64_t i = 1; i <= many; i++) {
        uint64_t line = words[i] >> TW_LINE_SECTORS, region = line >> TW_CACHE_REGION_BITS;
        uint32_t valid = (uint32_t)words[i] & VALID;
        if (__builtin_expect(region + 1 != hint.key, 0)) {
            tw_cache_number(launch->asked, &launch->asked->hints[site], region);
            hint = launch->asked->hints[site];
        }
        line = hint.base | line % (1 << TW_CACHE_REGION_BITS);
        if (kind == TW_CACHE_LOAD) {
            uint32_t found = use_first(launch, hand, quick, multiprocessor, line, valid);
            found_first += count(found);
            valid ^= found;
            if (!valid)
                continue;
        } else if (kind == TW_CACHE_ATOMIC) {
            forget_first(launch, hand, quick, multiprocessor, line, valid);
        }
        if (quick || hand.touches) {
            touch(hand, line, valid, kind, (int64_t)site);
            found_second += count(valid);
        } else {
            second_level(launch, line, valid, kind, counts);
        }
    }
    counts->requests++;
    counts->l1_hits += found_first;
    counts->l2_hits += found_second;
}

// One request of a warp of a multiprocessor; returns its number of words.
INLINE uint64_t request(struct tw_cache_launch *launch, struct at_hand hand, bool quick, uint64_t multiprocessor,
                        const uint64_t *words)
{
    uint32_t kind = hand.kinds[tw_request_site(*words)];
    if (kind == TW_CACHE_LOAD)
        request_of(launch, hand, quick, TW_CACHE_LOAD, multiprocessor, words);
    else
        request_of(launch, hand, quick, kind, multiprocessor, words);
    return tw_request_words(*words);
}

// Prefetches the buckets of a request's first two lines, for all warps of a turn.
INLINE void foresee(const struct tw_cache_launch *launch, uint64_t multiprocessor, const uint64_t *words)
{
    uint64_t many = tw_request_words(*words), base = launch->asked->hints[tw_request_site(*words)].base;
    for (uint64_t i = 1; i <= (many < 2 ? many : 2); i++) {
        uint64_t line = base | (words[i] >> TW_LINE_SECTORS) % (1 << TW_CACHE_REGION_BITS);
        __builtin_prefetch(bucket_of(launch->first, tag_of(multiprocessor, line)));
    }
}

// Blocks that start in this round take their places.
INLINE void enter_blocks(struct tw_cache_launch *launch, struct tw_multiprocessor *m)
{
    while (m->next && launch->blocks[m->next - 1].start == m->round) {
        const struct tw_cache_block *block = &launch->blocks[m->next - 1];
        const struct tw_cache_warp *warps = &launch->asked->warps[(m->next - 1) * launch->warps];
        for (uint64_t w = 0; w < launch->warps; w++) {
            uint64_t slot = block->place * launch->warps + w;
            m->at[slot] = warps[w].first;
            m->live |= (uint64_t)(warps[w].first != 0) << slot;
        }
        m->next = block->next;
    }
}

// A multiprocessor's turn: each live warp makes one request. Returns the words read; 0 if no warp is left.
INLINE uint64_t turn(struct tw_cache_launch *launch, bool quick, uint64_t number)
{
    struct tw_multiprocessor *m = &launch->multiprocessors[number];
    enter_blocks(launch, m);
    const struct at_hand hand = at_hand(launch, number);
    uint64_t used = 0;
    for (uint64_t left = quick ? 0 : m->live; left; left &= left - 1)
        foresee(launch, number, hand.requests[m->at[__builtin_ctzll(left)]].words);
    for (uint64_t left = m->live; left; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(left);
        struct tw_cache_request asked = hand.requests[m->at[slot]];
        used += request(launch, hand, quick, number, asked.words);
        m->at[slot] = asked.next;
        m->live ^= (uint64_t)(asked.next == 0) << slot;
    }
    m->round++;
    return used;
}

// One turn of the current multiprocessor. Returns the words read; 0 if it has ended, and the next one starts.
INLINE uint64_t one_turn(struct tw_cache_launch *launch, bool quick)
{
    if (quick && launch->multiprocessors[launch->at].round == 0)
        __builtin_memset(launch->present, 0, launch->asked->lines);
    uint64_t used = turn(launch, quick, launch->at);
    launch->at += used == 0;
    return used;
}

// One turn of each multiprocessor. Returns the words read; 0 if the launch has ended.
static uint64_t one_round(struct tw_cache_launch *launch)
{
    uint64_t used = 0;
    for (uint64_t m = 0; m < launch->many; m++)
        used += turn(launch, false, m);
    launch->at = used ? 0 : launch->many;
    return used;
}

// Lets multiprocessors take turns until about `budget` words have been read or the launch has ended. With a second
// level without replacement they are independent: each takes all its turns at once, while its data are in the host's
// cache.
uint32_t tw_cache_run(struct tw_cache_launch *launch, uint64_t budget)
{
    for (uint64_t used = 0, now = 1; launch->at < launch->many && used < budget; used += now) {
        now = launch->present ? one_turn(launch, true) : launch->touches ? one_turn(launch, false) : one_round(launch);
        if (launch->present && (now == 0 || used + now >= budget) && crowded(launch))
            return TW_CACHE_CROWDED;
    }
    if (launch->at < launch->many)
        return TW_CACHE_MORE;
    if (launch->touches)
        count_first_touches(launch);
    return TW_CACHE_ENDED;
}
