// Copies of boxes of a tensor between global and shared memory, which a tensor map describes.
//
// A box is in shared memory row by row, its innermost extent first, and its units of 16 bytes are swizzled by where
// they are. Elements outside the tensor are read as zeros, or NaNs, and are not written. Source: PTX ISA, 5.5
// (tensors), 9.7.9.27 (cp.async.bulk.tensor); CUDA driver API, cuTensorMapEncodeTiled.

#include "boxes.h"
#include "combining.h"
#include "runtime.h"

enum { UNIT_BYTES = 16, ROW_BYTES_MOST = 2048, BOX_ALIGNMENT = 128, BOX_MOST = 256, STEP_MOST = 8, PIXELS_MOST = 1024 };

struct copy {
    struct tw_context *context;
    const struct tw_warp *warp;
    struct tw_box box;
    char *shared;
    uint64_t base;    // device address of global memory's first byte
    uint64_t place;   // of the box in shared memory
    uint32_t site;    // of its side in shared memory; that in global memory follows
    uint32_t lane;
    uint32_t row_bytes;
    uint32_t operation;  // 0 where elements are replaced
    bool stores;
};

// A lane breaks a rule. Returns true, for callers to return.
static bool fault(const struct copy *c, uint32_t site, uint64_t address, uint32_t bytes)
{
    uint64_t addresses[TW_LANES];
    addresses[c->lane] = address;
    tw_fault(c->context, c->warp, site, 1u << c->lane, addresses, bytes);
    return true;
}

// A row as it is in shared memory, to or from a buffer.
static void move_units(const struct copy *c, uint64_t offset, char *row)
{
    for (uint32_t unit = 0; unit < c->row_bytes; unit += UNIT_BYTES) {
        const uint64_t at = offset + unit, swizzled = at ^ ((at >> 7 & (c->box.map.units - 1)) * UNIT_BYTES);
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
    for (uint32_t at = 0; at < c->row_bytes; at += sizeof c->box.map.filler)
        __builtin_memcpy(row + at, &c->box.map.filler, sizeof c->box.map.filler);
}

static bool is_outside(const struct copy *c, uint64_t at, uint64_t bytes)
{
    const uint64_t limit = c->context->global_limit;
    return at > limit || bytes > limit - at;
}

// Bytes that follow each other, in whole units.
static bool move_whole(const struct copy *c, uint64_t start, char *row)
{
    if (is_outside(c, start, c->row_bytes))
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

// The elements of a row that are in the tensor, between a buffer and global memory.
static bool move_elements(const struct copy *c, const struct tw_box_row *where, char *row)
{
    const uint32_t bytes = c->box.map.element_bytes;
    if (!c->operation && where->first == 0 && where->end == c->box.map.box[0])
        return move_whole(c, tw_box_place(&c->box, where, 0) - c->base, row);
    for (uint32_t i = where->first; i < where->end; i++) {
        const uint64_t at = tw_box_place(&c->box, where, i) - c->base;
        if (is_outside(c, at, bytes))
            return fault(c, c->site + 1, at, 1);
        char *global = c->context->global_base + at;
        if (c->operation)
            tw_combine(global, row + i * bytes, c->operation, c->box.map.type);
        else if (c->stores)
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
    const struct tw_box_row where = tw_box_row(&c->box, number);
    if (c->stores)
        move_units(c, offset, row);
    else
        fill(c, row);
    if (move_elements(c, &where, row))
        return true;
    if (!c->stores)
        move_units(c, offset, row);
    return false;
}

static bool is_map(const struct tw_tensor_map *map, uint32_t rank, bool images)
{
    bool good = map->magic == TW_TENSOR_MAGIC && map->rank == rank && rank <= TW_TENSOR_AXES;
    good = good && images == (map->pixels > 0) && map->pixels <= PIXELS_MOST && (!images || rank >= 3);
    good = good && (map->units == 1 || map->units == 2 || map->units == 4 || map->units == 8);
    good = good && (map->element_bytes == 1 || map->element_bytes == 2 || map->element_bytes == 4 ||
                    map->element_bytes == 8);
    good = good && map->box[0] * map->element_bytes % UNIT_BYTES == 0;
    for (uint32_t axis = 0; good && axis < rank; axis++)
        good = map->box[axis] >= 1 && map->box[axis] <= BOX_MOST && map->steps[axis] >= 1 &&
               map->steps[axis] <= STEP_MOST;
    return good;
}

static bool copy_box(struct copy *c, uint32_t *bytes)
{
    const uint64_t rows = tw_box_rows(&c->box);
    c->row_bytes = tw_box_row_bytes(&c->box);
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

// Whether elements of the map's type can be combined so, where they are.
static bool combines(const struct copy *c)
{
    const struct tw_tensor_map *map = &c->box.map;
    bool aligned = map->address % map->element_bytes == 0;
    for (uint32_t axis = 0; axis + 1 < map->rank; axis++)
        aligned = aligned && map->strides[axis] % map->element_bytes == 0;
    return aligned && tw_combines(c->operation, map->type) && tw_element_bytes(map->type) == map->element_bytes;
}

// The lanes of a mask each copy a box: where its map is, where it is in shared memory, and its corner, an array of 32
// for each axis, and after them, of images, offsets. Leaves how many bytes each box has. `base` is the device address
// of global memory's first byte.
bool tw_tensor_copy(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask, char *shared,
                    char *const *maps, const uint64_t *places, const int32_t *corners, uint32_t *bytes, uint32_t rank,
                    uint32_t does, uint64_t base)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        struct copy c = {.context = context, .warp = warp, .shared = shared, .site = site, .base = base};
        const struct tw_tensor_map *map = &c.box.map;
        c.stores = (does & TW_TENSOR_STORES) != 0;
        c.operation = does >> TW_TENSOR_OPERATION_SHIFT;
        c.lane = tw_first_lane(left);
        c.place = places[c.lane];
        c.box = tw_box_of(maps[c.lane], corners, c.lane, rank);
        if (!is_map(map, rank, (does & TW_TENSOR_IMAGES) != 0)) {
            const uint32_t got = map->magic == TW_TENSOR_MAGIC ? 1 + (map->pixels > 0) : 0;
            tw_blame(context, warp, site, 1u << c.lane, TW_TENSOR_MAP, got, map->rank);
            return true;
        }
        if (c.operation && !combines(&c)) {
            tw_blame(context, warp, site, 1u << c.lane, TW_TENSOR_MAP, 3, map->rank);
            return true;
        }
        if (copy_box(&c, bytes + c.lane))
            return true;
    }
    return false;
}

// Copies the maps of the lanes of a mask, once, and lets `maps` point at the copies: instruments read them after a box
// is copied, which may write over its own map.
void tw_tensor_keep(uint32_t mask, const char **maps, struct tw_tensor_map *kept)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        if (maps[lane] == (const char *)(kept + lane))
            continue;
        __builtin_memcpy(kept + lane, maps[lane], sizeof *kept);
        maps[lane] = (const char *)(kept + lane);
    }
}

