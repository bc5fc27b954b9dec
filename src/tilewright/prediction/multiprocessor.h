// A multiprocessor that issues machine code in time. `multiprocessor.py` states the model and fills the records.

#ifndef TILEWRIGHT_MULTIPROCESSOR_H
#define TILEWRIGHT_MULTIPROCESSOR_H

#include <stdint.h>

enum {
    // What an instruction does: latency known to the compiler; a special unit; shared memory; a load from global or
    // local memory; a store or an atomic there; a copy from there to shared memory, which the warp does not wait for;
    // the block's barrier; the end of a group of copies; a wait for groups.
    TW_SM_FIXED = 0,
    TW_SM_SPECIAL = 1,
    TW_SM_SHARED = 2,
    TW_SM_LOAD = 3,
    TW_SM_STORE = 4,
    TW_SM_COPY = 5,
    TW_SM_BARRIER = 6,
    TW_SM_COMMIT = 7,
    TW_SM_AWAIT = 8,

    // What a partition's clocks went to: an instruction, or what the warp that was ready next had waited for.
    TW_SM_ISSUED = 0,
    TW_SM_WAITED_STALL = 1,     // the compiler's stall count
    TW_SM_WAITED_PIPE = 2,      // an arithmetic pipe
    TW_SM_WAITED_PORTS = 3,     // ports of the registers
    TW_SM_WAITED_QUEUE = 4,     // the memory queue, which is full
    TW_SM_WAITED_SHARED = 5,    // a result of shared memory
    TW_SM_WAITED_GLOBAL = 6,    // a result of global or local memory
    TW_SM_WAITED_SPECIAL = 7,   // a result of a special unit
    TW_SM_WAITED_BARRIER = 8,   // the other warps of the block
    TW_SM_WAITED_NOTHING = 9,   // there is no warp
    TW_SM_CAUSES = 10,

    TW_SM_PIPES = 9,     // of a partition
    TW_SM_TENSOR = 8,    // the pipe of tensor cores
    TW_SM_GROUPS = 16,   // most groups of copies that a warp waits for one by one
    TW_SM_OPERANDS = 3,  // of an instruction
    TW_SM_BANKS = 2,     // of the registers
    TW_SM_COUNTERS = 6,  // dependence counters of a warp; 7 in their place: none
    TW_SM_PARTITIONS = 4,
    TW_SM_QUEUE = 8,     // most memory instructions that a partition's queue has places for
};

struct tw_sm_instruction {
    uint32_t kind;
    uint32_t pipes;     // that take it, a bit each
    uint32_t interval;  // clocks until the pipe takes another
    uint32_t stall;
    uint32_t yields;
    uint32_t sets;   // the counter that its result frees
    uint32_t frees;  // the counter that reading its operands frees
    uint32_t waits;  // counters that it waits for, a bit each
    uint32_t pending;  // newest groups of copies that it does not wait for
    uint32_t reuse;  // operands kept for the next instruction, a bit each
    uint32_t result_clocks;  // until the result is there, and until the operands are read: from the issue, of
    uint32_t read_clocks;    // memory from the request
    int32_t operands[TW_SM_OPERANDS];  // registers; -1: none
    double tags;         // lines that the first level looks up
    double wavefronts;   // clocks of the data stage
    double l2_sectors;
    double dram_sectors;
    double miss_clocks;  // from the request to a result from beyond the first level
};

struct tw_sm_warp {
    uint64_t position;  // in the trace
    uint64_t ready;
    uint64_t at;   // when its own instructions let the next one issue
    uint64_t counters[TW_SM_COUNTERS];  // clocks at which they are free
    uint32_t causes[TW_SM_COUNTERS];    // what they wait for
    uint64_t copied;  // when its last copy has ended
    uint64_t groups[TW_SM_GROUPS];  // when the copies of each group have
    uint64_t committed;             // groups
    uint32_t why;  // what `at` waits for
    uint32_t block;
    uint32_t live;
    uint32_t waiting;  // at a barrier
    uint32_t released;  // 1: `ready` is when a barrier let it go
};

struct tw_sm_partition {
    uint64_t pipes[TW_SM_PIPES];  // clocks at which they are free
    uint64_t queue[TW_SM_QUEUE];  // clocks at which its last memory instructions left
    uint64_t queued;
    double address;               // the address unit
    uint64_t ports[TW_SM_BANKS];
    int64_t kept[6];   // registers in the operand cache, by bank and operand
    uint64_t held;     // the registers' ports hold all back until then
    uint64_t last;     // the warp that issued last, and one more; 0: none goes first
    uint64_t next;     // when it can issue next
    uint32_t cause;    // what it waits for until then
    uint32_t issued;
    uint64_t reads[TW_SM_BANKS];
};

struct tw_sm {
    const struct tw_sm_instruction *code;
    const uint32_t *trace;
    uint64_t length;  // after which a warp ends
    struct tw_sm_warp *warps;
    uint64_t many;
    uint64_t *arrived;  // warps of each resident block at its barrier
    uint64_t *live;     // warps of each resident block
    uint64_t block_warps;
    uint64_t to_start;   // blocks
    uint64_t to_finish;
    uint64_t clock;
    uint64_t queue_places;
    uint64_t lead_clocks;     // from the issue to the address unit
    uint64_t address_clocks;
    uint64_t leave_clocks;    // from a request until its place in the queue is free
    uint64_t request_clocks;  // between two requests that the shared stages take
    uint64_t barrier_clocks;
    uint64_t start_clocks;    // until a new block's first instruction
    double l2_sectors_per_clock;
    double dram_sectors_per_clock;
    double requests;  // clocks at which each of the shared stages is free
    double tags;
    double data;
    double l2;
    double dram;
    double busy[6];   // clocks that they were taken, and of tensor cores, a quarter each
    uint64_t clocks[TW_SM_CAUSES];  // of all partitions
    struct tw_sm_partition partitions[TW_SM_PARTITIONS];
};

#endif
