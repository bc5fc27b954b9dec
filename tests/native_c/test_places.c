// First places, noted by several threads.

#include <pthread.h>

#include "check.h"
#include "observe/instruments/places.c"

enum { THREADS = 4, BLOCKS = 500 };

static uint64_t table[TW_PLACES_ROWS];

// Thread t notes every fourth block from t, in descending order.
static void *note(void *number)
{
    uint64_t counter = 0;
    for (uint64_t block = BLOCKS - (uint64_t)(intptr_t)number; block > 1; block -= block > THREADS ? THREADS : block) {
        struct tw_slot slot = {.block = block};
        struct tw_warp warp = {.index = 3};
        tw_places_note(&slot, &warp, table, &counter, 7, 0x30);
        tw_places_note(&slot, &warp, table, &counter, 8, 0);
        tw_places_note(&slot, &warp, table, &counter, TW_PLACES_ROWS, 1);
    }
    CHECK(counter > 0 && counter % 3 == 0);
    return 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], 0, note, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], 0) == 0);
    CHECK(~table[7] == (2ull << TW_PLACES_THREAD_BITS | (3 * 32 + 4)));
    CHECK(table[8] == 0);
    return 0;
}
