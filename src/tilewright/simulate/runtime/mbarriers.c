// Mbarriers: barriers in shared memory, each phase of which counts arrivals and bytes of transactions.
//
// The warps of a block run on one host thread, one at a time, and its mbarriers are its own: a lane's change is
// complete before another's starts, without atomics. Lanes of a warp go in their order. `records.h` describes the bits.
//
// Source: PTX ISA, 9.7.13.15 (mbarrier): the phase completes when its "pending arrival count" and its "tx-count" are
// zero; the next one begins with the expected arrival count.

#include "runtime.h"

// The fields of an mbarrier.
struct mbarrier {
    uint32_t expected;  // arrivals of each phase
    uint32_t pending;
    int32_t bytes;
    uint32_t phase;
};

// What the lanes of a warp do at a site; `places` are their offsets in shared memory.
struct lanes {
    struct tw_context *context;
    const struct tw_warp *warp;
    char *shared;
    const uint64_t *places;
    uint32_t site;
};

static struct mbarrier loaded(const char *place)
{
    uint64_t bits;
    __builtin_memcpy(&bits, place, sizeof bits);
    uint32_t bytes = (uint32_t)(bits >> TW_MBARRIER_BYTES_SHIFT) & (2 * TW_MBARRIER_MOST + 1);
    return (struct mbarrier){
        (uint32_t)bits & TW_MBARRIER_MOST,
        (uint32_t)(bits >> TW_MBARRIER_PENDING_SHIFT) & TW_MBARRIER_MOST,
        bytes > TW_MBARRIER_MOST ? (int32_t)bytes - 2 * (TW_MBARRIER_MOST + 1) : (int32_t)bytes,
        (uint32_t)(bits >> TW_MBARRIER_PHASE_SHIFT),
    };
}

static void store(char *place, struct mbarrier object)
{
    uint64_t bytes = (uint32_t)object.bytes & (2 * TW_MBARRIER_MOST + 1);
    uint64_t bits = object.expected | (uint64_t)object.pending << TW_MBARRIER_PENDING_SHIFT |
                    bytes << TW_MBARRIER_BYTES_SHIFT | (uint64_t)object.phase << TW_MBARRIER_PHASE_SHIFT;
    __builtin_memcpy(place, &bits, sizeof bits);
}

static struct mbarrier completed(struct mbarrier object)
{
    if (object.pending == 0 && object.bytes == 0) {
        object.phase = (object.phase + 1) % 8;
        object.pending = object.expected;
    }
    return object;
}

// A lane breaks a rule, at an mbarrier as it was before. Returns true, for callers to return.
static bool blame(const struct lanes *lanes, uint32_t lane, uint64_t kind, uint32_t got, uint32_t other)
{
    struct tw_context *context = lanes->context;
    tw_blame(context, lanes->warp, lanes->site, 1u << lane, kind, got, other);
    context->fault_address = lanes->places[lane];
    __builtin_memcpy(&context->fault_object, lanes->shared + lanes->places[lane], sizeof context->fault_object);
    return true;
}

static bool wrong_count(const struct lanes *lanes, uint32_t lane, uint32_t count)
{
    return (count == 0 || count > TW_MBARRIER_MOST) && blame(lanes, lane, TW_MBARRIER_COUNT, count, 0);
}

// Add to the bytes. True if they leave their range.
static bool add_bytes(const struct lanes *lanes, uint32_t lane, struct mbarrier *object, int64_t bytes)
{
    int64_t sum = object->bytes + bytes;
    if (bytes < -TW_MBARRIER_MOST || bytes > TW_MBARRIER_MOST || sum < -TW_MBARRIER_MOST || sum > TW_MBARRIER_MOST)
        return blame(lanes, lane, TW_MBARRIER_BYTES, (uint32_t)bytes, (uint32_t)object->bytes);
    object->bytes = (int32_t)sum;
    return false;
}

