// The records that translated code, the runtime and Python share, and the numbers in them.
//
// This file is the one place where they are laid out: C includes it, and Python reads it (`ground.native.header`,
// which says what may be in such a file). The *context* is one per host thread, the *slot* one per resident block; the
// slots of a cluster's blocks are side by side.

#ifndef TILEWRIGHT_SIMT_RECORDS_H
#define TILEWRIGHT_SIMT_RECORDS_H

#include <stddef.h>
#include <stdint.h>

// Sizes of the machine.
enum tw_sizes {
    TW_LANES = 32,
};

// What a warp's function returns, and what a warp's `status` holds.
enum tw_warp_status {
    TW_READY = -1,
    TW_DONE = 0,
    TW_BLOCKED = 1,
    TW_YIELDED = 2,
    TW_FAULT = 3,
    TW_AWAITS = 4,    // an mbarrier's phase, which was not complete
    TW_GAVE_WAY = 5,  // to the other warps, for one round
};

// What `tw_run` returns besides.
enum tw_run_result {
    TW_FINISHED = 10,  // the grid
    TW_STALLED = 11,   // a block waits for another
    TW_DEADLOCK = 12,  // nothing can move
    TW_STOPPED = 13,   // the launch was stopped, or the instruction limit is reached
    TW_PAUSED = 14,    // enough was run for now
};

// Kinds of fault.
enum tw_fault_kind {
    TW_OUT_OF_BOUNDS = 1,
    TW_MISALIGNED = 2,
    TW_TRAP = 3,
    TW_CALL_DEPTH = 4,
    TW_BAD_CALL = 5,
    TW_STOP_REQUEST = 6,
    TW_BARRIER_ID = 7,
    TW_BARRIER_COUNT = 8,
    TW_BARRIER_COUNTS = 9,
    TW_BARRIER_IDS = 10,
    TW_BARRIER_FORMS = 11,
    TW_BARRIER_REDUCED = 12,
    TW_MBARRIER_COUNT = 13,
    TW_MBARRIER_SURPLUS = 14,
    TW_MBARRIER_BYTES = 15,
    TW_MBARRIER_COMPLETES = 16,
    TW_MBARRIER_LEFT = 17,
    TW_TENSOR_MAP = 18,
    TW_BULK_BYTES = 19,
    TW_CLUSTER_TWICE = 20,
    TW_CLUSTER_UNARRIVED = 21,
    // Of tensor memory.
    TW_COLUMNS_COUNT = 22,     // number of columns
    TW_COLUMNS_ROOM = 23,      // none for so many
    TW_COLUMNS_PERMIT = 24,    // an allocation after the permit was given up
    TW_COLUMNS_FREED = 25,     // that are no allocation
    TW_COLUMNS_OUTSIDE = 26,   // an access beyond what is allocated
    TW_COLUMNS_LANES = 27,     // an access of lanes that are another warp's
    TW_COLUMNS_LEFT = 28,      // allocated where a block ends
    TW_TENSOR_DESCRIPTOR = 29, // of an instruction or of a matrix
    TW_TENSOR_PEER = 30,       // the other block of a pair is not there
    TW_STACK_FULL = 31,
    TW_STACK_POINTER = 32,
};

// What instructions of one barrier do, as bits.
enum tw_barrier_bits {
    TW_SYNC = 1,
    TW_ARRIVE = 2,
    TW_REDUCE = 4,
};

// Barriers of a block. Source: PTX ISA, 9.7.13.1 ("sixteen barriers numbered 0..15").
enum tw_barrier_numbers {
    TW_BARRIERS = 16,
    // Behind them comes that of the block's cluster, at which warps only wait: arrivals are in the warps' records.
    TW_CLUSTER_BARRIER = 16,
};

// Shared memories of a cluster's blocks are 2^24 bytes apart, in the order of their ranks. Source: machine code of
// sm_90, which adds the rank, shifted by 24, to each address of shared memory.
enum tw_cluster_sizes {
    TW_RANK_SHIFT = 24,
    TW_CLUSTER_BLOCKS_MOST = 16,
};

