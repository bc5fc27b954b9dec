// A product in tensor memory, and what a register says of its shape and types: that is looked at before anything is read.
//
// Source: PTX ISA, 9.7.16.4.2 (instruction descriptor), 9.7.16.10.1 (kinds and shapes); NVIDIA/cutlass, mma_sm100_desc.hpp.

#ifndef TILEWRIGHT_SIMT_TENSOR_INSTRUCTIONS_H
#define TILEWRIGHT_SIMT_TENSOR_INSTRUCTIONS_H

#include "fragments.h"
#include "runtime.h"
#include "tensor_shapes.h"

enum {
    LINE_BYTES = TW_LINE_BYTES,
    LINES_MOST = 256,
    ROWS_MOST = 128,  // of a block
};

// A matrix's element: its number among the formats, its bits in shared memory, and which of them is the sign in a byte.
struct element {
    uint32_t format;
    uint32_t bits;
    uint32_t signs;  // in 32 bits, as they are multiplied
};

struct product {
    struct tw_context *context;
    struct tw_slot *blocks[2];
    const struct tw_warp *warp;
    const struct tw_tensor_operands *all;
    uint32_t site, lane, kind, does, shrinks;
    uint32_t m, n;
    bool half;      // D is float16
    bool saturates;
    bool a_across, b_across, a_negates, b_negates;
    struct element a, b;
    uint32_t a_byte, b_byte;  // the first of a scale's word
    bool fractions;           // scales are E4M3
    uint32_t selector;        // which column of metadata, of two
    uint8_t a_lines[ROWS_MOST][LINE_BYTES] __attribute__((aligned(64)));
    uint8_t b_lines[LINES_MOST * 2 * LINE_BYTES] __attribute__((aligned(64)));
};

static bool is_scaled(const struct product *p)
{
    return tw_product_is_scaled(p->kind);
}

static bool is_paired(const struct product *p)
{
    return (p->does & TW_TENSOR_PAIR) != 0;
}

static bool is_sparse(const struct product *p)
{
    return (p->does & TW_TENSOR_SPARSE) != 0;
}

static bool wrong(const struct product *p, uint32_t got, uint32_t why)
{
    tw_blame(p->context, p->warp, p->site, 1u << p->lane, TW_TENSOR_DESCRIPTOR, got, why);
    return true;
}

// The element that a number of the instruction descriptor stands for. False where it is none of the kind.
static bool element_of(uint32_t kind, uint32_t number, struct element *found)
{
    static const struct element small[] __attribute__((aligned(64))) = {
        {TW_E4M3, 8, 0x80808080}, {TW_E5M2, 8, 0x80808080}, {0, 0, 0},
        {TW_E2M3, 6, 0x20202020}, {TW_E3M2, 6, 0x20202020}, {TW_E2M1, 4, 0x20202020},
    };
    switch (kind) {
    case TW_KIND_F16:
        *found = (struct element){number ? TW_BF16 : TW_F16, 16, 0x80008000};
        return number <= 1;
    case TW_KIND_TF32:
        *found = (struct element){TW_TF32, 32, 0x80000000};
        return number == 2;
    case TW_KIND_I8:
        *found = (struct element){number, 8, 0};
        return number <= 1;
    case TW_KIND_MXF4:
    case TW_KIND_MXF4NVF4:
        *found = (struct element){TW_E2M1, 4, 0x88888888};
        return number == 1;
    default:
        *found = small[number % 6];
        return number <= 5 && number != 2;
    }
}

// Whether elements of fewer than 8 bits lie 16 in 16 bytes, the rest of which is not looked at.
static bool is_padded(const struct product *p, const struct element *e)
{
    return e->bits < 8 && (p->kind == TW_KIND_F8F6F4 || p->kind == TW_KIND_MXF8F6F4);
}

// Of a sparse A no source says where metadata of 64 rows lie, but of `.ws`.
static bool is_shape(const struct product *p)
{
    const uint32_t m = p->m, n = p->n;
    if (n < 8 || n > LINES_MOST || n % 8)
        return false;
    if (p->kind == TW_KIND_I8 && n > 32 && n % 16)
        return false;
    if (p->does & TW_TENSOR_STATIONARY)
        return !is_paired(p) && !is_scaled(p) && (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || n == 256);
    if (is_paired(p))
        return n % 16 == 0 && (m == 256 || (m == 128 && !is_scaled(p) && !is_sparse(p)));
    return m == 128 || (m == 64 && !is_scaled(p) && !is_sparse(p));
}

// Read the instruction descriptor. True where it says what cannot be.
static bool read_instruction(struct product *p, uint32_t bits)
{
    const uint32_t of_d = bits >> 4 & 3;
    p->n = tw_product_columns(bits), p->m = tw_product_rows(bits);
    p->a_negates = bits >> 13 & 1, p->b_negates = bits >> 14 & 1;
    p->a_across = tw_product_across(bits, false), p->b_across = tw_product_across(bits, true);
    if (!element_of(p->kind, bits >> 7 & 7, &p->a) ||
        !element_of(p->kind, bits >> 10 & (p->kind >= TW_KIND_MXF4 ? 3 : 7), &p->b))
        return wrong(p, bits, TW_WRONG_FORMAT);
    if ((bits >> 2 & 1) != is_sparse(p))
        return wrong(p, bits, TW_WRONG_SPARSITY);
    p->selector = is_sparse(p) ? bits & 3 : 0;
    if (p->selector > (tw_product_metadata(p->kind) == 1))
        return wrong(p, bits, TW_WRONG_METADATA);
    if (p->does & TW_TENSOR_STATIONARY && p->all->zeros[p->lane])
        return wrong(p, (uint32_t)(p->all->zeros[p->lane] >> 32), TW_WRONG_ZEROS);
    if (is_scaled(p)) {
        const uint32_t blocks = p->kind == TW_KIND_MXF8F6F4 ? 1 : p->does & TW_TENSOR_BLOCK16 ? 4 : 2;
        p->fractions = !(bits >> 23 & 1);
        p->b_byte = bits >> 4 & 3, p->a_byte = bits >> 29 & 3;
        if (p->a_byte % blocks || p->b_byte % blocks || (p->fractions && p->kind != TW_KIND_MXF4NVF4) || bits >> 31)
            return wrong(p, bits, TW_WRONG_SCALES);
    } else {
        const bool whole = p->kind == TW_KIND_I8, either = p->kind == TW_KIND_F16 || p->kind == TW_KIND_F8F6F4;
        p->half = either && of_d == 0, p->saturates = whole && bits >> 3 & 1;
        if (of_d != (whole ? 2 : 1) && !p->half)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (p->half && p->a.format == TW_BF16)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (p->kind == TW_KIND_F16 && p->a.format != p->b.format)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (whole && (p->a_negates || p->b_negates))
            return wrong(p, bits, TW_WRONG_FORMAT);
    }
    if ((p->a_across && p->a.bits < 8) || (p->b_across && p->b.bits < 8))
        return wrong(p, bits, TW_WRONG_ACROSS);
    if (p->does & TW_TENSOR_A_HELD && (p->a.bits < 8 || p->a_across))
        return wrong(p, bits, TW_WRONG_HELD);
    return !is_shape(p) && wrong(p, bits, TW_WRONG_SHAPE);
}

#endif
