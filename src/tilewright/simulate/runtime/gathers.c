// Loads, stores and copies at a place for each lane, for hosts and widths that have no instruction for it.

#include "instrument.h"
#include "runtime.h"

// Element e of lane l is at `values + (e * TW_LANES + l) * bytes`, and in memory at `places[l] + e * bytes`.
TW_INLINE static inline void gather(char *values, char *const *places, uint64_t count, uint32_t lanes, uint64_t bytes)
{
    for (uint64_t from = 0; from < count * bytes; from += bytes, values += TW_LANES * bytes) {
        if (lanes == ~0u) {
#pragma GCC unroll 8
            for (uint64_t lane = 0; lane < TW_LANES; lane++)
                __builtin_memcpy(values + lane * bytes, places[lane] + from, bytes);
            continue;
        }
        __builtin_memset(values, 0, TW_LANES * bytes);
        for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
            const uint64_t lane = tw_first_lane(left);
            __builtin_memcpy(values + lane * bytes, places[lane] + from, bytes);
        }
    }
}

// Lanes go in their order: if two write the same place, the higher lane's value stays.
TW_INLINE static inline void scatter(const char *values, char *const *places, uint64_t count, uint32_t lanes,
                                     uint64_t bytes)
{
    for (uint64_t to = 0; to < count * bytes; to += bytes, values += TW_LANES * bytes) {
        if (lanes == ~0u) {
#pragma GCC unroll 8
            for (uint64_t lane = 0; lane < TW_LANES; lane++)
                __builtin_memcpy(places[lane] + to, values + lane * bytes, bytes);
            continue;
        }
        for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
            const uint64_t lane = tw_first_lane(left);
            __builtin_memcpy(places[lane] + to, values + lane * bytes, bytes);
        }
    }
}

#define OF_WIDTH(width, move)                                                                                          \
    case width:                                                                                                        \
        move(values, places, count, lanes, width);                                                                     \
        break;

// Call `move` with a constant width. Each width has a loop of its own, in which an element of up to 8 bytes is one
// move: another thread never sees half of it.
#define FOR_WIDTH(move)                                                                                                \
    switch (bytes) {                                                                                                   \
        OF_WIDTH(1, move)                                                                                              \
        OF_WIDTH(2, move)                                                                                              \
        OF_WIDTH(4, move)                                                                                              \
        OF_WIDTH(8, move)                                                                                              \
    default:                                                                                                           \
        move(values, places, count, lanes, 16);                                                                        \
    }

// Load `count` elements of `bytes` bytes for each lane of the set; zeros for the others.
void tw_gather(char *values, char *const *places, uint32_t bytes, uint32_t count, uint32_t lanes)
{
    FOR_WIDTH(gather)
}

// Store them likewise.
void tw_scatter(const char *values, char *const *places, uint32_t bytes, uint32_t count, uint32_t lanes)
{
    FOR_WIDTH(scatter)
}

// Copy `bytes` bytes for each lane of the set. With `sizes` a lane reads only so many; the others become zeros.
TW_INLINE static inline void move_lanes(char *const *to, char *const *from, const uint32_t *sizes, uint32_t lanes,
                                  uint64_t bytes)
{
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        const uint32_t lane = tw_first_lane(left);
        _Alignas(16) char all[16] = {0};
        if (!sizes || sizes[lane] == bytes)
            __builtin_memcpy(all, from[lane], bytes);
        else
            for (uint32_t byte = 0; byte < sizes[lane]; byte++)
                all[byte] = from[lane][byte];
        __builtin_memcpy(to[lane], all, bytes);
    }
}

void tw_move(char *const *to, char *const *from, const uint32_t *sizes, uint32_t bytes, uint32_t lanes)
{
    switch (bytes) {
    case 4:
        move_lanes(to, from, sizes, lanes, 4);
        break;
    case 8:
        move_lanes(to, from, sizes, lanes, 8);
        break;
    default:
        move_lanes(to, from, sizes, lanes, 16);
    }
}

// Whether `bytes` bytes at an offset are not all in an arena.
#define OUTSIDE(offset, bound, bytes) (((offset) > (bound)) | ((offset) + (bytes) > (bound)))

// Where a block's shared memory and a warp's local memory are.
struct own_memory {
    char *shared;
    uint64_t shared_bytes;
    char *local;
    uint64_t local_bytes;  // of a lane
};

