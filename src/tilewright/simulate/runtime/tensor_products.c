// tcgen05.mma: a thread issues a product of up to 256 rows and columns, which is computed as `mma` products of 16 rows
// and 8 columns. A is in shared or tensor memory, B in shared memory, D in tensor memory. Each block of a pair has half
// of the rows of A and half of the columns of B, and all columns of its rows of D. A sparse A has half of the elements
// of each row, and its metadata are in tensor memory.
//
// Source: PTX ISA, 9.7.16.4 (descriptors), 9.7.16.10 (tcgen05.mma); layouts of tensor memory as in NVIDIA/cutlass,
// mma_traits_sm100.hpp (tmem_frg); of metadata, mma_traits_sm100_frag.hpp (tmem_e_frg, tmem_e_frg_ws).

#include "descriptors.h"
#include "fragments.h"
#include "tensor_elements.h"
#include "tensor_memory.h"
#include "tensor_shapes.h"

enum {
    LINE_BYTES = TW_DEPTH_BYTES,
    LINES_MOST = 256,
    ROWS_MOST = 128,  // of a block
    TILE_ROWS = 16,
    A_REGISTERS = 4,
    B_REGISTERS = 2,  // twice as many where A is sparse
    C_REGISTERS = 4,
    SCALE_WORDS = 2 * TW_LANES,
    ALL_WORDS = (A_REGISTERS + 2 * B_REGISTERS + C_REGISTERS) * TW_LANES + 2 * SCALE_WORDS,
};

void tw_mma_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                     uint32_t b_format, uint32_t k, uint32_t half);
void tw_mma_integer(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t rows,
                    uint32_t k, uint32_t bits, uint32_t flags);
void tw_mma_scaled(const struct tw_context *context, uint32_t *results, const uint32_t *sources, uint32_t a_format,
                   uint32_t b_format, uint32_t k, uint32_t bits, uint32_t blocks, uint32_t fractions, uint32_t sparse);
void tw_mma_sparse_by_rules(const struct tw_tensor_rule *rules, uint32_t *results, const uint32_t *sources,
                            uint32_t a_format, uint32_t b_format, uint32_t k, uint32_t bits, uint32_t flags);

struct product {
    struct tw_context *context;
    struct tw_slot *blocks[2];
    const struct tw_warp *warp;
    const struct tw_tensor_operands *all;
    uint32_t site, lane, kind, does, shrinks;
    uint32_t m, n;
    bool half;      // D is float16
    bool saturates;
    bool a_mn_major, b_mn_major, a_negates, b_negates;
    struct element a, b;
    uint32_t a_byte, b_byte;  // the first byte of a word of scales that is used
    bool fractions;           // scales are E4M3
    uint32_t selector;        // the column of metadata, of two
    uint8_t a_lines[2][ROWS_MOST][LINE_BYTES] __attribute__((aligned(64)));  // of each block
    uint8_t b_lines[LINES_MOST * 2 * LINE_BYTES] __attribute__((aligned(64)));
};

static bool is_scaled(const struct product *p)
{
    return tw_product_is_scaled(p->kind);
}

static bool is_paired(const struct product *p)
{
    return (p->does & TW_TENSOR_PAIR) != 0;
}

static bool is_sparse(const struct product *p)
{
    return (p->does & TW_TENSOR_SPARSE) != 0;
}

static bool wrong(const struct product *p, uint32_t got, uint32_t why)
{
    tw_blame(p->context, p->warp, p->site, 1u << p->lane, TW_TENSOR_DESCRIPTOR, got, why);
    return true;
}

// Whether 16 elements of fewer than 8 bits take 16 bytes, whose last bytes are padding.
static bool is_padded(const struct product *p, const struct element *e)
{
    return e->bits < 8 && (p->kind == TW_KIND_F8F6F4 || p->kind == TW_KIND_MXF8F6F4);
}

