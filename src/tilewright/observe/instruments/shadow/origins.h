// What copies read of global memory: W of its bytes must not change until they have read it.

#ifndef TILEWRIGHT_SHADOW_ORIGINS_H
#define TILEWRIGHT_SHADOW_ORIGINS_H

#include "judgement.h"
#include "simulate/runtime/boxes.h"

// Keep some bytes, or a box, as they are now.
void tw_shadow_keep_origin(const struct tw_shadow_launch *launch, struct tw_origin *origin, uint64_t start,
                           uint64_t bytes, const struct tw_box *box);

// A copy has read its origin to the end: its block, of this number, may not have written there since.
void tw_shadow_end_origin(struct tw_shadow_launch *launch, uint64_t number, const struct tw_bulk *bulk);

#endif