// The host's place of a lane's bytes at an address in a space, or none where they are not all in it.
TW_INLINE static inline char *place_of(const struct tw_context *context, const struct own_memory *own, uint32_t space,
                                       uint64_t address, uint32_t bytes, uint64_t lane)
{
    const uint64_t window = address >> 32, stride = (own->local_bytes + 15) & ~15ull;
    if (space == TW_SPACE_GENERIC) {
        space = window == TW_SHARED_WINDOW  ? TW_SPACE_SHARED
                : window == TW_LOCAL_WINDOW ? TW_SPACE_LOCAL
                                            : TW_SPACE_GLOBAL;
        address = space == TW_SPACE_GLOBAL ? address : (uint32_t)address;
    }
    if (space == TW_SPACE_SHARED)
        return OUTSIDE(address, own->shared_bytes, bytes) ? 0 : own->shared + address;
    if (space == TW_SPACE_LOCAL)
        return OUTSIDE(address, own->local_bytes, bytes) ? 0 : own->local + lane * stride + address;
    address -= (uint64_t)TW_GLOBAL_WINDOW << 32;
    return OUTSIDE(address, context->global_limit, bytes) ? 0 : context->global_base + address;
}

// The host's places of all lanes; returns the lanes whose bytes are not all in the space, or at no multiple of
// `alignment`.
uint32_t tw_places(char **places, const uint64_t *addresses, const struct tw_context *context, char *shared,
                   uint64_t shared_bytes, char *local, uint64_t local_bytes, uint32_t space, uint32_t bytes,
                   uint32_t alignment)
{
    const struct own_memory own = {shared, shared_bytes, local, local_bytes};
    uint32_t outside = 0;
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        places[lane] = place_of(context, &own, space, addresses[lane], bytes, lane);
        outside |= (uint32_t)(!places[lane] | ((addresses[lane] & (alignment - 1u)) != 0)) << lane;
    }
    return outside;
}

// The elements of a fragment: `each` in a register of a lane, each of `bytes` bytes, at `places` in a matrix.
struct fragment {
    const uint32_t *places;
    uint32_t registers;
    uint32_t each;
    uint32_t bytes;
};

TW_INLINE static inline void exchange(char *registers, char *matrix, const struct fragment *of, bool spreads,
                                      uint64_t bytes)
{
    for (uint32_t i = 0; i < of->registers * TW_LANES * of->each; i++) {
        char *element = registers + i * bytes, *place = matrix + of->places[i];
        __builtin_memcpy(spreads ? element : place, spreads ? place : element, bytes);
    }
}

static void exchange_all(char *registers, char *matrix, const struct fragment *of, bool spreads)
{
    switch (of->bytes) {
    case 1:
        exchange(registers, matrix, of, spreads, 1);
        break;
    case 2:
        exchange(registers, matrix, of, spreads, 2);
        break;
    case 4:
        exchange(registers, matrix, of, spreads, 4);
        break;
    default:
        exchange(registers, matrix, of, spreads, 8);
    }
}

// Fill registers, 32 lanes each, from a matrix.
void tw_spread(char *registers, char *matrix, const uint32_t *places, uint32_t count, uint32_t each, uint32_t bytes)
{
    exchange_all(registers, matrix, &(struct fragment){places, count, each, bytes}, true);
}

// Fill a matrix from registers.
void tw_collect(char *registers, char *matrix, const uint32_t *places, uint32_t count, uint32_t each, uint32_t bytes)
{
    exchange_all(registers, matrix, &(struct fragment){places, count, each, bytes}, false);
}

// Of 32 rows of 16 bytes, extend 16 elements of `bits` bits, the lowest first, to bytes, by zeros.
void tw_unpack(char *rows, uint32_t bits)
{
    for (uint32_t row = 0; row < TW_LANES; row++, rows += 16) {
        _Alignas(16) uint64_t packed[2];
        __builtin_memcpy(packed, rows, sizeof packed);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t at = i * bits, low = at % 64;
            uint64_t element = packed[at / 64] >> low;
            if (low + bits > 64)
                element |= packed[1] << (64 - low);
            rows[i] = (char)(element & ((1u << bits) - 1));
        }
    }
}
