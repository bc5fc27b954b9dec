// Where a matrix is in shared memory that a product's descriptor names.
//
// It lies in atoms of eight lines of 16, 32, 64 or 128 bytes, of which the wider ones are swizzled. A line is a row of
// A or a column of B, along k; across, it is a step of k. Source: PTX ISA, 9.7.15.5.1 (strides, canonical layouts,
// matrix descriptor format).

#ifndef TILEWRIGHT_SIMT_DESCRIPTORS_H
#define TILEWRIGHT_SIMT_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TW_UNIT_BYTES = 16,  // what a swizzle moves, and descriptors count
    TW_ATOM_LINES = 8,
    TW_UNIT_CHUNKS = 4,  // of four bytes
};

struct tw_matrix {
    uint32_t start;
    uint32_t leading;  // bytes, as the canonical layouts name them
    uint32_t stride;
    uint32_t units;  // of an atom's line: 1, 2, 4 or 8
    uint32_t base;   // line of its pattern in which the matrix starts
    uint32_t bits;   // of an element
    uint32_t across; // elements side by side belong to different lines
    uint32_t pair;   // 1 where a swizzle exchanges units in pairs, of an atom of four steps
};

static inline struct tw_matrix tw_matrix_of(uint64_t descriptor, uint32_t bits, bool across)
{
    const uint32_t mode = (uint32_t)(descriptor >> 62);  // of its swizzle: none, 128, 64 and 32 bytes
    return (struct tw_matrix){
        .start = (uint32_t)(descriptor & 0x3fff) * TW_UNIT_BYTES,
        .leading = (uint32_t)(descriptor >> 16 & 0x3fff) * TW_UNIT_BYTES,
        .stride = (uint32_t)(descriptor >> 32 & 0x3fff) * TW_UNIT_BYTES,
        .units = mode ? TW_UNIT_BYTES >> mode : 1,
        .base = (uint32_t)(descriptor >> 49 & 7),
        .bits = bits,
        .across = across,
    };
}

// The same of a descriptor of sm_100, whose swizzle has three bits: none, 128 bytes in pairs of units, 128, 64 and 32.
// Source: PTX ISA, 9.7.16.4.1; NVIDIA/cutlass, mma_sm100_desc.hpp (LayoutType, canonical layouts).
static inline struct tw_matrix tw_matrix_of_sm100(uint64_t descriptor, uint32_t bits, bool across)
{
    struct tw_matrix m = tw_matrix_of(descriptor & ~(UINT64_C(3) << 62), bits, across);
    const uint32_t mode = (uint32_t)(descriptor >> 61);
    m.pair = mode == 1;
    m.units = m.pair ? 8 : mode ? TW_UNIT_BYTES >> (mode / 2) : 1;
    return m;
}

// Swizzles exchange units of a line by the number of the line in its pattern, which is aligned in shared memory.
static inline uint32_t tw_matrix_swizzled(const struct tw_matrix *m, uint32_t offset)
{
    const uint32_t line = (offset >> 7) - m->base;
    return offset ^ ((line & ((m->units >> m->pair) - 1)) << m->pair) * TW_UNIT_BYTES;
}

// Where four bytes along k of a line are, before they are swizzled.
static inline uint32_t tw_matrix_along(const struct tw_matrix *m, uint32_t line, uint32_t chunk)
{
    const uint32_t byte = chunk * 4, pitch = m->units * TW_UNIT_BYTES;
    const uint32_t right = m->units == 1 ? byte / TW_UNIT_BYTES * m->leading + byte % TW_UNIT_BYTES : byte;
    return m->start + line / TW_ATOM_LINES * m->stride + line % TW_ATOM_LINES * pitch + right;
}

// Where an element is in a matrix whose lines are side by side, before it is swizzled.
static inline uint32_t tw_matrix_across(const struct tw_matrix *m, uint32_t line, uint32_t k)
{
    const uint32_t pitch = m->units * TW_UNIT_BYTES, wide = pitch * 8 / m->bits;  // bytes, and elements, of a step
    const uint32_t steps = TW_ATOM_LINES >> m->pair;                              // of an atom
    const uint32_t by_line = m->units == 1 ? m->stride : m->leading, by_step = m->units == 1 ? m->leading : m->stride;
    return m->start + line / wide * by_line + line % wide * m->bits / 8 + k / steps * by_step + k % steps * pitch;
}

#endif
