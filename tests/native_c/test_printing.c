// What lanes print, and the texts that their formats name.

#include <string.h>

#include "check.h"
#include "simulate/runtime/printing.c"

enum { STRIDE = 512, LOCAL = 300, TEXT = 40, ARGUMENTS = 8 };

static const uint64_t GLOBAL = (uint64_t)TW_GLOBAL_WINDOW << 32, SHARED = (uint64_t)TW_SHARED_WINDOW << 32,
                      OWN_LOCAL = (uint64_t)TW_LOCAL_WINDOW << 32;

static char global[128], shared[1 << (TW_RANK_SHIFT + 1)], local[TW_LANES * STRIDE];
static uint64_t buffer[64];
static struct tw_context context;
static struct tw_slot slot;
static const struct tw_warp warp = {.index = 2};

// Prints one line of lane 1 with a format and an argument; returns its record, or null if the line was lost.
static const struct tw_print_record *printed(const char *format, uint64_t argument)
{
    uint64_t formats[TW_LANES] = {0, GLOBAL}, arguments[TW_LANES] = {0, OWN_LOCAL + ARGUMENTS};
    const uint64_t before = context.print_used;
    memset((char *)buffer + before, 0, sizeof buffer - before);  // so texts have ends
    strcpy(global, format);
    memcpy(local + STRIDE + ARGUMENTS, &argument, sizeof argument);
    tw_print(&context, &slot, &warp, 2, formats, arguments, local, STRIDE, LOCAL);
    return context.print_used == before ? 0 : (const void *)((char *)buffer + before);
}

static const char *text_of(const struct tw_print_record *record)
{
    const struct tw_print_text *format = (const void *)(record + 1);
    const struct tw_print_text *text = (const void *)((const char *)(format + 1) + (format->bytes + 7) / 8 * 8);
    return (const char *)text - (const char *)record + 8 < (int64_t)record->bytes ? (const char *)(text + 1) : "none";
}

static void print_from_each_space(void)
{
    strcpy(local + STRIDE + TEXT, "local");
    strcpy(shared, "shared");
    strcpy(shared + (1 << TW_RANK_SHIFT), "other");
    const struct tw_print_record *record = printed("%s", OWN_LOCAL + TEXT);
    CHECK(record->block == 5 && record->thread == 65 && record->format == GLOBAL && record->argument_bytes == 8);
    CHECK(strcmp(text_of(record), "local") == 0);
    CHECK(strcmp(text_of(printed("%s", SHARED)), "shared") == 0);
    CHECK(strcmp(text_of(printed("%s", SHARED + (1 << TW_RANK_SHIFT))), "other") == 0);
    CHECK(strcmp(text_of(printed("%s", GLOBAL)), "%s") == 0);
}

static void read_nothing_outside(void)
{
    const uint64_t outside[] = {OWN_LOCAL + LOCAL, SHARED + 32, SHARED + (2 << TW_RANK_SHIFT), GLOBAL + sizeof global,
                                9};
    for (uint32_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        context.print_used = 0;
        CHECK(strcmp(text_of(printed("%s", outside[i])), "none") == 0);
    }
    context.print_used = 0;
    memset(local + STRIDE + LOCAL - 3, 'x', STRIDE);  // a text without an end stops with the memory
    CHECK(strcmp(text_of(printed("%s", OWN_LOCAL + LOCAL - 3)), "xxx") == 0);
}

static void count_lost_lines(void)
{
    context.print_bytes = 100;
    context.print_used = 0;
    CHECK(printed("%d", 1) && context.print_lost == 0);
    CHECK(!printed("%d", 1) && context.print_lost == 1);
    context.print_bytes = sizeof buffer;  // nothing follows a lost line
    slot.arena = context.global_base = 0;  // and nothing of it is read
    CHECK(!printed("%s", SHARED) && context.print_lost == 2);
    context = (struct tw_context){.print_buffer = (char *)buffer, .print_bytes = 56, .global_base = global,
                                  .global_limit = sizeof global, .shared_bytes = 32, .cluster_blocks = 2};
    CHECK(!printed("%s", SHARED) && context.print_lost == 1);  // its format does not fit, and its text is not read
}

static void take_32_arguments(void)
{
    context.print_used = 0;
    CHECK(printed("%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f%f", 0)->argument_bytes == 32 * 8);
    CHECK(printed("%*.*f", 0)->argument_bytes == 16);
}

int main(void)
{
    context = (struct tw_context){.print_buffer = (char *)buffer, .print_bytes = sizeof buffer, .global_base = global,
                                  .global_limit = sizeof global, .shared_bytes = 32, .cluster_blocks = 2};
    slot = (struct tw_slot){.block = 5, .arena = shared};
    print_from_each_space();
    read_nothing_outside();
    take_32_arguments();
    count_lost_lines();
    return 0;
}
