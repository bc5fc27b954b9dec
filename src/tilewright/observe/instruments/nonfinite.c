// Which lanes store infinity or NaN.

#include "places.h"

// An element of each lane, of 16, 32 or 64 bits.
static inline tw_u64_lanes element(const uint8_t *values, uint32_t bits)
{
    typedef uint16_t halves __attribute__((vector_size(64), aligned(64)));
    halves narrow;
    tw_u32_lanes single;
    tw_u64_lanes wide;
    if (bits == 16) {
        __builtin_memcpy(&narrow, values, sizeof narrow);
        return __builtin_convertvector(narrow, tw_u64_lanes);
    }
    if (bits == 32) {
        __builtin_memcpy(&single, values, sizeof single);
        return __builtin_convertvector(single, tw_u64_lanes);
    }
    __builtin_memcpy(&wide, values, sizeof wide);
    return wide;
}

// An exponent of all ones: infinity where the fraction is 0, else NaN. Source: IEEE 754-2019, 3.4.
static void note(const struct tw_slot *slot, const struct tw_warp *warp, uint64_t *launch, uint64_t *counters,
                 uint32_t row, uint32_t mask, const uint8_t *values, uint32_t bits, uint32_t elements,
                 uint64_t exponent)
{
    tw_u32_lanes words;
    __builtin_memcpy(&words, values, sizeof words);
    if (bits == 32 && elements == 1 && !(tw_where32((words & (uint32_t)exponent) == (uint32_t)exponent) & mask))
        return;
    uint64_t fraction = (exponent & (~exponent + 1)) - 1;
    uint32_t infinite = 0, nan = 0;
    for (uint32_t i = 0; i < elements; i++) {
        tw_u64_lanes each = element(values + i * TW_VALUES_STRIDE_BYTES, bits);
        uint32_t full = tw_where64((each & exponent) == exponent), some = tw_where64((each & fraction) != 0);
        infinite |= full & ~some;
        nan |= full & some;
    }
    tw_places_note(slot, warp, launch, counters, 2 * row, infinite & mask);
    tw_places_note(slot, warp, launch, counters + 1, 2 * row + 1, nan & mask);
}

void tw_nonfinite_store(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, const uint8_t *values,
                        uint32_t bits, uint32_t elements, uint64_t exponent)
{
    note(slot, warp, launch, counters, row, mask, values, bits, elements, exponent);
}

void tw_nonfinite_affine(TW_WHERE, uint32_t mask, uint64_t base, const uint8_t *values, uint32_t bits,
                          uint32_t elements, uint64_t exponent)
{
    note(slot, warp, launch, counters, row, mask, values, bits, elements, exponent);
}
