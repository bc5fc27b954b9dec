// What shadow memory holds: the format of a cell, and where everything is in an instrument's memory.
//
// A cell describes a few bytes of memory and is one 64-bit value:
//
//     shared   clock 40                | site 12 | strong 1 | who 11
//     global   block 24 | clock 16     | site 12 | strong 1 | who 11
//
// W says which write was the last (0: none), R which reads came since. `who` is a thread of the block (0 to 1023); 1024
// + 32 * tile + a warp, of several of its lanes; or 2047, several warps. The site of several is 4095 where theirs
// differ, their clock the least of theirs. A tile is 2, 4, 8, 16 or 32 neighbouring lanes, the fewest that hold all of
// them, so there is one in each half of it; tiles are numbered like the nodes of a binary tree above the lanes, that of
// all lanes 0.
//
// Strong accesses are atomic, volatile or stronger: two of them never race. `site` is the number of the accessing
// instruction. All ones: in W of shared memory a gap between variables, in R of global memory reads by several blocks,
// all ones but the strong bit where one of them was not strong. W of shared memory into which an asynchronous copy may
// still be writing has a clock that no warp reaches, the copy's site, and no thread; strong where it combines. W of an
// mbarrier has another such clock, and no site.
//
// In a cluster an access of another block's shared memory is told apart by its clock, which no warp reaches either:
//
//     one 1 | rank 4 | who 11 | clock 24 | site 12 | strong 1 | 2044
//
// W has this form where another block wrote, or has read since: then a third value F says which reads of other blocks
// came. `who` is 2043 of several blocks, whose rank says nothing. Clock and who are 0 where nothing was written.

#ifndef TILEWRIGHT_SHADOW_CELLS_H
#define TILEWRIGHT_SHADOW_CELLS_H

#include "records.h"

enum {
    TW_THREAD_MAX = 1024,
    TW_SEVERAL_WARPS = 2047,
    TW_WHO_MASK = 2047,
    TW_STRONG_BIT = 11,
    TW_SITE_SHIFT = 12,
    TW_SITE_MAX = 4095,
    TW_SITE_WORDS = 64,  // with a bit for each
    TW_CLOCK_SHIFT = 24,
    TW_BLOCK_SHIFT = 40,
    TW_FLIGHT_WHO = 2046,
    TW_FAR_WHO = 2044,
    TW_SEVERAL_RANKS = 2043,  // blocks of a cluster
    TW_FAR_CLOCK_BITS = 24,
    TW_FAR_CLOCK_MAX = 16777200,
    TW_CLOCK_MAX = 65534,
    TW_CLOCK_OUTGOING = 65535,  // of global memory into which a bulk copy may still be writing
    TW_BLOCK_MAX = 16777214,

    TW_WARPS_MAX = 32,
    TW_ROUNDS = 16,  // barriers of a block
    TW_FLIGHTS_MAX = 256,  // asynchronous copies of a warp that are followed at once
    TW_READINGS_MAX = 512,  // and instructions' reads for its products: 30 products of 128 columns
    TW_SETTLED_MAX = 16,
    TW_PIECE_BYTES = 16,  // of what copies and products access
    TW_CELL_RUN = 8,  // cells of a row: what AVX-512 holds in a register

    // What unordered stores put into a cell of global memory: the value in the lower half, whether there were others,
    // which W they came after (a part of its hash), and that there is one.
    TW_MIXED_BIT = 62,
    TW_PHASE_BITS = 30,

    // State of a byte of global memory: bits, and why neither is set.
    TW_READABLE = 1,  // it has been written
    TW_WRITABLE = 2,
    TW_FREE = 0,
    TW_FREED = 16,
    TW_ROW_GAP = 32,

