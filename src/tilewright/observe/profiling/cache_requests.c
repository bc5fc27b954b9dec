// The requests of a launch, by warp and by region, and where and when its blocks run.

#include "cache.h"

#include <stddef.h>

enum {
    LOW_BITS = TW_CACHE_REGION_BITS + TW_LINE_SECTORS,  // of a word: the line in its region, and its sectors
    AHEAD = 256,                                        // words: other processors wrote them
    PLACE_BITS = 32,                                    // of a key of the heap; above: a round
};

// The place of a region: its own, or the free one that it can take.
static struct tw_cache_region *place_of(struct tw_cache_region *directory, uint64_t mask, uint64_t region)
{
    uint64_t key = region + 1, i = (key * 0x9e3779b97f4a7c15) >> 32;  // as for buckets, see `cache.c`
    while (directory[i & mask].key != key && directory[i & mask].key != 0)
        i++;
    return &directory[i & mask];
}

// Finds a region's number; regions are numbered in order of appearance. Returns 0 if the directory is half full.
uint32_t tw_cache_number(struct tw_cache_requests *asked, struct tw_cache_hint *hint, uint64_t region)
{
    struct tw_cache_region *place = place_of(asked->directory, asked->mask, region);
    if (place->key == 0) {
        if (asked->regions >= asked->mask >> 1)
            return 0;
        asked->homes[asked->regions] = region << TW_CACHE_REGION_BITS;
        place->key = region + 1;
        place->number = asked->regions++;
    }
    hint->key = region + 1;
    hint->base = place->number << TW_CACHE_REGION_BITS;
    return 1;
}

// Links the requests of a buffer to earlier ones of the same warps, and numbers the regions of their lines, so that
// the data of lines are a plain array. Returns `TW_CACHE_LINKED`, or the reason why it did not.
uint32_t tw_cache_link(struct tw_cache_requests *asked, const uint64_t *words, uint64_t n)
{
    for (uint64_t i = 0; i < n;) {
        uint64_t header = words[i], warp = tw_request_warp(header), site = tw_request_site(header);
        uint64_t end = i + 1 + tw_request_words(header);
        if (end == i + 1 || end > n || warp >= asked->warp_count || site >= asked->sites)
            return TW_CACHE_WRONG;
        __builtin_prefetch(words + i + AHEAD);
        struct tw_cache_warp *own = &asked->warps[warp];
        uint64_t number = ++asked->many, *link = own->last ? &asked->requests[own->last].next : &own->first;
        asked->requests[number] = (struct tw_cache_request){words + i, 0};
        *link = own->last = number;
        own->requests++;
        struct tw_cache_hint *hint = &asked->hints[site];
        for (i++; i < end; i++) {
            uint64_t region = words[i] >> LOW_BITS;
            if (region + 1 != hint->key && !tw_cache_number(asked, hint, region))
                return TW_CACHE_FULL;
            uint64_t line = hint->base | (words[i] % (1 << LOW_BITS)) >> TW_LINE_SECTORS;
            asked->lines = line < asked->lines ? asked->lines : line + 1;
        }
    }
    return TW_CACHE_LINKED;
}

// Sifts the key at `i` down below lower ones.
static void sink(uint64_t *heap, uint64_t many, uint64_t i)
{
    uint64_t key = heap[i];
    for (uint64_t child; (child = 2 * i + 1) < many; i = child) {
        child += child + 1 < many && heap[child + 1] < heap[child];
        if (heap[child] >= key)
            break;
        heap[i] = heap[child];
    }
    heap[i] = key;
}

// The rounds that a block needs: the number of requests of its longest warp.
static uint64_t rounds_of(const struct tw_cache_launch *launch, uint64_t block)
{
    const struct tw_cache_warp *warps = launch->asked->warps + block * launch->warps;
    uint64_t most = 0;
    for (uint64_t w = 0; w < launch->warps; w++)
        most = warps[w].requests > most ? warps[w].requests : most;
    return most;
}

// A block takes a place. Returns when it leaves, and the place, as a key of the heap.
static uint64_t take_place(struct tw_cache_launch *launch, uint64_t block, uint64_t place, uint64_t start,
                           uint64_t rounds)
{
    struct tw_multiprocessor *m = &launch->multiprocessors[place / launch->resident];
    launch->blocks[block] = (struct tw_cache_block){start, place % launch->resident, 0};
    *(m->last ? &launch->blocks[m->last - 1].next : &m->next) = block + 1;
    m->last = block + 1;
    return (start + rounds) << PLACE_BITS | place;
}

// When and where each block runs: the first blocks go to the multiprocessors in turn until all places are taken; each
// later one goes where a block has ended. This depends only on how many requests each warp makes.
void tw_cache_schedule(struct tw_cache_launch *launch)
{
    uint64_t places = launch->many * launch->resident, taken = 0, *heap = launch->heap;
    for (uint64_t block = 0; block < launch->block_count; block++) {
        uint64_t rounds = rounds_of(launch, block);
        if (!rounds)
            continue;
        if (taken < places) {
            uint64_t place = taken % launch->many * launch->resident + taken / launch->many;
            heap[taken++] = take_place(launch, block, place, 0, rounds);
            for (uint64_t i = places / 2; taken == places && i-- > 0;)
                sink(heap, places, i);
        } else {
            heap[0] = take_place(launch, block, heap[0] % ((uint64_t)1 << PLACE_BITS), heap[0] >> PLACE_BITS, rounds);
            sink(heap, places, 0);
        }
    }
}
