// Products of matrices by a warpgroup: each warp computes 16 rows, eight columns at a time, as its own `mma` would.
//
// A sparse A has half of the elements of each row, and B is twice as long; the metadata are those of a warp's `mma.sp`.
//
// `descriptors.h` says where their matrices are in shared memory.

#include "descriptors.h"
#include "runtime.h"

enum {
    STEP_BYTES = 32,  // of a line that one instruction multiplies
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
    struct tw_matrix at;
    const char *shared;
    uint64_t limit;
    uint32_t outside;  // one more than the greatest offset that was outside
};

static struct matrix matrix_at(const struct tw_context *context, const char *shared, uint64_t descriptor, uint32_t bits,
                               bool mn_major)
{
    return (struct matrix){
        .at = tw_matrix_of(descriptor, bits, mn_major),
        .shared = shared,
        .limit = context->shared_bytes,
    };
}

// A unit of 16 bytes, which swizzles keep together; zeros if it is outside.
static void load_unit(struct matrix *m, uint32_t offset, void *unit)
{
    const uint32_t at = tw_matrix_swizzled(&m->at, offset);
    if (at + TW_UNIT_BYTES <= m->limit) {
        __builtin_memcpy(unit, m->shared + at, TW_UNIT_BYTES);
        return;
    }
    m->outside = at + 1;
    __builtin_memset(unit, 0, TW_UNIT_BYTES);
}

// A register of a fragment: lane l has chunk l % 4 of line l / 4. A unit is four chunks of a K-major line, or a step of
// k of eight lines of an MN-major matrix.
static void fill(struct matrix *m, uint32_t *lanes, uint32_t line, uint32_t chunk, uint32_t flips)
{
    uint16_t steps[2 * TW_UNIT_CHUNKS][TW_ATOM_LINES] __attribute__((aligned(64)));
    for (uint32_t i = 0; i < TW_ATOM_LINES && !m->at.mn_major; i++)
        load_unit(m, tw_matrix_k_major(&m->at, line + i, chunk), lanes + i * TW_UNIT_CHUNKS);
    for (uint32_t k = 0; k < 2 * TW_UNIT_CHUNKS && m->at.mn_major; k++)
        load_unit(m, tw_matrix_mn_major(&m->at, line, 2 * chunk + k), steps[k]);
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        const uint32_t first = lane % TW_UNIT_CHUNKS * 2, its = lane / TW_UNIT_CHUNKS;
        const uint32_t word = m->at.mn_major ? steps[first][its] | (uint32_t)steps[first + 1][its] << 16 : lanes[lane];
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

// For instruments, the places of the 32 units of 16 bytes that hold 16 lines of a matrix: eight of each atom.
// The lines of A are those of the warp; `step` counts 32 bytes along k.
void tw_wgmma_units(const struct tw_context *context, const struct tw_warp *warp, uint64_t descriptor, uint32_t bits,
                    uint32_t mn_major, uint32_t line, uint32_t of_warp, uint32_t step, uint64_t *offsets)
{
    const struct tw_matrix m = tw_matrix_of(descriptor, bits, mn_major != 0);
    (void)context;
    const uint32_t first = of_warp ? warp->index % 4 * 2 * TW_ATOM_LINES : line;
    for (uint32_t lane = 0; lane < TW_LANES; lane++) {
        const uint32_t outer = lane / 16, inner = lane % 16;
        const uint32_t at = m.mn_major ? tw_matrix_mn_major(&m, first + outer * TW_ATOM_LINES, step * 16 + inner)
                                     : tw_matrix_k_major(&m, first + inner, (2 * step + outer) * TW_UNIT_CHUNKS);
        offsets[lane] = tw_matrix_swizzled(&m, at);
    }
}

// Multiply 16 rows by eight columns; registers of A, B and C are adjacent in `sources`. For integers the formats say
// whether they are signed.
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
        tw_mma_bits(context, results, sources, 2 * TW_ATOM_LINES, STEP_BYTES * 8, 1);
    } else if (whole) {
        tw_mma_integer(context, results, sources, 2 * TW_ATOM_LINES, STEP_BYTES, 8,
                       a_format | b_format << 1 | saturates << 2);
    } else {
        tw_mma_by_rules(rules, results, sources, a_format, b_format, STEP_BYTES * 8 / bits, half);
    }
}

// `results` hold D as it was. `held` is A's registers, null if A has a descriptor. `metadata` is null if A is dense.
bool tw_wgmma(struct tw_context *context, const struct tw_warp *warp, uint32_t site, const char *shared,
              uint32_t *results, const uint32_t *held, uint64_t a_descriptor, uint64_t b_descriptor, uint32_t columns,
              uint32_t a_format, uint32_t b_format, uint32_t flags, const uint32_t *metadata, uint32_t selector)
{
    const uint32_t each = flags & TW_WGMMA_HALF ? 2 : 4, whole = flags & (TW_WGMMA_INTEGERS | TW_WGMMA_BITS);
    const uint32_t bits = whole ? 8 : bits_of(a_format);
    struct matrix a = matrix_at(context, shared, a_descriptor, bits, flags & TW_WGMMA_MN_MAJOR_A);
    struct matrix b = matrix_at(context, shared, b_descriptor, bits, flags & TW_WGMMA_MN_MAJOR_B);
    const uint32_t a_flips = flags & TW_WGMMA_NEGATES_A ? signs(a.at.bits) : 0;
    const uint32_t b_flips = flags & TW_WGMMA_NEGATES_B ? signs(b.at.bits) : 0;
    const uint32_t of_b = metadata ? 2 * B_REGISTERS : B_REGISTERS;
    uint32_t sources[(A_REGISTERS + 2 * B_REGISTERS + 6) * TW_LANES] __attribute__((aligned(64)));
    uint32_t *right = sources + A_REGISTERS * TW_LANES, *old = right + of_b * TW_LANES;
    if (metadata) {
        __builtin_memcpy(old + each * TW_LANES, metadata, TW_LANES * 4);
        old[(each + 1) * TW_LANES] = selector;
    }
    for (uint32_t i = 0; i < A_REGISTERS; i++) {
        if (!held)
            fill(&a, sources + i * TW_LANES, warp->index % 4 * 16 + i % 2 * TW_ATOM_LINES, i / 2 * TW_UNIT_CHUNKS,
                 a_flips);
        for (uint32_t lane = 0; held && lane < TW_LANES; lane++)
            sources[i * TW_LANES + lane] = held[i * TW_LANES + lane] ^ a_flips;
    }
    for (uint32_t column = 0; column < columns; column += TW_ATOM_LINES) {
        uint32_t *d = results + column / TW_ATOM_LINES * each * TW_LANES;
        for (uint32_t i = 0; i < of_b; i++)
            fill(&b, right + i * TW_LANES, column, i * TW_UNIT_CHUNKS, b_flips);
        if (flags & TW_WGMMA_KEEPS)
            __builtin_memcpy(old, d, each * TW_LANES * 4);
        else
            __builtin_memset(old, 0, each * TW_LANES * 4);
        multiply(context, d, sources, a_format, b_format, flags, metadata != 0);
    }
    return blamed(context, warp, site, &a) || blamed(context, warp, site, &b);
}
