// Tensor memory under check: which of its cells are written, and what incomplete products, copies and stores use.
//
// A product or a copy is complete when a thread has seen the phase complete in which a later commit arrived. A store of
// registers is complete when its warp has waited for its stores. Until then nothing may read what it writes or write
// what it uses, except products of the same warp, which are ordered. `tensor_memory.py` states the rules.

#include "tensor_memory.h"

#include <stdbool.h>

#include "simulate/runtime/instrument.h"
#include "simulate/runtime/tensor_memory.h"
#include "simulate/runtime/tensor_shapes.h"

enum { ROW_SHIFT = 8, WARP_SHIFT = 2, HALF_LANES = 16 };

// The current access: its block, warp, thread and instruction.
struct user {
    const struct tw_slot *slot;
    struct tw_tensor_launch *launch;
    struct tw_tensor_block *block;
    uint32_t warp;
    uint32_t thread;
    uint32_t row;
    bool follows;  // it comes after products and copies of its own warp
    uint32_t reported; // bits of the kinds that were reported
};

static uint32_t warp_of(const struct tw_use *use)
{
    return use->who >> WARP_SHIFT & (TW_TENSOR_WARPS - 1);
}

static uint32_t kind_of(const struct tw_use *use)
{
    return use->who & 3;
}

static bool is_over(const struct tw_tensor_block *block, const struct tw_use *use)
{
    const uint32_t *last = kind_of(use) == TW_BY_STORE ? block->stored : block->ended;
    return use->number <= last[warp_of(use)];
}

static struct tw_use use_of(const struct user *me, uint32_t kind)
{
    const uint32_t *issued = kind == TW_BY_STORE ? me->block->stores : me->block->issued;
    return (struct tw_use){issued[me->warp], me->row << ROW_SHIFT | me->warp << WARP_SHIFT | kind};
}

static struct user user_of(TW_WHERE, uint32_t mask, bool follows)
{
    (void)counters;
    const uint32_t thread = warp->index * TW_LANES + tw_first_lane(mask) % TW_LANES;
    return (struct user){slot, launch, block, warp->index % TW_TENSOR_WARPS, thread, row, follows, 0};
}

static void record_finding(struct user *me, uint32_t kind, const struct tw_use *other)
{
    if (me->reported >> kind & 1)
        return;
    me->reported |= 1u << kind;
    const struct tw_record finding = {
        .kind = kind,
        .row = me->row,
        .other = other->who >> ROW_SHIFT,
        .count = 1,
        .first = me->slot->block << 10 | me->thread,
        .cell = kind_of(other),
    };
    tw_found_add(&me->launch->found, &finding);
}

// Cells of a half of lanes.
static struct tw_use *cells_at(struct tw_use *cells, uint32_t half, uint32_t column)
{
    return cells + half * TW_TENSOR_COLUMNS + column;
}

// Whether columns are allocated; if they are not, the access is a fault.
static bool is_inside(const struct user *me, uint32_t column, uint32_t columns)
{
    return tw_tensor_is_there(me->slot, column, columns);
}

// Columns are read, in the halves of lanes of a set. Reads of products are kept, because these are still in progress.
static void read_cells(struct user *me, uint32_t halves, uint32_t column, uint32_t columns, bool notes)
{
    for (uint32_t half = 0; half < TW_TENSOR_HALVES && is_inside(me, column, columns); half++) {
        for (uint32_t c = column; halves >> half & 1 && c < column + columns; c++) {
            const struct tw_use *last = cells_at(me->block->writes, half, c);
            const bool own = me->follows && warp_of(last) == me->warp && kind_of(last) != TW_BY_STORE;
            if (kind_of(last) == TW_BY_NOBODY)
                record_finding(me, TW_TENSOR_UNSET, last);
            else if (!is_over(me->block, last) && !own)
                record_finding(me, kind_of(last) == TW_BY_STORE ? TW_TENSOR_STORED : TW_TENSOR_EARLY, last);
            if (notes)
                *cells_at(me->block->reads, half, c) = use_of(me, TW_BY_PRODUCT);
        }
    }
}

static void write_cells(struct user *me, uint32_t halves, uint32_t column, uint32_t columns, uint32_t kind)
{
    for (uint32_t half = 0; half < TW_TENSOR_HALVES && is_inside(me, column, columns); half++) {
        for (uint32_t c = column; halves >> half & 1 && c < column + columns; c++) {
            struct tw_use *last = cells_at(me->block->writes, half, c), *read = cells_at(me->block->reads, half, c);
            for (uint32_t i = 0; i < 2; i++) {
                const struct tw_use *before = i ? read : last;
                const bool own = me->follows && warp_of(before) == me->warp;
                if ((kind_of(before) == TW_BY_PRODUCT || kind_of(before) == TW_BY_COPY) &&
                    !is_over(me->block, before) && !own)
                    record_finding(me, TW_TENSOR_OVER, before);
            }
            *last = use_of(me, kind);
        }
    }
}

