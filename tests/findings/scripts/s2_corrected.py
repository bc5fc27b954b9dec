"""The documentation example with its defects mended: any m, n and k."""

import numpy as np
from numba import cuda, float32

TPB = 16


@cuda.jit
def fast_matmul(A, B, C):
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)

    y, x = cuda.grid(2)

    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y

    tmp = float32(0)
    for i in range((A.shape[1] + TPB - 1) // TPB):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if x < A.shape[0] and tx + i * TPB < A.shape[1]:
            sA[ty, tx] = A[x, tx + i * TPB]
        if y < B.shape[1] and ty + i * TPB < B.shape[0]:
            sB[ty, tx] = B[ty + i * TPB, y]

        cuda.syncthreads()

        for j in range(TPB):
            tmp += sA[ty, j] * sB[j, tx]

        cuda.syncthreads()

    if x < C.shape[0] and y < C.shape[1]:
        C[x, y] = tmp


def main():
    rng = np.random.default_rng(0)
    a = rng.random((20, 40), np.float32)
    b = rng.random((40, 20), np.float32)
    d_a = cuda.to_device(a)
    d_b = cuda.to_device(b)
    d_c = cuda.device_array((20, 20), np.float32)
    blocks = ((20 + TPB - 1) // TPB, (20 + TPB - 1) // TPB)
    fast_matmul[blocks, (TPB, TPB)](d_a, d_b, d_c)
    cuda.synchronize()
    np.testing.assert_allclose(d_c.copy_to_host(), a @ b, rtol=1e-5)
    print("the product is right")


if __name__ == "__main__":
    main()
