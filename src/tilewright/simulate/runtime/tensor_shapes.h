// What a tcgen05.mma accesses, by its instruction descriptor: for the product itself and for instruments. Source: PTX
// ISA, 9.7.16.4.2 (instruction descriptor), 9.7.16.10.5 (layouts of D).

#ifndef TILEWRIGHT_SIMT_TENSOR_SHAPES_H
#define TILEWRIGHT_SIMT_TENSOR_SHAPES_H

#include <stdbool.h>

#include "descriptors.h"
#include "lanes.h"
#include "records.h"

enum { TW_DEPTH_BYTES = 32 };  // that a product reads along k

// The operands of an instruction, of each lane. Without scales `a_scales` and `b_scales` are not set.
struct tw_tensor_operands {
    uint64_t d[TW_LANES];
    uint64_t a[TW_LANES];
    uint64_t b[TW_LANES];
    uint64_t instruction[TW_LANES];
    uint64_t adds[TW_LANES];  // enable-input-d
    uint64_t a_scales[TW_LANES];
    uint64_t b_scales[TW_LANES];
    uint64_t off[8][TW_LANES];  // disable-output-lane: 128 bits of the pair's first block, then of its second
    uint64_t metadata[TW_LANES];  // address of a sparse A's
    uint64_t zeros[TW_LANES];     // zero-column-mask-desc
};

static inline uint32_t tw_product_rows(uint32_t instruction)
{
    return (instruction >> 24 & 0x1f) << 4;
}

static inline uint32_t tw_product_columns(uint32_t instruction)
{
    return (instruction >> 17 & 0x3f) << 3;
}

static inline bool tw_product_is_mn_major(uint32_t instruction, bool of_b)
{
    return instruction >> (of_b ? 16 : 15) & 1;
}

static inline bool tw_product_is_scaled(uint32_t kind)
{
    return kind >= TW_KIND_MXF8F6F4;
}

// Bytes of a column of B: twice those of a row of A if A is sparse.
static inline uint32_t tw_product_line_bytes(uint32_t does)
{
    return does & TW_TENSOR_SPARSE ? 2 * TW_DEPTH_BYTES : TW_DEPTH_BYTES;
}

// Columns of tensor memory with the metadata of one product: a bit for each k, or two bits for tf32.
static inline uint32_t tw_product_metadata(uint32_t kind)
{
    return kind == TW_KIND_F16 || kind == TW_KIND_TF32 ? 1 : 2;
}

// Bits of an element of an MN-major matrix; narrower elements are always K-major.
static inline uint32_t tw_product_bits(uint32_t kind)
{
    return kind == TW_KIND_F16 ? 16 : kind == TW_KIND_TF32 ? 32 : 8;
}

// The number of parts of D's columns that have lanes of their own.
static inline uint32_t tw_product_parts(uint32_t rows, uint32_t does)
{
    if (does & TW_TENSOR_STATIONARY)
        return rows ? TW_TENSOR_LANES / rows : 1;
    return does & TW_TENSOR_PAIR && rows == 128 ? 2 : 1;
}

// The offset of a unit of 16 bytes of an MN-major matrix. If it were inlined, compilers for x86-64 and AArch64 would
// share its parts with other code in different ways.
static __attribute__((noinline)) uint32_t tw_product_unit_mn_major(const struct tw_matrix *m, uint32_t unit,
                                                                 uint32_t lines)
{
    const uint32_t each = TW_UNIT_BYTES * 8 / m->bits, beside = (lines + each - 1) / each;  // units of a step
    return tw_matrix_swizzled(m, tw_matrix_mn_major(m, unit % (beside | !beside) * each, unit / (beside | !beside)));
}

// The same of a K-major matrix, whose lines have 2 or 4 units: those of an atom's lines at one place along k follow
// each other, since a read takes them at once.
static __attribute__((noinline)) uint32_t tw_product_unit_k_major(const struct tw_matrix *m, uint32_t unit,
                                                                uint32_t of_line)
{
    const uint32_t row = unit / TW_ATOM_LINES, line = row / of_line * TW_ATOM_LINES + unit % TW_ATOM_LINES;
    return tw_matrix_swizzled(m, tw_matrix_k_major(m, line, row % of_line * TW_UNIT_CHUNKS));
}

// The offsets of the `part`-th 32 units of 16 bytes that a thread's product reads in shared memory, A's before B's.
// Returns the set of lanes that have one, which is empty after the last.
static inline uint32_t tw_product_units(const struct tw_tensor_operands *operands, uint32_t lane, uint32_t part,
                                        uint32_t kind, uint32_t does, uint64_t *offsets)
{
    const uint32_t instruction = (uint32_t)operands->instruction[lane], bits = tw_product_bits(kind);
    const uint32_t rows = does & TW_TENSOR_A_HELD ? 0 : tw_product_rows(instruction) >> ((does & TW_TENSOR_PAIR) != 0);
    const uint32_t columns = tw_product_columns(instruction) >> ((does & TW_TENSOR_PAIR) != 0);
    const uint32_t of_a = rows * TW_DEPTH_BYTES / TW_UNIT_BYTES, sparse = (does & TW_TENSOR_SPARSE) != 0;
    const uint32_t all = of_a + (columns * TW_DEPTH_BYTES / TW_UNIT_BYTES << sparse);
    const uint32_t first = part * TW_LANES;
    for (uint32_t i = 0; i < TW_LANES; i++) {
        const bool is_b = first + i >= of_a;
        const uint32_t unit = first + i - (is_b ? of_a : 0), of_line = is_b && sparse ? 4 : 2;
        const bool mn_major = tw_product_is_mn_major(instruction, is_b);
        const struct tw_matrix m = tw_matrix_of_sm100(is_b ? operands->b[lane] : operands->a[lane], bits, mn_major);
        if (mn_major)
            offsets[i] = tw_product_unit_mn_major(&m, unit, is_b ? columns : rows);
        else
            offsets[i] = tw_product_unit_k_major(&m, unit, of_line);
    }
    const uint32_t left = first < all ? all - first : 0;
    return left >= TW_LANES ? UINT32_MAX : (1u << left) - 1;
}

#endif
