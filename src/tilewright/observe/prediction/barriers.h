// Where warps wait for each other: at the barriers of a block and of a cluster; and the start and end of blocks.

#ifndef TILEWRIGHT_PREDICTION_BARRIERS_H
#define TILEWRIGHT_PREDICTION_BARRIERS_H

#include "asynchronous.h"

// A warp continues after a barrier, `clocks` from now.
static void release(struct tw_sm *sm, struct tw_sm_warp *warp, uint64_t clocks)
{
    warp->waiting = 0;
    warp->released = 1;
    if (warp->ready < sm->clock + clocks)
        warp->ready = sm->clock + clocks;
    look_ahead(sm, warp);
}

// The last warp of a block that reaches the barrier releases the others.
static void pass_barrier(struct tw_sm *sm, uint32_t block)
{
    if (!sm->live[block] || sm->arrived[block] < sm->live[block])
        return;
    sm->arrived[block] = 0;
    for (uint64_t n = 0; n < sm->many; n++) {
        struct tw_sm_warp *warp = &sm->warps[n];
        if (warp->live && warp->block == block && warp->waiting == 1)
            release(sm, warp, sm->barrier_clocks);
    }
    look_again(sm);
}

// A barrier for some warps of a block counts as one of neighbouring warps: the last of them releases the others.
static void pass_part(struct tw_sm *sm, uint32_t block, uint64_t part, uint32_t warps)
{
    for (uint64_t n = 0; n < sm->many; n++)
        if (sm->warps[n].live && sm->warps[n].block == block && n % sm->block_warps / warps == part &&
            sm->warps[n].waiting != 3)
            return;
    for (uint64_t n = 0; n < sm->many; n++)
        if (sm->warps[n].live && sm->warps[n].block == block && n % sm->block_warps / warps == part)
            release(sm, &sm->warps[n], sm->barrier_clocks);
    look_again(sm);
}

// Whether all live warps of a cluster have reached its barrier `times` times.
static bool all_arrived(const struct tw_sm *sm, uint32_t block, uint64_t times)
{
    for (const struct tw_sm *each = sm->cluster; each < sm->cluster + sm->cluster_blocks; each++)
        for (uint64_t n = 0; n < each->many; n++)
            if (each->warps[n].live && each->warps[n].block == block && each->warps[n].arrivals < times)
                return false;
    return true;
}

// Releases the warps that wait at the cluster's barrier, if the last one has arrived.
static void pass_cluster(struct tw_sm *sm, uint32_t block)
{
    for (struct tw_sm *each = sm->cluster; each < sm->cluster + sm->cluster_blocks; each++)
        for (uint64_t n = 0; n < each->many; n++) {
            struct tw_sm_warp *warp = &each->warps[n];
            if (!warp->live || warp->block != block || warp->waiting != 2 || !all_arrived(sm, block, warp->arrivals))
                continue;
            release(each, warp, sm->barrier_clocks + sm->remote_clocks);
            look_again(each);
        }
}

static void start_block(struct tw_sm *sm, uint32_t block)
{
    sm->to_start--;
    sm->live[block] = sm->block_warps;
    for (uint64_t n = block * sm->block_mbarriers; n < (block + 1) * sm->block_mbarriers; n++) {
        int64_t expected = sm->mbarriers[n].expected;
        sm->mbarriers[n] = (struct tw_sm_mbarrier){expected, expected, 0, 0, 0};
    }
    for (uint64_t n = 0; n < sm->many; n++)
        if (sm->warps[n].block == block) {
            sm->warps[n] = (struct tw_sm_warp){
                .block = block, .live = 1, .ready = sm->clock + sm->start_clocks, .role = sm->warps[n].role};
            look_ahead(sm, &sm->warps[n]);
        }
    look_again(sm);
}

static void leave(struct tw_sm *sm, struct tw_sm_warp *warp)
{
    warp->live = 0;
    sm->live[warp->block]--;
    if (sm->cluster_blocks > 1)
        pass_cluster(sm, warp->block);
    if (sm->live[warp->block]) {
        pass_barrier(sm, warp->block);
        return;
    }
    sm->to_finish--;
    struct tw_sm *end = sm->cluster + sm->cluster_blocks;
    for (struct tw_sm *each = sm->cluster; each < end; each++)
        if (each->live[warp->block])
            return;
    for (struct tw_sm *each = sm->cluster; each < end; each++)
        if (each->to_start)
            start_block(each, warp->block);
}

// `warps` of a barrier for a part of the block; 0: for all.
static void come_to_barrier(struct tw_sm *sm, struct tw_sm_warp *warp, uint64_t number, uint32_t kind, uint32_t warps)
{
    switch (kind) {
    case TW_SM_BARRIER:
        if (warps) {
            warp->waiting = 3;
            pass_part(sm, warp->block, number % sm->block_warps / warps, warps);
            break;
        }
        warp->waiting = 1;
        sm->arrived[warp->block]++;
        pass_barrier(sm, warp->block);
        break;
    case TW_SM_CLUSTER_ARRIVE:
        warp->arrivals++;
        pass_cluster(sm, warp->block);
        break;
    default:
        warp->waiting = all_arrived(sm, warp->block, warp->arrivals) ? 0 : 2;
    }
}

#endif
