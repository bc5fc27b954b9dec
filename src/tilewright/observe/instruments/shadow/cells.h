// The format of a cell of shadow memory, and the layout of the instrument's memory.
//
// A cell describes a few bytes of memory and is one 64-bit value:
//
//     shared   clock 40                | site 12 | strong 1 | who 11
//     global   block 24 | clock 16     | site 12 | strong 1 | who 11
//
// W is the last write (0: none), R the reads since. `who` is a thread of the block (0 to 1023), 1024 + 32 * tile + warp
// for several lanes of a warp, or 2047 for several warps. Several accesses have the least of their clocks, and site
// 4095 if their sites differ; but see `several.h` for those of several warps. A tile is the smallest group of 2, 4, 8,
// 16 or 32 neighbouring lanes that holds the accessing lanes, so each half of it has one. Tiles have the numbers of a
// binary tree's nodes; tile 0 has all lanes. What the products of a warpgroup read is read by a warp of their own,
// whose number follows those of the block's warps: see `products.c`.
//
// Strong accesses are atomic, volatile or stronger: two of them race only if they are of two blocks and the scope
// of one is its own block. `site` is the number of the accessing instruction. All ones in W of shared memory is a
// gap between variables. All ones in R of global memory is reads by several blocks; the strong bit is 0 if one of
// them was not strong. While an asynchronous copy may write to shared memory, W there has a clock that no warp
// reaches, the copy's site and no thread, and is strong if the copy reduces. W of an mbarrier has another such
// clock, and no site.
//
// In a cluster an access by another block has a form of its own, whose clock no warp reaches either:
//
//     one 1 | rank 4 | who 11 | clock 24 | site 12 | strong 1 | 2044
//
// W has this form if another block wrote, or has read since. Then a third value F has the reads of other blocks. `who`
// is 2043 for several blocks, whose rank means nothing. Clock and who are 0 if nothing was written.

#ifndef TILEWRIGHT_SHADOW_CELLS_H
#define TILEWRIGHT_SHADOW_CELLS_H

#include "records.h"

// Numbers of threads and warps, and values of `who` with a meaning of their own.
enum tw_who {
    TW_THREAD_MAX = 1024,
    TW_WARPS_MAX = 32,
    TW_WHO_MASK = 2047,
    TW_SEVERAL_WARPS = 2047,
    TW_FLIGHT_WHO = 2046,
    TW_FAR_WHO = 2044,
    TW_SEVERAL_RANKS = 2043,  // several blocks of a cluster
};

// Parts of a cell, and the limits of what they hold.
enum tw_cell_parts {
    TW_STRONG_BIT = 11,
    TW_SITE_SHIFT = 12,
    TW_SITE_MAX = 4095,
    TW_SITE_WORDS = 64,  // words with a bit for each site
    TW_CLOCK_SHIFT = 24,
    TW_BLOCK_SHIFT = 40,
    TW_FAR_CLOCK_BITS = 24,
    TW_FAR_CLOCK_MAX = 16777200,
    TW_CLOCK_MAX = 65534,
    TW_CLOCK_OUTGOING = 65535,  // of global memory into which a bulk copy may still be writing
    TW_BLOCK_MAX = 16777214,
};

// How much is followed of a block, of a warp, or of an access.
enum tw_followed {
    TW_ROUNDS = 16,  // barriers of a block
    TW_SOURCE_SHIFT = 2,   // sources are multiples of 4 bytes
    TW_SETTLED_MAX = 16,
    TW_PIECE_BYTES = 16,  // of what copies and products access
    TW_CELL_RUN = 8,  // cells of a row: one AVX-512 register
    TW_BUCKETS = 1024,     // of lists of accesses by several warps
    TW_READERS_MAX = 4,    // blocks whose reads of one cell are kept one by one
    TW_ASKED_MAX = 4,      // questions whose answers a warp keeps
    TW_BLURRED_SITES = 16,
    TW_BLURRED_MAX = 64,
    TW_MANY_LISTS = 3069,  // three quarters of them
};

