// Copies of boxes of a tensor between global and shared memory, which a tensor map describes.
//
// A box lies in shared memory row by row, its innermost extent first, and its units of 16 bytes are swizzled by where
// they lie. Elements outside the tensor are read as zeros, or NaNs, and are not written. Source: PTX ISA, 5.5 (tensors),
// 9.7.9.27 (cp.async.bulk.tensor); CUDA driver API, cuTensorMapEncodeTiled.

#include "runtime.h"

enum { UNIT_BYTES = 16, ROW_BYTES_MOST = 2048, BOX_ALIGNMENT = 128 };

struct copy {
    struct tw_context *context;
    const struct tw_warp *warp;
    struct tw_tensor_map map;
    char *shared;
    uint64_t start;   // of the tensor, in the arena
    uint64_t place;   // of the box in shared memory
    uint32_t site;    // of its side in shared memory; that in global memory follows
    uint32_t lane;
    uint32_t row_bytes;
    bool stores;
    int64_t corner[TW_TENSOR_AXES];
};

// A lane breaks a rule. True, for callers to hand on.
static bool fault(const struct copy *c, uint32_t site, uint64_t address, uint32_t bytes)
{
    uint64_t addresses[TW_LANES];
    addresses[c->lane] = address;
    tw_fault(c->context, c->warp, site, 1u << c->lane, addresses, bytes);
    return true;
}

// A row as it lies in shared memory, to or from a buffer.
static void move_units(const struct copy *c, uint64_t offset, char *row)
{
    for (uint32_t unit = 0; unit < c->row_bytes; unit += UNIT_BYTES) {
        const uint64_t at = offset + unit, swizzled = at ^ ((at >> 7 & (c->map.units - 1)) * UNIT_BYTES);
        char *shared = c->shared + swizzled;
        if (c->stores)
            __builtin_memcpy(row + unit, shared, UNIT_BYTES);
        else
            __builtin_memcpy(shared, row + unit, UNIT_BYTES);
    }
}

// What elements outside the tensor are read as.
static void fill(const struct copy *c, char *row)
{
    for (uint32_t at = 0; at < c->row_bytes; at += sizeof c->map.filler)
        __builtin_memcpy(row + at, &c->map.filler, sizeof c->map.filler);
}

// Bytes that follow each other, in whole units.
static bool move_whole(const struct copy *c, uint64_t start, char *row)
{
    const uint64_t limit = c->context->global_limit;
    if (start > limit || c->row_bytes > limit - start)
        return fault(c, c->site + 1, start, 1);
    char *global = c->context->global_base + start;
    for (uint32_t at = 0; at < c->row_bytes; at += UNIT_BYTES) {
        if (c->stores)
            __builtin_memcpy(global + at, row + at, UNIT_BYTES);
        else
            __builtin_memcpy(row + at, global + at, UNIT_BYTES);
    }
    return false;
}

// The elements of a row that lie in the tensor, between a buffer and global memory, where the row starts at `start`.
static bool move_elements(const struct copy *c, uint64_t start, char *row)
{
    const uint32_t bytes = c->map.element_bytes, step = c->map.steps[0];
    if (step == 1 && c->corner[0] >= 0 && c->corner[0] + (int64_t)c->map.box[0] <= (int64_t)c->map.extents[0])
        return move_whole(c, start + (uint64_t)c->corner[0] * bytes, row);
    for (uint32_t i = 0; i < c->map.box[0]; i++) {
        const int64_t x = c->corner[0] + (int64_t)i * step;
        if (x < 0 || x >= (int64_t)c->map.extents[0])
            continue;
        const uint64_t at = start + (uint64_t)x * bytes;
        if (at > c->context->global_limit || at + bytes > c->context->global_limit)
            return fault(c, c->site + 1, at, 1);
        char *global = c->context->global_base + at;
        if (c->stores)
            __builtin_memcpy(global, row + i * bytes, bytes);
        else
            __builtin_memcpy(row + i * bytes, global, bytes);
    }
    return false;
}

// One row of the box, the `number`th.
static bool copy_row(const struct copy *c, uint64_t number)
{
    char row[ROW_BYTES_MOST] __attribute__((aligned(64)));
    const uint64_t offset = c->place + number * c->row_bytes;
    uint64_t start = c->start;
    bool inside = true;
    for (uint32_t axis = 1; axis < c->map.rank; axis++) {
        const int64_t x = c->corner[axis] + (int64_t)(number % c->map.box[axis]) * c->map.steps[axis];
        number /= c->map.box[axis];
        inside = inside && x >= 0 && x < (int64_t)c->map.extents[axis];
        start += (uint64_t)x * c->map.strides[axis - 1];
    }
    if (c->stores)
        move_units(c, offset, row);
    else
        fill(c, row);
    if (inside && move_elements(c, start, row))
        return true;
    if (!c->stores)
        move_units(c, offset, row);
    return false;
}

static bool is_map(const struct tw_tensor_map *map, uint32_t rank)
{
    bool good = map->magic == TW_TENSOR_MAGIC && map->rank == rank && rank <= TW_TENSOR_AXES;
    good = good && (map->units == 1 || map->units == 2 || map->units == 4 || map->units == 8);
    good = good && (map->element_bytes == 1 || map->element_bytes == 2 || map->element_bytes == 4 ||
                    map->element_bytes == 8);
    good = good && map->box[0] * map->element_bytes % UNIT_BYTES == 0;
    for (uint32_t axis = 0; good && axis < rank; axis++)
        good = map->box[axis] >= 1 && map->box[axis] <= 256 && map->steps[axis] >= 1 && map->steps[axis] <= 8;
    return good;
}

static bool copy_box(struct copy *c, uint32_t *bytes)
{
    uint64_t rows = 1;
    for (uint32_t axis = 1; axis < c->map.rank; axis++)
        rows *= c->map.box[axis];
    c->row_bytes = c->map.box[0] * c->map.element_bytes;
    const uint64_t size = rows * c->row_bytes, limit = c->context->shared_bytes;
    if (c->place % BOX_ALIGNMENT)
        return fault(c, c->site, c->place, BOX_ALIGNMENT);
    if (c->place > limit || size > limit - c->place)
        return fault(c, c->site, c->place, 1);
    for (uint64_t row = 0; row < rows; row++)
        if (copy_row(c, row))
            return true;
    *bytes = (uint32_t)size;
    return false;
}

// The lanes of a mask each copy a box: where its map lies, where it lies in shared memory, and its corner, an array of 32
// for each axis. Leaves how many bytes each box has. `base` is the device address of global memory's first byte.
bool tw_tensor_copy(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask, char *shared,
                    char *const *maps, const uint64_t *places, const int32_t *corners, uint32_t *bytes, uint32_t rank,
                    uint32_t stores, uint64_t base)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        struct copy c = {.context = context, .warp = warp, .shared = shared, .site = site, .stores = stores != 0};
        c.lane = tw_first_lane(left);
        c.place = places[c.lane];
        __builtin_memcpy(&c.map, maps[c.lane], sizeof c.map);
        if (!is_map(&c.map, rank)) {
            tw_blame(context, warp, site, 1u << c.lane, TW_TENSOR_MAP, c.map.magic == TW_TENSOR_MAGIC, c.map.rank);
            return true;
        }
        c.start = c.map.address - base;
        for (uint32_t axis = 0; axis < rank; axis++)
            c.corner[axis] = corners[axis * TW_LANES + c.lane];
        if (copy_box(&c, bytes + c.lane))
            return true;
    }
    return false;
}
