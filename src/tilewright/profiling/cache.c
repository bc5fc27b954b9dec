// A launch before the caches: blocks on multiprocessors, warps in turns, and what becomes of each sector. `cache.py`
// states the model.

#include "cache.h"

#include <stdbool.h>
#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))

enum { VALID = 15, PRESENT = 16, DIRTY_SHIFT = 4, SET_SHIFT = 8, CACHE_SHIFT = 44 };

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

// Takes the line used longest ago out of a full set; its dirty sectors are written back.
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

// The record of the set of a line. A mask needs no more of the line's number than a region leaves as it is.
INLINE uint32_t set_of(const struct tw_caches *caches, uint64_t cache, const uint64_t *homes, uint64_t line)
{
    uint64_t within = line & caches->mask;
    if (caches->mask == UINT64_MAX) {
        uint64_t low = line % (1 << TW_CACHE_REGION_BITS);
        within = (homes[line >> TW_CACHE_REGION_BITS] | low) % caches->sets;
    }
    return (uint32_t)(cache * caches->sets + within);
}

// Enters a line that is not there, as the first of its set and of its bucket.
INLINE void enter_line(struct tw_caches *caches, uint32_t *bucket, uint64_t tag, uint32_t set, uint32_t bits)
{
    struct tw_cache_line *lines = caches->lines;
    bool room = lines[set].state < caches->ways;
    uint32_t n = room ? (uint32_t)caches->taken++ : evict(caches, set);
    if (room)
        lines[set].state++;
    caches->soiled += count(bits >> DIRTY_SHIFT);
    lines[n].tag = tag;
    lines[n].state = set << SET_SHIFT | bits;
    lines[n].chain = *bucket;
    *bucket = n;
    put_first(lines, n, set);
}

// Uses sectors of a line: `bits` are their valid bits, and their dirty bits where they are written. Returns which of
// them were there, as valid bits.
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
    caches->soiled += count((bits & ~before) >> DIRTY_SHIFT);
    if (lines[n].prev != set) {
        unlink(lines, &lines[n]);
        put_first(lines, n, set);
    }
    return before & bits & VALID;
}

// Forgets sectors, where they are there.
static void forget(struct tw_caches *caches, uint64_t cache, uint64_t line, uint32_t bits)
{
    uint64_t tag = tag_of(cache, line);
    uint32_t n = find(caches->lines, *bucket_of(caches, tag), tag);
    if (n)
        caches->lines[n].state &= ~bits;
}

// Where a first level's line is known to be or not, while first levels replace nothing.
INLINE uint8_t *present(const struct tw_cache_launch *launch, uint64_t multiprocessor, uint64_t line)
{
    return &launch->present[multiprocessor * launch->present_lines + line];
}

// What a multiprocessor's turn looks at all the time. The compiler keeps it in registers, while it would read what
// `launch` points to again after each byte that is written.
struct at_hand {
    const uint64_t *words;
    const uint8_t *kinds;
    struct tw_cache_counts *counts;
    uint8_t *present;  // of the multiprocessor, or null
    uint8_t *known;
};

INLINE struct at_hand at_hand(const struct tw_cache_launch *launch, uint64_t multiprocessor)
{
    uint8_t *mine = launch->present ? present(launch, multiprocessor, 0) : NULL;
    return (struct at_hand){launch->words, launch->kinds, launch->counts, mine, launch->known};
}

// Uses sectors of a line at a first level; returns which of them were there. While no set is full, nothing need be known
// of lines but that they are there: an order of use and buckets take four times as long.
INLINE uint32_t use_first(struct tw_cache_launch *launch, struct at_hand hand, uint64_t multiprocessor, uint64_t line,
                          uint32_t valid)
{
    if (!hand.present)
        return use(launch->first, multiprocessor, launch->homes, line, valid);
    uint8_t *state = &hand.present[line];
    uint32_t before = *state;
    if (!before) {
        uint32_t *filled = &launch->filled[set_of(launch->first, multiprocessor, launch->homes, line)];
        launch->crowded |= (*filled)++ == launch->first->ways;
    }
    *state = (uint8_t)(before | valid | PRESENT);
    return before & valid;
}

static void forget_first(struct tw_cache_launch *launch, uint64_t multiprocessor, uint64_t line, uint32_t valid)
{
    if (launch->present)
        *present(launch, multiprocessor, line) &= (uint8_t)~valid;
    else
        forget(launch->first, multiprocessor, line, valid);
}