// What unordered stores wrote to a cell of global memory: the value in the lower half, whether other values were
// written, a part of the hash of the W before them, and a bit that says that there is a value.
enum tw_stored_parts {
    TW_MIXED_BIT = 62,
    TW_PHASE_BITS = 30,
};

// State of a byte of global memory: two bits, and the reason if neither is set.
enum tw_byte_state {
    TW_READABLE = 1,  // it has been written
    TW_WRITABLE = 2,
    TW_FREE = 0,
    TW_FREED = 16,
    TW_ROW_GAP = 32,
    TW_HEAP_BLOCK = 64,  // the last byte before a block of the heap
};

// Kinds of defects.
enum tw_defect {
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
    TW_GLOBAL_READ_ONLY = 21,
    TW_HEAP_TWICE = 22,
    TW_HEAP_FOREIGN = 23,
    TW_HEAP_UNKNOWN = 24,  // no defect
    TW_SHARED_PARTLY = 25,  // a part of an element was not written: a defect if its value is used as a whole
    TW_GLOBAL_PARTLY = 26,
    TW_LOCAL_PARTLY = 27,
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
    TW_MBARRIER_REMADE = 44,
};

// How a descriptor differs from its matrix: another swizzle, another base offset, lines that are not the copied
// rows, or bytes that two lines share.
enum tw_laid {
    TW_LAID_SWIZZLED = 1,
    TW_LAID_BASE = 2,
    TW_LAID_ROWS = 3,
    TW_LAID_TWICE = 4,
    TW_LAYOUT_OF_BYTES = 128,
};

enum tw_bulk_limits {
    TW_BOX_WORDS = 24,
};

// What a bulk copy does, as bits.
enum tw_bulk_bits {
    TW_FROM_GLOBAL = 1,
    TW_TO_GLOBAL = 2,
    TW_IS_TENSOR = 4,  // its bytes in global memory are a box of a tensor map
    TW_COMBINES = 8,   // it reduces into its target, element by element
    TW_FROM_REGISTERS = 16,  // its source is registers or zeros, so it reads no memory
};

// The mbarriers of a block that are followed, and `who` in W of their bytes.
enum tw_watching {
    TW_WATCHED_MAX = 64,
    TW_PHASE_SHIFT = 32,  // of the number of a phase in the name of a place of orders.py
    TW_MBARRIER_WHO = 2045,
};

// Where a block's rows start. A row has the clocks of each block of the cluster. There are rows for what each warp
// knows, for what a barrier left for each warp, for each barrier, for the last two rounds of the cluster's barrier
// (in the first block only), and for each mbarrier's phase and the one before. Without mbarriers there are no rows
// from TW_NOW_ROW on. With them each row has two more, TW_TO_CAME and TW_TO_LANES further on: see `tw_some`.
enum tw_row_start {
    TW_KNOWN_ROW = 0,
    TW_INBOX_ROW = 32,
    TW_ROUND_ROW = 64,
    TW_CLUSTER_ROW = 80,
    TW_NOW_ROW = 82,
    TW_BEFORE_ROW = 146,
    TW_TO_CAME = 210,
    TW_TO_LANES = 420,
    TW_ROWS_END = 630,
    TW_NEAR_ROWS = 80,  // rows of warps and barriers, which a block keeps of itself too
    TW_VISITS_MAX = 1024,
    TW_SENT_MAX = 64,
};

// The operations on an mbarrier, and bits that qualify them.
enum tw_mbarrier_operation {
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
};