    // What can be wrong.
    TW_SHARED_GAP = 1,
    TW_SHARED_UNWRITTEN = 2,
    TW_SHARED_RACE = 3,
    TW_SHARED_LANES = 4,
    TW_GLOBAL_OUTSIDE = 5,
    TW_GLOBAL_FREED = 6,
    TW_GLOBAL_CONSTANT = 7,
    TW_GLOBAL_ROW_GAP = 8,
    TW_GLOBAL_UNWRITTEN = 9,
    TW_GLOBAL_RACE = 10,
    TW_GLOBAL_BLOCKS = 11,
    TW_GLOBAL_LANES = 12,
    TW_LOCAL_OUTSIDE = 13,
    TW_LOCAL_UNWRITTEN = 14,
    TW_SHARED_IN_FLIGHT = 15,
    TW_SHARED_BLOCKS = 16,
    TW_AWAY_EARLY = 17,
    TW_AWAY_LATE = 18,
    TW_GLOBAL_IN_FLIGHT = 19,
    TW_AWAY_SENT = 20,

    TW_SHARED_OBJECT = 32,
    TW_SHARED_ARRIVED = 33,
    TW_MBARRIER_UNSET = 34,
    TW_MBARRIER_UNKNOWN = 35,
    TW_MBARRIER_AGAIN = 36,
    TW_MBARRIER_STALE = 37,
    TW_MBARRIER_PARITY = 38,
    TW_MBARRIER_LEFT_BYTES = 39,
    TW_SHARED_SOURCE = 40,
    TW_NOT_FENCED = 41,
    TW_DESCRIPTOR = 42,
    TW_MBARRIER_BUSY = 43,

    // How a descriptor differs from its matrix: another swizzle, another base offset, lines that are not the rows
    // copied, or some bytes twice.
    TW_LAID_SWIZZLED = 1,
    TW_LAID_BASE = 2,
    TW_LAID_ROWS = 3,
    TW_LAID_TWICE = 4,
    TW_LAYOUT_OF_BYTES = 128,

    // Bulk copies of a block that are followed at once; and which of their sides is global memory.
    TW_BULKS_MAX = 256,
    TW_OUTGOING_MAX = 64,  // to global memory
    TW_BOX_WORDS = 24,
    TW_FROM_GLOBAL = 1,
    TW_TO_GLOBAL = 2,
    TW_IS_TENSOR = 4,  // of which the bytes are not told
    TW_COMBINES = 8,   // reads and writes what it copies to, element by element
    TW_FROM_REGISTERS = 16,  // or zeros: nothing of memory is read

    // The mbarriers of a block that are followed, and W of their bytes.
    TW_WATCHED_MAX = 64,
    TW_MBARRIER_WHO = 2045,

    // What a block knows of its cluster is a row of clocks for each block of that, of: each warp, what a barrier left for
    // it, each barrier, the last two rounds of the cluster's own (of the first block alone), and each mbarrier's phase
    // and the one before. Here they begin. Without mbarriers there are no rows from TW_NOW_ROW on; with them each row has
    // two more, so many rows on, of warps of which some lanes alone have passed on what they did (see `tw_some`).
    TW_KNOWN_ROW = 0,
    TW_INBOX_ROW = 32,
    TW_ROUND_ROW = 64,
    TW_MEETING_ROW = 80,
    TW_NOW_ROW = 82,
    TW_BEFORE_ROW = 146,
    TW_TO_CAME = 210,
    TW_TO_LANES = 420,
    TW_ROWS_END = 630,
    TW_NEAR_ROWS = 80,  // those of warps, of what barriers left, and of barriers: a block keeps them of itself too
    TW_VISITS_MAX = 1024,
    TW_SENT_MAX = 64,

    // What is done to an mbarrier, and bits of how.
    TW_MAKES = 0,
    TW_ENDS = 1,
    TW_COUNTS = 2,
    TW_ARRIVES = 3,
    TW_TESTS = 4,
    TW_DOES = 7,
    TW_RELAXED = 8,
    TW_OF_PARITY = 16,
    TW_EXPECTS = 32,
    TW_OF_COPIES = 64,

