// Messages between a CUDA program, whose side is `client.hpp`, and the process of the simulated GPU (`protocol.py`).
#ifndef TW_MESSAGES_H
#define TW_MESSAGES_H

#include <stdint.h>

// What the program sends: a call, the result of a function that it was asked to call, or a launch, which has no answer:
// the number of a ticket that TW_TICKET gave, and the packed parameters, in whole words.
enum tw_message {
    TW_CALLED = 1,
    TW_ANSWERED = 2,
    TW_LAUNCHED = 3,
};

enum tw_sizes {
    // Most words of a message.
    TW_MOST_WORDS = 48,
    // Most tickets at once.
    TW_MOST_TICKETS = 64,
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
    // A launch like the present one needs no answer from now on: a ticket's number, and the number of parameters,
    // whose offsets among the packed ones and sizes follow, in words of 4 bytes.
    TW_TICKET = 11,
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