// Bits of `how`: what an access does.
enum tw_access_bits {
    TW_READS = 1,
    TW_WRITES = 2,
    TW_IS_STRONG = 4,
    TW_IS_COPY = 8,  // it writes later
    TW_BY_WARP = 16,  // its lanes count as their warp, because each reads a part of one operand
    TW_IS_NARROW = 32,  // its scope is its own block, so it is strong against accesses of that block alone
    TW_IS_READ_ONLY = 64,  // it loads through the non-coherent cache, for memory that the launch does not write
    TW_IS_VOLATILE = 128,
    TW_BY_WARPGROUP = 512,  // with TW_BY_WARP: all of the warpgroup read one operand
    TW_IS_DATA = 256,  // it is strong, and what it reads decides nothing, so that it is no flag
};

// Calls of orders.py: one question, and events. TW_RELEASES, TW_ACQUIRES and TW_IN_SHARED are further bits of an
// access: it releases or acquires by itself, and its address is in shared memory.
enum tw_order_call {
    TW_ASK = 0,
    TW_ACCESS = 1,
    TW_FENCE = 2,
    TW_BARRIER_ARRIVED = 3,  // the barrier, and its round << 2 | whether it is of the whole block << 1 | waits
    TW_BARRIER_LEFT = 4,     // the barrier, and its round
    TW_CLUSTER_ARRIVED = 5,  // the cluster is named by its first block, and whether the arrival is relaxed
    TW_CLUSTER_LEFT = 6,
    TW_ENDED = 7,
    TW_RELEASES = 16,
    TW_IN_SHARED = 256,
    TW_ACQUIRES = 512,
    TW_NOT_ORDERED = 10958,  // the answer for unordered accesses; after an error the answer is another: no finding
};

// A warp's clock, and the limit: it knows every access with a clock below.
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

// A question of a warp to orders.py, about an access of another: its block, thread and clock. The answer holds while
// `notices` of the launch is the same. A warp keeps its last one about blocks of the same number modulo TW_ASKED_MAX.
struct tw_asked {
    int64_t block;
    uint64_t who;
    uint64_t clock;
    uint64_t notices;  // one more than that; 0: no question
    uint64_t answer;
};

// A barrier: how often it was completed; the warps of whose end it tells nothing, because they only arrived, or all
// if it is for some of a block's threads; and what the warps know that have arrived since.
struct tw_round {
    uint32_t number;
    uint32_t unheard;
    uint32_t spare[14];
    struct tw_clocks joined;
};

// A read whose cells all said already that several warps read them: one more than the instruction's row, its base, and
// `version` and limit at that time.
struct tw_settled {
    uint64_t row;
    uint64_t base;
    uint64_t version;
    uint64_t limit;
};

// An asynchronous copy of some lanes: where each writes, and how many groups these had committed before. If an mbarrier
// counts the copy: the mbarrier, how many of its phases were complete, and the clock of the arrival.
struct tw_flight {
    uint32_t row;
    uint32_t lanes;
    uint32_t bytes;
    uint32_t group;
    uint32_t barrier;  // one more than its offset in shared memory; 0: none
    uint32_t phase;
    uint32_t clock;
    uint32_t source;  // the number of what it reads, from 1; 0: not known
    uint32_t at[TW_WARPS_MAX];
};

// An access in a list of those by several warps; see `several.h`.
struct tw_one_access {
    uint64_t cell;    // 0: the place is free
    uint16_t next;    // the number of the rest of the list; 0: none
    uint16_t born;    // how often places had been freed before
    uint32_t beside;  // of another access of the same bucket
    uint32_t warps;   // of the list,
    uint32_t least;   // and its least clock
};

// The lists of a block's cells.
struct tw_several {
    uint32_t used;     // places up to this number were taken since they were last freed
    uint32_t blurred;  // how often that freed few
    uint32_t sweeps;   // how often places were freed
    uint32_t spare[13];
    uint64_t marked[TW_SITE_WORDS];  // a bit for each place to which some cell leads,
    uint64_t of_global[TW_SITE_WORDS];  // and for each to which one of global memory led
    uint32_t first[TW_BUCKETS];
    struct tw_one_access of[TW_SITE_MAX];
};

