// The pool under many callers and workers: each record runs once, and no job is accessed after its caller has returned.

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "check.h"
#include "multiply/backends/cpu/pool.c"

enum { WORKERS = 3, CALLERS = 4, JOBS = 200, RECORDS = 17 };

const int64_t tw_array_data_bytes = 16;
static struct tw_mailbox boxes[WORKERS];
static int ended;

void tw_pause(void)
{
    sched_yield();
}

int tw_give_way(void)
{
    return sched_yield();
}

struct record {
    int64_t runs;
};

struct scratch {
    int64_t runs;
};

static void count(const char *record, const char *scratch, const char *a, char *b, char *out, const char *more)
{
    CHECK(a == (char *)1 && b == (char *)2 && out == (char *)3 && more == (char *)4);
    ((struct record *)(intptr_t)record)->runs++;
    ((struct scratch *)(intptr_t)scratch)->runs++;
}

static void *call(void *unused)
{
    (void)unused;
    for (int i = 0; i < JOBS; i++) {
        struct record records[RECORDS] = {{0}};
        struct scratch scratch[WORKERS + 1] = {{0}};
        int64_t total = 0;
        struct tw_job job = {.function = count, .records = (char *)records, .record_bytes = sizeof *records,
                             .scratch = (char *)scratch, .scratch_bytes = sizeof *scratch, .a = (char *)1,
                             .b = (char *)2, .out = (char *)3, .more = (char *)4, .end = RECORDS};
        tw_pool_run(&job, boxes, WORKERS, i % (WORKERS + 1));
        CHECK(job.working == 0 && job.slots <= 1 + i % (WORKERS + 1));
        for (int k = 0; k < RECORDS; k++)
            CHECK(records[k].runs == 1);
        for (int k = 0; k <= WORKERS; k++)
            total += scratch[k].runs;
        CHECK(total == RECORDS);
        memset(records, 0xff, sizeof records);
    }
    return 0;
}

static void *serve(void *box)
{
    struct tw_mailbox *mine = box;
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        tw_pool_serve(mine);
        CHECK(__atomic_load_n(&mine->job, __ATOMIC_ACQUIRE) == (struct tw_job *)(intptr_t)TW_POOL_ASLEEP);
        __atomic_store_n(&mine->job, 0, __ATOMIC_RELEASE);  // woken immediately
    }
    return 0;
}

static void keep(const char *record, const char *scratch, const char *a, char *b, char *out, const char *more)
{
    const char **found = (const char **)(intptr_t)record;
    CHECK(!scratch && !more);
    found[0] = a;
    found[1] = b;
    found[2] = out;
}

static void arrays_are_called_with_their_data(void)
{
    const char *found[3];
    const char *array[3][3] = {{0, 0, "a"}, {0, 0, "b"}, {0, 0, "out"}};
    struct call call = {keep, (char *)found};
    tw_pool_call(&call, (char *)array[0], (char *)array[1], (char *)array[2]);
    for (int i = 0; i < 3; i++)
        CHECK(found[i] == array[i][2]);
}

static void what_nobody_took_is_taken_back(void)
{
    struct tw_mailbox idle[2] = {{0}};
    struct record records[2] = {{0}};
    struct scratch scratch = {0};
    struct tw_job job = {.function = count, .records = (char *)records, .record_bytes = sizeof *records,
                         .scratch = (char *)&scratch, .a = (char *)1, .b = (char *)2, .out = (char *)3,
                         .more = (char *)4, .end = 2};
    tw_pool_run(&job, idle, 2, 1);
    CHECK(scratch.runs == 2 && !idle[0].job && !idle[1].job && job.working == 0);
}

int main(void)
{
    pthread_t workers[WORKERS], callers[CALLERS];
    arrays_are_called_with_their_data();
    what_nobody_took_is_taken_back();
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], 0, serve, &boxes[i]) == 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], 0, call, 0) == 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(callers[i], 0) == 0);
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], 0) == 0);
    return 0;
}