// Formats of the elements of matrices: of each the GPU has a rule, and five more: for m8n8k4 of float16, for
// products of a warpgroup of 8-bit floats, for those whose factors have 6 or 4 bits, and for those with scales.
enum tw_format {
    TW_F16 = 0,
    TW_BF16 = 1,
    TW_TF32 = 2,
    TW_E4M3 = 3,
    TW_E5M2 = 4,
    TW_M8N8K4 = 5,
    TW_WGMMA8 = 6,
    TW_F8F6F4 = 7,
    TW_MXF8F6F4 = 8,
    TW_MXF4 = 9,
    TW_RULES = 10,
};

// Formats by those last rules, an element a byte.
enum tw_byte_format {
    TW_E3M2 = 10,
    TW_E2M3 = 11,
    TW_E2M1 = 12,
};

// How products are added.
enum tw_adding {
    TW_FUSED = 0,   // in groups: aligned, cut off, and added exactly
    TW_HALVES = 1,  // as float16, by its rule, in two parts; then C is added
    TW_CHAINED = 2,  // one after another, each rounded to nearest
};

// An mbarrier is 64 bits of shared memory: the arrivals that each phase takes, those that this one still waits for,
// the bytes of transactions that are pending (signed), and the phase, which counts from 0 modulo 8. Its parity is
// the lowest bit. Source: PTX ISA, 9.7.13.15.1 (counts of 1 to 2^20 - 1, bytes of -(2^20 - 1) to 2^20 - 1).
enum tw_mbarrier_parts {
    TW_MBARRIER_PENDING_SHIFT = 20,
    TW_MBARRIER_BYTES_SHIFT = 40,
    TW_MBARRIER_PHASE_SHIFT = 61,
    TW_MBARRIER_MOST = 1048575,
};

// What an arrival does besides, as bits.
enum tw_mbarrier_bits {
    TW_MBARRIER_DROPS = 1,         // later phases take fewer
    TW_MBARRIER_EXPECTS = 2,       // it first adds to the bytes
    TW_MBARRIER_NO_COMPLETION = 4, // it must not complete the phase
};

// Rounds of a block's warps in which each waits for an mbarrier without success, and nothing else happens.
enum tw_await_limits {
    TW_AWAIT_ROUNDS = 10000,
};

// What a product of a warpgroup does, as bits.
enum tw_wgmma_bits {
    TW_WGMMA_KEEPS = 1,      // adds to the result as it was
    TW_WGMMA_HALF = 2,       // C and D are float16
    TW_WGMMA_NEGATES_A = 4,
    TW_WGMMA_NEGATES_B = 8,
    TW_WGMMA_MN_MAJOR_A = 16,  // elements side by side belong to different rows
    TW_WGMMA_MN_MAJOR_B = 32,  // to different columns
    TW_WGMMA_INTEGERS = 64,  // of 8 bits
    TW_WGMMA_BITS = 128,
    TW_WGMMA_SATURATES = 256,
};

// Tensor memory of a block: lanes of so many columns of 32 bits, which are allocated in such units. Source: PTX
// ISA, 9.7.16.1 (tensor memory), 9.7.16.7.1 (tcgen05.alloc).
enum tw_tensor_memory_sizes {
    TW_TENSOR_LANES = 128,
    TW_TENSOR_COLUMNS = 512,
    TW_TENSOR_UNIT = 32,
};

// What lanes of tensor memory a load or store moves, by its shape.
enum tw_move_shape {
    TW_MOVES_32X32 = 0,
    TW_MOVES_16X64 = 1,
    TW_MOVES_16X128 = 2,
    TW_MOVES_16X256 = 3,
    TW_MOVES_16X32X2 = 4,
};

// What such a load or store does besides, as bits.
enum tw_move_bits {
    TW_MOVES_STORES = 1,
    TW_MOVES_HALVES = 2,  // a register is two columns of 16 bits
};