    // Bits of `how`: what an access does.
    TW_READS = 1,
    TW_WRITES = 2,
    TW_IS_STRONG = 4,
    TW_IS_COPY = 8,  // it writes later
    TW_BY_WARP = 16,  // its lanes are one: each reads a part of what their warp reads

    // What orders.py is asked and what it hears of, and further bits of what it hears of an access: it releases by
    // itself, and its address is one of shared memory.
    TW_ASK = 0,
    TW_ACCESS = 1,
    TW_FENCE = 2,
    TW_CAME = 3,
    TW_WENT_ON = 4,
    TW_MET = 5,     // at the barrier of a cluster, whose first block is named
    TW_PARTED = 6,
    TW_RELEASES = 16,
    TW_IN_SHARED = 256,
    TW_NOT_ORDERED = 10958,  // the answer where two accesses are not ordered; any other is a mishap, and no finding
};

// A warp's clock, and the limit below which every cell is known to it.
struct tw_clock {
    uint64_t now;
    uint64_t limit;
};

// A clock of each warp, or of each lane.
struct tw_clocks {
    uint32_t of[TW_WARPS_MAX];
};

// Where a warp waits: one more than the barrier, and its round.
struct tw_wait {
    uint32_t barrier;
    uint32_t round;
};

// A barrier: how often it was completed, and what those that came since know.
struct tw_round {
    uint32_t number;
    uint32_t spare[15];
    struct tw_clocks joined;
};

// A read that found all of its cells saying already that several warps read them: one more than the instruction's row,
// its base, and `version` and limit then.
struct tw_settled {
    uint64_t row;
    uint64_t base;
    uint64_t version;
    uint64_t limit;
};

// An asynchronous copy of some lanes: where each writes, and how many groups these had made before. Of one that an
// mbarrier counts: that one, how many of its phases had been complete, and the clock of the arrival.
struct tw_flight {
    uint32_t row;
    uint32_t lanes;
    uint32_t bytes;
    uint32_t group;
    uint32_t barrier;  // one more than its offset in shared memory; 0: none
    uint32_t phase;
    uint32_t clock;
    uint32_t spare;
    uint32_t at[TW_WARPS_MAX];
};

// The copies of a warp that are in flight, the oldest first, and how many groups each lane has made.
struct tw_flights {
    uint32_t count;
    uint32_t spare[31];
    struct tw_clocks groups;
    struct tw_flight of[TW_FLIGHTS_MAX];
};

// What some lanes of each warp alone have passed on: which, and the clock below which they did.
struct tw_some {
    struct tw_clocks came;
    struct tw_clocks lanes;
};

// What those know that have arrived at an mbarrier in a phase, and which lanes of each warp did.
struct tw_arrivals {
    struct tw_clocks joined;
    struct tw_some some;
    struct tw_clocks arrived;
};

// An mbarrier of a block: who made it, and what came to it in this phase and in the one before.

struct tw_watched {
    uint32_t place;  // one more than its offset in shared memory; 0: none
    uint32_t live;
    uint32_t phase;      // how many are complete
    uint32_t low_phase;  // the same as memory has it, modulo 8
    uint32_t made_by;    // thread
    uint32_t made_at;    // clock
    uint32_t expects;      // whether bytes were expected,
    uint32_t expects_row;  // by which instruction last,
    uint32_t expects_by;   // and by which thread
    uint32_t round;        // one more than that of the cluster's barrier which lets others know that it was made; or 0
    uint32_t bytes;        // those that this phase has expected so far
    uint32_t waits_row;    // one more than the instruction by which a lane waits for this phase for ever; 0: none does
    uint32_t waits_by;     // the lowest such thread,
    uint32_t waits_ahead;  // and how many phases were complete by then that its warp has not seen
    uint32_t skipping;     // warps that have seen a phase complete without having awaited the one before
    uint32_t spare;
    uint64_t bits;         // the mbarrier's, after the last event
    uint32_t spare_bits[14];
    struct tw_clocks awaited;        // one more than the last phase that each warp saw complete, and its lanes that did
    struct tw_clocks awaited_lanes;
    struct tw_arrivals now;
    struct tw_arrivals before;
};

