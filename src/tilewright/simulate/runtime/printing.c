// What lanes print, left in the thread's buffer for Python.
//
// A text that a directive names is copied at the call, as on a GPU: the thread may change it afterwards, and memory of
// a thread or a block ends before Python reads the buffer.

#include "runtime.h"

static const uint64_t WINDOW_BITS = 32;

// A lane's line in progress.
struct writer {
    struct tw_context *context;
    const struct tw_slot *slot;
    const char *local;  // the lane's
    uint64_t local_bytes;
    uint64_t used;  // bytes of the buffer
    bool full;
};

// Memory from an address on, as far as its space reaches.
struct reach {
    const char *at;
    uint64_t bytes;
};

// A directive behind its '%': where it ends, and the arguments it takes.
struct directive {
    const char *end;
    uint32_t stars;  // widths and precisions that are arguments, 4 bytes each
    uint32_t bytes;  // of the value
    bool is_text;
};

static struct reach within(const char *base, uint64_t bytes, uint64_t offset)
{
    return (struct reach){base + offset, offset < bytes ? bytes - offset : 0};
}

// Memory at a generic address.
static struct reach reach_of(const struct writer *w, uint64_t address)
{
    const uint64_t window = address >> WINDOW_BITS, offset = (uint32_t)address;
    if (window >= TW_GLOBAL_WINDOW) {
        const uint64_t base = (uint64_t)TW_GLOBAL_WINDOW << WINDOW_BITS;
        return within(w->context->global_base, w->context->global_limit, address - base);
    }
    if (window == TW_LOCAL_WINDOW)
        return within(w->local, w->local_bytes, offset);
    const uint64_t rank = offset >> TW_RANK_SHIFT;
    if (window != TW_SHARED_WINDOW || rank >= w->context->cluster_blocks)
        return (struct reach){0, 0};
    const uint64_t start = rank << TW_RANK_SHIFT;
    return within(w->slot->arena + start, w->context->shared_bytes, offset - start);
}

static void *reserved(struct writer *w, uint64_t bytes)
{
    const uint64_t whole = (bytes + 7) & ~7ull, at = w->used;
    if (w->full || whole > w->context->print_bytes - at) {
        w->full = true;
        return 0;
    }
    w->used += whole;
    return w->context->print_buffer + at;
}

// Copies the text at an address and returns it; no bytes if the address is outside memory, or the buffer is full.
static struct reach write_text(struct writer *w, uint64_t address)
{
    struct reach text = reach_of(w, address);
    if (!text.bytes || w->full)
        return (struct reach){0, 0};
    uint64_t length = 0;
    const uint64_t most = text.bytes < TW_PRINT_TEXT_BYTES ? text.bytes : TW_PRINT_TEXT_BYTES;
    while (length < most && text.at[length])
        length++;
    text.bytes = length;
    struct tw_print_text *copy = reserved(w, sizeof *copy + length);
    if (copy) {
        copy->address = address;
        copy->bytes = length;
        __builtin_memcpy(copy + 1, text.at, length);
    }
    return text;
}

static bool is_one_of(char character, const char *set)
{
    while (*set && *set != character)
        set++;
    return *set != 0;
}

static const char *skip(const char *at, const char *end, const char *set)
{
    while (at < end && is_one_of(*at, set))
        at++;
    return at;
}

// A width or precision: digits, or a '*'.
static const char *count(const char *at, const char *end, uint32_t *stars)
{
    if (at < end && *at == '*') {
        ++*stars;
        return at + 1;
    }
    return skip(at, end, "0123456789");
}

// Reads what may stand behind a '%'; false if that is no directive, which prints itself.
static bool read_directive(const char *at, const char *end, struct directive *found)
{
    uint32_t stars = 0;
    bool wide = false;
    at = count(skip(at, end, "-+ #0'"), end, &stars);
    if (at < end && *at == '.')
        at = count(at + 1, end, &stars);
    if (at < end && is_one_of(*at, "hljztL")) {
        wide = is_one_of(*at, "ljzt");
        at += is_one_of(*at, "hl") && at + 1 < end && at[1] == at[0] ? 2 : 1;
    }
    if (at == end || !is_one_of(*at, "diouxXcsfFeEgGaAp%"))
        return false;
    found->end = at + 1;
    found->is_text = *at == 's';
    found->stars = *at == '%' ? 0 : stars;
    const uint32_t whole = is_one_of(*at, "diouxX") && !wide ? 4 : 8;
    found->bytes = *at == '%' ? 0 : *at == 'c' ? 4 : whole;
    return true;
}

// Copies the texts that a format's directives name; returns the bytes of all arguments.
static uint64_t write_texts(struct writer *w, struct reach format, struct reach arguments)
{
    const char *const end = format.at + format.bytes;
    uint64_t taken = 0;
    uint32_t given = 0;
    struct directive d;
    for (const char *at = format.at; at < end && given < TW_PRINT_ARGUMENTS && !w->full; at++) {
        if (*at != '%' || !read_directive(at + 1, end, &d))
            continue;
        at = d.end - 1;
        if (!d.bytes)
            continue;
        given += d.stars + 1;
        taken += 4 * d.stars;
        taken = (taken + d.bytes - 1) / d.bytes * d.bytes + d.bytes;
        if (d.is_text && taken <= arguments.bytes) {
            uint64_t address;
            __builtin_memcpy(&address, arguments.at + taken - sizeof address, sizeof address);
            write_text(w, address);
        }
    }
    return taken < arguments.bytes ? taken : arguments.bytes;
}

static void write_line(struct writer *w, uint64_t thread, uint64_t format, uint64_t arguments)
{
    const uint64_t start = w->used;
    struct tw_print_record *record = reserved(w, sizeof *record);
    const struct reach given = reach_of(w, arguments);
    const uint64_t taken = write_texts(w, write_text(w, format), given);
    char *copy = reserved(w, taken);
    if (w->full) {
        w->context->print_lost++;
        return;
    }
    *record = (struct tw_print_record){w->slot->block, thread, format, w->used - start, taken};
    if (taken)
        __builtin_memcpy(copy, given.at, taken);
    w->context->print_used = w->used;
}

// One record a lane. `formats` and `arguments` are generic addresses. What comes behind the first line that does not
// fit is only counted, and nothing of it is read: so all calls of a thread read no more than the buffer holds.
void tw_print(struct tw_context *context, const struct tw_slot *slot, const struct tw_warp *warp, uint32_t lanes,
              const uint64_t *formats, const uint64_t *arguments, const char *local, uint64_t lane_stride,
              uint64_t local_bytes)
{
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        if (context->print_lost) {
            context->print_lost += (uint32_t)__builtin_popcount(left);
            return;
        }
        const uint32_t lane = tw_first_lane(left);
        struct writer w = {context, slot, local + lane * lane_stride, local_bytes, context->print_used, false};
        write_line(&w, warp->index * TW_LANES + lane, formats[lane], arguments[lane]);
    }
}