// No source says where a sparse A in tensor memory is, nor where the metadata of 64 rows are without `.ws`.
static bool is_shape(const struct product *p)
{
    const uint32_t m = p->m, n = p->n;
    if (n < 8 || n > LINES_MOST || n % 8)
        return false;
    if (p->kind == TW_KIND_I8 && n > 32 && n % 16)
        return false;
    if (p->does & TW_TENSOR_STATIONARY)
        return !is_paired(p) && !is_scaled(p) && (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || n == 256);
    if (is_paired(p))
        return n % 16 == 0 && (m == 256 || (m == 128 && !is_scaled(p) && !is_sparse(p)));
    return m == 128 || (m == 64 && !is_scaled(p) && !is_sparse(p));
}

// Read the instruction descriptor. True if it is wrong.
static bool read_instruction(struct product *p, uint32_t bits)
{
    const uint32_t of_d = bits >> 4 & 3;
    p->n = tw_product_columns(bits), p->m = tw_product_rows(bits);
    p->a_negates = bits >> 13 & 1, p->b_negates = bits >> 14 & 1;
    p->a_mn_major = tw_product_is_mn_major(bits, false), p->b_mn_major = tw_product_is_mn_major(bits, true);
    if (!element_of(p->kind, bits >> 7 & 7, &p->a) ||
        !element_of(p->kind, bits >> 10 & (p->kind >= TW_KIND_MXF4 ? 3 : 7), &p->b))
        return wrong(p, bits, TW_WRONG_FORMAT);
    if ((bits >> 2 & 1) != is_sparse(p))
        return wrong(p, bits, TW_WRONG_SPARSITY);
    p->selector = is_sparse(p) ? bits & 3 : 0;
    if (p->selector > (tw_product_metadata(p->kind) == 1))
        return wrong(p, bits, TW_WRONG_METADATA);
    if (p->does & TW_TENSOR_STATIONARY && p->all->zeros[p->lane])
        return wrong(p, (uint32_t)(p->all->zeros[p->lane] >> 32), TW_WRONG_ZEROS);
    if (is_scaled(p)) {
        const uint32_t blocks = p->kind == TW_KIND_MXF8F6F4 ? 1 : p->does & TW_TENSOR_BLOCK16 ? 4 : 2;
        p->fractions = !(bits >> 23 & 1);
        p->b_byte = bits >> 4 & 3, p->a_byte = bits >> 29 & 3;
        if (p->a_byte % blocks || p->b_byte % blocks || (p->fractions && p->kind != TW_KIND_MXF4NVF4) || bits >> 31)
            return wrong(p, bits, TW_WRONG_SCALES);
    } else {
        const bool whole = p->kind == TW_KIND_I8, either = p->kind == TW_KIND_F16 || p->kind == TW_KIND_F8F6F4;
        p->half = either && of_d == 0, p->saturates = whole && bits >> 3 & 1;
        if (of_d != (whole ? 2 : 1) && !p->half)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (p->half && p->a.format == TW_BF16)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (p->kind == TW_KIND_F16 && p->a.format != p->b.format)
            return wrong(p, bits, TW_WRONG_FORMAT);
        if (whole && (p->a_negates || p->b_negates))
            return wrong(p, bits, TW_WRONG_FORMAT);
    }
    if ((p->a_mn_major && p->a.bits < 8) || (p->b_mn_major && p->b.bits < 8))
        return wrong(p, bits, TW_WRONG_MN_MAJOR);
    if (p->does & TW_TENSOR_A_HELD && (p->a.bits < 8 || p->a_mn_major || is_sparse(p)))
        return wrong(p, bits, TW_WRONG_HELD);
    return !is_shape(p) && wrong(p, bits, TW_WRONG_SHAPE);
}

// -- lines: the elements along k of a row of A or a column of B -------------------------------------------------------

static void finish_line(const struct product *p, const struct element *e, bool negates, uint8_t *line)
{
    if (is_padded(p, e))
        widen(line, e->bits);
    for (uint32_t i = 0; i < LINE_BYTES && negates; i++)
        line[i] = (uint8_t)(line[i] ^ e->signs >> i % 4 * 8);
}

