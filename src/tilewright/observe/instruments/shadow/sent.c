// Copies from a block's shared memory to that of another block of its cluster: it must not end before they complete.
//
// Such a copy is complete when its mbarrier in the target block says so. The time at which each warp there sees that is
// kept. When the cluster has ended, some warp of the source block must have known, before it ended, that one of these
// warps had seen it, as for any access of the block's memory.
//
// Source: CUDA C++ Programming Guide, "Distributed Shared Memory": no block may end before all accesses of its memory.

#include "clusters.h"

#define UNCOUNTED UINT32_MAX  // by any phase yet

static struct tw_sent *sent_to(const struct tw_shadow_launch *launch, const struct tw_shadow_block *there)
{
    return far_part(launch, there)->sent;
}

// Follow a thread's copy to another block. An instruction's last copy stands for those that earlier phases counted.
void tw_shadow_send(const struct tw_slot *slot, struct tw_shadow_launch *launch, const struct tw_shadow_block *there,
                    uint64_t place, uint32_t thread, uint32_t row)
{
    struct tw_sent *sent = sent_to(launch, there);
    uint32_t by = rank_of(slot) + 1, at = 0;
    while (at < TW_SENT_MAX && sent[at].by &&
           (sent[at].by != by || sent[at].barrier != place || sent[at].row != row))
        at++;
    if (at == TW_SENT_MAX) {
        __atomic_fetch_add(&launch->unvisited, 1, __ATOMIC_RELAXED);
        return;
    }
    sent[at] = (struct tw_sent){.by = by, .barrier = (uint32_t)place, .phase = UNCOUNTED, .thread = thread, .row = row};
}

// A phase counts the copies issued since the last one.
void tw_shadow_sent_counted(const struct tw_shadow_launch *launch, const struct tw_shadow_block *there, uint64_t place,
                            uint32_t phase)
{
    struct tw_sent *sent = sent_to(launch, there);
    for (uint32_t i = 0; i < TW_SENT_MAX && sent[i].by; i++)
        if (sent[i].barrier == place && sent[i].phase == UNCOUNTED)
            sent[i].phase = phase;
}

// A warp has seen `phases` phases of an mbarrier of its block complete.
void tw_shadow_sent_seen(const struct tw_shadow_launch *launch, const struct tw_shadow_block *block, uint32_t warp,
                         uint64_t place, uint32_t phases)
{
    struct tw_sent *sent = sent_to(launch, block);
    for (uint32_t i = 0; i < TW_SENT_MAX && sent[i].by; i++) {
        if (sent[i].barrier != place || sent[i].phase >= phases || sent[i].seen.of[warp])
            continue;
        sent[i].seen.of[warp] = (uint32_t)block->clocks[warp].now + 1;
        sent[i].rounds.of[warp] = far_part(launch, block)->came.of[warp];
    }
}

// Whether some warp of the source block knew, before it ended, that a warp of the target had seen the copy complete.
static bool was_answered(const struct tw_shadow_launch *launch, const struct tw_shadow_block *home,
                         const struct tw_sent *sent, uint32_t rank)
{
    for (uint32_t q = 0; q < launch->warps; q++)
        for (uint32_t by = 0; by < launch->warps; by++) {
            struct knowledge known = far_row(launch, home, TW_KNOWN_ROW + q, rank);
            uint32_t seen = sent->seen.of[by];
            if (seen && (seen <= known.all->of[by] || seen <= known.came->of[by] ||
                         sent->rounds.of[by] < far_part(launch, home)->waited.of[q]))
                return true;
        }
    return false;
}

// The cluster has ended: copies to a block of some rank.
void tw_shadow_sent_ended(struct tw_shadow_launch *launch, const struct tw_slot *slot,
                          const struct tw_shadow_block *block, uint32_t rank)
{
    const struct tw_sent *sent = sent_to(launch, shadow_of(slot, &slot->cluster[rank], block));
    for (uint32_t i = 0; launch->bulks_at && i < TW_SENT_MAX && sent[i].by; i++) {
        const struct tw_slot *home = &slot->cluster[sent[i].by - 1];
        if (was_answered(launch, shadow_of(slot, home, block), &sent[i], rank))
            continue;
        struct tw_record finding = {
            .kind = TW_AWAY_SENT,
            .row = sent[i].row,
            .count = 1,
            .first = home->block << 10 | sent[i].thread,
            .address = (uint64_t)rank << TW_RANK_SHIFT,
        };
        tw_found_add(&launch->found, &finding);
    }
}
