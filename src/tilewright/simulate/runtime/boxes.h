// Boxes of a tensor: the rows of a box, and the bytes of global memory that each row covers.
//
// A box is copied row by row, its innermost extent first. The rows of a map of images are pixels: those of a box of
// places, from one of them on, width first, and then those of the next image. Source: PTX ISA, 5.5 (tensors); CUDA
// driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.

#ifndef TILEWRIGHT_SIMT_BOXES_H
#define TILEWRIGHT_SIMT_BOXES_H

#include <stdbool.h>

#include "instrument.h"
#include "records.h"

struct tw_box {
    struct tw_tensor_map map;
    int64_t corner[TW_TENSOR_AXES];
    uint16_t offsets[TW_IMAGE_AXES];  // of pixels, from their places
};

// The elements of a row that are in the tensor: numbers `first` to `end` in the box, and the place of the element whose
// coordinate is 0.
struct tw_box_row {
    uint64_t start;
    uint32_t first;
    uint32_t end;
};

// A box whose corner is a lane's, in an array of 32 for each axis; offsets follow.
static inline struct tw_box tw_box_of(const char *map, const int32_t *corners, uint32_t lane, uint32_t rank)
{
    struct tw_box box = {0};
    __builtin_memcpy(&box.map, map, sizeof box.map);
    for (uint32_t axis = 0; axis < rank; axis++)
        box.corner[axis] = corners[axis * TW_LANES + lane];
    for (uint32_t axis = 0; box.map.pixels && axis + 2 < rank; axis++)
        box.offsets[axis] = (uint16_t)corners[(rank + axis) * TW_LANES + lane];
    return box;
}

// The number of elements of a box along an axis; only every n-th of them is copied.
static inline uint64_t tw_box_count(const struct tw_box *box, uint32_t axis)
{
    return (box->map.box[axis] + box->map.steps[axis] - 1u) / box->map.steps[axis];
}

static inline uint64_t tw_box_rows(const struct tw_box *box)
{
    uint64_t rows = 1;
    for (uint32_t axis = 1; axis < box->map.rank; axis++)
        rows *= tw_box_count(box, axis);
    return box->map.pixels ? box->map.pixels : rows;
}

static inline uint32_t tw_box_row_bytes(const struct tw_box *box)
{
    return box->map.box[0] * box->map.element_bytes;
}

// An axis's position after so many steps: from `at` on, after `last` again from `low`. Leaves the steps of the next
// axis.
static inline int64_t tw_box_after(int64_t at, int64_t low, int64_t last, int64_t step, uint64_t *number)
{
    const uint64_t left = at <= last ? (uint64_t)((last - at) / step) + 1 : 1;
    const uint64_t whole = low <= last ? (uint64_t)((last - low) / step) + 1 : 1;
    if (*number < left) {
        at += (int64_t)*number * step;
        *number = 0;
        return at;
    }
    *number -= left;
    at = low + (int64_t)(*number % whole) * step;
    *number = *number / whole + 1;
    return at;
}

// A row's coordinate; `number` counts steps of this axis and those after it.
static inline int64_t tw_box_coordinate(const struct tw_box *box, uint32_t axis, uint64_t *number)
{
    const int64_t corner = box->corner[axis], step = box->map.steps[axis];
    if (!box->map.pixels)
        return tw_box_after(corner, corner, corner + (int64_t)(tw_box_count(box, axis) - 1) * step, step, number);
    if (axis + 1 == box->map.rank)
        return corner + (int64_t)*number * step;
    const int64_t low = box->map.low[axis - 1], last = (int64_t)box->map.extents[axis] - 1 + box->map.high[axis - 1];
    return tw_box_after(corner, low, last, step, number) + box->offsets[axis - 1];
}

// One row. Its elements are adjacent, because the innermost axis has no steps.
TW_INLINE static inline struct tw_box_row tw_box_row(const struct tw_box *box, uint64_t number)
{
    struct tw_box_row row = {box->map.address, 0, 0};
    for (uint32_t axis = 1; axis < box->map.rank; axis++) {
        const int64_t x = tw_box_coordinate(box, axis, &number);
        if (x < 0 || x >= (int64_t)box->map.extents[axis])
            return row;
        row.start += (uint64_t)x * box->map.strides[axis - 1];
    }
    const int64_t first = -box->corner[0], end = (int64_t)box->map.extents[0] - box->corner[0];
    const int64_t most = box->map.box[0];
    row.first = (uint32_t)(first < 0 ? 0 : first < most ? first : most);
    row.end = (uint32_t)(end < (int64_t)row.first ? row.first : end < most ? end : most);
    return row;
}

// The place of an element of a row.
static inline uint64_t tw_box_place(const struct tw_box *box, const struct tw_box_row *row, uint32_t element)
{
    return row->start + (uint64_t)(box->corner[0] + (int64_t)element) * box->map.element_bytes;
}

// Where a row of a box starts in global memory; `end` becomes where it ends.
static inline uint64_t tw_box_bytes(const struct tw_box *box, uint64_t number, uint64_t *end)
{
    const struct tw_box_row its = tw_box_row(box, number);
    const uint64_t at = tw_box_place(box, &its, its.first);
    *end = at + (uint64_t)(its.end - its.first) * box->map.element_bytes;
    return at;
}

#endif