// Of the lanes of a mask, the first of those that give the same map, the same place in shared memory and the same
// corner of a box.
uint32_t tw_tensor_distinct(uint32_t mask, char *const *maps, const uint64_t *places, const int32_t *corners,
                            uint32_t rank)
{
    uint32_t distinct = 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        bool seen = false;
        for (uint32_t known = distinct; known && !seen; known = tw_other_lanes(known)) {
            const uint32_t other = tw_first_lane(known);
            seen = maps[other] == maps[lane] && places[other] == places[lane];
            for (uint32_t axis = 0; seen && axis < rank; axis++)
                seen = corners[axis * TW_LANES + other] == corners[axis * TW_LANES + lane];
        }
        distinct |= (uint32_t)!seen << lane;
    }
    return distinct;
}

// Pieces of a row in global memory, aligned to 16 bytes: its first and last bytes, and whole pieces between them.
struct pieces {
    uint64_t first;
    uint64_t head;  // where the whole ones begin,
    uint64_t tail;  // and where they end
    uint64_t end;
};

static struct pieces pieces_of(const struct tw_box *box, uint64_t number)
{
    const struct tw_box_row row = tw_box_row(box, number);
    const uint64_t first = tw_box_place(box, &row, row.first);
    const uint64_t end = first + (uint64_t)(row.end - row.first) * box->map.element_bytes;
    const uint64_t head = (first + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES, tail = end / UNIT_BYTES * UNIT_BYTES;
    return head <= tail ? (struct pieces){first, head, tail, end} : (struct pieces){first, end, end, end};
}

// The address of a row's piece of `bytes`, by number; 0 where there is none.
static uint64_t piece(const struct tw_box *box, uint64_t number, uint32_t bytes, uint32_t which)
{
    const struct pieces all = pieces_of(box, number);
    uint64_t at = all.first + which, end = all.head;
    if (bytes > 1)
        at = all.head + (uint64_t)which * UNIT_BYTES, end = all.tail;
    else if (which >= UNIT_BYTES)
        at = all.tail + which - UNIT_BYTES, end = all.end;
    return at < end ? at : 0;
}

// What a lane's copy touches of global memory, for instruments: the addresses of up to 32 pieces, each of 16 bytes, or
// each of one byte where 16 are not in the tensor; and which of the 32 there are. `done` counts those looked at; with
// none left it is the most there can be.
uint32_t tw_tensor_pieces(char *const *maps, const int32_t *corners, uint32_t lane, uint32_t rank, uint32_t bytes,
                          uint64_t *done, uint64_t *addresses)
{
    const struct tw_box box = tw_box_of(maps[lane], corners, lane, rank);
    const uint32_t each = bytes > 1 ? tw_box_row_bytes(&box) / UNIT_BYTES : 2 * UNIT_BYTES;
    const uint64_t most = tw_box_rows(&box) * each;
    uint32_t found = 0, count = 0;
    for (; *done < most && count < TW_LANES; (*done)++) {
        const uint64_t at = piece(&box, *done / each, bytes, (uint32_t)(*done % each));
        if (!at)
            continue;
        addresses[count] = at;
        found |= 1u << count++;
    }
    if (*done == most)
        *done = UINT64_MAX;
    return found;
}
