// What lanes print.

#include <string.h>

#include "check.h"
#include "simt/runtime/printing.c"

enum { STRIDE = 512, LOCAL = 300 };

int main(void)
{
    static char local[TW_LANES * STRIDE];
    static struct tw_print_record records[3];
    struct tw_context context = {.print_buffer = (char *)records, .print_bytes = sizeof records};
    struct tw_slot slot = {.block = 5};
    struct tw_warp warp = {.index = 2};
    uint64_t formats[TW_LANES], offsets[TW_LANES];
    memset(local, 7, sizeof local);
    for (uint32_t i = 0; i < TW_LANES; i++) {
        formats[i] = 100 + i;
        offsets[i] = i == 1 ? 290 : i == 3 ? LOCAL : 8;
    }
    tw_print(&context, &slot, &warp, 0x8000000bu, formats, offsets, local, STRIDE, LOCAL);
    CHECK(context.print_used == 4 * sizeof *records);  // the last one did not fit
    CHECK(records[0].block == 5 && records[0].thread == 64 && records[0].format == 100);
    CHECK(records[0].room_bytes == TW_PRINT_ARGUMENT_BYTES && records[0].arguments[255] == 7);
    CHECK(records[1].thread == 65 && records[1].room_bytes == 10);
    CHECK(records[1].arguments[9] == 7 && records[1].arguments[10] == 0);
    CHECK(records[2].thread == 67 && records[2].room_bytes == 0 && records[2].arguments[0] == 0);
    return 0;
}
