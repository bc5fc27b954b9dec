// Products of matrices by a warpgroup: each warp makes 16 rows, eight columns at a time, as its own `mma` would.
//
// Of a sparse A half of each row lies there, and B is twice as long: its metadata are those of a warp's `mma.sp`.
//
// A descriptor says where a matrix lies in shared memory: in atoms of eight lines of 16, 32, 64 or 128 bytes, of which
// the wider ones are swizzled. A line is a row of A or a column of B, along k; across, it is a step of k. Source: PTX
// ISA, 9.7.15.5.1 (strides, canonical layouts, matrix descriptor format).

#include "runtime.h"

enum {
    UNIT_BYTES = 16,  // what a swizzle moves, and descriptors count
    LINES = 8,        // of an atom
    STEP_BYTES = 32,  // of a line that one instruction multiplies
    CHUNKS = 4,
    A_REGISTERS = 4,
    B_REGISTERS = 2,  // twice as many where A is sparse
};

void tw_mma_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t k, uint32_t half);

void tw_mma_integer(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                    uint32_t k, uint32_t bits, uint32_t flags);
void tw_mma_bits(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                 uint32_t k, uint32_t both);

void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags);

struct matrix {
    const char *shared;
    uint64_t limit;
    uint32_t start;
    uint32_t leading;  // bytes, as the canonical layouts name them
    uint32_t stride;
    uint32_t units;   // of an atom's line: 1, 2, 4 or 8
    uint32_t base;    // line of its pattern in which the matrix starts
    uint32_t bits;    // of an element
    bool across;      // elements side by side belong to different lines
    uint32_t outside;  // one more than the greatest offset that lay outside
};

static struct matrix matrix_at(const struct tw_context *context, const char *shared, uint64_t descriptor, uint32_t bits,
                               bool across)
{
    const uint32_t mode = (uint32_t)(descriptor >> 62);  // of its swizzle: none, 128, 64 and 32 bytes
    return (struct matrix){
        .shared = shared,
        .limit = context->shared_bytes,
        .start = (uint32_t)(descriptor & 0x3fff) * UNIT_BYTES,
        .leading = (uint32_t)(descriptor >> 16 & 0x3fff) * UNIT_BYTES,
        .stride = (uint32_t)(descriptor >> 32 & 0x3fff) * UNIT_BYTES,
        .units = mode ? UNIT_BYTES >> mode : 1,
        .base = (uint32_t)(descriptor >> 49 & 7),
        .bits = bits,
        .across = across,
    };
}

// Swizzles exchange units of a line by the number of the line in its pattern, which is aligned in shared memory.
static uint32_t swizzled(const struct matrix *m, uint32_t offset)
{
    const uint32_t line = (offset >> 7) - m->base;
    return offset ^ (line & (m->units - 1)) * UNIT_BYTES;
}

// A unit of 16 bytes, which swizzles keep together; zeros where it lies outside.
static void load_unit(struct matrix *m, uint32_t offset, void *unit)
{
    const uint32_t at = swizzled(m, offset);
    if (at + UNIT_BYTES <= m->limit) {
        __builtin_memcpy(unit, m->shared + at, UNIT_BYTES);
        return;
    }
    m->outside = at + 1;
    __builtin_memset(unit, 0, UNIT_BYTES);
}

// Where four bytes along k of a line lie, before they are swizzled.
static uint32_t offset_along(const struct matrix *m, uint32_t line, uint32_t chunk)
{
    const uint32_t byte = chunk * 4, pitch = m->units * UNIT_BYTES;
    const uint32_t right = m->units == 1 ? byte / UNIT_BYTES * m->leading + byte % UNIT_BYTES : byte;
    return m->start + line / LINES * m->stride + line % LINES * pitch + right;
}

// Where an element of 16 bits lies in a matrix whose lines lie side by side, before it is swizzled.
static uint32_t offset_across(const struct matrix *m, uint32_t line, uint32_t k)
{
    const uint32_t wide = m->units * LINES, pitch = m->units * UNIT_BYTES;  // elements, and bytes, of an atom's step
    const uint32_t by_line = m->units == 1 ? m->stride : m->leading, by_step = m->units == 1 ? m->leading : m->stride;
    return m->start + line / wide * by_line + line % wide * 2 + k / LINES * by_step + k % LINES * pitch;
}

// A register of a fragment: lane l has chunk l % 4 of line l / 4. Four chunks are a unit along k; across, eight lines are.
static void fill(struct matrix *m, uint32_t *lanes, uint32_t line, uint32_t chunk, uint32_t flips)
{
    uint16_t steps[2 * CHUNKS][LINES] __attribute__((aligned(64)));
    for (uint32_t i = 0; i < LINES && !m->across; i++)
        load_unit(m, offset_along(m, line + i, chunk), lanes + i * CHUNKS);
    for (uint32_t k = 0; k < 2 * CHUNKS && m->across; k++)
        load_unit(m, offset_across(m, line, 2 * chunk + k), steps[k]);
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        const uint32_t first = lane % CHUNKS * 2, its = lane / CHUNKS;
        const uint32_t word = m->across ? steps[first][its] | (uint32_t)steps[first + 1][its] << 16 : lanes[lane];
        lanes[lane] = word ^ flips;
    }
}

// The signs of a chunk's elements.
static uint32_t signs(uint32_t bits)
{
    return bits == 32 ? 0x80000000u : bits == 16 ? 0x80008000u : 0x80808080u;
}

static uint32_t bits_of(uint32_t format)
{
    return format == TW_TF32 ? 32 : format >= TW_E4M3 ? 8 : 16;
}