// What becomes of sectors of a line at the second level.
INLINE void second_level(struct tw_cache_launch *launch, struct at_hand hand, bool endless, uint64_t line,
                         uint32_t valid, uint32_t kind, struct tw_cache_counts *counts)
{
    bool writes = kind >= TW_CACHE_STORE;
    uint32_t known = hand.known[line], before = known & valid, found = before, kept = 0;
    uint32_t bits = valid | (writes ? valid << DIRTY_SHIFT : 0);
    hand.known[line] = (uint8_t)(known | bits);
    if (endless) {  // what was touched is there
        if (writes)
            launch->soiled += count((bits & ~known) >> DIRTY_SHIFT);
    } else {
        found = use(launch->second, 0, launch->homes, line, bits);
        kept = use(launch->shadow, 0, launch->homes, line, valid);
    }
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

// One request of a warp of a multiprocessor, at a word; returns the word after it.
INLINE uint64_t request(struct tw_cache_launch *launch, struct at_hand hand, bool endless, uint64_t multiprocessor,
                        uint64_t at)
{
    uint64_t header = hand.words[at], end = at + 1 + tw_request_words(header);
    uint32_t kind = hand.kinds[tw_request_site(header)];
    struct tw_cache_counts *counts = &hand.counts[tw_request_site(header)];
    counts->requests++;
    for (at++; at < end; at++) {
        uint64_t line = hand.words[at] >> TW_LINE_SECTORS;
        uint32_t valid = (uint32_t)hand.words[at] & VALID;
        if (kind == TW_CACHE_LOAD) {
            uint32_t found = use_first(launch, hand, multiprocessor, line, valid);
            counts->l1_hits += count(found);
            valid ^= found;
            if (!valid)
                continue;
        } else if (kind == TW_CACHE_ATOMIC) {
            forget_first(launch, multiprocessor, line, valid);
        }
        second_level(launch, hand, endless, line, valid, kind, counts);
    }
    return end;
}

// Has a request fetched, or the buckets of its first two lines, whichever the model would wait for. A turn does so for
// all its warps, whose requests lie far apart.
INLINE void foresee(const struct tw_cache_launch *launch, uint64_t multiprocessor, uint64_t at)
{
    if (launch->present) {
        __builtin_prefetch(&launch->words[at]);
        return;
    }
    uint64_t words = tw_request_words(launch->words[at]);
    for (uint64_t i = 1; i <= (words < 2 ? words : 2); i++) {
        uint64_t tag = tag_of(multiprocessor, launch->words[at + i] >> TW_LINE_SECTORS);
        __builtin_prefetch(bucket_of(launch->first, tag));
    }
}

// Puts the next block that asks for anything into a place of a multiprocessor.
static void enter_block(struct tw_cache_launch *launch, struct tw_multiprocessor *m, uint64_t place)
{
    for (uint64_t live = 0; !live && launch->next < launch->blocks; launch->next++) {
        for (uint64_t w = 0; w < launch->warps; w++) {
            uint64_t slot = place * launch->warps + w, number = launch->next * launch->warps + w;
            m->at[slot] = launch->starts[number];
            m->end[slot] = launch->starts[number + 1];
            bool asks = m->at[slot] < m->end[slot];
            m->live |= (uint64_t)asks << slot;
            live += asks;
        }
        m->left[place] = live;
    }
}

// A warp has ended: so may its block have, whose place the next one takes.
static void end_warp(struct tw_cache_launch *launch, struct tw_multiprocessor *m, uint64_t slot)
{
    uint64_t place = slot / launch->warps;
    m->live &= ~((uint64_t)1 << slot);
    if (--m->left[place] == 0)
        enter_block(launch, m, place);
}

// The first blocks: one to each multiprocessor in turn, until all places are taken.
void tw_cache_start(struct tw_cache_launch *launch)
{
    for (uint64_t place = 0; place < launch->resident; place++)
        for (uint64_t m = 0; m < launch->many; m++)
            enter_block(launch, &launch->multiprocessors[m], place);
}

// A multiprocessor's turn: each of the warps that were live at its beginning makes one request. Returns the words read.
INLINE uint64_t turn(struct tw_cache_launch *launch, bool endless, uint64_t number)
{
    struct tw_multiprocessor *m = &launch->multiprocessors[number];
    const struct at_hand hand = at_hand(launch, number);
    uint64_t used = 0;
    for (uint64_t left = m->live; left; left &= left - 1)
        foresee(launch, number, m->at[__builtin_ctzll(left)]);
    for (uint64_t left = m->live; left; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(left);
        uint64_t before = m->at[slot], after = request(launch, hand, endless, number, before);
        used += after - before;
        m->at[slot] = after;
        if (after == m->end[slot])
            end_warp(launch, m, slot);
    }
    return used;
}

// Rounds, in which each multiprocessor has its turn, until `budget` words have been read or the launch has ended.
uint32_t tw_cache_run(struct tw_cache_launch *launch, uint64_t budget)
{
    bool endless = !launch->second;
    for (uint64_t used = 0; used < budget;) {
        uint64_t before = used;
        for (uint64_t m = 0; m < launch->many; m++)
            used += turn(launch, endless, m);
        if (launch->crowded)
            return TW_CACHE_CROWDED;
        if (used == before)
            return TW_CACHE_ENDED;
    }
    return TW_CACHE_MORE;
}
