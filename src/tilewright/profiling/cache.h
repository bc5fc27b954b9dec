// The records of the cache model, which `cache.py` states and fills.

#ifndef TILEWRIGHT_CACHE_H
#define TILEWRIGHT_CACHE_H

#include "instruments/requests.h"

enum {
    // Kinds of site: a load through the first level, a load past it, a store, an atomic.
    TW_CACHE_LOAD = 0,
    TW_CACHE_LOAD_L2 = 1,
    TW_CACHE_STORE = 2,
    TW_CACHE_ATOMIC = 3,

    // Lines of a region: lines are numbered region by region as they are first asked for.
    TW_CACHE_REGION_BITS = 14,
    // What `tw_cache_run` returns.
    TW_CACHE_ENDED = 0,
    TW_CACHE_MORE = 1,
    TW_CACHE_CROWDED = 2,  // a first level would have to replace a line, and `present` does not know which

    // Warps that a multiprocessor's mask has bits for; no GPU holds more.
    TW_CACHE_WARPS = 64,
};

// A site's counts. All but the first are sectors, and the second is the sum of those after it.
struct tw_cache_counts {
    uint64_t requests;
    uint64_t sectors;
    uint64_t l1_hits;
    uint64_t l2_hits;
    uint64_t dram_compulsory;
    uint64_t dram_capacity;
    uint64_t dram_conflict;
    uint64_t l2_allocated;
};

// A place in the directory of regions.
struct tw_cache_region {
    uint64_t key;  // one more than the region; 0: free
    uint64_t number;
};

// A line of a cache, or a set of lines: then `next` is the line used last, `prev` the one used longest ago, and `state`
// how many of its ways are taken.
struct tw_cache_line {
    uint64_t tag;    // the line's number, and above it that of the cache
    uint32_t prev;
    uint32_t next;
    uint32_t chain;  // the next line of its bucket; 0: none
    uint32_t state;  // bits 0 to 3: valid sectors, 4 to 7: dirty ones; above: the number of its set's record
};

// Equal caches, such as the first levels of all multiprocessors, keep their lines in one array, which they take as they
// need them, and find them by one table of buckets: small launches then touch little memory. The first records of the
// array are those of the sets, cache by cache.
struct tw_caches {
    struct tw_cache_line *lines;
    uint32_t *buckets;
    uint64_t sets;     // of one cache
    uint64_t mask;     // gives the set of a line; all ones: to be divided, as the sets are no power of two
    uint64_t ways;
    uint64_t shift;    // of a tag's hash, to the number of its bucket
    uint64_t taken;    // lines of the array
    uint64_t written;  // sectors that went back to memory
    uint64_t soiled;   // sectors that became dirty
};

struct tw_multiprocessor {
    uint64_t live;  // warps, a bit each
    uint64_t at[TW_CACHE_WARPS];    // the word where a warp stands
    uint64_t end[TW_CACHE_WARPS];
    uint64_t left[TW_CACHE_WARPS];  // live warps of each block
};

struct tw_cache_launch {
    const uint64_t *words;  // requests, in the order of warps
    const uint8_t *kinds;   // of sites
    struct tw_cache_counts *counts;
    struct tw_caches *first;
    uint8_t *present;          // of each multiprocessor's lines: valid sectors, and 16; null: `first` knows its lines
    uint64_t present_lines;    // of a multiprocessor
    uint32_t *filled;          // lines of each set of all first levels
    uint64_t crowded;          // 1: a set had no room for a line
    struct tw_caches *second;  // null: so large that nothing is ever replaced
    struct tw_caches *shadow;  // a fully associative cache of the same size
    const uint64_t *homes;     // each region's first line
    uint8_t *known;            // of each line: sectors that the launch touched, and above them the dirty ones
    struct tw_multiprocessor *multiprocessors;
    uint64_t many;
    const uint64_t *starts;  // of warps, in `words`
    uint64_t blocks;
    uint64_t next;      // block
    uint64_t warps;     // of a block
    uint64_t resident;  // blocks of a multiprocessor
    uint64_t soiled;    // sectors of a second level that replaces nothing which became dirty
};

#endif
