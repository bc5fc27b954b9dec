// The requests of a launch, put together warp by warp, and their lines numbered.

#include "cache.h"

#include <stddef.h>

enum { LOW_BITS = TW_CACHE_REGION_BITS + TW_LINE_SECTORS };  // of a word: the line in its region, and its sectors

// Adds the words of each warp to its size. Returns 1 where something is no request of these warps and sites.
uint32_t tw_cache_count(const uint64_t *words, uint64_t n, uint64_t *sizes, uint64_t warps, uint64_t sites)
{
    for (uint64_t i = 0; i < n;) {
        uint64_t header = words[i], length = tw_request_words(header) + 1, warp = tw_request_warp(header);
        if (length == 1 || length > n - i || warp >= warps || tw_request_site(header) >= sites)
            return 1;
        sizes[warp] += length;
        i += length;
    }
    return 0;
}

// The place of a region: its own, or the free one that it may take.
static struct tw_cache_region *place_of(struct tw_cache_region *directory, uint64_t mask, uint64_t region)
{
    uint64_t key = region + 1, i = (key * 0x9e3779b97f4a7c15) >> 32;  // as for buckets, see `cache.c`
    while (directory[i & mask].key != key && directory[i & mask].key != 0)
        i++;
    return &directory[i & mask];
}

// A region's number: they are numbered as they appear. NULL where the directory is half full.
static const uint64_t *number_of(struct tw_cache_region *directory, uint64_t mask, uint64_t region, uint64_t *homes,
                                 uint64_t *regions)
{
    struct tw_cache_region *place = place_of(directory, mask, region);
    if (place->key == 0) {
        if (*regions >= mask >> 1)
            return NULL;
        homes[*regions] = region << TW_CACHE_REGION_BITS;
        place->key = region + 1;
        place->number = (*regions)++;
    }
    return &place->number;
}

// Copies requests to the places of their warps, with the numbers of regions instead of the regions, so that what is
// known of lines is a plain array of `used` ones. Returns 1 where the directory has no room.
uint32_t tw_cache_place(const uint64_t *words, uint64_t n, uint64_t *places, uint64_t *ordered,
                        struct tw_cache_region *directory, uint64_t mask, uint64_t *homes, uint64_t *regions,
                        uint64_t *used)
{
    uint64_t known = UINT64_MAX, base = 0;
    for (uint64_t i = 0; i < n;) {
        uint64_t header = words[i++], count = tw_request_words(header), *place = &places[tw_request_warp(header)];
        uint64_t *to = ordered + *place;
        *place += count + 1;
        *to++ = header;
        for (uint64_t end = i + count; i < end; i++) {
            uint64_t region = words[i] >> LOW_BITS;
            if (region != known) {
                const uint64_t *number = number_of(directory, mask, region, homes, regions);
                if (!number)
                    return 1;
                known = region;
                base = *number << LOW_BITS;
            }
            uint64_t word = base | (words[i] & ((1 << LOW_BITS) - 1)), line = word >> TW_LINE_SECTORS;
            *used = line < *used ? *used : line + 1;
            *to++ = word;
        }
    }
    return 0;
}
