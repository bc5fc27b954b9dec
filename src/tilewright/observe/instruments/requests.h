// The form of a request: what one memory instruction of one warp asks for. Handlers write them, the cache model reads
// them. A header word, `warp << 24 | site << 8 | words`, and then that many words `line << 4 | sectors`: the number of
// a line (address divided by 128), and a bit for each of its sectors.

#ifndef TILEWRIGHT_REQUESTS_H
#define TILEWRIGHT_REQUESTS_H

#include <stdint.h>

enum {
    TW_REQUEST_SITE_SHIFT = 8,
    TW_REQUEST_WARP_SHIFT = 24,
    TW_REQUEST_WORDS = 255,  // at most
    TW_REQUEST_SITES = 65536,

    // Source: Nsight Compute, Profiling Guide: a cache line is 128 bytes, four sectors of 32.
    TW_LINE_BYTES = 128,
    TW_LINE_SECTORS = 4,
    TW_SECTOR_BYTES = 32,
};

static inline uint64_t tw_request_words(uint64_t header)
{
    return header % (1 << TW_REQUEST_SITE_SHIFT);
}

static inline uint64_t tw_request_site(uint64_t header)
{
    return (header >> TW_REQUEST_SITE_SHIFT) % TW_REQUEST_SITES;
}

static inline uint64_t tw_request_warp(uint64_t header)
{
    return header >> TW_REQUEST_WARP_SHIFT;
}

#endif
