// Elements that products in tensor memory multiply: by their numbers in instruction descriptors, and as bytes.
//
// Source: PTX ISA, 9.7.16.4.2 (instruction descriptor), 9.7.16.10.3 (packing formats); NVIDIA/cutlass,
// mma_sm100_desc.hpp.

#ifndef TILEWRIGHT_SIMT_TENSOR_ELEMENTS_H
#define TILEWRIGHT_SIMT_TENSOR_ELEMENTS_H

#include "descriptors.h"
#include "tensor_shapes.h"

// A matrix's element: its number among the formats, its bits in shared memory, and which of them is the sign in a byte.
struct element {
    uint32_t format;
    uint32_t bits;
    uint32_t signs;  // in 32 bits, as they are multiplied
};

// The element that a number of the instruction descriptor means. False where it is none of the kind.
static inline bool element_of(uint32_t kind, uint32_t number, struct element *found)
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

// Widens elements of 6 or 4 bits to bytes: bits 0 to 5, or 2 to 5.
static inline void widen(uint8_t *line, uint32_t bits)
{
    uint8_t found[TW_DEPTH_BYTES] __attribute__((aligned(64)));
    for (uint32_t i = 0; i < TW_DEPTH_BYTES; i++) {
        const uint8_t *unit = line + i / TW_UNIT_BYTES * TW_UNIT_BYTES;
        const uint32_t at = i % TW_UNIT_BYTES * bits;
        uint16_t pair;
        __builtin_memcpy(&pair, unit + at / 8, sizeof pair);
        const uint32_t element = (uint32_t)pair >> at % 8 & ((1u << bits) - 1);
        found[i] = (uint8_t)(bits == 4 ? element << 2 : element);
    }
    __builtin_memcpy(line, found, sizeof found);
}

#endif