// Read `bytes` bytes of one line of a matrix from a block's shared memory. True if the line is outside.
static bool read_line(const struct product *p, const struct tw_matrix *m, const struct tw_slot *slot, uint32_t line,
                      uint32_t bytes, uint8_t *to)
{
    const uint32_t each = m->mn_major ? m->bits / 8 : TW_UNIT_BYTES;
    for (uint32_t k = 0; k < bytes / each; k++) {
        const uint32_t place =
            m->mn_major ? tw_matrix_mn_major(m, line, k) : tw_matrix_k_major(m, line, k * TW_UNIT_CHUNKS);
        const uint32_t at = tw_matrix_swizzled(m, place);
        if ((uint64_t)at + each > p->context->shared_bytes) {
            uint64_t places[TW_LANES];
            places[p->lane] = at;
            tw_fault(p->context, p->warp, p->site, 1u << p->lane, places, 1);
            return true;
        }
        __builtin_memcpy(to + k * each, slot->shared + at, each);
    }
    return false;
}

static bool read_lines(const struct product *p, const struct element *e, uint64_t descriptor, bool mn_major,
                       bool negates, const struct tw_slot *slot, uint32_t count, uint32_t bytes, uint8_t *to)
{
    const uint32_t mode = (uint32_t)(descriptor >> 61), upper = (uint32_t)(descriptor >> 32);
    const struct tw_matrix m = tw_matrix_of_sm100(descriptor, e->bits < 8 ? 8 : e->bits, mn_major);
    if ((descriptor >> 46 & 7) != 1)
        return wrong(p, upper, TW_WRONG_VERSION);
    if (descriptor >> 52 & 1)
        return wrong(p, upper, TW_WRONG_MODE);
    if (mode == 3 || mode == 5 || mode == 7 || (mode == 1 && !mn_major))
        return wrong(p, upper, TW_WRONG_SWIZZLE);
    for (uint32_t line = 0; line < count; line++, to += bytes) {
        if (read_line(p, &m, slot, line, bytes, to))
            return true;
        for (uint32_t part = 0; part < bytes; part += LINE_BYTES)
            finish_line(p, e, negates, to + part);
    }
    return false;
}

// Read rows of a block's own A from tensor memory; a column has 32 bits along k.
static bool read_held(const struct product *p, const struct tw_slot *slot, uint32_t rows, uint8_t *to)
{
    const uint32_t address = (uint32_t)p->all->a[p->lane], column = tw_tensor_column(address);
    if (tw_tensor_lane(address) || !tw_tensor_is_there(slot, column, LINE_BYTES / 4)) {
        tw_blame(p->context, p->warp, p->site, 1u << p->lane, TW_COLUMNS_OUTSIDE, column, LINE_BYTES / 4);
        return true;
    }
    const bool spread = rows == 64 && !is_paired(p) && !(p->does & TW_TENSOR_STATIONARY);
    for (uint32_t row = 0; row < rows; row++, to += LINE_BYTES) {
        const uint32_t lane = spread ? row / 16 * 32 + row % 16 : row;
        __builtin_memcpy(to, tw_tensor_cell(slot, lane, column), LINE_BYTES);
        finish_line(p, &p->a, p->a_negates, to);
    }
    return false;
}

// -- D, and the scales ------------------------------------------------------------------------------------------------

static uint32_t parts_of(const struct product *p)
{
    return tw_product_parts(p->m, p->does);
}

// The place of an element of a block's D, relative to D's first cell.
static void place_of_d(const struct product *p, uint32_t row, uint32_t column, uint32_t *lane, uint32_t *right)
{
    const uint32_t parts = parts_of(p), wide = p->n / parts, rows = ROWS_MOST / parts;
    *right = column % wide;
    *lane = row + column / wide * rows;
    if (p->m == 64 && parts == 1)
        *lane = row / 16 * 32 + row % 16;
}

static bool is_on(const struct product *p, uint32_t number, uint32_t lane)
{
    return !(p->does & TW_TENSOR_DISABLES) || !(p->all->off[number * 4 + lane / 32][p->lane] >> lane % 32 & 1);
}