// Kinds of products in tensor memory.
enum tw_product_kind {
    TW_KIND_F16 = 0,
    TW_KIND_TF32 = 1,
    TW_KIND_F8F6F4 = 2,
    TW_KIND_I8 = 3,
    TW_KIND_MXF8F6F4 = 4,
    TW_KIND_MXF4 = 5,
    TW_KIND_MXF4NVF4 = 6,
};

// What these products do, as bits.
enum tw_product_bits {
    TW_TENSOR_A_HELD = 1,      // A is in tensor memory
    TW_TENSOR_PAIR = 2,        // of two blocks
    TW_TENSOR_STATIONARY = 4,  // .ws
    TW_TENSOR_DISABLES = 8,    // lanes, by a mask
    TW_TENSOR_BLOCK16 = 16,    // a scale for 16 elements, not 32
    TW_TENSOR_SPARSE = 32,     // half of each row of A is there
};

// Why a descriptor is refused.
enum tw_descriptor_error {
    TW_WRONG_VERSION = 0,
    TW_WRONG_SWIZZLE = 1,
    TW_WRONG_FORMAT = 2,
    TW_WRONG_SHAPE = 3,
    TW_WRONG_SPARSITY = 4,
    TW_WRONG_MN_MAJOR = 5,
    TW_WRONG_HELD = 6,
    TW_WRONG_SCALES = 7,
    TW_WRONG_MODE = 8,
    TW_WRONG_METADATA = 9,
    TW_WRONG_ZEROS = 10,
};

// What a product of a sparse matrix does, as bits.
enum tw_sparse_bits {
    TW_SPARSE_SIGNED_A = 1,
    TW_SPARSE_SIGNED_B = 2,
    TW_SPARSE_SATURATES = 4,
    TW_SPARSE_HALF = 8,  // C and D are float16
    TW_SPARSE_INTEGERS = 16,
};

// Of a tensor map. Source: PTX ISA, 5.5.1 (tensors have 1 to 5 dimensions).
enum tw_tensor_map_sizes {
    TW_TENSOR_AXES = 5,
    TW_IMAGE_AXES = 3,  // at most: width, height and depth, between channels and the number of the image
};

// What a copy of a tensor does, as bits.
enum tw_tensor_copy_bits {
    TW_TENSOR_STORES = 1,
    TW_TENSOR_IMAGES = 2,  // by a map of images
    TW_TENSOR_OPERATION_SHIFT = 2,  // the operation, where elements of memory are combined with others
};

// Types of elements, as the driver numbers those of tensors.
enum tw_element_type {
    TW_UINT32 = 2,
    TW_INT32 = 3,
    TW_UINT64 = 4,
    TW_INT64 = 5,
    TW_FLOAT16 = 6,
    TW_FLOAT32 = 7,
    TW_FLOAT64 = 8,
    TW_BFLOAT16 = 9,
    TW_TFLOAT32 = 11,
};

// Operations on elements; 0 is none.
enum tw_operation {
    TW_ADD = 1,
    TW_MIN = 2,
    TW_MAX = 3,
    TW_INC = 4,
    TW_DEC = 5,
    TW_AND = 6,
    TW_OR = 7,
    TW_XOR = 8,
};

// Fields of a tensor map that kernels change.
enum tw_map_field {
    TW_MAP_ADDRESS = 1,
    TW_MAP_RANK = 2,
    TW_MAP_BOX = 3,
    TW_MAP_EXTENT = 4,
    TW_MAP_STRIDE = 5,
    TW_MAP_STEP = 6,
    TW_MAP_TYPE = 7,
    TW_MAP_INTERLEAVE = 8,
    TW_MAP_SWIZZLE = 9,
    TW_MAP_FILL = 10,
};

// How a tensor map of ours is known.
enum tw_tensor_map_marks {
    TW_TENSOR_MAGIC = 1953525108,
};

