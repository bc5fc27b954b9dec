// What the tests of C parts share.

#ifndef TILEWRIGHT_TESTS_CHECK_H
#define TILEWRIGHT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

// Ends the program with the condition that failed.
#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

#endif