// A float32 times 2^-shrinks, rounded to nearest if the result is subnormal.
static uint32_t shrunk(uint32_t bits, uint32_t shrinks)
{
    float x, factor;
    const uint32_t power = (127 - shrinks) << 23;
    __builtin_memcpy(&x, &bits, sizeof x);
    __builtin_memcpy(&factor, &power, sizeof factor);
    x *= factor;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t word_at(const struct product *p, uint32_t row, uint32_t column)
{
    return word_of_result(row, column, p->half);
}

// Load a tile of 16 rows and 8 columns of D.
static void load_tile(const struct product *p, const struct tw_slot *slot, uint32_t row, uint32_t column, uint32_t *c)
{
    const uint32_t d = (uint32_t)p->all->d[p->lane];
    __builtin_memset(c, 0, C_REGISTERS * TW_LANES * sizeof *c);
    for (uint32_t i = 0; i < TILE_ROWS * COLUMNS && p->all->adds[p->lane]; i++) {
        uint32_t lane, right, found;
        place_of_d(p, row + i / COLUMNS, column + i % COLUMNS, &lane, &right);
        __builtin_memcpy(&found, tw_tensor_cell(slot, lane + tw_tensor_lane(d), tw_tensor_column(d) + right),
                         sizeof found);
        if (p->half)
            found = (found & 0xffff) << i % 2 * 16;
        c[word_at(p, i / COLUMNS, i % COLUMNS)] |= p->shrinks ? shrunk(found, p->shrinks) : found;
    }
}

static void store_tile(const struct product *p, uint32_t number, uint32_t row, uint32_t column, const uint32_t *results)
{
    const uint32_t d = (uint32_t)p->all->d[p->lane];
    for (uint32_t i = 0; i < TILE_ROWS * COLUMNS; i++) {
        uint32_t lane, right, made = results[word_at(p, i / COLUMNS, i % COLUMNS)];
        place_of_d(p, row + i / COLUMNS, column + i % COLUMNS, &lane, &right);
        lane += tw_tensor_lane(d);
        if (p->half)
            made = made >> i % 2 * 16 & 0xffff;
        if (is_on(p, number, lane))
            __builtin_memcpy(tw_tensor_cell(p->blocks[number], lane, tw_tensor_column(d) + right), &made, sizeof made);
    }
}

// The metadata of 16 rows as `mma.sp` takes them with selector 0. With `.ws` other lanes have copies; none is read.
static void load_metadata(const struct product *p, const struct tw_slot *slot, uint32_t row, uint32_t *metadata)
{
    const uint32_t columns = tw_product_metadata(p->kind);
    const uint32_t column = tw_tensor_column((uint32_t)p->all->metadata[p->lane]) + p->selector;
    __builtin_memset(metadata, 0, 2 * TW_LANES * sizeof *metadata);
    for (uint32_t r = 0; r < TILE_ROWS; r++)
        for (uint32_t c = 0; c < columns; c++)
            __builtin_memcpy(metadata + r % 8 * 4 + c * 2 + r / 8,
                             tw_tensor_cell(slot, row + r, column + c), sizeof *metadata);
}

// The word of scales of a row of A or a column of B. Each 32 lanes have a copy; that of the computed rows is read.
static uint32_t scales_of(const struct tw_slot *slot, uint64_t address, uint32_t line, uint32_t quarter)
{
    uint32_t found;
    const uint32_t column = tw_tensor_column((uint32_t)address) + line / 32;
    __builtin_memcpy(&found, tw_tensor_cell(slot, quarter * 32 + line % 32, column), sizeof found);
    return found;
}

// Scales as `tw_mma_scaled` takes them: those of row r in lane 4 (r % 8) + r / 8, those of column c in lane 4 c.
static void load_scales(const struct product *p, const struct tw_slot *slot, uint32_t row, uint32_t column,
                        uint32_t *scales)
{
    __builtin_memset(scales, 0, 2 * SCALE_WORDS * sizeof *scales);
    uint16_t a_byte = (uint16_t)p->a_byte, b_byte = (uint16_t)p->b_byte;
    uint32_t *of_b = scales + SCALE_WORDS;
    for (uint32_t r = 0; r < TILE_ROWS; r++)
        scales[r % 8 * 4 + r / 8] = scales_of(slot, p->all->a_scales[p->lane], row + r, row / 32);
    for (uint32_t c = 0; c < COLUMNS; c++)
        of_b[c * 4] = scales_of(slot, p->all->b_scales[p->lane], column + c, row / 32);
    __builtin_memcpy(scales + TW_LANES, &a_byte, sizeof a_byte);
    __builtin_memcpy(of_b + TW_LANES, &b_byte, sizeof b_byte);
}

static bool columns_are_there(const struct product *p, const struct tw_slot *slot)
{
    const uint32_t d = (uint32_t)p->all->d[p->lane], column = tw_tensor_column(d), wide = p->n / parts_of(p);
    const bool sixteen = p->m == 64 && parts_of(p) == 1 && tw_tensor_lane(d) == 16;
    const uint32_t rows = (uint32_t)p->m / (is_paired(p) ? 2 : 1);
    uint32_t bad = column, count = wide;
    bool there = (tw_tensor_lane(d) == 0 || sixteen) && tw_tensor_is_there(slot, column, wide);
    const uint64_t scales[2] = {p->all->a_scales[p->lane], p->all->b_scales[p->lane]};
    for (uint32_t i = 0; i < 2 && is_scaled(p) && there; i++) {
        bad = tw_tensor_column((uint32_t)scales[i]), count = ((i ? p->n : rows) + 31) / 32;
        there = (tw_tensor_lane((uint32_t)scales[i]) & 0x3fff) == 0 && tw_tensor_is_there(slot, bad, count);
    }
    if (is_sparse(p) && there) {
        const uint32_t metadata = (uint32_t)p->all->metadata[p->lane];
        bad = tw_tensor_column(metadata), count = 2;  // the selector takes one of two columns
        there = !tw_tensor_lane(metadata) && bad % 2 == 0 && tw_tensor_is_there(slot, bad, count);
    }
    if (!there)
        tw_blame(p->context, p->warp, p->site, 1u << p->lane, TW_COLUMNS_OUTSIDE, bad, count);
    return there;
}

// -- the product ------------------------------------------------------------------------------------------------------

// Fill a register of a fragment: lane l has chunk l % 4 of line l / 4.
static void fill(uint32_t *registers, const uint8_t *lines, uint32_t bytes, uint32_t chunk)
{
    for (uint32_t lane = 0; lane < TW_LANES; lane++)
        __builtin_memcpy(registers + lane, lines + lane / 4 * bytes + (chunk + lane % 4) * 4, sizeof *registers);
}

static void multiply(const struct product *p, uint32_t *results, const uint32_t *sources)
{
    const struct tw_tensor_rule *rules = p->context->tensor_rules;
    const uint32_t bits = p->a.bits < 8 ? 8 : p->a.bits, k = LINE_BYTES * 8 / bits;
    if (p->kind == TW_KIND_F8F6F4)
        rules += (int32_t)TW_F8F6F4 - (int32_t)p->a.format;
    if (is_sparse(p)) {
        const bool whole = p->kind == TW_KIND_I8;
        const uint32_t signs = p->a.format * TW_SPARSE_SIGNED_A | p->b.format * TW_SPARSE_SIGNED_B;
        const uint32_t flags =
            whole ? TW_SPARSE_INTEGERS | signs | p->saturates * TW_SPARSE_SATURATES : p->half * TW_SPARSE_HALF;
        tw_mma_sparse_by_rules(rules, results, sources, p->a.format, p->b.format, 2 * k, bits, flags);
        return;
    }
    switch (p->kind) {
    case TW_KIND_I8:
        tw_mma_integer(p->context, results, sources, TILE_ROWS, LINE_BYTES, 8,
                       p->a.format | p->b.format << 1 | (uint32_t)p->saturates << 2);
        return;
    case TW_KIND_MXF8F6F4:
        tw_mma_scaled(p->context, results, sources, p->a.format, p->b.format, LINE_BYTES, 8, 1, p->fractions, 0);
        return;
    case TW_KIND_MXF4:
    case TW_KIND_MXF4NVF4:
        tw_mma_scaled(p->context, results, sources, TW_E2M1, TW_E2M1, 2 * LINE_BYTES, 4,
                      p->does & TW_TENSOR_BLOCK16 ? 4 : 2, p->fractions, 0);
        return;
    default:
        tw_mma_by_rules(rules, results, sources, p->a.format, p->b.format, k, p->half);
    }
}

// Multiply a block's rows by all columns.
static void multiply_rows(struct product *p, uint32_t number, uint32_t rows)
{
    uint32_t sources[ALL_WORDS] __attribute__((aligned(64)));
    uint32_t results[C_REGISTERS * TW_LANES] __attribute__((aligned(64)));
    const uint32_t of_line = tw_product_line_bytes(p->does), registers = B_REGISTERS * of_line / LINE_BYTES;
    uint32_t *of_b = sources + A_REGISTERS * TW_LANES, *c = of_b + registers * TW_LANES;
    const struct tw_slot *slot = p->blocks[number];
    for (uint32_t row = 0; row < rows; row += TILE_ROWS) {
        for (uint32_t i = 0; i < A_REGISTERS; i++)
            fill(sources + i * TW_LANES, p->a_lines[number][row + i % 2 * 8], LINE_BYTES, i / 2 * 4);
        for (uint32_t column = 0; column < p->n; column += COLUMNS) {
            for (uint32_t i = 0; i < registers; i++)
                fill(of_b + i * TW_LANES, p->b_lines + column * of_line, of_line, i * 4);
            load_tile(p, slot, row, column, c);
            if (is_scaled(p))
                load_scales(p, slot, row, column, c + C_REGISTERS * TW_LANES);
            if (is_sparse(p))
                load_metadata(p, slot, row, c + (p->half ? 2 : C_REGISTERS) * TW_LANES);
            multiply(p, results, sources);
            store_tile(p, number, row, column, results);
        }
    }
}

// Compute one thread's product. True if an operand is wrong; a block that is wrong is not written.
static bool run(struct product *p)
{
    const uint32_t lane = p->lane, blocks = is_paired(p) ? 2 : 1;
    const uint64_t a = p->all->a[lane], b = p->all->b[lane];
    if (read_instruction(p, (uint32_t)p->all->instruction[lane]))
        return true;
    const uint32_t columns = p->n / blocks, rows = p->m / blocks, of_line = tw_product_line_bytes(p->does);
    for (uint32_t i = 0; i < blocks; i++) {
        const struct tw_slot *slot = p->blocks[i];
        uint8_t *of_a = p->a_lines[i][0], *of_b = p->b_lines + i * columns * of_line;
        if (!columns_are_there(p, slot) ||
            read_lines(p, &p->b, b, p->b_mn_major, p->b_negates, slot, columns, of_line, of_b))
            return true;
        if (p->does & TW_TENSOR_A_HELD
                ? read_held(p, slot, rows, of_a)
                : read_lines(p, &p->a, a, p->a_mn_major, p->a_negates, slot, rows, LINE_BYTES, of_a))
            return true;
    }
    for (uint32_t i = 0; i < blocks; i++)
        multiply_rows(p, i, rows);
    return false;
}

// Threads issue products, one after the other. D is multiplied by 2^-shrinks before the product is added.
bool tw_columns_product(struct tw_context *context, struct tw_slot *slot, const struct tw_warp *warp, uint32_t site,
                       uint32_t mask, const struct tw_tensor_operands *operands, uint32_t kind, uint32_t does,
                       uint32_t shrinks)
{
    struct product p;
    p.context = context, p.warp = warp, p.all = operands;
    p.site = site, p.kind = kind, p.does = does, p.shrinks = shrinks;
    p.half = p.saturates = p.fractions = false;
    p.blocks[0] = p.blocks[1] = slot;
    if (does & TW_TENSOR_PAIR) {
        p.blocks[0] = tw_tensor_pair(context, slot, warp, site, mask);
        if (!p.blocks[0])
            return true;
        p.blocks[1] = p.blocks[0] + 1;
    }
    for (uint32_t left = mask; left; left = tw_other_lanes(left)) {
        p.lane = tw_first_lane(left);
        if (run(&p))
            return true;
    }
    return false;
}

// -- for instruments --------------------------------------------------------------------------------------------------

// As `tw_product_units`, for translated code.
uint32_t tw_columns_units(const struct tw_tensor_operands *operands, uint32_t lane, uint32_t part, uint32_t kind,
                          uint32_t does, uint64_t *offsets)
{
    return tw_product_units(operands, lane, part, kind, does, offsets);
}
