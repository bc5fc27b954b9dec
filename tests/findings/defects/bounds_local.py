"""A local array shorter than what the data puts into it."""

import numpy as np
from case import Case
from numba import cuda, int32


def reversed_through(places):
    @cuda.jit
    def reverse(numbers, reversed_numbers):
        digits = cuda.local.array(places, int32)
        i = cuda.grid(1)
        if i < numbers.size:
            left = numbers[i]
            count = 0
            while left > 0:
                digits[count] = left % 10  # finds: TW104
                left //= 10
                count += 1
            total = 0
            for d in range(min(count, places)):
                total = total * 10 + digits[d]
            reversed_numbers[i] = total

    return reverse


def arguments(rng):
    return rng.integers(10**9, 2**31, 40), np.zeros(40, np.int64)


def reference(numbers, reversed_numbers):
    return {1: [int(str(number)[::-1]) for number in numbers]}


CASES = (
    Case("local_too_small", reversed_through(8), 2, 32, arguments, defective=True),
    Case("local_large_enough", reversed_through(10), 2, 32, arguments, reference),
)