static bool arrive(const struct lanes *lanes, uint32_t lane, struct mbarrier *object, uint32_t count, uint32_t does)
{
    if (wrong_count(lanes, lane, count))
        return true;
    if (count > object->pending)
        return blame(lanes, lane, TW_MBARRIER_SURPLUS, count, object->pending);
    if ((does & TW_MBARRIER_DROPS) && count > object->expected)
        return blame(lanes, lane, TW_MBARRIER_LEFT, count, object->expected);
    object->pending -= count;
    if (does & TW_MBARRIER_DROPS)
        object->expected -= count;
    if ((does & TW_MBARRIER_NO_COMPLETION) && object->pending == 0 && object->bytes == 0)
        return blame(lanes, lane, TW_MBARRIER_COMPLETES, count, 0);
    return false;
}

// Lanes initialise mbarriers with their arrivals per phase.
bool tw_mbarrier_init(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                      char *shared, const uint64_t *places, const uint32_t *counts)
{
    const struct lanes lanes = {context, warp, shared, places, site};
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        if (wrong_count(&lanes, lane, counts[lane]))
            return true;
        store(shared + places[lane], (struct mbarrier){counts[lane], counts[lane], 0, 0});
    }
    context->moved = 1;
    return false;
}

// Lanes invalidate mbarriers, which then accept no arrival.
void tw_mbarrier_inval(struct tw_context *context, uint32_t mask, char *shared, const uint64_t *places)
{
    for (uint32_t left = mask; left; left = tw_other_lanes(left))
        __builtin_memset(shared + places[tw_first_lane(left)], 0, sizeof(uint64_t));
    context->moved = 1;
}

// Lanes expect bytes of transactions; with `ended` these bytes have arrived.
bool tw_mbarrier_expect(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                        char *shared, const uint64_t *places, const uint32_t *bytes, uint32_t ended)
{
    const struct lanes lanes = {context, warp, shared, places, site};
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        struct mbarrier object = loaded(shared + places[lane]);
        if (add_bytes(&lanes, lane, &object, ended ? -(int64_t)(int32_t)bytes[lane] : (int32_t)bytes[lane]))
            return true;
        store(shared + places[lane], completed(object));
    }
    context->moved = 1;
    return false;
}

// Lanes arrive `counts` times each, or once and expect `counts` bytes; `states` become the mbarriers' earlier bits.
bool tw_mbarrier_arrive(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t mask,
                        char *shared, const uint64_t *places, const uint32_t *counts, uint64_t *states, uint32_t does)
{
    const struct lanes lanes = {context, warp, shared, places, site};
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        char *place = shared + places[lane];
        struct mbarrier object = loaded(place);
        bool expects = (does & TW_MBARRIER_EXPECTS) != 0;
        if (expects && add_bytes(&lanes, lane, &object, (int32_t)counts[lane]))
            return true;
        __builtin_memcpy(&states[lane], place, sizeof states[lane]);
        if (arrive(&lanes, lane, &object, expects ? 1 : counts[lane], does))
            return true;
        store(place, completed(object));
    }
    context->moved = 1;
    return false;
}

// The lanes whose phase is complete: `tokens` are states of that phase, or its parity.
uint32_t tw_mbarrier_test(struct tw_warp *warp, uint32_t site, uint32_t mask, const char *shared,
                          const uint64_t *places, const uint64_t *tokens, uint32_t parity)
{
    uint32_t complete = 0, bits = parity ? 1 : 7, shift = parity ? 0 : TW_MBARRIER_PHASE_SHIFT;
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint32_t awaited = (uint32_t)(tokens[lane] >> shift) & bits;
        complete |= (uint32_t)((loaded(shared + places[lane]).phase & bits) != awaited) << lane;
    }
    uint32_t failed = mask & ~complete, first = tw_first_lane(failed);
    warp->awaits = failed != 0;
    if (failed == 0)
        return complete;
    warp->awaited_site = site;
    warp->awaited_lanes = failed;
    warp->awaited_place = (uint32_t)places[first];
    warp->awaited_phase = ((uint32_t)(tokens[first] >> shift) & bits) | (parity ? 8 : 0);
    return complete;
}