// A bulk copy of a thread in flight: what it writes where an mbarrier counts its bytes, else what it reads.
struct tw_bulk {
    uint32_t barrier;  // one more than the mbarrier's offset; 0: it belongs to a group
    uint32_t phase;    // how many of that had been complete
    uint32_t group;    // how many groups its thread had made
    uint32_t thread;
    uint32_t row;
    uint32_t start;    // bytes of shared memory
    uint32_t end;
    uint32_t clock;
    uint32_t from;     // one more than the rank of another block that its thread is of; 0: it is of this one
    uint32_t strong;   // it combines what it brings with what is there
    uint32_t spare[6];
};

// What a bulk copy of a thread writes of global memory, until the thread waits for its group to end.
struct tw_outgoing {
    uint32_t group;
    uint32_t row;
    uint32_t thread;
    uint32_t strong;
    uint64_t start;
    uint64_t bytes;              // 0: of a box
    uint64_t box[TW_BOX_WORDS];  // a struct tw_box
};

struct tw_bulks {
    uint32_t count;
    uint32_t outgoing;
    uint32_t spare[30];
    struct tw_clocks proxied;  // of each warp the clock below which its stores are fenced from the asynchronous proxy
    struct tw_clocks groups[TW_WARPS_MAX];  // how many each lane has made
    struct tw_bulk of[TW_BULKS_MAX];
    struct tw_outgoing out[TW_OUTGOING_MAX];
};

// Pieces of 16 bytes that some lanes of a warp read for a product of their warpgroup: where each is, how many groups the
// warp had made before, and what W of it was.
struct tw_reading {
    uint32_t row;
    uint32_t lanes;
    uint32_t group;
    uint32_t spare;
    uint32_t at[TW_WARPS_MAX];
    uint32_t seen[TW_WARPS_MAX];
};

// Those of a warp that no wait has covered: so many from `first` on, modulo their most; and how many groups it has made.
struct tw_readings {
    uint32_t count;
    uint32_t first;
    uint32_t groups;
    uint32_t spare[13];
    struct tw_reading of[TW_READINGS_MAX];
};

// The last access of a block's shared memory by an instruction of a warp of another.
struct tw_visit {
    uint32_t by;    // one more than rank << 5 | warp; 0: none
    uint32_t row;
    uint32_t lane;
    uint32_t clock;
    uint32_t round;  // how often its lanes had arrived at the cluster's barrier
    uint32_t place;
};

// A copy to a block's shared memory from that of another block of its cluster: one more than that one's rank, the mbarrier
// that counts it and in which phase, and for each warp of this block that has seen its end one more than its clock then,
// and how often it had arrived at the cluster's barrier.
struct tw_sent {
    uint32_t by;  // 0: none
    uint32_t barrier;
    uint32_t phase;
    uint32_t thread;
    uint32_t row;
    uint32_t spare[11];
    struct tw_clocks seen;
    struct tw_clocks rounds;
};

// What a block keeps for its cluster.
struct tw_far {
    uint32_t number;  // of the first block: rounds of the cluster's barrier that are over
    uint32_t spare[31];
    struct tw_clocks came;    // how often each warp has arrived there,
    struct tw_clocks waited;  // and gone on from there;
    struct tw_clocks fenced;  // and the clock below which the mbarriers that it made are fenced
    struct tw_visit visits[TW_VISITS_MAX];
    struct tw_sent sent[TW_SENT_MAX];
    struct tw_clocks rows[];  // see TW_KNOWN_ROW
};