// What lanes of a copy read of global memory: from the arena's start, in 4 bytes, and what W of the cells was then.
struct tw_source {
    uint32_t row;
    uint32_t lanes;
    uint32_t bytes;
    uint32_t from[TW_WARPS_MAX];
    uint32_t seen[TW_WARPS_MAX];
};

// How many copies of a warp are in flight, and how many groups each lane has committed. The copies, the oldest first,
// and what the youngest ones read are behind the block's memory: see `tw_behind`.
struct tw_flights {
    uint32_t count;
    uint32_t sources;  // how many there were
    uint32_t coming;   // 1: the next one belongs to the copy that comes next
    uint32_t spare[29];
    struct tw_clocks groups;
};

// What only some lanes of each warp have released: these lanes, and the clock below which they have.
struct tw_some {
    struct tw_clocks came;
    struct tw_clocks lanes;
};

// What the lanes know that have arrived at an mbarrier in a phase, and which lanes of each warp have arrived.
struct tw_arrivals {
    struct tw_clocks joined;
    struct tw_some some;
    struct tw_clocks arrived;
};

// An mbarrier of a block: the thread that initialised it, and the arrivals of this phase and of the one before.

struct tw_watched {
    uint32_t place;  // one more than its offset in shared memory; 0: none
    uint32_t live;
    uint32_t phase;      // how many are complete
    uint32_t low_phase;  // the same modulo 8, as the mbarrier's bits have it
    uint32_t made_by;    // thread
    uint32_t made_at;    // clock
    uint32_t expects;      // whether bytes were expected,
    uint32_t expects_row;  // the last instruction that expected some,
    uint32_t expects_by;   // and its thread
    uint32_t round;        // one more than the round of the cluster's barrier that makes the init known to others; or 0
    uint32_t bytes;        // expected by this phase so far
    uint32_t waits_row;    // one more than the instruction by which a lane waits for this phase; 0: none does
    uint32_t waits_by;     // the lowest such thread,
    uint32_t waits_ahead;  // and how many phases were complete by then that its warp has not seen
    uint32_t skipping;     // warps that have seen a phase complete without waiting for the one before
    uint32_t spare;
    uint64_t bits;         // of the mbarrier, after the last event
    uint32_t spare_bits[14];
    struct tw_clocks awaited;        // one more than the last phase that each warp saw complete,
    struct tw_clocks awaited_lanes;  // and its lanes that saw it
    struct tw_arrivals now;
    struct tw_arrivals before;
};

// What a bulk copy reads of global memory, and W of its cells as one number when it was issued.
struct tw_origin {
    uint64_t start;
    uint64_t bytes;              // 0: it reads a box
    uint64_t box[TW_BOX_WORDS];  // a struct tw_box
    uint64_t seen;
};

// A bulk copy in flight: the bytes that it writes if an mbarrier counts them, else the bytes that it reads.
struct tw_bulk {
    uint32_t barrier;  // one more than the mbarrier's offset; 0: it belongs to a group
    uint32_t phase;    // how many phases of the mbarrier were complete
    uint32_t group;    // how many groups its thread had committed
    uint32_t thread;
    uint32_t row;
    uint32_t start;    // bytes of shared memory
    uint32_t end;
    uint32_t clock;
    uint32_t from;     // one more than the rank of its thread's block; 0: this block
    uint32_t strong;   // it reduces into its target
    uint32_t source;   // if an mbarrier counts it: one more than where it reads its block's shared memory; 0: nowhere
    uint32_t spare[5];
    struct tw_origin origin;  // what it reads of global memory; `seen` is 0 where nothing is written there
};

// What a bulk copy writes to global memory, until its thread waits for its group to complete.
struct tw_outgoing {
    uint32_t group;
    uint32_t row;
    uint32_t thread;
    uint32_t strong;
    uint64_t start;
    uint64_t bytes;              // 0: it writes a box
    uint64_t box[TW_BOX_WORDS];  // a struct tw_box
};

