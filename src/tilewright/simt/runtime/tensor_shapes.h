// What of tensor memory and of shared memory a product takes, by its instruction descriptor: for the product itself and
// for those who look on. Source: PTX ISA, 9.7.16.4.2 (instruction descriptor), 9.7.16.10.5 (layouts of D).

#ifndef TILEWRIGHT_SIMT_TENSOR_SHAPES_H
#define TILEWRIGHT_SIMT_TENSOR_SHAPES_H

#include <stdbool.h>

#include "records.h"

// What a thread names, a number of each lane. Of a product without scales `a_scales` and `b_scales` are not set.
struct tw_tensor_operands {
    uint64_t d[TW_LANES];
    uint64_t a[TW_LANES];
    uint64_t b[TW_LANES];
    uint64_t instruction[TW_LANES];
    uint64_t adds[TW_LANES];  // whether D is added to as it was
    uint64_t a_scales[TW_LANES];
    uint64_t b_scales[TW_LANES];
    uint64_t off[8][TW_LANES];  // lanes of tensor memory that are left alone, of the pair's first block and its second
};

static inline uint32_t tw_product_rows(uint32_t instruction)
{
    return (instruction >> 24 & 0x1f) << 4;
}

static inline uint32_t tw_product_columns(uint32_t instruction)
{
    return (instruction >> 17 & 0x3f) << 3;
}

static inline bool tw_product_across(uint32_t instruction, bool of_b)
{
    return instruction >> (of_b ? 16 : 15) & 1;
}

static inline bool tw_product_is_scaled(uint32_t kind)
{
    return kind >= TW_KIND_MXF8F6F4;
}

// Bits of an element that lies across; elements of fewer never do.
static inline uint32_t tw_product_bits(uint32_t kind)
{
    return kind == TW_KIND_F16 ? 16 : kind == TW_KIND_TF32 ? 32 : 8;
}

// How many parts of D's columns lie in other lanes.
static inline uint32_t tw_product_parts(uint32_t rows, uint32_t does)
{
    if (does & TW_TENSOR_STATIONARY)
        return rows ? TW_TENSOR_LANES / rows : 1;
    return does & TW_TENSOR_PAIR && rows == 128 ? 2 : 1;
}

#endif
