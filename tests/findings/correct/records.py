"""Arrays of records and of complex numbers: threads write neighbouring fields of one record."""

import numpy as np
from case import Case
from numba import cuda

BODY = np.dtype([("kind", np.int8), ("mass", np.float32), ("spin", np.complex64)], align=True)


@cuda.jit
def records(bodies, factor):
    i = cuda.grid(1)
    body = i // 2
    if body < bodies.size:
        if i % 2 == 0:
            bodies[body]["kind"] += 1
        else:
            bodies[body]["mass"] *= factor
            bodies[body]["spin"] = bodies[body]["spin"].conjugate()


def arguments(rng):
    bodies = np.zeros(50, BODY)
    bodies["kind"] = rng.integers(0, 9, 50)
    bodies["mass"] = rng.integers(0, 99, 50)
    bodies["spin"] = rng.integers(0, 99, 50) + 1j * rng.integers(0, 99, 50)
    return bodies, np.float32(2.5)


def reference(bodies, factor):
    after = bodies.copy()
    after["kind"] += 1
    after["mass"] *= factor
    after["spin"] = after["spin"].conj()
    return {0: after}


CASES = (Case("records", records, 4, 32, arguments, reference),)
