// Tensor memory of a block: 128 lanes of 512 columns of 32 bits. An address has the lane in its upper half and the
// column in its lower one. Columns are allocated in units of 32, for all lanes. Source: PTX ISA, 9.7.16.1.

#ifndef TILEWRIGHT_SIMT_TENSOR_MEMORY_H
#define TILEWRIGHT_SIMT_TENSOR_MEMORY_H

#include "runtime.h"

static inline uint32_t tw_tensor_lane(uint32_t address)
{
    return address >> 16;
}

static inline uint32_t tw_tensor_column(uint32_t address)
{
    return address & 0xffff;
}

// The address of a cell, which the caller has found to be allocated.
static inline char *tw_tensor_cell(const struct tw_slot *slot, uint32_t lane, uint32_t column)
{
    return slot->tensor + (lane * TW_TENSOR_COLUMNS + column) * sizeof(uint32_t);
}

// The units, one bit each, of `columns` columns from `column` on.
static inline uint32_t tw_tensor_units(uint32_t column, uint32_t columns)
{
    const uint32_t first = column / TW_TENSOR_UNIT, last = (column + columns - 1) / TW_TENSOR_UNIT;
    return ((2u << (last - first)) - 1) << first;
}

// Whether `columns` columns from `column` on are allocated. Their sum may exceed 32 bits.
static inline bool tw_tensor_is_there(const struct tw_slot *slot, uint32_t column, uint32_t columns)
{
    if (!slot->tensor || !columns || column >= TW_TENSOR_COLUMNS || columns > TW_TENSOR_COLUMNS - column)
        return false;
    const uint32_t units = tw_tensor_units(column, columns);
    return (slot->tensor_taken & units) == units;
}

// The first block of a block's pair; the other follows it. Null, with a fault, if the cluster has no pairs.
static inline struct tw_slot *tw_tensor_pair(struct tw_context *context, struct tw_slot *slot,
                                             const struct tw_warp *warp, uint32_t site, uint32_t mask)
{
    if (context->cluster_blocks % 2) {
        tw_blame(context, warp, site, mask, TW_TENSOR_PEER, (uint32_t)context->cluster_blocks, 0);
        return 0;
    }
    return slot->cluster + ((uint64_t)(slot - slot->cluster) & ~UINT64_C(1));
}

#endif
