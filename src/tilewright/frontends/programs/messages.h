// Messages between a CUDA program, whose side is `client.hpp`, and the process of the simulated GPU (`protocol.py`).
#ifndef TW_MESSAGES_H
#define TW_MESSAGES_H

#include <stdint.h>

// What the program sends: a call, or the result of a function that it was asked to call.
enum tw_message {
    TW_CALLED = 1,
    TW_ANSWERED = 2,
};

enum tw_sizes {
    // Most words of a message.
    TW_MOST_WORDS = 48,
};

// What the process of the simulated GPU asks the program to do during a call.
enum tw_request {
    TW_RETURN = 0,
    TW_READ = 1,
    TW_WRITE = 2,
    TW_MOVE = 3,
    TW_SET = 4,
    TW_INVOKE = 5,
    TW_PRINT = 6,
    TW_SHARE = 7,
    TW_UNSHARE = 8,
    TW_TEXT = 9,
    TW_ROWS = 10,
};

// The start of each request.
struct tw_head {
    uint64_t request;
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t d;
    uint64_t e;
};

#endif
