// Workers that run parts of products, and callers that offer them some. `pool.py` says how they work together.

#include "pool.h"

#include <stdbool.h>

enum {
    // Looks at an idle mailbox before sleep, about a millisecond of `pause` (140 cycles since Skylake).
    // Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Pause Latency in Skylake".
    LOOKS = 20000,
    WAITS = 2000,  // looks at the last workers' count between giving the processor away
};

// Of this host: the processor's hint that a thread waits, the system's call that lets others run, and the offset of
// the data pointer in an array object.
void tw_pause(void);
int tw_give_way(void);
extern const int64_t tw_array_data_bytes;

struct call {
    void (*function)(const char *record, const char *scratch, const char *a, char *b, char *out, const char *more);
    const char *record;
};

static bool exchanged(struct tw_mailbox *box, struct tw_job *from, struct tw_job *to)
{
    return __atomic_compare_exchange_n(&box->job, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void work(struct tw_job *job)
{
    int64_t slot = __atomic_fetch_add(&job->slots, 1, __ATOMIC_ACQ_REL);
    const char *scratch = job->scratch + slot * job->scratch_bytes;
    for (;;) {
        int64_t item = __atomic_fetch_add(&job->next, 1, __ATOMIC_ACQ_REL);
        if (item >= job->end)
            return;
        job->function(job->records + item * job->record_bytes, scratch, job->a, job->b, job->out, job->more);
    }
}

static void wait_for_workers(const struct tw_job *job)
{
    int64_t looks = WAITS;
    while (__atomic_load_n(&job->working, __ATOMIC_ACQUIRE) != 0) {
        tw_pause();
        if (--looks > 0)
            continue;
        tw_give_way();
        looks = WAITS;
    }
}

// Offer a job to at most `wanted` idle workers of `count`, work at it too, take back what nobody took, and wait for
// those that did. A job counts a worker before it is offered, so the caller never misses one.
void tw_pool_run(struct tw_job *job, struct tw_mailbox *boxes, int64_t count, int64_t wanted)
{
    int64_t offered = 0;
    for (; offered < count && wanted > 0; offered++) {
        __atomic_fetch_add(&job->working, 1, __ATOMIC_ACQ_REL);
        if (exchanged(&boxes[offered], 0, job))
            wanted--;
        else
            __atomic_fetch_sub(&job->working, 1, __ATOMIC_ACQ_REL);
    }
    work(job);
    for (int64_t i = 0; i < offered; i++)
        if (exchanged(&boxes[i], job, 0))
            __atomic_fetch_sub(&job->working, 1, __ATOMIC_ACQ_REL);
    wait_for_workers(job);
}

// A worker's life until it falls asleep: its mailbox holds ASLEEP then, and whoever wakes it empties it.
void tw_pool_serve(struct tw_mailbox *box)
{
    struct tw_job *const busy = (struct tw_job *)(intptr_t)TW_POOL_BUSY;
    struct tw_job *const asleep = (struct tw_job *)(intptr_t)TW_POOL_ASLEEP;
    int64_t looks = LOOKS;
    for (;;) {
        struct tw_job *job = __atomic_load_n(&box->job, __ATOMIC_ACQUIRE);
        if (job && exchanged(box, job, busy)) {
            work(job);
            __atomic_store_n(&box->job, 0, __ATOMIC_RELEASE);
            __atomic_fetch_sub(&job->working, 1, __ATOMIC_ACQ_REL);
            looks = LOOKS;
        }
        if (job)
            continue;
        tw_pause();
        if (--looks > 0)
            continue;
        if (exchanged(box, 0, asleep))
            return;
        looks = 1;
    }
}

// Call a function with the data of three array objects.
void tw_pool_call(const struct call *call, const char *a, const char *b, const char *out)
{
    int64_t data = tw_array_data_bytes;
    call->function(call->record, 0, *(char *const *)(a + data), *(char *const *)(b + data),
                   *(char *const *)(out + data), 0);
}
