// What each warp of the first cluster ran, in order: straight lines, and what it did to mbarriers and by bulk copies.

#include "recording.h"
#include "simulate/runtime/tensor_shapes.h"

enum {
    OUTSIDE = -1,   // no mbarrier
    WORDS_EACH = 3, // of what one mbarrier or copy is recorded as
    TW_LINES_SHIFT = 16,
};

// A block's number in its cluster.
static inline uint64_t rank_of(const struct tw_slot *slot)
{
    return (uint64_t)(slot - slot->cluster);
}

// Whether a block belongs to the launch's first cluster.
static inline bool is_first(const struct tw_slot *slot)
{
    return slot->cluster->block == 0;
}

// A warp's number in its cluster.
static inline uint64_t warp_of(const struct tw_requests *launch, const struct tw_slot *slot, const struct tw_warp *warp)
{
    return rank_of(slot) * launch->warps + warp->index;
}

// A place in the shared memory of the block at which lanes change an mbarrier: its offset, and the block's rank above.
static inline uint64_t place_of(const struct tw_slot *slot, uint64_t offset)
{
    return rank_of(slot->target) << TW_RANK_SHIFT | offset;
}

// The first row has a counter of this host thread's, which says where it writes.
static inline uint64_t **state_of(uint64_t *counters, uint32_t row)
{
    return (uint64_t **)(counters - row);
}

void tw_roles_run(TW_WHERE, uint32_t mask)
{
    if (!is_first(slot))
        return;
    uint64_t **state = state_of(counters, row);
    tw_keep(warp_of(launch, slot, warp), row, state, tw_room(launch, state, 1), 0);
}

// For each place: where it is, what the lanes bring together, and how many they are.
void tw_roles_change(TW_WHERE, uint32_t mask, const uint64_t *places, const uint32_t *numbers)
{
    if (!is_first(slot))
        return;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, WORDS_EACH * TW_LANES + 1), words = 0;
    for (uint32_t left = mask, with; left; left &= ~with) {
        uint32_t lane = tw_first_lane(left);
        uint64_t sum = 0;
        with = 0;
        for (uint32_t i = lane; i < TW_LANES; i++)
            if (left >> i & 1 && places[i] == places[lane]) {
                with |= 1u << i;
                sum += numbers[i];
            }
        room[++words] = place_of(slot, places[lane]);
        room[++words] = sum;
        room[++words] = tw_lane_count(with);
    }
    tw_keep(warp_of(launch, slot, warp), row, state, room, words);
}

// Of the first lane: the place, the parity that it waits for, and whether that phase is over.
void tw_roles_test(TW_WHERE, uint32_t mask, const uint64_t *places, const uint64_t *operands, uint32_t is_state)
{
    if (!is_first(slot))
        return;
    uint32_t lane = tw_first_lane(mask);
    uint64_t bits, shift = is_state ? TW_MBARRIER_PHASE_SHIFT : 0, parity = operands[lane] >> shift & 1;
    __builtin_memcpy(&bits, (const char *)slot->shared + places[lane], sizeof bits);
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, WORDS_EACH + 1);
    room[1] = place_of(slot, places[lane]);
    room[2] = parity;
    room[3] = (bits >> TW_MBARRIER_PHASE_SHIFT & 1) != parity;
    tw_keep(warp_of(launch, slot, warp), row, state, room, WORDS_EACH);
}

// For each lane's copy: its mbarrier, its bytes, and 1.
void tw_roles_copy(TW_WHERE, uint32_t mask, const uint64_t *targets, const uint64_t *origins, const uint32_t *sizes,
                   const uint64_t *barriers)
{
    if (!is_first(slot))
        return;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, WORDS_EACH * TW_LANES + 1), words = 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        room[++words] = barriers ? place_of(slot, barriers[lane]) : (uint64_t)OUTSIDE;
        room[++words] = sizes[lane];
        room[++words] = 1;
    }
    tw_keep(warp_of(launch, slot, warp), row, state, room, words);
}

// For each lane's product in tensor memory, as `Op.MULTIPLY` has it.
void tw_roles_multiply(TW_WHERE, uint32_t mask, const struct tw_tensor_operands *operands, uint32_t kind, uint32_t does)
{
    if (!is_first(slot))
        return;
    (void)kind;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, WORDS_EACH * TW_LANES + 1), words = 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        const uint32_t instruction = (uint32_t)operands->instruction[tw_first_lane(left)];
        const uint32_t rows = tw_product_rows(instruction), columns = tw_product_columns(instruction);
        const uint32_t blocks = does & TW_TENSOR_PAIR ? 2 : 1, of_a = does & TW_TENSOR_A_HELD ? 0 : rows / blocks;
        room[++words] = (uint64_t)OUTSIDE;
        room[++words] = columns / tw_product_parts(rows, does) | of_a << TW_LINES_SHIFT;
        room[++words] = columns / blocks * (tw_product_line_bytes(does) / TW_DEPTH_BYTES);
    }
    tw_keep(warp_of(launch, slot, warp), row, state, room, words);
}

// For each lane's copy to tensor memory: its lines, and their bytes.
void tw_roles_fill(TW_WHERE, uint32_t mask, const uint32_t *addresses, const uint64_t *matrices, uint32_t lines,
                   uint32_t bytes)
{
    if (!is_first(slot))
        return;
    (void)addresses, (void)matrices;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, WORDS_EACH * TW_LANES + 1), words = 0;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        room[++words] = (uint64_t)OUTSIDE;
        room[++words] = lines;
        room[++words] = bytes;
    }
    tw_keep(warp_of(launch, slot, warp), row, state, room, words);
}