// How a texture or a surface of ours is known, and its axes.
enum tw_texture_marks {
    TW_TEXTURE_MAGIC = 2021160020,
    TW_TEXTURE_AXES = 3,
};

// How coordinates beyond the ends of a texture or a surface are read, with the driver's numbers.
enum tw_beyond {
    TW_WRAP = 0,
    TW_CLAMP = 1,
    TW_MIRROR = 2,
    TW_BORDER = 3,
};

// Elements of a texture, with the driver's numbers.
enum tw_elements {
    TW_ELEMENTS_SIGNED = 0,
    TW_ELEMENTS_UNSIGNED = 1,
    TW_ELEMENTS_FLOAT = 2,
};

// What a texture does with coordinates and elements, as bits.
enum tw_texture_bits {
    TW_TEXTURE_LINEAR = 1,      // neighbours are mixed
    TW_TEXTURE_NORMALIZED = 2,  // coordinates go from 0 to 1
    TW_TEXTURE_FRACTIONS = 4,   // integers are read as numbers from 0 or -1 to 1
};

// How an instruction names an element: the axes, and these bits.
enum tw_coordinate_bits {
    TW_LAYERED = 4,
    TW_CUBE = 8,
    TW_INTEGERS = 16,  // coordinates are integers
    TW_GATHERS = 32,   // one component of four neighbours, whose number follows
    TW_GATHER_SHIFT = 6,
};

// What an access of a surface does: the bytes of an element, and from these bits on their number and the rest.
enum tw_surface_bits {
    TW_SURFACE_COUNT_SHIFT = 4,
    TW_SURFACE_STORES = 128,
    TW_SURFACE_CLAMP = 256,
    TW_SURFACE_ZERO = 512,
};

// Limits of printing.
enum tw_print_limits {
    TW_PRINT_TEXT_BYTES = 65536,  // most that is printed of a text
    // Arguments of a line; a directive behind them is printed as it is written. Source: CUDA C++ Programming Guide,
    // "Formatted Output" (limitations).
    TW_PRINT_ARGUMENTS = 32,
};

// Where the generic addresses of a space begin, in units of 4 GiB.
enum tw_window {
    TW_SHARED_WINDOW = 1,
    TW_LOCAL_WINDOW = 2,
    TW_GLOBAL_WINDOW = 16,
};

// The state space of the lanes' addresses in an access.
enum tw_space {
    TW_SPACE_GENERIC = 0,
    TW_SPACE_GLOBAL = 1,
    TW_SPACE_SHARED = 2,
    TW_SPACE_LOCAL = 3,
};

// How much of a worker's stack called functions may fill; the rest is for one frame.
enum tw_call_limits {
    TW_CALL_STACK_BYTES = 100663296,
};

struct tw_context;
struct tw_slot;
struct tw_warp;

// How the GPU of a launch adds the products of a matrix instruction; one for each format of their elements.
struct tw_tensor_rule {
    int32_t way;       // of `tw_adding`
    int32_t group;     // products that are added at once, with C
    int32_t fraction;  // bits that terms keep below the largest exponent
    int32_t floor;     // least exponent that terms are aligned to
    int32_t kept;      // fraction bits of a float32 result
};

