"""The same with Numba: one step too many through a local array that is in registers."""

from case import Case, copied, numbers
from numba import cuda, int32


def through(steps):
    @cuda.jit
    def copy(x, out):
        own = cuda.local.array(8, int32)
        t = cuda.threadIdx.x
        for i in range(8):
            own[i] = x[8 * t + i]
        for i in range(0, steps, 2):
            own[i] ^= 5  # finds: TW104
        for i in range(8):
            out[8 * t + i] = own[i] ^ (0 if i % 2 else 5)

    return copy


CASES = (
    Case("one_step_too_many", through(9), 1, 64, numbers(512), defective=True),
    Case("steps_of_the_array", through(8), 1, 64, numbers(512), copied),
)