struct tw_bulks {
    uint32_t count;
    uint32_t outgoing;
    uint32_t spare[30];
    struct tw_clocks proxied;  // for each warp, the clock below which a proxy fence has followed its stores
    struct tw_clocks groups[TW_WARPS_MAX];  // how many each lane has committed
    struct tw_origin boxes[TW_WARPS_MAX];  // what each lane of a warp reads of a tensor by the copy that comes next
};

// Pieces of 16 bytes that some lanes of a warp read for a product of their warpgroup: the place and the W of each, and
// how many groups the warp had committed before.
struct tw_reading {
    uint32_t row;
    uint32_t lanes;
    uint32_t group;
    uint32_t spare;
    uint32_t at[TW_WARPS_MAX];
    uint32_t seen[TW_WARPS_MAX];
};

// A ring of a warp's reads that no wait has covered, `count` from `first` on; and how many groups it has committed. The
// first warp of a warpgroup also has how many of the warpgroup's groups are complete, and of the last 32 the clock at
// which each was, plus one.
struct tw_readings {
    uint32_t count;
    uint32_t first;
    uint32_t groups;
    uint32_t complete;
    uint32_t spare[12];
    struct tw_clocks completed;
};

// Where a list is that lies behind a block's memory, in bytes from the block's start, and how many entries have room
// there; for lists of warps, of each. At the start of a block it has what another block left there.
struct tw_behind {
    uint64_t at;
    uint64_t most;
};

// The last access of a block's shared memory by one instruction of a warp of another block.
struct tw_visit {
    uint32_t by;    // one more than rank << 5 | warp; 0: none
    uint32_t row;
    uint32_t lane;
    uint32_t clock;
    uint32_t round;  // how often its lanes had arrived at the cluster's barrier
    uint32_t place;
};

// A copy to a block's shared memory from that of another block of its cluster: one more than the rank of the source,
// the mbarrier that counts it, and the phase. For each warp of this block that has seen its completion: one more than
// the warp's clock at that time, and how often the warp had arrived at the cluster's barrier.
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
    uint32_t number;  // in the first block: completed rounds of the cluster's barrier
    uint32_t spare[31];
    struct tw_clocks came;    // how often each warp has arrived there,
    struct tw_clocks waited;  // and resumed after it;
    struct tw_clocks fenced;  // and the clock below which its mbarrier initialisations are fenced
    struct tw_visit visits[TW_VISITS_MAX];
    struct tw_sent sent[TW_SENT_MAX];
    struct tw_clocks rows[];  // see TW_KNOWN_ROW
};

// A block's memory.
struct tw_shadow_block {
    uint64_t lanes_at;  // offset of the clocks of lanes, 32 rows a warp; 0: only whole warps synchronise
    uint64_t spare[7];
    struct tw_clock clocks[TW_WARPS_MAX];
    struct tw_clocks known[TW_WARPS_MAX];  // how much of each other warp's clock each warp knows
    struct tw_clocks inbox[TW_WARPS_MAX];  // the same, left for the warp by a barrier
    struct tw_wait waits[TW_WARPS_MAX];
    struct tw_clocks gone;        // the clock of each warp that has ended, plus one
    uint64_t seen[TW_WARPS_MAX];  // the place of each warp's last strong access and its `how`, until its next event
    struct tw_asked asked[TW_WARPS_MAX][TW_ASKED_MAX];
    uint64_t whole[TW_WARPS_MAX];  // for each warp, the clock below which all its lanes are ordered
    struct tw_round rounds[TW_ROUNDS];
    // How often cells of shared memory have changed in a way on which a settled read may depend, and the limit of the
    // warps that have read since the last change.
    uint64_t version;
    uint64_t version_limit;
    uint64_t spare_version[6];
    struct tw_settled settled[TW_SETTLED_MAX];
    // W of shared memory. R, a byte for each byte of local memory, and clocks of lanes follow, at the offsets that the
    // launch's memory has.
    uint64_t writes[];
};