static bool blamed(struct tw_context *context, const struct tw_warp *warp, uint32_t site, const struct matrix *m)
{
    if (!m->outside)
        return false;
    const uint64_t address = m->outside - 1;
    tw_fault(context, warp, site, 1, &address, 1);
    return true;
}

// Where the 32 units of 16 bytes lie that hold 16 lines of a matrix, for those who look on: eight of an atom after eight.
// The lines of A are those of the warp; `step` counts 32 bytes along k.
void tw_wgmma_units(const struct tw_context *context, const struct tw_warp *warp, uint64_t descriptor, uint32_t bits,
                    uint32_t across, uint32_t line, uint32_t of_warp, uint32_t step, uint64_t *offsets)
{
    const struct matrix m = matrix_at(context, 0, descriptor, bits, across != 0);
    const uint32_t first = of_warp ? warp->index % 4 * 2 * LINES : line;
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        const uint32_t outer = lane / 16, inner = lane % 16;
        const uint32_t at = m.across ? offset_across(&m, first + outer * LINES, step * 16 + inner)
                                     : offset_along(&m, first + inner, (2 * step + outer) * CHUNKS);
        offsets[lane] = swizzled(&m, at);
    }
}

// 16 rows by eight columns; registers of A, B and C follow each other in `sources`. Of integers the formats say whether
// they have a sign.
static void multiply(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t flags, bool sparse)
{
    const uint32_t half = (flags & TW_WGMMA_HALF) != 0, saturates = (flags & TW_WGMMA_SATURATES) != 0;
    const uint32_t whole = flags & TW_WGMMA_INTEGERS, bits = whole ? 8 : bits_of(a_format);
    const struct tw_tensor_rule *rules = context->tensor_rules + (bits == 8 ? TW_WGMMA8 : a_format) - a_format;
    if (sparse) {
        const uint32_t does = whole ? TW_SPARSE_INTEGERS | a_format * TW_SPARSE_SIGNED_A |
                                          b_format * TW_SPARSE_SIGNED_B | saturates * TW_SPARSE_SATURATES
                                    : half * TW_SPARSE_HALF;
        tw_mma_sparse_by_rules(rules, results, sources, a_format, b_format, 2 * STEP_BYTES * 8 / bits, bits, does);
    } else if (flags & TW_WGMMA_BITS) {
        tw_mma_bits(context, results, sources, 2 * LINES, STEP_BYTES * 8, 1);
    } else if (whole) {
        tw_mma_integer(context, results, sources, 2 * LINES, STEP_BYTES, 8, a_format | b_format << 1 | saturates << 2);
    } else {
        tw_mma_by_rules(rules, results, sources, a_format, b_format, STEP_BYTES * 8 / bits, half);
    }
}

// `results` hold D as it was; `held` is A's registers, or null where a descriptor says where it lies; `metadata` is null
// where A is not sparse.
bool tw_wgmma(struct tw_context *context, const struct tw_warp *warp, uint32_t site, const char *shared,
              uint32_t *results, const uint32_t *held, uint64_t a_descriptor, uint64_t b_descriptor, uint32_t columns,
              uint32_t a_format, uint32_t b_format, uint32_t flags, const uint32_t *metadata, uint32_t selector)
{
    const uint32_t each = flags & TW_WGMMA_HALF ? 2 : 4, whole = flags & (TW_WGMMA_INTEGERS | TW_WGMMA_BITS);
    const uint32_t bits = whole ? 8 : bits_of(a_format);
    struct matrix a = matrix_at(context, shared, a_descriptor, bits, flags & TW_WGMMA_ACROSS_A);
    struct matrix b = matrix_at(context, shared, b_descriptor, bits, flags & TW_WGMMA_ACROSS_B);
    const uint32_t a_flips = flags & TW_WGMMA_NEGATES_A ? signs(a.bits) : 0;
    const uint32_t b_flips = flags & TW_WGMMA_NEGATES_B ? signs(b.bits) : 0;
    const uint32_t of_b = metadata ? 2 * B_REGISTERS : B_REGISTERS;
    uint32_t sources[(A_REGISTERS + 2 * B_REGISTERS + 6) * TW_LANES] __attribute__((aligned(64)));
    uint32_t *right = sources + A_REGISTERS * TW_LANES, *old = right + of_b * TW_LANES;
    if (metadata) {
        __builtin_memcpy(old + each * TW_LANES, metadata, TW_LANES * 4);
        old[(each + 1) * TW_LANES] = selector;
    }
    for (uint32_t i = 0; i < A_REGISTERS; i++) {
        if (!held)
            fill(&a, sources + i * TW_LANES, warp->index % 4 * 16 + i % 2 * LINES, i / 2 * CHUNKS, a_flips);
        for (uint32_t lane = 0; held && lane < TW_LANES; lane++)
            sources[i * TW_LANES + lane] = held[i * TW_LANES + lane] ^ a_flips;
    }
    for (uint32_t column = 0; column < columns; column += LINES) {
        uint32_t *d = results + column / LINES * each * TW_LANES;
        for (uint32_t i = 0; i < of_b; i++)
            fill(&b, right + i * TW_LANES, column, i * CHUNKS, b_flips);
        if (flags & TW_WGMMA_KEEPS)
            __builtin_memcpy(old, d, each * TW_LANES * 4);
        else
            __builtin_memset(old, 0, each * TW_LANES * 4);
        multiply(context, d, sources, a_format, b_format, flags, metadata != 0);
    }
    return blamed(context, warp, site, &a) || blamed(context, warp, site, &b);
}
