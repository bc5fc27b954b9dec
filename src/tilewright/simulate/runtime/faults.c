// Cold paths: an access or a barrier has a fault, which is recorded for Python.

#include "runtime.h"

// One access of a group that is checked together: `tw_recheck` gets a table of them.
struct member {
    uint32_t site;
    int32_t offset;
    uint32_t bytes;
};

static uint64_t natural_alignment(uint64_t bytes)
{
    return bytes & -bytes;
}

// A fault in these lanes of a warp.
void tw_stop(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes, uint64_t kind)
{
    context->fault_kind = kind;
    context->fault_site = site;
    context->fault_lanes = lanes;
    context->fault_warp = warp->index;
    context->fault_lane = tw_first_lane(lanes);
}

// A block is stopped from outside: record where its first runnable warp last returned, if it did.
void tw_stop_outside(struct tw_context *context, const struct tw_slot *slot)
{
    for (uint64_t i = 0; i < context->warps; i++) {
        const struct tw_warp *warp = tw_warp_of(context, slot, i);
        if (warp->loop_site != 0 && warp->status != TW_DONE) {
            tw_stop(context, warp, warp->loop_site - 1, warp->loop_lanes, TW_STOP_REQUEST);
            return;
        }
    }
}

// A fault of an access by these lanes, with its bytes per lane.
void tw_fault(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes,
              const uint64_t *addresses, uint32_t bytes)
{
    uint64_t address = addresses[tw_first_lane(lanes)];
    bool aligned = (address & (natural_alignment(bytes) - 1)) == 0;
    tw_stop(context, warp, site, lanes, aligned ? TW_OUT_OF_BOUNDS : TW_MISALIGNED);
    context->fault_address = address;
}

// These lanes break a barrier's rule.
void tw_blame(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes, uint64_t kind,
              uint32_t got, uint32_t other)
{
    tw_stop(context, warp, site, lanes, kind);
    context->fault_got = got;
    context->fault_other = other;
}

// The check of a group failed: check lane by lane. `lane_offsets` are the lanes' offsets from `relative`, the arena
// offset that the group shares; `start` is the device address of the arena. True if a lane of the mask is outside.
bool tw_recheck(struct tw_context *context, const struct tw_warp *warp, uint64_t relative, uint64_t limit,
                uint64_t start, uint32_t mask, const int32_t *lane_offsets, const struct member *members,
                uint32_t count)
{
    uint64_t addresses[TW_LANES];
    for (uint32_t i = 0; i < count; i++) {
        struct member member = members[i];
        uint32_t bad = 0;
        for (uint32_t lane = 0; lane < TW_LANES; lane++) {
            uint64_t first = relative + (uint64_t)(int64_t)member.offset + (uint64_t)(int64_t)lane_offsets[lane];
            uint64_t end = first + member.bytes;
            bool outside = first > limit || end > limit;
            bool misaligned = (first & (natural_alignment(member.bytes) - 1)) != 0;
            addresses[lane] = start + first;
            bad |= (uint32_t)(outside || misaligned) << lane;
        }
        if (bad & mask) {
            tw_fault(context, warp, member.site, bad & mask, addresses, member.bytes);
            return true;
        }
    }
    return false;
}
