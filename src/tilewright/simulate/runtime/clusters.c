// The barrier of a cluster: lanes arrive without waiting, and wait later.
//
// The blocks of a cluster run on one host thread, so its barrier needs no atomics. Each warp's record has the lanes
// that have arrived. When all lanes of all blocks have arrived or exited, the barrier completes; none has then arrived
// at the next one.
//
// Source: PTX ISA, 9.7.13.3 (barrier.cluster): wait "causes the executing thread to wait for all non-exited threads of
// the cluster to perform barrier.cluster.arrive"; a thread that arrives twice without waiting, or waits without having
// arrived, is undefined behaviour.

#include "runtime.h"

// The barrier completes: the lanes that wait there resume.
static void complete_cluster(const struct tw_context *context, struct tw_slot *cluster)
{
    for (uint64_t rank = 0; rank < context->cluster_blocks; rank++) {
        cluster[rank].arrived = 0;
        for (uint64_t i = 0; i < context->warps; i++) {
            struct tw_warp *warp = tw_warp_of(context, &cluster[rank], i);
            warp->cluster_arrived = 0;
            if (warp->status == TW_BLOCKED && warp->barrier == TW_CLUSTER_BARRIER)
                tw_release(context, warp);
        }
    }
}

// Check whether all threads of a warp that have not exited have arrived, and then those of its cluster. If all have
// exited, nothing completes, because none is left to wait.
void tw_cluster_look(const struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp)
{
    uint64_t every = ((uint64_t)1 << context->warps) - 1, arrived = 0;
    if (warp->live && !(warp->live & ~warp->cluster_arrived))
        slot->arrived |= (uint64_t)1 << warp->index;
    for (uint64_t rank = 0; rank < context->cluster_blocks; rank++) {
        const struct tw_slot *one = &slot->cluster[rank];
        arrived |= one->arrived;
        if ((one->arrived | one->gone) != every)
            return;
    }
    if (arrived)
        complete_cluster(context, slot->cluster);
}

// Lanes arrive. True if some had arrived before and not waited since.
bool tw_cluster_arrive(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp, uint32_t site,
                       uint32_t mask)
{
    uint32_t again = mask & warp->cluster_owes;
    if (again) {
        tw_blame(context, warp, site, again, TW_CLUSTER_TWICE, 0, 0);
        return true;
    }
    warp->cluster_arrived |= mask;
    warp->cluster_owes |= mask;
    context->moved = 1;
    tw_cluster_look(context, slot, warp);
    return false;
}

// These lanes of a warp start to wait. True if some have not arrived.
bool tw_cluster_wait(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp, uint32_t site,
                     uint32_t mask)
{
    uint32_t missing = mask & ~warp->cluster_owes;
    if (missing) {
        tw_blame(context, warp, site, missing, TW_CLUSTER_UNARRIVED, 0, 0);
        return true;
    }
    warp->cluster_owes &= ~mask;
    if (warp->cluster_arrived & mask)
        tw_cluster_look(context, slot, warp);  // lanes may have exited since
    else
        tw_release(context, warp);
    return false;
}
