// A multiprocessor that issues machine code, clock by clock. `multiprocessor.py` has the model and fills the records.

#ifndef TILEWRIGHT_MULTIPROCESSOR_H
#define TILEWRIGHT_MULTIPROCESSOR_H

#include <stdint.h>

enum {
        // Kinds of instructions: latency known to the compiler; a special unit; shared memory; a load from global or
        // local memory; a store or an atomic there; an asynchronous copy from there to shared memory; the block's
        // barrier; the end of a group of copies; a wait for groups; a product of a warpgroup's warp; a wait for groups
        // of these; an operation on an mbarrier, or a bulk copy; the two halves of the cluster's barrier; an order to
        // tensor memory: a product there, a copy to it, or a commit.
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
    TW_SM_OPERATION = 11,
    TW_SM_CLUSTER_ARRIVE = 12,
    TW_SM_CLUSTER_WAIT = 13,
    TW_SM_ORDER = 14,

        // Kinds of operations; `Op` of `observe/instruments/roles.py` has the same numbers.
    TW_SM_OP_INIT = 0,
    TW_SM_OP_ARRIVE = 1,
    TW_SM_OP_EXPECT = 2,
    TW_SM_OP_ARRIVE_EXPECT = 3,
    TW_SM_OP_WAIT = 4,
    TW_SM_OP_COPY = 5,
    TW_SM_OP_STORE = 6,
    TW_SM_OP_DELIVER = 7,
    TW_SM_OP_OTHER = 8,
    TW_SM_OP_MULTIPLY = 9,
    TW_SM_OP_FILL = 10,
    TW_SM_OP_COMMIT = 11,
    TW_SM_OP_FOLLOW = 12,

        // What a partition's clocks were spent on: an instruction, or what the next ready warp had waited for.
    TW_SM_ISSUED = 0,
    TW_SM_WAITED_STALL = 1,     // the compiler's stall count
    TW_SM_WAITED_PIPE = 2,      // an arithmetic pipe
    TW_SM_WAITED_PORTS = 3,     // ports of the registers
    TW_SM_WAITED_QUEUE = 4,     // the full memory queue
    TW_SM_WAITED_SHARED = 5,    // a result of shared memory
    TW_SM_WAITED_GLOBAL = 6,    // a result of global or local memory
    TW_SM_WAITED_SPECIAL = 7,   // a result of a special unit
    TW_SM_WAITED_BARRIER = 8,   // other warps of the block
    TW_SM_WAITED_NOTHING = 9,   // no warp is live
    TW_SM_WAITED_PRODUCTS = 10,  // products of a warpgroup
    TW_SM_WAITED_MBARRIER = 11,  // an mbarrier's phase
    TW_SM_CAUSES = 12,

    TW_SM_PIPES = 10,    // of a partition
    TW_SM_TENSOR = 8,    // the pipe of tensor cores
    TW_SM_GROUPS = 16,   // most groups of copies that a warp waits for one by one
    TW_SM_OPERANDS = 3,  // of an instruction
    TW_SM_BANKS = 2,     // of the registers
    TW_SM_COUNTERS = 6,  // dependence counters of a warp; 7 in their place: none
    TW_SM_PARTITIONS = 4,
    TW_SM_QUEUE = 8,     // most memory instructions that a partition's queue has places for
    TW_SM_PRODUCTS = 16, // that wait for a partition's tensor cores
    TW_SM_ARRIVALS = 4096, // arrivals at mbarriers in flight
    TW_SM_ORDERS = 128,  // to tensor memory that wait
    TW_SM_ORDERS_EACH = 32,  // of an instruction, at most
    TW_SM_LINE_BYTES = 32,   // that a product in tensor memory reads along k
    TW_SM_LINES_SHIFT = 16,
    TW_SM_PIECE_BYTES = 1024, // of a bulk copy, written to shared memory at once
};

struct tw_sm_instruction {
    uint32_t kind;
    uint32_t pipes;     // pipes that take it, a bit each
    uint32_t interval;  // clocks until the pipe takes the next instruction
    uint32_t stall;
    uint32_t yields;
    uint32_t sets;   // the counter that its result frees
    uint32_t frees;  // the counter that reading its operands frees
    uint32_t waits;  // counters that it waits for, a bit each
    uint32_t pending;  // newest groups of copies that need not be complete
    uint32_t reuse;  // operands kept for the next instruction, a bit each
    uint32_t result_clocks;  // until the result and until the operands are read: from the issue,
    uint32_t read_clocks;    // for memory from the request
    int32_t operands[TW_SM_OPERANDS];  // registers; -1: none
    double tags;         // lines looked up in the first level
    double wavefronts;   // clocks of the data stage
    double l2_sectors;
    double dram_sectors;
    double miss_clocks;  // from the request to a result from outside the first level
    uint32_t ends;   // the group of a product
    uint32_t warps;  // of a barrier for a part of the block
    uint32_t pair;   // 1: an order to the tensor memory of two blocks
    double column_clocks;  // of a product in tensor memory, for a column of D
};

// An operation on an mbarrier, a bulk copy, or an order to tensor memory; in the order of a warp's path.
struct tw_sm_operation {
    uint32_t kind;
    uint32_t place;   // the mbarrier's number in the cluster; of a copy without one: the number of mbarriers
    uint32_t number;  // arrivals, bytes, or the awaited parity
    uint32_t lanes;
    uint32_t more;  // 1: the next operation belongs to the same instruction
};