struct tw_context {
    char *global_base;         // the arena's first byte
    uint64_t global_limit;     // bytes of the arena in use
    uint64_t module_base;      // device address of the module's variables
    char *params;              // the parameter block
    uint64_t params_address;   // its device address
    uint64_t *counters;        // of this thread
    char *observed_launch;     // a table: each instrument's own memory of the launch
    char *observed_initial;    // what instruments' memory of a block begins with
    uint64_t observed_bytes;   // bytes of that
    const struct tw_tensor_rule *tensor_rules;  // by format
    uint32_t *stop;            // asks everyone to stop
    uint64_t *next_cluster;    // the shared counter of clusters
    uint64_t clusters;         // number of clusters: of blocks, where each is a cluster of its own
    uint64_t order_factor;     // the i-th cluster to run is (i * factor + shift) modulo the number of clusters
    uint64_t order_shift;
    uint64_t grid_x;
    uint64_t grid_y;
    uint64_t grid_z;
    uint64_t cluster_x;        // blocks of a cluster
    uint64_t cluster_y;
    uint64_t cluster_z;
    uint64_t cluster_blocks;   // in all
    uint64_t quantum;            // instructions a warp may run before it must return
    uint64_t instructions;       // warp instructions run by this thread
    uint64_t instruction_limit;  // of this thread
    uint64_t pause_at;           // instructions after which `tw_run` returns, to be called again
    int32_t (*warp_function)(struct tw_context *context, struct tw_slot *slot, struct tw_warp *warp);
    uint64_t warps;
    uint64_t threads;
    uint64_t warp_bytes;  // of one warp record with its points and saved registers
    uint32_t *warp_order;  // a permutation of the warps
    uint64_t points;       // barrier points whose arrivals are counted
    uint64_t shared_bytes;  // arena of one block
    uint64_t shared_fill;   // the byte that fresh shared memory holds
    uint64_t reserved_offset;  // of shared memory that begins with zeros
    uint64_t reserved_bytes;
    uint64_t local_bytes;  // local arena of one thread
    uint64_t may_stall;    // 1 when other blocks may be needed for progress
    char *print_buffer;
    uint64_t print_bytes;
    uint64_t print_used;
    uint64_t print_lost;  // lines that did not fit
    uint64_t call_depth;
    uint64_t dynamic_shared_bytes;
    uint64_t grid_workspace;  // device address of a cooperative launch's workspace; 0 in any other launch
    char *stack_low;          // called functions must not go below it
    uint64_t fault_kind;
    uint64_t fault_site;
    uint64_t fault_lanes;
    uint64_t fault_address;
    uint64_t fault_got;  // of a barrier: the value that is wrong, and the one it should agree with
    uint64_t fault_other;
    uint64_t fault_object;  // an mbarrier's 64 bits
    uint64_t fault_cluster;  // one more than the site at which a warp waits for its cluster
    uint64_t fault_block;
    uint64_t fault_warp;
    uint64_t fault_lane;
    uint64_t moved;  // an mbarrier has changed in this round
    uint64_t ways;   // how often, of 256 times, a warp gives way before a strong access; 0: never
    uint64_t ways_drawn;  // the random number that says when
};

struct tw_barrier {
    uint32_t arrived;  // threads that arrived in this generation, in whole warps; 0: it has not begun
    uint32_t count;    // threads it takes; 0: all that have not exited
    uint32_t joined;   // bit mask of the warps that arrived
    uint32_t forms;    // bits of the forms by which they did
    uint32_t votes;    // threads whose predicate was true
    uint32_t voters;   // threads that gave one
    uint32_t site;     // where the first warp arrived
    uint32_t spare;
};

struct tw_slot {
    uint64_t active;  // a block is in progress
    uint64_t block;   // its linear index
    uint64_t ctaid_x;
    uint64_t ctaid_y;
    uint64_t ctaid_z;
    char *shared;         // its shared arena
    uint64_t shared_start;  // where that begins among those of its cluster
    char *arena;          // the first of these
    struct tw_slot *target;  // the block of its cluster at which lanes change an mbarrier or copy to, itself by default
    struct tw_slot *cluster;  // the first slot of its cluster
    uint64_t arrived;     // bit mask of the warps all of whose threads have arrived at the cluster's barrier
    char *local;          // its local arena
    char *warp_records;   // `warp_bytes` apart
    uint64_t gone;        // bit mask of the warps all of whose threads have exited
    char *observed;       // a table: each instrument's own memory of the block
    char *observed_area;  // that memory, all instruments' together
    char *tensor;           // its tensor memory, lane by lane; null where the kernel has none
    uint32_t tensor_taken;  // bit mask of the units of columns that are allocated
    uint32_t tensor_firsts; // of those with which an allocation begins
    uint32_t tensor_closed; // it has given up the permit to allocate
    uint32_t tensor_site;   // one more than that of the last allocation
    struct tw_barrier barriers[TW_BARRIERS];
};