// A launch's memory.
struct tw_shadow_launch {
    struct tw_found found;
    uint64_t cell_bytes;  // 1, 2 or 4: the kernel's narrowest access
    uint64_t base;        // device address at which global memory starts
    uint8_t *states;      // of its bytes
    uint64_t *writes;     // W of global memory
    uint64_t *reads;      // R
    uint64_t *stored;     // what unordered stores wrote
    uint64_t *readers;    // of its cells: the reads of up to TW_READERS_MAX blocks; null if they are not kept
    uint32_t *lists;      // of its cells: that of R, `born` in the upper half; null if there are none
    uint8_t *quiet;       // of its cells: all ones if several blocks have read it, all may, and nothing has written it
    // orders.py, which knows the order that fences and atomics make; null if the kernel has no fences.
    int32_t (*order)(int64_t what, int64_t block, int64_t warp, int64_t a, int64_t b, int64_t clock);
    uint64_t notices;       // how often orders.py was notified
    uint64_t shared_reads;  // byte offset of R of shared memory in a block's memory
    uint64_t local_states;  // and of the states of local memory
    uint64_t local_bytes;   // of a thread; 0: not judged
    uint64_t warps;
    uint64_t flights_at;  // byte offset of the warps' copies in flight in a block's memory
    struct tw_behind flights;   // of each warp
    struct tw_behind sources;   // of each warp
    struct tw_behind readings;  // of each warp
    struct tw_behind bulks;
    struct tw_behind outgoing;
    uint64_t untracked;   // copies that counted as stores, because too many were in flight
    uint64_t watched_at;  // byte offset of the mbarriers in a block's memory
    uint64_t ahead_at;    // and of a struct tw_some for each of TW_NEAR_ROWS; 0: no mbarriers
    uint64_t bulks_at;    // and of the bulk copies in flight; 0: none
    uint64_t readings_at;  // and of the reads of products in flight; 0: none
    uint64_t unwatched;   // mbarriers that are not followed, because there are too many
    uint64_t far_at;      // byte offset of a struct tw_far in a block's memory; 0: no clusters and no cluster barrier
    uint64_t far_reads;   // and of F of its shared memory; 0: a cluster is one block
    uint64_t ranks;       // blocks of a cluster
    uint64_t unvisited;   // accesses of other blocks that are not kept, because there are too many
    uint64_t carried_at;  // byte offset of a word a slot and thread in a block's memory, see local.c; 0: none
    uint64_t several_at;  // byte offset of a struct tw_several in a block's memory; 0: warps wait only for all others
    uint64_t layouts_at;  // byte offset of the layouts of shared memory in a block's memory; 0: no product needs them
    uint64_t global_bytes;  // of global memory in use
    // The device address of the heap of the kernel's module, its end, and that from which on all blocks are known.
    uint64_t heap;
    uint64_t heap_end;
    uint64_t heap_known;
    uint64_t has_read_only;  // whether the kernel loads through the non-coherent cache
    uint64_t unfenced[TW_SITE_WORDS];  // a bit for each instruction whose writes need no proxy fence
    uint64_t narrow[TW_SITE_WORDS];    // and for each whose scope is its own block
};

// What a store takes of a load of local memory whose value it only copies; see local.c.
struct tw_carried {
    uint64_t slot;
    uint64_t from;     // the first byte of the load that it takes,
    uint64_t to;       // and where that goes in the store
    uint64_t bytes;    // a bit for each byte of the load that it takes unchanged,
    uint64_t element;  // and for each byte of the element that they are of
};

// A row of a table: consecutive cells from `cell` on, and which of them are used; see tables.py.
struct tw_plain_row {
    int64_t cell;
    uint64_t used;
};

// The same for shared memory: also which cells several lanes touch, and for each cell the access and lane, or the tile.
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
