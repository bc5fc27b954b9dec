// What of tensor memory and of shared memory a product takes, by its instruction descriptor: for the product itself and
// for those who look on. Source: PTX ISA, 9.7.16.4.2 (instruction descriptor), 9.7.16.10.5 (layouts of D).

#ifndef TILEWRIGHT_SIMT_TENSOR_SHAPES_H
#define TILEWRIGHT_SIMT_TENSOR_SHAPES_H

#include <stdbool.h>

#include "descriptors.h"
#include "lanes.h"
#include "records.h"

enum { TW_LINE_BYTES = 32 };  // that a product reads along k

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

// Where 32 units of 16 bytes lie that a thread's product reads of shared memory: the `part`-th ones, those of A first. The
// set of lanes that have one: none behind the last.
static inline uint32_t tw_product_units(const struct tw_tensor_operands *operands, uint32_t lane, uint32_t part, uint32_t kind,
                                        uint32_t does, uint64_t *offsets)
{
    const uint32_t instruction = (uint32_t)operands->instruction[lane], bits = tw_product_bits(kind);
    const uint32_t rows = does & TW_TENSOR_A_HELD ? 0 : tw_product_rows(instruction) >> ((does & TW_TENSOR_PAIR) != 0);
    const uint32_t columns = tw_product_columns(instruction) >> ((does & TW_TENSOR_PAIR) != 0);
    const uint32_t of_a = rows * TW_LINE_BYTES / TW_UNIT_BYTES, all = of_a + columns * TW_LINE_BYTES / TW_UNIT_BYTES;
    const uint32_t first = part * TW_LANES, each = TW_UNIT_BYTES * 8 / bits;
    for (uint32_t i = 0; i < TW_LANES; i++) {
        const bool is_b = first + i >= of_a;
        const uint32_t unit = first + i - (is_b ? of_a : 0), lines = is_b ? columns : rows;
        const bool across = tw_product_across(instruction, is_b);
        const struct tw_matrix m = tw_matrix_of_sm100(is_b ? operands->b[lane] : operands->a[lane], bits, across);
        const uint32_t beside = (lines + each - 1) / each;  // units of a step, across
        const uint32_t at = across ? tw_matrix_across(&m, unit % (beside | !beside) * each, unit / (beside | !beside))
                                   : tw_matrix_along(&m, unit / 2, unit % 2 * TW_UNIT_CHUNKS);
        offsets[i] = tw_matrix_swizzled(&m, at);
    }
    const uint32_t left = first < all ? all - first : 0;
    return left >= TW_LANES ? UINT32_MAX : (1u << left) - 1;
}

#endif
