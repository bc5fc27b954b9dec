// A multiprocessor that issues machine code in time. `multiprocessor.py` states the model and fills the records.

#ifndef TILEWRIGHT_MULTIPROCESSOR_H
#define TILEWRIGHT_MULTIPROCESSOR_H

#include <stdint.h>

enum {
    // What an instruction does: latency known to the compiler; a special unit; shared memory; a load from global or
    // local memory; a store or an atomic there; a copy from there to shared memory, which the warp does not wait for;
    // the block's barrier; the end of a group of copies; a wait for groups; a product of a warpgroup's warp; a wait for
    // groups of such; what is done to an mbarrier, and bulk copies; the two halves of the cluster's barrier.
    TW_SM_FIXED = 0,
    TW_SM_SPECIAL = 1,
    TW_SM_SHARED = 2,
    TW_SM_LOAD = 3,
    TW_SM_STORE = 4,
    TW_SM_COPY = 5,
    TW_SM_BARRIER = 6,
    TW_SM_COMMIT = 7,
    TW_SM_AWAIT = 8,
    TW_SM_PRODUCT = 9,
    TW_SM_AWAIT_PRODUCTS = 10,
    TW_SM_DEED = 11,
    TW_SM_CLUSTER_ARRIVE = 12,
    TW_SM_CLUSTER_WAIT = 13,

    // What a deed is: `instruments/roles.py` says what each number means.
    TW_SM_MAKES = 0,
    TW_SM_ARRIVES = 1,
    TW_SM_EXPECTS = 2,
    TW_SM_ARRIVES_EXPECTING = 3,
    TW_SM_WAITS = 4,
    TW_SM_COPIES = 5,
    TW_SM_STORES = 6,
    TW_SM_DELIVERS = 7,
    TW_SM_NOTHING = 8,

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
    TW_SM_WAITED_PRODUCTS = 10,  // products of a warpgroup
    TW_SM_WAITED_MBARRIER = 11,  // an mbarrier's phase
    TW_SM_CAUSES = 12,

    TW_SM_PIPES = 9,     // of a partition
    TW_SM_TENSOR = 8,    // the pipe of tensor cores
    TW_SM_GROUPS = 16,   // most groups of copies that a warp waits for one by one
    TW_SM_OPERANDS = 3,  // of an instruction
    TW_SM_BANKS = 2,     // of the registers
    TW_SM_COUNTERS = 6,  // dependence counters of a warp; 7 in their place: none
    TW_SM_PARTITIONS = 4,
    TW_SM_QUEUE = 8,     // most memory instructions that a partition's queue has places for
    TW_SM_PRODUCTS = 16, // of a partition that wait for its tensor cores
    TW_SM_ARRIVALS = 4096, // at mbarriers that are on their way
    TW_SM_PIECE_BYTES = 1024, // of a bulk copy that are written to shared memory at once
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
    uint32_t ends;   // of a product: its group
    uint32_t warps;  // of a barrier that takes a part of the block
};

// What an instruction does to an mbarrier, in the order of a warp's path.
struct tw_sm_deed {
    uint32_t does;
    uint32_t place;   // the mbarrier's number in the cluster; of a copy without one: how many there are
    uint32_t number;  // arrivals, bytes, or the parity that is waited for
    uint32_t lanes;
    uint32_t more;  // 1: the next one is the same instruction's
};

// What warps that do alike do.
struct tw_sm_role {
    const uint32_t *trace;
    uint64_t length;  // after which a warp ends
    const struct tw_sm_deed *deeds;
};

struct tw_sm_mbarrier {
    int64_t expected;
    int64_t pending;
    int64_t bytes;
    uint64_t phase;
    uint64_t copied;  // 1: it counts bytes of copies
};

// What comes to an mbarrier: arrivals and bytes that are expected, or pieces of a copy.
struct tw_sm_arrival {
    double at;
    double step;    // clocks between two pieces
    double clocks;  // of the data stage, for a piece
    uint64_t pieces;  // that are still to come
    uint64_t place;  // of all blocks' mbarriers
    int64_t arrivals;
    int64_t bytes;
};

struct tw_sm_product {
    uint64_t warp;
    uint64_t code;
    uint64_t group;
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
    uint32_t waiting;  // at a barrier: 1 the block's, 2 the cluster's, 3 of a part of the block
    uint32_t released;  // 1: `ready` is when a barrier let it go
    uint32_t role;
    uint32_t awaits;   // 1: a phase of an mbarrier
    uint32_t counter;  // which that frees
    uint64_t place;
    uint64_t parity;
    uint64_t answered;  // when the test itself ends
    uint64_t deed;     // the next one
    uint64_t products[TW_SM_GROUPS];  // when the products of each group have ended
    uint64_t grouped;                 // groups
    uint64_t met;  // arrivals at the cluster's barrier
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
    struct tw_sm_product products[TW_SM_PRODUCTS];  // that wait for the tensor cores, in order
    uint64_t asked;                                 // products in all, and those that began
    uint64_t begun;
};

struct tw_sm {
    const struct tw_sm_instruction *code;
    const struct tw_sm_role *roles;
    struct tw_sm_warp *warps;
    uint64_t many;
    uint64_t *arrived;  // warps of each resident block at its barrier
    uint64_t *live;     // warps of each resident block
    uint64_t block_warps;
    struct tw_sm_mbarrier *mbarriers;  // of the resident blocks
    uint64_t block_mbarriers;
    struct tw_sm *cluster;  // one for each block of a cluster, in a row
    uint64_t cluster_blocks;
    struct tw_sm_arrival *arrivals;  // a heap, the earliest first
    uint64_t coming;
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
    uint64_t product_clocks;  // from a product's end until those who wait for it go on
    uint64_t copy_clocks;     // of a bulk copy, until it asks memory
    uint64_t remote_clocks;   // to another multiprocessor of the cluster
    double data_bytes_per_clock;
    double l2_sectors_per_clock;
    double dram_sectors_per_clock;
    double requests;  // clocks at which each of the shared stages is free
    double tags;
    double data;
    double l2;
    double dram;
    double busy[6];   // clocks that they were taken, and of tensor cores, a quarter each
    uint64_t clocks[TW_SM_CAUSES];  // of all partitions
    double flights[3];  // waits for copies, copies (groups, or phases with bytes) in flight then, and the most of these
    struct tw_sm_partition partitions[TW_SM_PARTITIONS];
};

#endif
