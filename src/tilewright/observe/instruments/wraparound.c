// Whether 32-bit arithmetic gives what whole numbers would, for any reading of the operands as signed or unsigned.

#include "wraparound.h"

#include "places.h"

// A 32-bit operand as a whole number.
static inline tw_i64_lanes operand(const int64_t *values, uint32_t index, uint32_t is_signed)
{
    tw_i64_lanes wide;
    __builtin_memcpy(&wide, (const char *)values + index * TW_VALUES_STRIDE_BYTES, sizeof wide);
    return is_signed ? (wide << 32) >> 32 : wide & UINT32_MAX;
}

// The result in 64 bits, where nothing is lost; bit i of `reading` says that operand i is signed.
static inline tw_i64_lanes result(const int64_t *values, uint32_t operation, uint32_t reading)
{
    tw_i64_lanes x = operand(values, 0, reading & 1), y = operand(values, 1, reading & 2);
    switch (operation) {
    case TW_WRAP_ADD:
        return x + y;
    case TW_WRAP_SUB:
        return x - y;
    case TW_WRAP_MUL:
        return x * y;
    case TW_WRAP_MAD:
        return x * y + operand(values, 2, reading & 4);
    default:
        return x << (y & 31);
    }
}

void tw_wraparound_value(TW_WHERE, uint32_t mask, const int64_t *values, uint32_t operation, uint32_t is_signed)
{
    int64_t low = is_signed ? INT32_MIN : 0, high = is_signed ? INT32_MAX : UINT32_MAX;
    uint32_t fine = 0;
    for (uint32_t reading = 0; reading < (operation == TW_WRAP_MAD ? 8 : 4); reading++) {
        tw_i64_lanes whole = result(values, operation, reading);
        fine |= tw_where64((whole >= low) & (whole <= high));
    }
    tw_places_note(slot, warp, launch, counters, row, mask & ~fine);
}
