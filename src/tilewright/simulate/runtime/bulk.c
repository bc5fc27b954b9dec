// Bulk copies: each active lane moves its own bytes when the copy is issued.

#include "combining.h"
#include "runtime.h"

enum { UNIT = 16 };  // bytes for which a mask selects those that are copied

// True if the lanes' bytes are not whole units inside an arena, at offsets `places`. `start` is its device address.
bool tw_bulk_outside(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                     uint64_t limit, uint64_t start, const uint64_t *places, const uint32_t *bytes,
                     uint32_t unit)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint64_t place = places[lane], size = bytes[lane];
        if (size % unit) {
            tw_blame(context, warp, site, 1u << lane, TW_BULK_BYTES, (uint32_t)size, unit);
            return true;
        }
        bool misaligned = place % unit != 0, outside = place > limit || size > limit - place;
        if (misaligned || outside) {
            uint64_t first = !misaligned && place < limit ? limit / unit * unit : place;  // the unit that is outside
            tw_stop(context, warp, site, 1u << lane, misaligned ? TW_MISALIGNED : TW_OUT_OF_BOUNDS);
            context->fault_address = start + first;
            return true;
        }
    }
    return false;
}

// Move the lanes' bytes; if there are `masks`, of each 16 only those whose bit is set.
void tw_bulk_move(uint32_t mask, char *to, const uint64_t *places, const char *from, const uint64_t *origins,
                  const uint32_t *bytes, const uint32_t *masks)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        char *target = to + places[lane];
        const char *origin = from + origins[lane];
        if (!masks) {
            __builtin_memmove(target, origin, bytes[lane]);
            continue;
        }
        for (uint32_t i = 0; i < bytes[lane]; i++)
            if (masks[lane] >> i % UNIT & 1)
                target[i] = origin[i];
    }
}

// Fill the lanes' bytes with zeros.
void tw_bulk_fill(uint32_t mask, char *to, const uint64_t *places, const uint32_t *bytes)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        __builtin_memset(to + places[lane], 0, bytes[lane]);
    }
}

// Combine the lanes' elements with elements of memory.
void tw_bulk_combine(uint32_t mask, char *to, const uint64_t *places, const char *from, const uint64_t *origins,
                     const uint32_t *bytes, uint32_t operation, uint32_t type)
{
    const uint32_t each = tw_element_bytes(type);
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        for (uint32_t at = 0; at < bytes[lane]; at += each)
            tw_combine(to + places[lane] + at, from + origins[lane] + at, operation, type);
    }
}
