// Blocks of the device's heap: what malloc gives is unset and has no past, what free gets back must be a block, its
// last use must be ordered before, and nobody may use it after that. `device_ptx/heap.ptx` has both functions.
//
// States of bytes say which blocks there are, because a kernel may overwrite what is in memory: the last byte before a
// block in use is TW_HEAP_BLOCK, or TW_FREED once it was given back, and all other bytes that no block has are free.

#include "global.h"

enum { HEADER_BYTES = 16, CLASS_MAX = 31 };

static uint64_t element_of(const uint8_t *values, uint32_t index, uint32_t lane, uint32_t bytes)
{
    uint64_t value = 0;
    __builtin_memcpy(&value, values + index * TW_VALUES_STRIDE_BYTES + lane * bytes, bytes);
    return value;
}

// The cells of a block are as if nothing had used them: another owner's uses are over.
static void forget(struct tw_shadow_launch *launch, uint64_t start, uint64_t bytes)
{
    uint64_t size = launch->cell_bytes;
    for (uint64_t cell = start / size; cell < (start + bytes + size - 1) / size; cell++) {
        __atomic_store_n(&launch->writes[cell], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&launch->reads[cell], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&launch->stored[cell], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&launch->quiet[cell], 0, __ATOMIC_RELAXED);
    }
}

static void fill(struct tw_shadow_launch *launch, uint64_t start, uint64_t end, uint8_t state)
{
    for (uint64_t byte = start; byte < end; byte++)
        __atomic_store_n(&launch->states[byte], state, __ATOMIC_RELAXED);
}

// malloc stores the class of a block, its bytes and two more words before it: its last instruction.
void tw_shadow_heap_given(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, const uint8_t *values)
{
    struct tw_shadow_launch *of = launch;
    (void)slot, (void)warp, (void)block, (void)counters, (void)row, (void)bytes;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint64_t from = addresses[lane] - of->base, class = element_of(values, 0, lane, 4) & CLASS_MAX;
        uint64_t start = from + HEADER_BYTES, end = from + ((uint64_t)1 << class);
        uint64_t size = element_of(values, 1, lane, 4);
        if (addresses[lane] < of->heap || addresses[lane] >= of->heap_end || of->base + end > of->heap_end ||
            start + size > end)
            continue;
        fill(of, from, start - 1, TW_FREE);
        fill(of, start, start + size, TW_WRITABLE);
        fill(of, start + size, end + (of->base + end < of->heap_end), TW_FREE);  // to the next header, which ends it
        forget(of, start, size);
        fill(of, start - 1, start, TW_HEAP_BLOCK);
    }
}

// The defect of giving back what an address leads to, or 0. Blocks of before the check are not known, nor those of the
// heaps of other modules that it has not seen.
static uint32_t wrongly_freed(const struct access *me)
{
    const struct tw_shadow_launch *launch = me->launch;
    uint64_t before = me->address - launch->base - 1, address = me->address;
    if (address <= launch->base || before >= launch->global_bytes)
        return TW_HEAP_FOREIGN;
    bool is_ours = address >= launch->heap && address < launch->heap_end;
    uint8_t block = TW_HEAP_BLOCK, state;
    if (__atomic_compare_exchange_n(&launch->states[before], &block, TW_FREED, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        return 0;
    state = block;
    if (is_ours && address % HEADER_BYTES == 0 && state == TW_FREED)
        return TW_HEAP_TWICE;
    if (is_ours ? address < launch->heap_known && state & TW_READABLE : state != TW_FREE)
        return TW_HEAP_UNKNOWN;
    return TW_HEAP_FOREIGN;
}

// free stores the address that it gets: its first instruction.
void tw_shadow_heap_back(TW_WHERE, uint32_t mask, const uint64_t *addresses, uint32_t bytes, const uint8_t *values)
{
    uint64_t pointers[TW_LANES];
    struct access me = access_of(slot, warp, launch, block, counters, row, mask, pointers, 1, 0, TW_WRITES, 1, 0);
    (void)addresses, (void)bytes;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        pointers[lane] = element_of(values, 0, lane, 8);
        turn_to(&me, lane);
        uint32_t kind = wrongly_freed(&me);
        if (kind && kind != TW_HEAP_UNKNOWN)
            report(&me, kind, 0, false);
        if (kind)
            continue;
        uint64_t start = me.address - me.launch->base, end = start;
        while (end < me.launch->global_bytes && me.launch->states[end] & TW_WRITABLE)
            end++;
        tw_shadow_ends(&me, start, end);
        fill(me.launch, start, end, TW_FREED);
    }
}
