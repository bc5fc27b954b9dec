// Tensor memory: allocation of columns, moves of a warp's registers to it and from it, and copies from shared memory.
//
// Each access must be inside allocated columns. Moves and copies complete at once. Source: PTX ISA, 9.7.16.7
// (allocation), 9.7.16.8 (tcgen05.ld, tcgen05.st), 9.7.16.9 (tcgen05.cp), 9.7.16.2.3 (shapes).

#include "tensor_memory.h"

#include "descriptors.h"

enum {
    WARP_LANES = 32,  // of tensor memory that a warp reaches, by its number modulo 4
    ROWS_OF_16 = 16,
};

static uint32_t units_taken(const struct tw_slot *slot)
{
    return tw_lane_count(slot->tensor_taken);
}

// Allocates the lowest adjacent columns that are free, and stores their address in shared memory. True on a fault.
bool tw_columns_alloc(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
                     uint32_t mask, uint32_t columns, uint64_t place)
{
    const uint32_t all = TW_TENSOR_COLUMNS / TW_TENSOR_UNIT, units = columns / TW_TENSOR_UNIT;
    if (columns < TW_TENSOR_UNIT || columns > TW_TENSOR_COLUMNS || (columns & (columns - 1))) {
        tw_blame(context, warp, site, mask, TW_COLUMNS_COUNT, columns, 0);
        return true;
    }
    if (slot->tensor_closed) {
        tw_blame(context, warp, site, mask, TW_COLUMNS_PERMIT, columns, 0);
        return true;
    }
    for (uint32_t first = 0; first + units <= all; first++) {
        const uint32_t wanted = ((1u << units) - 1) << first;
        if (slot->tensor_taken & wanted)
            continue;
        slot->tensor_taken |= wanted;
        slot->tensor_firsts |= 1u << first;
        slot->tensor_site = site + 1;
        const uint32_t address = first * TW_TENSOR_UNIT;
        __builtin_memcpy(slot->shared + place, &address, sizeof address);
        return false;
    }
    tw_blame(context, warp, site, mask, TW_COLUMNS_ROOM, columns, (all - units_taken(slot)) * TW_TENSOR_UNIT);
    return true;
}

// The number of units of the allocation that begins with unit `first`.
static uint32_t units_from(const struct tw_slot *slot, uint32_t first)
{
    uint32_t units = 1;
    while (first + units < TW_TENSOR_COLUMNS / TW_TENSOR_UNIT && slot->tensor_taken >> (first + units) & 1 &&
           !(slot->tensor_firsts >> (first + units) & 1))
        units++;
    return units;
}

bool tw_columns_dealloc(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
                       uint32_t mask, uint32_t address, uint32_t columns)
{
    const uint32_t first = address / TW_TENSOR_UNIT;
    const bool is_first =
        address < TW_TENSOR_COLUMNS && address % TW_TENSOR_UNIT == 0 && slot->tensor_firsts >> first & 1;
    if (!is_first || units_from(slot, first) * TW_TENSOR_UNIT != columns) {
        tw_blame(context, warp, site, mask, TW_COLUMNS_FREED, address, columns);
        return true;
    }
    slot->tensor_taken &= ~tw_tensor_units(address, columns);
    slot->tensor_firsts &= ~(1u << first);
    return false;
}

void tw_columns_close(struct tw_slot *slot)
{
    slot->tensor_closed = 1;
}

// The place of a lane's register `r`, relative to a move's first lane and column. Columns are as wide as a register.
static void place_of(uint32_t shape, uint32_t apart, uint32_t r, uint32_t lane, uint32_t *row, uint32_t *column)
{
    const uint32_t quad = lane / 4;
    switch (shape) {
    case TW_MOVES_16X64:
        *row = quad + lane % 2 * 8, *column = r * 2 + lane / 2 % 2;
        return;
    case TW_MOVES_16X128:
        *row = quad + r % 2 * 8, *column = r / 2 * 4 + lane % 4;
        return;
    case TW_MOVES_16X256:
        *row = quad + r / 2 % 2 * 8, *column = r / 4 * 8 + lane % 4 * 2 + r % 2;
        return;
    case TW_MOVES_16X32X2:
        *row = lane % ROWS_OF_16, *column = r + lane / ROWS_OF_16 * apart;
        return;
    default:
        *row = lane, *column = r;
    }
}

// The number of columns of a move, as wide as a register; for .16x32bx2, of each of its halves.
static uint32_t columns_of(uint32_t shape, uint32_t count)
{
    switch (shape) {
    case TW_MOVES_16X64:
    case TW_MOVES_16X128:
    case TW_MOVES_16X256:
        return count * 2;
    default:
        return count;
    }
}

// The first lane of a warp's move. In an address, lanes 0 to 31 mean the warp's own. False if the lane is not allowed.
static bool first_lane_of(const struct tw_warp *warp, uint32_t address, uint32_t shape, uint32_t *first)
{
    const uint32_t own = warp->index % 4 * WARP_LANES, lane = tw_tensor_lane(address), within = lane % WARP_LANES;
    *first = own + within;
    return (lane - within == own || lane == within) &&
           (within == 0 || (within == ROWS_OF_16 && shape != TW_MOVES_32X32));
}

