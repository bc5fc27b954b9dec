// Where something happened first; `places.py` reads the table.

#ifndef TILEWRIGHT_INSTRUMENTS_PLACES_H
#define TILEWRIGHT_INSTRUMENTS_PLACES_H

#include "simulate/runtime/instrument.h"

enum {
    TW_PLACES_ROWS = 16384,       // sites that have a row; those beyond are counted, but have no place
    TW_PLACES_THREAD_BITS = 10,
};

void tw_places_note(const struct tw_slot *slot, const struct tw_warp *warp, uint64_t *table, uint64_t *counter,
                    uint32_t row, uint32_t lanes);

#endif
