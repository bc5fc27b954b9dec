// Where handlers record requests: `requests.py` says how the memory of a launch is cut into chunks.

#ifndef TILEWRIGHT_RECORDING_H
#define TILEWRIGHT_RECORDING_H

#include <stdbool.h>

#include "requests.h"
#include "simulate/runtime/instrument.h"

enum {
    TW_CHUNK_WORDS = 65536,  // the first one says how many are in use
    TW_AHEAD_WORDS = 128,    // asked for before they are written: another processor has read what was there
};

// What the memory of a launch begins with. The chunks follow; the first takes what is dropped.
struct tw_requests {
    uint64_t taken;   // chunks
    uint64_t chunks;  // that there are
    uint64_t lost;    // 1 when some request was dropped
    uint64_t warps;   // of a block
    uint64_t local;   // sectors of local memory a warp
    uint64_t spare[3];
};

// A warp's number in the grid.
static inline uint64_t tw_warp_number(const struct tw_requests *requests, const struct tw_slot *slot,
                                      const struct tw_warp *warp)
{
    return slot->block * requests->warps + warp->index;
}

// The next chunk for a host thread, whose state is the address of its chunk.
static __attribute__((noinline, cold)) uint64_t *tw_next_chunk(struct tw_requests *requests, uint64_t **state)
{
    uint64_t taken = __atomic_fetch_add(&requests->taken, 1, __ATOMIC_RELAXED);
    bool there = taken < requests->chunks;
    if (!there)
        __atomic_store_n(&requests->lost, 1, __ATOMIC_RELAXED);
    *state = (uint64_t *)(requests + 1) + (there ? taken + 1 : 0) * TW_CHUNK_WORDS;
    **state = 1;
    return *state;
}

// Where a request of up to so many words, with its header, may be written.
static inline uint64_t *tw_room(struct tw_requests *requests, uint64_t **state, uint64_t words)
{
    uint64_t *chunk = *state;
    if (__builtin_expect(!chunk || *chunk + words > TW_CHUNK_WORDS, 0))
        chunk = tw_next_chunk(requests, state);
    return chunk + *chunk;
}

// Keeps a request whose words were written after the room for its header. Local accesses of 32 bytes (.v8) at 32 far
// addresses make 256 words: the last is left out.
static inline void tw_keep(uint64_t warp, uint32_t site, uint64_t **state, uint64_t *room, uint64_t words)
{
    words = words < TW_REQUEST_WORDS ? words : TW_REQUEST_WORDS;
    *room = warp << TW_REQUEST_WARP_SHIFT | (uint64_t)site << TW_REQUEST_SITE_SHIFT | words;
    **state += 1 + words;
    __builtin_prefetch(room + TW_AHEAD_WORDS, 1);
}

#endif
