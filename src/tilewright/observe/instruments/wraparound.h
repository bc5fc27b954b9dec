// The operations that wraparound.py asks about.

#ifndef TILEWRIGHT_WRAPAROUND_H
#define TILEWRIGHT_WRAPAROUND_H

enum {
    TW_WRAP_ADD = 0,
    TW_WRAP_SUB = 1,
    TW_WRAP_MUL = 2,
    TW_WRAP_MAD = 3,
    TW_WRAP_SHL = 4,
};

#endif
