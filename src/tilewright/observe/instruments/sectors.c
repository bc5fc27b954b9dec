// The distinct sectors and bytes of one warp's request, counted and perhaps recorded; `sectors.py` says of what.
//
// A lane's access is a few pieces, each the number of a sector; a mask has its bytes there. Leaders are taken piece by
// piece and lane by lane; all lanes on the leader's sector are served with it.

#include "counting.h"
#include "recording.h"

enum {
    SLOTS = 5,  // requests, lanes, sectors, bytes used and ideal sectors
    WORD_BYTES = 4,
    PIECES = 8,  // at most: the words of a lane's access to local memory
    LANE_WORDS = TW_SECTOR_BYTES / WORD_BYTES,
    LINE_SHIFT = 7,  // of an address, to the number of its line
    ROW_SHIFT = 2,   // of an address in a lane's local memory, to the number of the line that its word is a row of
    FOUR = 4,
};

// Sectors of local memory are numbered from here, above all of global memory.
#define LOCAL_SECTORS ((uint64_t)1 << 40)

struct access {
    tw_u64_lanes sectors[PIECES];
    tw_u32_lanes bytes;  // of each lane, the same in all its pieces
};

static inline void add(uint64_t *counters, uint32_t mask, uint32_t sectors, uint32_t used)
{
    const uint64_t sums[SLOTS] = {1, tw_lane_count(mask), sectors, used,
                                  (used + TW_SECTOR_BYTES - 1) / TW_SECTOR_BYTES};
    tw_add_row(counters, sums, SLOTS);
}

// Counts the distinct sectors, and writes them to `out`; returns how many. They are compared by 32 bits: memory of one
// space is within 128 GiB.
static inline uint32_t distinct(uint64_t *counters, const struct access *access, uint32_t pieces, uint32_t mask,
                                uint64_t *out)
{
    tw_u32_lanes low[PIECES];
    uint32_t left[PIECES], sectors = 0, used = 0;
    for (uint32_t p = 0; p < pieces; p++) {
        low[p] = __builtin_convertvector(access->sectors[p], tw_u32_lanes);
        left[p] = mask;
    }
    for (uint32_t p = 0; p < pieces; p++) {
        while (left[p]) {
            uint64_t leader = access->sectors[p][tw_first_lane(left[p])];
            tw_u32_lanes touched = {0};
            for (uint32_t q = p; q < pieces; q++) {
                uint32_t served = tw_where32(low[q] == (uint32_t)leader) & left[q];
                touched |= (tw_u32_lanes)tw_mask32(served) & access->bytes;
                left[q] ^= served;
            }
            out[sectors++] = leader;
            used += tw_lane_count(tw_union(touched));
        }
    }
    add(counters, mask, sectors, used);
    return sectors;
}

// A quicker way for all lanes, where none's address is below that of the lane before it and no two overlap in part:
// sectors are distinct where they change from one lane to the next. Returns false where this does not hold.
static inline bool rising(uint64_t *counters, tw_u64_lanes address, uint32_t bytes)
{
    const tw_u64_lanes sector = address / TW_SECTOR_BYTES;
    const tw_i64_lanes step = (tw_i64_lanes)(address - tw_lane_before(address)), apart = step >= (int64_t)bytes;
    if (tw_where64((step == 0) | apart) != UINT32_MAX)
        return false;
    uint32_t sectors = tw_lane_count(tw_where64(sector != tw_lane_before(sector)) | 1);
    add(counters, UINT32_MAX, sectors, (tw_lane_count(tw_where64(apart)) + 1) * bytes);
    return true;
}

static inline uint32_t of_global(uint64_t *counters, uint32_t mask, const tw_addresses *addresses, uint32_t bytes,
                                 uint64_t *out)
{
    const tw_u64_lanes address = *addresses;
    struct access access;
    access.sectors[0] = address / TW_SECTOR_BYTES;
    tw_u32_lanes low = __builtin_convertvector(address, tw_u32_lanes);
    access.bytes = (UINT32_MAX >> (TW_SECTOR_BYTES - bytes)) << (low % TW_SECTOR_BYTES);
    return distinct(counters, &access, 1, mask, out);
}

