// Arguments copied between frames.

#include "check.h"
#include "simulate/runtime/frames.c"

enum { STRIDE = 16, LANES = 32 };

int main(void)
{
    char local[LANES * STRIDE];
    for (int i = 0; i < LANES * STRIDE; i++)
        local[i] = (char)(i % STRIDE);
    tw_copy(local, 2, 0, 8, STRIDE, 1u << 31 | 1u << 4);  // it overlaps its source
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < STRIDE; i++)
            CHECK(local[lane * STRIDE + i] == ((lane == 4 || lane == 31) && i >= 2 && i < 10 ? i - 2 : i));
    tw_copy(local, 2, 0, 8, STRIDE, 0);
    CHECK(local[2] == 2);
    return 0;
}
