// The records of the cache model, which `cache.py` states and fills.

#ifndef TILEWRIGHT_CACHE_H
#define TILEWRIGHT_CACHE_H

#include "observe/instruments/requests.h"

enum {
    // Kinds of site: a load through the first level, a load past it, a store, an atomic.
    TW_CACHE_LOAD = 0,
    TW_CACHE_LOAD_L2 = 1,
    TW_CACHE_STORE = 2,
    TW_CACHE_ATOMIC = 3,

        // Lines of a region: lines are numbered by region, in the order of their first requests.
    TW_CACHE_REGION_BITS = 14,
    // What `tw_cache_run` returns.
    TW_CACHE_ENDED = 0,
    TW_CACHE_MORE = 1,
    TW_CACHE_CROWDED = 2,  // a first level would have had to replace a line, which `present` cannot do
    // What `tw_cache_link` returns.
    TW_CACHE_LINKED = 0,
    TW_CACHE_WRONG = 1,  // an item is no request of these warps and sites
    TW_CACHE_FULL = 2,   // the directory of regions has no room

    TW_CACHE_LANES = 64,  // lines that are counted at once: `present` has a multiple of this

        // Bits for warps in a multiprocessor's mask; no GPU holds more.
    TW_CACHE_WARPS = 64,
};

// A site's counts. All but the first count sectors, and the second is the sum of the later ones.
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

// No sector of a line was touched.
#define TW_CACHE_UNTOUCHED INT64_MAX

// A request, in the buffer of its warp.
struct tw_cache_request {
    const uint64_t *words;
    uint64_t next;  // index of the warp's next request; 0: none
};

struct tw_cache_warp {
    uint64_t first;  // index of its first request; 0: it makes none
    uint64_t last;
    uint64_t requests;
};

// A block with requests. Those of a multiprocessor are a list, in the order in which they start.
struct tw_cache_block {
    uint64_t start;  // the round of its first requests
    uint64_t place;  // its multiprocessor
    uint64_t next;   // the next block plus one; 0: none
};

// A place in the directory of regions.
struct tw_cache_region {
    uint64_t key;  // the region plus one; 0: free
    uint64_t number;
};

// The region of a site's last request, and its first line in arrays with a place for each line.
struct tw_cache_hint {
    uint64_t key;  // the region plus one; 0: none yet
    uint64_t base;
};

// The requests of a launch, linked by warp, and the regions of their lines.
struct tw_cache_requests {
    struct tw_cache_request *requests;  // indexed from 1
    uint64_t many;
    struct tw_cache_warp *warps;  // of all blocks
    uint64_t warp_count;
    struct tw_cache_hint *hints;  // of sites
    uint64_t sites;
    struct tw_cache_region *directory;
    uint64_t mask;     // of the directory's places
    uint64_t *homes;   // each region's first line
    uint64_t regions;
    uint64_t lines;    // one more than the last line in arrays with a place for each line
};

// For each sector of a line, who touched it first: the round, and below it the site.
struct tw_cache_touches {
    int64_t first[TW_LINE_SECTORS];
};

// A line of a cache; or a set of lines: then `next` is its most recently used line, `prev` the least recently used one,
// and `state` the number of valid ways.
struct tw_cache_line {
    uint64_t tag;    // the line's number, and above it the cache's
    uint32_t prev;
    uint32_t next;
    uint32_t chain;  // the next line of its bucket; 0: none
    uint32_t state;  // bits 0 to 3: valid sectors, 4 to 7: dirty ones; above: the number of its set's record
};

// Equal caches, such as the first levels of all multiprocessors, share an array of lines, which grows as they need, and
// a table of buckets: so small launches touch little memory. The first records of the array are those of the sets, by
// cache.
struct tw_caches {
    struct tw_cache_line *lines;
    uint32_t *buckets;
    uint64_t sets;     // of one cache
    uint64_t mask;     // mask for the set of a line; all ones: divide, because the number of sets is no power of two
    uint64_t ways;
    uint64_t shift;    // shift from a tag's hash to its bucket
    uint64_t taken;    // used lines of the array
    uint64_t written;  // sectors written back to memory
    uint64_t dirtied;   // sectors that became dirty
};

struct tw_multiprocessor {
    uint64_t live;   // live warps, a bit each
    uint64_t next;   // the block that starts next, plus one; 0: none
    uint64_t last;   // the block that starts last, plus one
    uint64_t round;
    uint64_t at[TW_CACHE_WARPS];  // index of each warp's next request
};

struct tw_cache_launch {
    struct tw_cache_requests *asked;
    const uint8_t *kinds;   // of sites
    struct tw_cache_counts *counts;
    struct tw_caches *first;
    uint8_t *present;          // for lines of the current multiprocessor: valid sectors, and 16, if no line of a first
                               // level is replaced; null: `first` holds its lines
    struct tw_caches *second;  // null: so large that no line is ever replaced
    struct tw_caches *shadow;  // a fully associative cache of the same size
    struct tw_cache_touches *touches;  // for each line, if no line is ever replaced
    uint8_t *known;            // for each line: sectors that the launch touched, and above them the dirty ones
    struct tw_multiprocessor *multiprocessors;
    uint64_t many;
    uint64_t at;        // the multiprocessor whose turn it is; `many`: the launch has ended
    struct tw_cache_block *blocks;
    uint64_t block_count;
    uint64_t warps;     // of a block
    uint64_t resident;  // blocks of a multiprocessor
    uint64_t *heap;     // for the schedule: a word for each place
    uint64_t dirtied;    // dirty sectors of a second level without replacement
};

uint32_t tw_cache_number(struct tw_cache_requests *asked, struct tw_cache_hint *hint, uint64_t region);

#endif
