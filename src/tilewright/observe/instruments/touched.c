// Which bytes of global memory are read and written: a byte of a map for each. All host threads set the same value, so
// they need no order.

#include "touched.h"

#include <stdbool.h>

enum { ROW = 8, WORD = 8, WORDS = 8 };

#define ROW_STARTS 0x01010101u

// As handlers are given them.
typedef uint64_t addresses_of __attribute__((vector_size(256), aligned(8)));

// Sets neighbouring bytes of a map. Most are set already: what is only read stays in the caches of all cores.
static inline void set_map(uint8_t *map, uint64_t bytes)
{
    typedef uint64_t word __attribute__((aligned(1)));
    const uint64_t ones = UINT64_MAX / UINT8_MAX;
    uint64_t done = 0;
    for (; done + WORD * WORDS <= bytes; done += WORD * WORDS) {
        word *some = (word *)(map + done);
        if ((some[0] & some[1] & some[2] & some[3] & some[4] & some[5] & some[6] & some[7]) != ones)
            for (uint32_t i = 0; i < WORDS; i++)
                some[i] = ones;
    }
    for (; done + WORD <= bytes; done += WORD)
        if (*(word *)(map + done) != ones)
            *(word *)(map + done) = ones;
    for (; done < bytes; done++)
        if (!map[done])
            map[done] = 1;
}

// Notes neighbouring bytes.
static inline void set(const struct tw_touched *touched, uint64_t at, uint64_t bytes, uint32_t how)
{
    if (how & TW_TOUCHED_READS)
        set_map(touched->reads + at, bytes);
    if (how & TW_TOUCHED_WRITES)
        set_map(touched->writes + at, bytes);
}

// Lanes outside of memory are left out.
static inline void set_lanes(const struct tw_touched *touched, uint32_t mask, const uint64_t *addresses, uint64_t bytes,
                             uint32_t how)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint64_t at = addresses[tw_first_lane(left)] - touched->base;
        if (at < touched->bytes && bytes <= touched->bytes - at)
            set(touched, at, bytes, how);
    }
}

// Addresses that differ freely: often each eight lanes are in a row, or neighbours at one place.
void tw_touched_free(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, uint32_t how)
{
    const tw_u64_lanes all = *(const addresses_of *)addresses;
    bool rows = (tw_where64(all - tw_lane_before(all) == bytes) | ROW_STARTS) == UINT32_MAX;
    if (mask == UINT32_MAX && rows)
        set_lanes(launch, ROW_STARTS, addresses, (uint64_t)bytes * ROW, how);
    else
        set_lanes(launch, mask == UINT32_MAX ? ~tw_where64(all == tw_lane_before(all)) | 1 : mask, addresses, bytes,
                  how);
}

// Constant offsets from a base, and so many strides that only the run knows: `runs` is what all lanes touch.
TW_INLINE void tw_touched_rows(TW_WHERE, uint32_t mask, uint64_t base, uint64_t stride,
                               const struct tw_touched_run *runs, uint64_t many, const uint64_t *offsets,
                               const uint64_t *strides, uint64_t bytes, uint32_t how)
{
    const struct tw_touched *touched = launch;
    if (__builtin_expect(mask == UINT32_MAX, 1)) {
        for (uint64_t i = 0; i < many; i++)
            set(touched, base + stride * runs[i].strides + runs[i].ahead - touched->base, runs[i].bytes, how);
        return;
    }
    tw_u64_lanes addresses = base + *(const addresses_of *)offsets + stride * *(const addresses_of *)strides;
    uint64_t lanes[TW_LANES] __attribute__((aligned(64)));
    __builtin_memcpy(lanes, &addresses, sizeof lanes);
    set_lanes(touched, mask, lanes, bytes, how);
}

// Constant offsets from a base alone.
TW_INLINE void tw_touched_affine(TW_WHERE, uint32_t mask, uint64_t base, const struct tw_touched_run *runs,
                                 uint64_t many, const uint64_t *offsets, const uint64_t *strides, uint64_t bytes,
                                 uint32_t how)
{
    tw_touched_rows(slot, warp, launch, block, counters, row, mask, base, 0, runs, many, offsets, strides, bytes, how);
}