// What warps of one role do.
struct tw_sm_role {
    const uint32_t *trace;
    uint64_t length;  // number of instructions
    const struct tw_sm_operation *operations;
};

struct tw_sm_mbarrier {
    int64_t expected;
    int64_t pending;
    int64_t bytes;
    uint64_t phase;
    uint64_t copied;  // 1: it counts bytes of copies
};

// An event at an mbarrier: arrivals with expected bytes, or the pieces of a copy.
struct tw_sm_arrival {
    double at;
    double step;    // clocks between two pieces
    double clocks;  // of the data stage, for a piece
    uint64_t pieces;  // still to come
    uint64_t place;  // among the mbarriers of all blocks
    int64_t arrivals;
    int64_t bytes;
};

struct tw_sm_product {
    uint64_t warp;
    uint64_t code;
    uint64_t group;
};

struct tw_sm_order {
    const struct tw_sm_operation *operation;
    uint64_t code;
    uint64_t warp;
};

struct tw_sm_warp {
    uint64_t position;  // in the trace
    uint64_t ready;
    uint64_t at;   // the clock at which its own instructions allow the next issue
    uint64_t counters[TW_SM_COUNTERS];  // clocks at which they are free
    uint32_t causes[TW_SM_COUNTERS];    // what these wait for
    uint64_t copied;  // the end of its last copy
    uint64_t groups[TW_SM_GROUPS];  // the end of each group's copies
    uint64_t committed;             // number of groups
    uint32_t why;  // what `at` waits for
    uint32_t block;
    uint32_t live;
    uint32_t waiting;  // at a barrier: 1 the block's, 2 the cluster's, 3 of a part of the block
    uint32_t released;  // 1: a barrier set `ready`
    uint32_t role;
    uint32_t awaits;   // 1: it waits for a phase of an mbarrier
    uint32_t counter;  // the counter that this frees
    uint64_t place;
    uint64_t parity;
    uint64_t answered;  // the end of the test itself
    uint64_t operation;  // index of the next one
    uint64_t products[TW_SM_GROUPS];  // the end of each group's products
    uint64_t grouped;                 // number of groups
    uint64_t arrivals;  // arrivals at the cluster's barrier
};

struct tw_sm_partition {
    uint64_t pipes[TW_SM_PIPES];  // clocks at which they are free
    uint64_t queue[TW_SM_QUEUE];  // clocks at which its last memory instructions left
    uint64_t queued;
    double address;               // the address unit
    uint64_t ports[TW_SM_BANKS];
    int64_t kept[6];   // registers in the operand cache, by bank and operand
    uint64_t held;     // until then the register ports hold everything back
    uint64_t last;     // the warp that issued last, plus one; 0: none has priority
    uint64_t next;     // the clock at which it can issue next
    uint32_t cause;    // what it waits for until then
    uint32_t issued;
    uint64_t reads[TW_SM_BANKS];
    struct tw_sm_product products[TW_SM_PRODUCTS];  // waiting for the tensor cores, in order
    uint64_t asked;                                 // products so far, and those that started
    uint64_t started;
};

struct tw_sm {
    const struct tw_sm_instruction *code;
    const struct tw_sm_role *roles;
    struct tw_sm_warp *warps;
    uint64_t many;
    uint64_t *arrived;  // warps of each resident block that are at its barrier
    uint64_t *live;     // live warps of each resident block
    uint64_t block_warps;
    struct tw_sm_mbarrier *mbarriers;  // of the resident blocks
    uint64_t block_mbarriers;
    struct tw_sm *cluster;  // one for each block of a cluster, contiguous
    uint64_t cluster_blocks;
    struct tw_sm_arrival *arrivals;  // a heap, the earliest at the top
    uint64_t coming;
    uint64_t to_start;   // blocks that have not started
    uint64_t to_finish;
    uint64_t clock;
    uint64_t queue_places;
    uint64_t lead_clocks;     // from the issue to the address unit
    uint64_t address_clocks;
    uint64_t leave_clocks;    // from a request until its queue place is free
    uint64_t request_clocks;  // between two requests to the shared stages
    uint64_t barrier_clocks;
    uint64_t start_clocks;    // until a new block's first instruction
    uint64_t product_clocks;  // from a product's end until waiting warps continue
    uint64_t copy_clocks;     // from a bulk copy's issue to its memory request
    uint64_t remote_clocks;   // to another multiprocessor of the cluster
    uint64_t pair_clocks;     // that a product of two blocks ends later than one of a block
    double data_bytes_per_clock;
    double l2_sectors_per_clock;
    double dram_sectors_per_clock;
    double requests;  // clocks at which each of the shared stages is free
    double tags;
    double data;
    double l2;
    double dram;
    double busy[6];   // clocks in which they worked; tensor cores count a quarter each
    uint64_t clocks[TW_SM_CAUSES];  // of all partitions
    double flights[3];  // waits for copies; copies (groups, or phases with bytes) in flight then, and their maximum
    struct tw_sm_order orders[TW_SM_ORDERS];  // to tensor memory, in order
    uint64_t ordered;  // so far, and those that started
    uint64_t begun;
    double complete;   // the end of the last one that started
    struct tw_sm_partition partitions[TW_SM_PARTITIONS];
};

#endif