// Each word of an access is in the sector of that word and of the lane's group of eight.
static inline uint32_t of_local(uint64_t *counters, uint32_t mask, const tw_addresses *addresses, uint32_t bytes,
                                uint64_t first, uint64_t *out)
{
    const tw_u32_lanes lane = tw_lane_numbers(), low = __builtin_convertvector(*addresses, tw_u32_lanes);
    const tw_u64_lanes eighth = __builtin_convertvector(lane / LANE_WORDS, tw_u64_lanes) + first;
    uint32_t pieces = bytes < WORD_BYTES ? 1 : bytes / WORD_BYTES;
    uint32_t each = bytes < WORD_BYTES ? (1u << bytes) - 1 : 15;
    struct access access;
    for (uint32_t p = 0; p < pieces; p++)
        access.sectors[p] = (*addresses / WORD_BYTES + p) * TW_LINE_SECTORS + eighth;
    access.bytes = each << (low % WORD_BYTES + WORD_BYTES * (lane % LANE_WORDS));
    return distinct(counters, &access, pieces, mask, out);
}

void tw_coalescing_global(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes)
{
    uint64_t out[TW_LANES];
    if (mask && !(mask == UINT32_MAX && rising(counters, *addresses, bytes)))
        of_global(counters, mask, addresses, bytes, out);
}

void tw_coalescing_local(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes)
{
    uint64_t out[TW_LANES * PIECES];
    if (mask)
        of_local(counters, mask, addresses, bytes, 0, out);
}

// The host thread's state is the last counter of the instrument's first row, which has one more than it counts with.
static inline uint64_t **state_of(uint64_t *counters, uint32_t row)
{
    return (uint64_t **)(counters - (uint64_t)row * (SLOTS + 1) + SLOTS);
}

static inline uint64_t local_of(const struct tw_requests *requests, const struct tw_slot *slot,
                                const struct tw_warp *warp)
{
    return LOCAL_SECTORS + tw_warp_number(requests, slot, warp) * requests->local;
}

// Makes words of sectors, in place: one for each run of neighbours in the list that are in one line; returns how many.
static inline uint32_t words_of(uint64_t *sectors, uint32_t many)
{
    uint32_t words = 0;
    for (uint64_t i = 0, last = UINT64_MAX; i < many; i++) {
        uint64_t line = sectors[i] / TW_LINE_SECTORS, bit = (uint64_t)1 << sectors[i] % TW_LINE_SECTORS;
        if (line == last)
            sectors[words - 1] |= bit;
        else
            sectors[words++] = line << TW_LINE_SECTORS | bit;
        last = line;
    }
    return words;
}

// The words of addresses that rise from lane to lane: a line's lanes are neighbours.
static inline uint32_t rising_words(const tw_addresses *addresses, uint64_t *out)
{
    const tw_u64_lanes line = *addresses / TW_LINE_BYTES;
    const tw_u32_lanes sector = __builtin_convertvector(*addresses / TW_SECTOR_BYTES, tw_u32_lanes) % TW_LINE_SECTORS;
    uint32_t in[TW_LINE_SECTORS], words = 0;
    for (uint32_t s = 0; s < TW_LINE_SECTORS; s++)
        in[s] = tw_where32(sector == s);
    for (uint32_t left = tw_where64(line != tw_lane_before(line)) | 1; left; left = tw_other_lanes(left)) {
        uint32_t after = tw_other_lanes(left), lanes = (after & -after) - (left & -left);
        uint64_t sectors = 0;
        for (uint32_t s = 0; s < TW_LINE_SECTORS; s++)
            sectors |= (uint64_t)((in[s] & lanes) != 0) << s;
        out[words++] = (*addresses)[tw_first_lane(left)] / TW_LINE_BYTES << TW_LINE_SECTORS | sectors;
    }
    return words;
}

void tw_coalescing_global_recorded(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes)
{
    if (!mask)
        return;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, TW_LANES + 1);
    bool rises = mask == UINT32_MAX && rising(counters, *addresses, bytes);
    uint32_t words = rises ? rising_words(addresses, room + 1)
                           : words_of(room + 1, of_global(counters, mask, addresses, bytes, room + 1));
    tw_keep(tw_warp_number(launch, slot, warp), row, state, room, words);
}

void tw_coalescing_local_recorded(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes)
{
    if (!mask)
        return;
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, TW_LANES * PIECES + 1);
    uint32_t many = of_local(counters, mask, addresses, bytes, local_of(launch, slot, warp), room + 1);
    tw_keep(tw_warp_number(launch, slot, warp), row, state, room, words_of(room + 1, many));
}

