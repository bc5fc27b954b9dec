// Descriptors of matrices: whether they match the matrix that a copy of a tensor has written.
//
// Each 128 bytes that such a copy writes have a layout: the number of 16-byte units that the map's swizzle exchanges,
// and the number in a row of its box. It is valid while W of the bytes is the copy's, which `found.py` checks. A map
// without a swizzle may copy a swizzled matrix, so it is compared only if its rows are the descriptor's lines.
//
// Source: PTX ISA, 9.7.15.5.1 (matrix descriptor format, strides), 5.5.6 (swizzling modes).

#include "judgement.h"
#include "simulate/runtime/boxes.h"
#include "simulate/runtime/descriptors.h"

enum { IS_KNOWN = 4, ROW_SHIFT = 3 };

static uint16_t *layouts_of(const struct tw_shadow_launch *launch, struct tw_shadow_block *block)
{
    return (uint16_t *)((char *)block + launch->layouts_at);
}

// A copy writes bytes of shared memory by a map; null if the map is unknown.
void tw_shadow_laid_out(const struct tw_shadow_launch *launch, struct tw_shadow_block *block, uint64_t place,
                        uint32_t bytes, const char *map)
{
    if (!launch->layouts_at)
        return;
    uint32_t layout = 0;
    if (map) {
        struct tw_tensor_map its;
        __builtin_memcpy(&its, map, sizeof its);
        uint32_t row = its.box[0] * its.element_bytes / TW_UNIT_BYTES;
        layout = row << ROW_SHIFT | IS_KNOWN | tw_first_lane(its.units);
    }
    const uint64_t end = (place + bytes + TW_LAYOUT_OF_BYTES - 1) / TW_LAYOUT_OF_BYTES;
    for (uint64_t at = place / TW_LAYOUT_OF_BYTES; at < end; at++)
        layouts_of(launch, block)[at] = (uint16_t)layout;
}

// How a place of a matrix differs from its layout: 0, or TW_LAID_SWIZZLED, TW_LAID_BASE or TW_LAID_ROWS.
static uint32_t wrong_at(const struct tw_matrix *m, uint32_t layout, uint32_t offset)
{
    const uint32_t units = 1u << (layout & 3), row = layout >> ROW_SHIFT, at = tw_matrix_swizzled(m, offset);
    if (units == 1)
        return m->units > 1 && row == m->units && at != offset ? TW_LAID_SWIZZLED : 0;
    if (units == m->units && row != m->units)
        return TW_LAID_ROWS;
    if ((at ^ (at >> 7 & (units - 1)) * TW_UNIT_BYTES) == offset)
        return 0;
    return units == m->units ? TW_LAID_BASE : TW_LAID_SWIZZLED;
}

// Whether two atoms of a matrix share bytes.
static bool overlaps(const struct tw_matrix *m, uint32_t lines)
{
    const int64_t atom = m->units * TW_UNIT_BYTES * TW_ATOM_LINES;
    const uint32_t wide = m->mn_major ? m->units * TW_ATOM_LINES : TW_ATOM_LINES;
    const bool swaps = m->mn_major && m->units > 1;
    const int64_t by_line = swaps ? m->leading : m->stride, by_step = swaps ? m->stride : m->leading;
    const int64_t rows = (lines + wide - 1) / wide, steps = m->mn_major || m->units == 1 ? 2 : 1;
    for (int64_t line = 0; line < rows; line++) {
        for (int64_t step = 1 - steps; step < steps; step++) {
            const int64_t apart = line * by_line + step * by_step;
            if ((line || step > 0) && apart > -atom && apart < atom)
                return true;
        }
    }
    return false;
}

static void record_finding(TW_WHERE, uint32_t mask, uint64_t at, const struct tw_matrix *m, uint32_t how,
                           uint32_t layout)
{
    const struct tw_shadow_block *mine = block;
    struct tw_shadow_launch *of = launch;
    const uint64_t cell = how == TW_LAID_TWICE ? 0 : mine->writes[at / of->cell_bytes];
    struct tw_record finding = {
        .kind = TW_DESCRIPTOR,
        .row = row,
        .other = how == TW_LAID_TWICE ? TW_SITE_MAX : (cell & TW_SITES) >> TW_SITE_SHIFT,
        .count = 1,
        .first = slot->block << 10 | warp->index << 5 | tw_first_lane(mask),
        .address = at,
        .cell = (uint64_t)m->stride << 40 | (uint64_t)m->leading << 20 | layout << 9 | m->units << 5 | how,
    };
    (void)counters;
    tw_found_add(&of->found, &finding);
}

// A warp has read a descriptor; some of the lines of A are the warp's.
void tw_shadow_descriptor(TW_WHERE, uint32_t mask, uint64_t descriptor, uint32_t bits, uint32_t mn_major,
                          uint32_t lines, uint32_t of_warp)
{
    const struct tw_shadow_launch *of = launch;
    const struct tw_matrix m = tw_matrix_of(descriptor, bits, mn_major != 0);
    const uint32_t most = of_warp ? TW_LANES / 2 : lines, first = of_warp ? warp->index % 4 * most : 0;
    const uint32_t step = mn_major ? TW_ATOM_LINES : 1, wide = mn_major ? TW_LANES / 2 : 2;
    if (!mask)
        return;
    if (overlaps(&m, lines))
        record_finding(slot, warp, launch, block, counters, row, mask, m.start, &m, TW_LAID_TWICE, 0);
    for (uint32_t line = first; of->layouts_at && line < first + most; line += step) {
        for (uint32_t k = 0; k < wide; k++) {
            const uint32_t offset =
                mn_major ? tw_matrix_mn_major(&m, line, k) : tw_matrix_k_major(&m, line, k * TW_UNIT_CHUNKS);
            const uint32_t at = tw_matrix_swizzled(&m, offset);
            const uint32_t layout = layouts_of(launch, block)[at / TW_LAYOUT_OF_BYTES];
            const uint32_t how = layout & IS_KNOWN ? wrong_at(&m, layout, offset) : 0;
            if (how) {
                record_finding(slot, warp, launch, block, counters, row, mask, at, &m, how, layout);
                return;
            }
        }
    }
}
