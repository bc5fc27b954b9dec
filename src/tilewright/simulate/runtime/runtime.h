// What the runtime's parts and translated code call of each other.

#ifndef TILEWRIGHT_SIMT_RUNTIME_H
#define TILEWRIGHT_SIMT_RUNTIME_H

#include <stdbool.h>

#include "lanes.h"
#include "records.h"

// faults.c
void tw_stop(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes, uint64_t kind);
void tw_stop_outside(struct tw_context *context, const struct tw_slot *slot);
void tw_fault(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes,
              const uint64_t *addresses, uint32_t bytes);
void tw_blame(struct tw_context *context, const struct tw_warp *warp, uint32_t site, uint32_t lanes, uint64_t kind,
              uint32_t got, uint32_t other);

// barriers.c
bool tw_arrive(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp);
void tw_depart(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp);
void tw_release(const struct tw_context *context, struct tw_warp *warp);

// tensor_memory.c
bool tw_columns_left(struct tw_context *context, const struct tw_slot *slot);

// clusters.c
void tw_cluster_look(const struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp);
bool tw_cluster_wait(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp, uint32_t site,
                     uint32_t mask);

static inline struct tw_warp *tw_warp_of(const struct tw_context *context, const struct tw_slot *slot, uint64_t index)
{
    return (struct tw_warp *)(slot->warp_records + index * context->warp_bytes);
}

#endif