// A block's memory.
struct tw_shadow_block {
    uint64_t lanes_at;  // where clocks of lanes are: 32 rows a warp; 0 where only whole warps synchronise
    uint64_t spare[7];
    struct tw_clock clocks[TW_WARPS_MAX];
    struct tw_clocks known[TW_WARPS_MAX];  // how far each warp knows each other's clock
    struct tw_clocks inbox[TW_WARPS_MAX];  // the same, left for it by a barrier
    struct tw_wait waits[TW_WARPS_MAX];
    struct tw_clocks gone;        // the clock of each warp that has ended, plus one
    uint64_t seen[TW_WARPS_MAX];  // the address of a warp's last strong load, while nothing else has happened to it
    uint64_t whole[TW_WARPS_MAX];  // the clock of each warp below which all its lanes are ordered
    struct tw_round rounds[TW_ROUNDS];
    // How often cells of shared memory have changed in a way that a settled read may depend on, and the limit of the
    // warps that read meanwhile.
    uint64_t version;
    uint64_t version_limit;
    uint64_t spare_version[6];
    struct tw_settled settled[TW_SETTLED_MAX];
    // W of shared memory. Then R of it, and a byte for each byte of local memory, where the launch's memory says; then
    // clocks of lanes.
    uint64_t writes[];
};

// A launch's memory.
struct tw_shadow_launch {
    struct tw_found found;
    uint64_t cell_bytes;  // 1, 2 or 4: those of the kernel's narrowest access
    uint64_t base;        // device address at which global memory begins
    uint8_t *states;      // of its bytes
    uint64_t *writes;     // W of global memory
    uint64_t *reads;      // R
    uint64_t *stored;     // what was stored
    uint8_t *quiet;       // of its cells: all ones where several blocks read what may be read and nothing has written
    // Asks about the order that fences and atomics made; null where the kernel has no fences.
    int32_t (*order)(int64_t what, int64_t block, int64_t warp, int64_t a, int64_t b, int64_t clock);
    uint64_t shared_reads;  // byte offset of R of shared memory in a block's memory
    uint64_t local_states;  // and of the states of local memory
    uint64_t local_bytes;   // of a thread; 0 where it is not judged
    uint64_t warps;
    uint64_t flights_at;  // byte offset of the warps' copies in flight in a block's memory
    uint64_t untracked;   // copies that were taken for stores, because so many were in flight
    uint64_t watched_at;  // byte offset of the mbarriers in a block's memory
    uint64_t ahead_at;    // and of a struct tw_some for each of TW_NEAR_ROWS; 0: it has no mbarriers
    uint64_t bulks_at;    // and of its bulk copies in flight; 0: it has none
    uint64_t readings_at;  // and of what its warps read for products in flight; 0: it has none
    uint64_t unwatched;   // mbarriers that are not followed, because there are so many
    uint64_t far_at;      // byte offset of what a block keeps for its cluster; 0: there is none, and no such barrier
    uint64_t far_reads;   // and of F of its shared memory; 0 where a cluster is one block
    uint64_t ranks;       // blocks of a cluster
    uint64_t unvisited;   // accesses of other blocks that are not kept, because there are so many
    uint64_t layouts_at;  // byte offset of the layouts of shared memory in a block's memory; 0: no product asks
    uint64_t unfenced[TW_SITE_WORDS];  // a bit for each instruction whose writes need no proxy fence
};

// Rows of tables: cells from one on, and which of them are used; see tables.py.
struct tw_plain_row {
    int64_t cell;
    uint64_t used;
};

// Of shared memory also where several lanes touch a cell, and which access and lane, or tile of lanes.
struct tw_touched_row {
    int64_t cell;
    uint32_t used;
    uint32_t several;
    uint32_t low[TW_CELL_RUN];  // access << 12 | lane, or 32 * tile
};

// One of several accesses with one base.
struct tw_member {
    int64_t ahead;  // bytes from the base
    uint64_t bytes;
    uint64_t element_bytes;  // of a vector access
};

#endif