// tcgen05.ld or tcgen05.st of a warp; `registers` have 32 elements each. True on a fault.
bool tw_columns_move(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
                     uint32_t mask, uint32_t address, uint32_t *registers, uint32_t count, uint32_t shape,
                     uint32_t apart, uint32_t does)
{
    const uint32_t each = does & TW_MOVES_HALVES ? 2 : 1, column = tw_tensor_column(address);
    const uint32_t columns = columns_of(shape, count) * each;
    uint32_t first;
    if (!first_lane_of(warp, address, shape, &first)) {
        tw_blame(context, warp, site, mask, TW_COLUMNS_LANES, tw_tensor_lane(address), warp->index);
        return true;
    }
    const bool two = shape == TW_MOVES_16X32X2;
    if (!tw_tensor_is_there(slot, column, columns) ||
        (two && (apart > TW_TENSOR_COLUMNS || !tw_tensor_is_there(slot, column + apart * each, columns)))) {
        tw_blame(context, warp, site, mask, TW_COLUMNS_OUTSIDE,
                 column + (two && apart <= TW_TENSOR_COLUMNS ? apart : 0), columns);
        return true;
    }
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t lane = 0; lane < TW_LANES; lane++) {
            uint32_t row, right, *one = registers + r * TW_LANES + lane;
            place_of(shape, apart, r, lane, &row, &right);
            char *cell = tw_tensor_cell(slot, first + row, column + right * each);
            if (each == 1 && does & TW_MOVES_STORES) {
                __builtin_memcpy(cell, one, sizeof *one);
            } else if (each == 1) {
                __builtin_memcpy(one, cell, sizeof *one);
            } else if (does & TW_MOVES_STORES) {
                const uint32_t low = *one & 0xffff, high = *one >> 16;
                __builtin_memcpy(cell, &low, sizeof low);
                __builtin_memcpy(cell + sizeof low, &high, sizeof high);
            } else {
                uint16_t half[2];
                __builtin_memcpy(&half[0], cell, sizeof half[0]);
                __builtin_memcpy(&half[1], cell + sizeof(uint32_t), sizeof half[1]);
                *one = half[0] | (uint32_t)half[1] << 16;
            }
        }
    }
    return false;
}

// Copies lines of shared memory, of `bytes` bytes each, to lanes of tensor memory, as often as they fit its 128 lanes.
// True on a fault.
static bool copy_lines(struct tw_context *context, const struct tw_slot *slot, const struct tw_warp *warp,
                       uint32_t site, uint32_t lane, uint32_t address, uint64_t descriptor, uint32_t lines,
                       uint32_t bytes, uint32_t spread)
{
    const struct tw_matrix m = tw_matrix_of_sm100(descriptor, 8, false);
    const uint32_t mode = (uint32_t)(descriptor >> 61), column = tw_tensor_column(address);
    if ((descriptor >> 46 & 7) != 1 || (descriptor >> 52 & 1) || mode == 1 || mode == 3 || mode == 5 || mode == 7) {
        tw_blame(context, warp, site, 1u << lane, TW_TENSOR_DESCRIPTOR, (uint32_t)(descriptor >> 32),
                 (descriptor >> 46 & 7) != 1 ? TW_WRONG_VERSION : TW_WRONG_SWIZZLE);
        return true;
    }
    if (tw_tensor_lane(address) || !tw_tensor_is_there(slot, column, bytes / 4)) {
        tw_blame(context, warp, site, 1u << lane, TW_COLUMNS_OUTSIDE, column, bytes / 4);
        return true;
    }
    for (uint32_t line = 0; line < lines; line++) {
        for (uint32_t unit = 0; unit < bytes / TW_UNIT_BYTES; unit++) {
            const uint32_t at = tw_matrix_swizzled(&m, tw_matrix_k_major(&m, line, unit * TW_UNIT_CHUNKS));
            if ((uint64_t)at + TW_UNIT_BYTES > context->shared_bytes) {
                uint64_t places[TW_LANES];
                places[lane] = at;
                tw_fault(context, warp, site, 1u << lane, places, 1);
                return true;
            }
            for (uint32_t copy = 0; copy < TW_TENSOR_LANES / lines; copy++) {
                // `spread`: for each 32 lines in turn, the number of the 32 lanes that they go to, four bits each
                const uint32_t group = spread >> (copy * (lines / WARP_LANES) + line / WARP_LANES) * 4 & 15;
                char *cell = tw_tensor_cell(slot, group * WARP_LANES + line % WARP_LANES, column + unit * 4);
                __builtin_memcpy(cell, slot->shared + at, TW_UNIT_BYTES);
            }
        }
    }
    return false;
}

// tcgen05.cp, one thread after the other. In a pair each block's lines go to its own tensor memory. Source: PTX ISA,
// 9.7.16.9; deepseek-ai/DeepGEMM, whose scales of a pair are in the shared memory of the block that multiplies by them.
bool tw_columns_copy(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
                     uint32_t mask, const uint32_t *addresses, const uint64_t *descriptors, uint32_t lines,
                     uint32_t bytes, uint32_t spread, uint32_t paired)
{
    const struct tw_slot *blocks = paired ? tw_tensor_pair(context, slot, warp, site, mask) : slot;
    if (!blocks)
        return true;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        for (uint32_t i = 0; i <= paired; i++)
            if (copy_lines(context, blocks + i, warp, site, lane, addresses[lane], descriptors[lane], lines, bytes,
                           spread))
                return true;
    }
    return false;
}

// A block must have freed its columns when it ends. True, with a fault, if it has not.
bool tw_columns_left(struct tw_context *context, const struct tw_slot *slot)
{
    if (!slot->tensor || !slot->tensor_taken)
        return false;
    tw_blame(context, tw_warp_of(context, slot, 0), slot->tensor_site - 1, 1, TW_COLUMNS_LEFT,
             units_taken(slot) * TW_TENSOR_UNIT, 0);
    return true;
}
