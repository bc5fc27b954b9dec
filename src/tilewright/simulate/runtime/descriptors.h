// The layout of a matrix in shared memory, by its matrix descriptor.
//
// A matrix consists of atoms of eight rows of 16, 32, 64 or 128 bytes; those wider than 16 are swizzled. A row of an
// atom is part of a line, a row of A or a column of B, if the matrix is K-major, and part of a step of k if it is
// MN-major. Source: PTX ISA, 9.7.15.5.1 (strides, canonical layouts, matrix descriptor format).

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
    uint32_t units;  // of an atom's row: 1, 2, 4 or 8
    uint32_t base;   // row of the swizzle's pattern at which the matrix starts
    uint32_t bits;   // of an element
    uint32_t mn_major;  // neighbours in memory belong to different lines
    uint32_t pair;   // 1 if the swizzle moves pairs of units; an atom then has four steps
};

static inline struct tw_matrix tw_matrix_of(uint64_t descriptor, uint32_t bits, bool mn_major)
{
    const uint32_t mode = (uint32_t)(descriptor >> 62);  // of its swizzle: none, 128, 64 and 32 bytes
    return (struct tw_matrix){
        .start = (uint32_t)(descriptor & 0x3fff) * TW_UNIT_BYTES,
        .leading = (uint32_t)(descriptor >> 16 & 0x3fff) * TW_UNIT_BYTES,
        .stride = (uint32_t)(descriptor >> 32 & 0x3fff) * TW_UNIT_BYTES,
        .units = mode ? TW_UNIT_BYTES >> mode : 1,
        .base = (uint32_t)(descriptor >> 49 & 7),
        .bits = bits,
        .mn_major = mn_major,
    };
}

// The same for sm_100, whose swizzle has three bits: none, 128 bytes in pairs of units, 128, 64 and 32 bytes. Source:
// PTX ISA, 9.7.16.4.1; NVIDIA/cutlass, mma_sm100_desc.hpp (LayoutType, canonical layouts).
static inline struct tw_matrix tw_matrix_of_sm100(uint64_t descriptor, uint32_t bits, bool mn_major)
{
    struct tw_matrix m = tw_matrix_of(descriptor & ~(UINT64_C(3) << 62), bits, mn_major);
    const uint32_t mode = (uint32_t)(descriptor >> 61);
    m.pair = mode == 1;
    m.units = m.pair ? 8 : mode ? TW_UNIT_BYTES >> (mode / 2) : 1;
    return m;
}

// A swizzle exchanges units of 128 bytes by their number in the pattern, which is aligned in shared memory.
static inline uint32_t tw_matrix_swizzled(const struct tw_matrix *m, uint32_t offset)
{
    const uint32_t line = (offset >> 7) - m->base;
    return offset ^ ((line & ((m->units >> m->pair) - 1)) << m->pair) * TW_UNIT_BYTES;
}

// The offset of four bytes of a line of a K-major matrix, before the swizzle.
static inline uint32_t tw_matrix_k_major(const struct tw_matrix *m, uint32_t line, uint32_t chunk)
{
    const uint32_t byte = chunk * 4, pitch = m->units * TW_UNIT_BYTES;
    const uint32_t right = m->units == 1 ? byte / TW_UNIT_BYTES * m->leading + byte % TW_UNIT_BYTES : byte;
    return m->start + line / TW_ATOM_LINES * m->stride + line % TW_ATOM_LINES * pitch + right;
}

// The offset of an element of an MN-major matrix, before the swizzle.
static inline uint32_t tw_matrix_mn_major(const struct tw_matrix *m, uint32_t line, uint32_t k)
{
    const uint32_t pitch = m->units * TW_UNIT_BYTES, wide = pitch * 8 / m->bits;  // bytes, and elements, of a step
    const uint32_t steps = TW_ATOM_LINES >> m->pair;                              // of an atom
    const uint32_t by_line = m->units == 1 ? m->stride : m->leading, by_step = m->units == 1 ? m->leading : m->stride;
    return m->start + line / wide * by_line + line % wide * m->bits / 8 + k / steps * by_step + k % steps * pitch;
}

#endif
