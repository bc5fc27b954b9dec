// What bulk copies read of global memory, from the issue until their mbarrier's phase is complete.
//
// A write of these bytes must come after a wait for the phase. Until then every write by the block is a defect, even
// one that a barrier orders: W must be the same when a thread first sees the phase complete. Writes by others are
// races.
//
// Source: PTX ISA, 9.7.9.25.4: an mbarrier's complete-tx is the completion of the copy, its reads included.

#include "origins.h"

// Cells of global memory; a walk ends with the first that `visit` returns true for.
typedef bool visiting(void *what, uint64_t cell, uint64_t written);

static bool walk_bytes(const struct tw_shadow_launch *launch, uint64_t start, uint64_t end, visiting *visit, void *what)
{
    uint64_t size = launch->cell_bytes;
    for (uint64_t c = (start - launch->base) / size; start < end && c < (end - launch->base + size - 1) / size; c++) {
        uint64_t written = __atomic_load_n(&launch->writes[c], __ATOMIC_RELAXED);
        if (written && visit(what, c, written))
            return true;
    }
    return false;
}

// Visit the cells of an origin that were written in this launch.
static bool walk(const struct tw_shadow_launch *launch, const struct tw_origin *origin, visiting *visit, void *what)
{
    struct tw_box box;
    if (origin->bytes)
        return walk_bytes(launch, origin->start, origin->start + origin->bytes, visit, what);
    __builtin_memcpy(&box, origin->box, sizeof box);
    for (uint64_t row = 0, end; row < tw_box_rows(&box); row++) {
        const uint64_t at = tw_box_bytes(&box, row, &end);
        if (walk_bytes(launch, at, end, visit, what))
            return true;
    }
    return false;
}

// W as one number: two that differ are taken for the same once in 2^64.
static bool add_to_hash(void *what, uint64_t cell, uint64_t written)
{
    uint64_t *hash = what;
    *hash += written * (UINT64_C(0x9E3779B97F4A7C15) + 2 * cell);
    return false;
}

void tw_shadow_keep_origin(const struct tw_shadow_launch *launch, struct tw_origin *origin, uint64_t start,
                           uint64_t bytes, const struct tw_box *box)
{
    origin->start = start;
    origin->bytes = bytes;
    origin->seen = 0;
    if (box)
        __builtin_memcpy(origin->box, box, sizeof *box);
    walk(launch, origin, add_to_hash, &origin->seen);
}

// A cell that a block has written.
struct writer {
    uint64_t block;
    uint64_t cell;
    uint64_t written;
};

static bool is_by(void *what, uint64_t cell, uint64_t written)
{
    struct writer *writer = what;
    writer->cell = cell;
    writer->written = written;
    return written >> TW_BLOCK_SHIFT == writer->block;
}

void tw_shadow_end_origin(struct tw_shadow_launch *launch, uint64_t number, const struct tw_bulk *bulk)
{
    uint64_t hash = 0;
    struct writer writer = {.block = number};
    walk(launch, &bulk->origin, add_to_hash, &hash);
    if (hash == bulk->origin.seen || !walk(launch, &bulk->origin, is_by, &writer))
        return;
    struct tw_record finding = {
        .kind = TW_GLOBAL_IN_FLIGHT,
        .row = bulk->row,
        .other = (writer.written & TW_SITES) >> TW_SITE_SHIFT,
        .wrote = TW_OTHER_WROTE,
        .count = 1,
        .first = number << 10 | bulk->thread,
        .address = launch->base + writer.cell * launch->cell_bytes,
        .cell = writer.written,
    };
    tw_found_add(&launch->found, &finding);
}