typedef void by_address(TW_WHERE, uint32_t mask, const tw_addresses *addresses, uint32_t bytes);

static __attribute__((noinline, cold)) void part(TW_WHERE, uint32_t mask, uint64_t base, const tw_addresses *offsets,
                                                 uint32_t bytes, by_address *count)
{
    const tw_addresses addresses = base + *offsets;
    count(slot, warp, launch, block, counters, row, mask, &addresses, bytes);
}

// An access of known offsets: `rows` is what one of all lanes adds, of a base modulo `many`.
TW_INLINE void tw_coalescing_affine(TW_WHERE, uint32_t mask, uint64_t base, const uint64_t *rows, uint64_t many,
                                  const tw_addresses *offsets, uint64_t bytes, uint64_t local)
{
    if (__builtin_expect(mask == UINT32_MAX, 1))
        tw_add_row(counters, tw_row_of(rows, many, base, SLOTS), SLOTS);
    else
        part(slot, warp, launch, block, counters, row, mask, base, offsets, (uint32_t)bytes,
             local ? tw_coalescing_local : tw_coalescing_global);
}

// The same where requests are recorded. `words` has a row for each place of the base in a line, by `shift`: how many
// words, above 32 bits how many sectors, and the words, filled up to `most`. What is written past their number the next
// request writes over.
TW_INLINE void tw_coalescing_affine_recorded(TW_WHERE, uint32_t mask, uint64_t base, const uint64_t *rows,
                                             uint64_t many, const tw_addresses *offsets, uint64_t bytes, uint64_t local,
                                             const uint64_t *words, uint64_t places, uint64_t shift, uint64_t most)
{
    if (__builtin_expect(mask != UINT32_MAX, 0)) {
        part(slot, warp, launch, block, counters, row, mask, base, offsets, (uint32_t)bytes,
             local ? tw_coalescing_local_recorded : tw_coalescing_global_recorded);
        return;
    }
    tw_add_row(counters, tw_row_of(rows, many, base, SLOTS), SLOTS);
    uint64_t line = local ? (base >> ROW_SHIFT) + local_of(launch, slot, warp) / TW_LINE_SECTORS : base >> LINE_SHIFT;
    const uint64_t *beside = words + ((base >> shift) & (places - 1)) * (most + 1);
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, most + 1);
    for (uint64_t i = 1; i <= most; i += FOUR)
        *(tw_four *)(room + i) = *(const tw_four *)(beside + i) + (line << TW_LINE_SECTORS);
    tw_keep(tw_warp_number(launch, slot, warp), row, state, room, (uint32_t)*beside);
}

// An access whose lanes are in rows of one stride: each row is one of constant offsets, of which `words` has a table.
// Where rows are so far `apart` that none shares a line with another, the request is all of theirs together.
TW_INLINE void tw_coalescing_rows_recorded(TW_WHERE, uint32_t mask, uint64_t base, uint64_t stride,
                                           const uint64_t *numbers, const uint64_t *words, const tw_addresses *offsets,
                                           const tw_addresses *rows, uint64_t many, uint64_t used, uint64_t apart,
                                           uint64_t places, uint64_t shift, uint64_t most, uint64_t bytes)
{
    if (__builtin_expect(mask != UINT32_MAX || stride + apart < 2 * apart, 0)) {
        const tw_addresses steps = *offsets + stride * *rows;
        part(slot, warp, launch, block, counters, row, mask, base, &steps, (uint32_t)bytes,
             tw_coalescing_global_recorded);
        return;
    }
    uint64_t **state = state_of(counters, row), *room = tw_room(launch, state, many * most + 1);
    uint64_t found = 0;
    for (uint64_t i = 0; i < many; i++) {
        uint64_t start = base + stride * numbers[i], line = start >> LINE_SHIFT, *to = room + (uint32_t)found;
        const uint64_t *beside = words + (i * places + ((start >> shift) & (places - 1))) * (most + 1);
        for (uint64_t j = 1; j <= most; j += FOUR)
            *(tw_four *)(to + j) = *(const tw_four *)(beside + j) + (line << TW_LINE_SECTORS);
        found += *beside;
    }
    add(counters, UINT32_MAX, (uint32_t)(found >> 32), (uint32_t)used);
    tw_keep(tw_warp_number(launch, slot, warp), row, state, room, (uint32_t)found);
}
