// What lanes print, left in the thread's buffer for Python.

#include "runtime.h"

// One record a lane. `offsets` are those of the argument bytes in local memory; outside of it there are none. A full
// buffer counts on, so that Python can say how much was lost.
void tw_print(struct tw_context *context, const struct tw_slot *slot, const struct tw_warp *warp, uint32_t lanes,
              const uint64_t *formats, const uint64_t *offsets, const char *local, uint64_t lane_stride,
              uint64_t local_bytes)
{
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        uint32_t lane = tw_first_lane(left);
        uint64_t used = context->print_used;
        context->print_used = used + sizeof(struct tw_print_record);
        if (context->print_used > context->print_bytes)
            continue;
        struct tw_print_record *record = (struct tw_print_record *)(context->print_buffer + used);
        uint64_t offset = offsets[lane];
        uint64_t behind = offset < local_bytes ? local_bytes - offset : 0;
        record->block = slot->block;
        record->thread = warp->index * TW_LANES + lane;
        record->format = formats[lane];
        record->room_bytes = behind < TW_PRINT_ARGUMENT_BYTES ? behind : TW_PRINT_ARGUMENT_BYTES;
        if (behind)
            __builtin_memcpy(record->arguments, local + lane * lane_stride + offset, record->room_bytes);
    }
}