// Where lanes of a warp wait: one for each barrier instruction of the kernel.
struct tw_point {
    uint32_t blocked;    // lanes that wait here
    uint32_t ready;      // lanes that may go on
    uint32_t predicate;  // lanes whose predicate is true
    uint32_t id;
    uint32_t count;  // 0: all threads
    uint32_t form;
    uint32_t site;
};

struct tw_warp {
    int32_t status;
    uint32_t live;        // lanes that have not exited
    uint32_t loop_site;   // one more than the site of the branch back or barrier at which it last returned; 0 before
    uint32_t loop_lanes;  // and the lanes that were there
    int32_t resume;       // where to go on: 0 start, block + 1, or -1 for the dispatcher
    uint32_t index;
    uint32_t mask;
    uint32_t votes;    // result of the last barrier's reduction: how many predicates were true
    uint32_t voters;   // of how many
    uint32_t barrier;  // where it waits
    uint32_t depth;
    uint32_t awaits;         // 1 where its last test of an mbarrier failed, and
    uint32_t awaited_site;   // where that was,
    uint32_t awaited_lanes;  // of which lanes,
    uint32_t awaited_phase;  // for which phase: modulo 8, or its parity and 8,
    uint32_t awaited_place;  // and its offset in shared memory
    uint32_t cluster_arrived;  // lanes that arrived at the barrier of the cluster, which has not completed since
    uint32_t cluster_owes;     // lanes that arrived there and have not waited since
    int32_t avoid;           // of lanes that wait without success: their block, after which the next one's turn comes
    struct tw_point points[];
};

// A tensor map, 128 bytes that kernels cannot read. The innermost axis comes first. Where `pixels` is not 0 it is one
// of images, whose pixels are copied one after the other from a box of places: `low` and `high` are the box's corners,
// from the image's first and last pixel on, and the first extent of `box` has the channels.
struct tw_tensor_map {
    uint64_t address;
    uint64_t strides[4];   // bytes, of all axes but the innermost
    uint64_t filler;       // what elements outside are read as, over and over
    uint32_t extents[TW_TENSOR_AXES];
    uint32_t box[TW_TENSOR_AXES];
    uint16_t steps[TW_TENSOR_AXES];  // of a box, only every n-th element is copied; the innermost is not looked at
    uint16_t units;        // of 16 bytes that a swizzle exchanges: 1 (none), 2, 4 or 8
    uint32_t rank;
    uint32_t element_bytes;
    uint32_t magic;
    int16_t low[TW_IMAGE_AXES];
    int16_t high[TW_IMAGE_AXES];
    uint16_t pixels;
    uint16_t type;  // of its elements, as the driver numbers them
};

// A texture or a surface, whose address is its handle: elements row by row in global memory.
struct tw_texture {
    uint64_t address;
    uint64_t row_bytes;
    uint64_t plane_bytes;  // from one plane or layer to the next
    uint32_t extents[TW_TEXTURE_AXES];  // width, height, and depth or layers
    uint32_t modes[TW_TEXTURE_AXES];
    uint32_t channels;
    uint32_t bits;  // of a channel
    uint32_t elements;
    uint32_t does;
    float border[4];
    uint32_t magic;
    uint32_t unused;
};

// One line that a lane prints, as Python reads it from the print buffer. Behind it are the texts: the format, and what
// its directives name; then the arguments. Each begins at a multiple of 8 bytes.
struct tw_print_record {
    uint64_t block;
    uint64_t thread;
    uint64_t format;          // device address
    uint64_t bytes;           // with what is behind it
    uint64_t argument_bytes;
};

struct tw_print_text {
    uint64_t address;
    uint64_t bytes;  // that follow
};

#endif