static void read_units(struct user *me, uint32_t mask, const uint64_t *offsets, uint32_t kind)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint64_t unit = offsets[tw_first_lane(left)] / TW_TENSOR_UNIT_BYTES;
        if (unit < me->launch->units)
            me->block->units[unit] = use_of(me, kind);
    }
}

void tw_tensor_memory_move(TW_WHERE, uint32_t mask, uint32_t address, uint32_t columns, uint32_t shape, uint32_t apart,
                           uint32_t does)
{
    struct user me = user_of(slot, warp, launch, block, counters, row, mask, false);
    const uint32_t first = warp->index % 4 * 2 + (address >> 16) % TW_LANES / HALF_LANES, column = address & 0xffff;
    const uint32_t halves = shape == TW_MOVES_32X32 ? 3u << (first & ~1u) : 1u << first;
    const uint32_t each = does & TW_MOVES_HALVES ? 2 : 1;
    const bool stores = does & TW_MOVES_STORES;
    me.block->stores[me.warp] += stores;
    for (uint32_t i = 0; i < (shape == TW_MOVES_16X32X2 ? 2u : 1u); i++) {
        if (stores)
            write_cells(&me, halves, column + i * apart * each, columns, TW_BY_STORE);
        else
            read_cells(&me, halves, column + i * apart * each, columns, false);
    }
}

// Stores of a warp are complete.
void tw_tensor_memory_waited(TW_WHERE, uint32_t mask)
{
    struct tw_tensor_block *its = block;
    its->stored[warp->index % TW_TENSOR_WARPS] = its->stores[warp->index % TW_TENSOR_WARPS];
}

// Columns are about to be allocated: free columns hold nothing.
void tw_tensor_memory_allocated(TW_WHERE, uint32_t mask)
{
    struct tw_tensor_block *its = block;
    for (uint32_t half = 0; half < TW_TENSOR_HALVES; half++) {
        for (uint32_t column = 0; column < TW_TENSOR_COLUMNS; column++) {
            if (slot->tensor_taken >> column / TW_TENSOR_UNIT & 1)
                continue;
            *cells_at(its->writes, half, column) = (struct tw_use){0, 0};
            *cells_at(its->reads, half, column) = (struct tw_use){0, 0};
        }
    }
}

void tw_tensor_memory_copy(TW_WHERE, uint32_t mask, const uint32_t *addresses, const uint64_t *matrices, uint32_t lines,
                           uint32_t bytes)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        struct user me = user_of(slot, warp, launch, block, counters, row, 1u << lane, true);
        const struct tw_matrix m = tw_matrix_of_sm100(matrices[lane], 8, false);
        me.block->issued[me.warp]++;
        for (uint32_t line = 0; line < lines; line++)
            for (uint32_t unit = 0; unit < bytes / TW_UNIT_BYTES; unit++) {
                const uint64_t at = tw_matrix_swizzled(&m, tw_matrix_k_major(&m, line, unit * TW_UNIT_CHUNKS));
                read_units(&me, 1, &at, TW_BY_COPY);
            }
        write_cells(&me, (1u << TW_TENSOR_HALVES) - 1, addresses[lane] & 0xffff, bytes / 4, TW_BY_COPY);
    }
}

