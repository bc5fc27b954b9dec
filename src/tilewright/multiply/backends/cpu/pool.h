// What callers, workers and Python share of the pool of worker threads; `pool.py` says what it is for.

#ifndef TILEWRIGHT_CPU_POOL_H
#define TILEWRIGHT_CPU_POOL_H

#include <stdint.h>

enum {
    // What a mailbox holds instead of a job.
    TW_POOL_ASLEEP = -1,
    TW_POOL_BUSY = -2,
};

// A row of argument records for one kernel. What changes lies on cache lines of its own.
struct tw_job {
    void (*function)(const char *record, const char *scratch, const char *a, char *b, char *out, const char *more);
    const char *records;
    int64_t record_bytes;
    const char *scratch;  // the addresses of each thread's buffers
    int64_t scratch_bytes;
    const char *a;
    char *b;
    char *out;
    const char *more;
    int64_t end;  // the record behind the last
    int64_t gap[6];
    int64_t next;   // the next record
    int64_t slots;  // the next thread's number
    int64_t more_gap[6];
    int64_t working;  // how many workers hold the job
};

// A cache line for each worker.
struct tw_mailbox {
    struct tw_job *job;  // null (idle), a job on offer, or one of the numbers above
    int64_t gap[7];
};

#endif
