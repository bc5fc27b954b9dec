// Boxes of a tensor: which rows one has, and which bytes of global memory each row stands for.
//
// A box is copied row by row, its innermost extent first. Source: PTX ISA, 5.5 (tensors).

#ifndef TILEWRIGHT_SIMT_BOXES_H
#define TILEWRIGHT_SIMT_BOXES_H

#include <stdbool.h>

#include "records.h"

struct tw_box {
    struct tw_tensor_map map;
    int64_t corner[TW_TENSOR_AXES];
};

// The elements of a row that lie in the tensor: numbers `first` to `end` of the box's, and where the first one would be
// whose coordinate is 0.
struct tw_box_row {
    uint64_t start;
    uint32_t first;
    uint32_t end;
};

// A box whose corner is a lane's, in an array of 32 for each axis.
static inline struct tw_box tw_box_of(const char *map, const int32_t *corners, uint32_t lane, uint32_t rank)
{
    struct tw_box box;
    __builtin_memcpy(&box.map, map, sizeof box.map);
    for (uint32_t axis = 0; axis < rank; axis++)
        box.corner[axis] = corners[axis * TW_LANES + lane];
    return box;
}

static inline uint64_t tw_box_rows(const struct tw_box *box)
{
    uint64_t rows = 1;
    for (uint32_t axis = 1; axis < box->map.rank; axis++)
        rows *= box->map.box[axis];
    return rows;
}

static inline uint32_t tw_box_row_bytes(const struct tw_box *box)
{
    return box->map.box[0] * box->map.element_bytes;
}

// One row; its elements are `steps[0]` apart.
static inline struct tw_box_row tw_box_row(const struct tw_box *box, uint64_t number)
{
    struct tw_box_row row = {box->map.address, 0, 0};
    for (uint32_t axis = 1; axis < box->map.rank; axis++) {
        const int64_t x = box->corner[axis] + (int64_t)(number % box->map.box[axis]) * box->map.steps[axis];
        number /= box->map.box[axis];
        if (x < 0 || x >= (int64_t)box->map.extents[axis])
            return row;
        row.start += (uint64_t)x * box->map.strides[axis - 1];
    }
    const int64_t step = box->map.steps[0], before = -box->corner[0];
    const int64_t left = (int64_t)box->map.extents[0] - box->corner[0];
    const int64_t first = before > 0 ? (before + step - 1) / step : 0, end = left > 0 ? (left + step - 1) / step : 0;
    row.first = (uint32_t)(first < box->map.box[0] ? first : box->map.box[0]);
    row.end = (uint32_t)(end < box->map.box[0] ? end : box->map.box[0]);
    if (row.end < row.first)
        row.end = row.first;
    return row;
}

// Where an element of a row lies.
static inline uint64_t tw_box_place(const struct tw_box *box, const struct tw_box_row *row, uint32_t element)
{
    return row->start + (uint64_t)(box->corner[0] + (int64_t)element * box->map.steps[0]) * box->map.element_bytes;
}

#endif