void tw_tensor_memory_product(TW_WHERE, uint32_t mask, const struct tw_tensor_operands *operands, uint32_t kind,
                              uint32_t does)
{
    const uint32_t all = (1u << TW_TENSOR_HALVES) - 1, lower = 0x55;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left), instruction = (uint32_t)operands->instruction[lane];
        const uint32_t d = (uint32_t)operands->d[lane], rows = tw_product_rows(instruction);
        const uint32_t parts = tw_product_parts(rows, does), columns = tw_product_columns(instruction);
        const uint32_t halves = rows == 64 && parts == 1 ? lower << ((d >> 16) / HALF_LANES & 1) : all;
        struct user me = user_of(slot, warp, launch, block, counters, row, 1u << lane, true);
        me.block->issued[me.warp]++;
        uint64_t offsets[TW_LANES];
        for (uint32_t part = 0, units = 1; units; part++) {
            units = tw_product_units(operands, lane, part, kind, does, offsets);
            read_units(&me, units, offsets, TW_BY_PRODUCT);
        }
        if (does & TW_TENSOR_A_HELD)
            read_cells(&me, rows == 64 ? lower : all, (uint32_t)operands->a[lane] & 0xffff, TW_DEPTH_BYTES / 4, true);
        if (tw_product_is_scaled(kind)) {
            read_cells(&me, all, (uint32_t)operands->a_scales[lane] & 0xffff, (rows + 31) / 32, true);
            read_cells(&me, all, (uint32_t)operands->b_scales[lane] & 0xffff, (columns + 31) / 32, true);
        }
        if (does & TW_TENSOR_SPARSE) {
            const uint32_t of_one = tw_product_metadata(kind), second = of_one == 1 && instruction & 1;
            read_cells(&me, all, ((uint32_t)operands->metadata[lane] & 0xffff) + second, of_one, true);
        }
        if (operands->adds[lane])
            read_cells(&me, halves, d & 0xffff, columns / parts, false);
        write_cells(&me, halves, d & 0xffff, columns / parts, TW_BY_PRODUCT);
    }
}

// Shared memory is written.
void tw_tensor_memory_stored(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes)
{
    const struct tw_tensor_block *its = block;
    bool flies = false;
    for (uint32_t i = 0; i < TW_TENSOR_WARPS; i++)
        flies |= its->issued[i] != its->ended[i];
    struct user me = user_of(slot, warp, launch, block, counters, row, mask, false);
    for (uint32_t left = flies ? mask : 0; left; left = tw_other_lanes(left)) {
        const uint64_t unit = addresses[tw_first_lane(left)] / TW_TENSOR_UNIT_BYTES;
        if (unit >= me.launch->units)
            continue;
        const struct tw_use *read = its->units + unit;
        me.thread = warp->index * TW_LANES + tw_first_lane(left);
        if (read->number && !is_over(its, read))
            record_finding(&me, TW_TENSOR_CHANGED, read);
    }
}

static uint64_t object_at(const struct tw_slot *slot, uint64_t place)
{
    uint64_t object;
    __builtin_memcpy(&object, slot->shared + place, sizeof object);
    return object;
}

// Lanes have arrived at mbarriers for what their warp has issued. A phase that is complete now was completed by them.
void tw_tensor_memory_commit(TW_WHERE, uint32_t mask, const uint64_t *places, const uint32_t *counts)
{
    struct tw_tensor_block *its = block;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint64_t place = places[tw_first_lane(left)], object = object_at(slot, place);
        const uint64_t expected = object & TW_MBARRIER_MOST;
        const uint64_t pending = object >> TW_MBARRIER_PENDING_SHIFT & TW_MBARRIER_MOST;
        const uint32_t phase = (uint32_t)(object >> TW_MBARRIER_PHASE_SHIFT) + (expected != pending);
        uint32_t at = 0;
        while (at < TW_TENSOR_COMMITS && its->commits[at].place)
            at++;
        const uint32_t index = warp->index % TW_TENSOR_WARPS;
        if (at == TW_TENSOR_COMMITS) {  // too many to follow: this one counts as complete
            its->ended[index] = its->issued[index];
            continue;
        }
        its->commits[at] = (struct tw_commit){(uint32_t)place + 1, phase % 8, index, its->issued[index]};
    }
}

static void see(struct tw_tensor_block *its, const struct tw_slot *slot, uint64_t place, bool complete)
{
    const uint32_t phase = (uint32_t)(object_at(slot, place) >> TW_MBARRIER_PHASE_SHIFT);
    for (uint32_t i = 0; i < TW_TENSOR_COMMITS && complete; i++) {
        struct tw_commit *commit = &its->commits[i];
        if (commit->place != place + 1 || (phase - commit->phase) % 8 >= 4)
            continue;
        if (commit->number > its->ended[commit->warp])
            its->ended[commit->warp] = commit->number;
        commit->place = 0;
    }
}

// Lanes have tested whether phases are complete, by parity or by state.
void tw_tensor_memory_asked(TW_WHERE, uint32_t mask, const uint64_t *places, const uint64_t *operands, uint32_t parity)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        const uint64_t phase = object_at(slot, places[lane]) >> TW_MBARRIER_PHASE_SHIFT;
        const bool complete = parity ? (phase & 1) != (operands[lane] & 1)
                                     : phase != operands[lane] >> TW_MBARRIER_PHASE_SHIFT;
        see(block, slot, places[lane], complete);
    }
}
