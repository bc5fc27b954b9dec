"""Numba's documentation example for fast matrix multiplication, as it stood for years, on matrices of a user's."""

import numpy as np
from numba import cuda, float32

TPB = 16


@cuda.jit
def fast_matmul(A, B, C):
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)

    x, y = cuda.grid(2)

    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    bpg = cuda.gridDim.x

    if x >= C.shape[0] and y >= C.shape[1]:
        return

    tmp = 0.0
    for i in range(bpg):
        sA[tx, ty] = A[x, ty + i * TPB]  # finds: TW101
        sB[tx, ty] = B[tx + i * TPB, y]  # finds: TW107

        cuda.syncthreads()  # finds: TW402

        for j in range(TPB):
            tmp += sA[tx, j] * sB[j, ty]  # finds: TW202, TW601

        cuda.syncthreads()  # finds: TW402

    C[x, y] = tmp  # finds: TW101, TW107


def main():
    rng = np.random.default_rng(0)
    a = rng.random((20, 40), np.float32)
    b = rng.random((40, 20), np.float32)
    d_a = cuda.to_device(a)
    d_b = cuda.to_device(b)
    d_c = cuda.device_array((20, 20), np.float32)
    blocks = ((20 + TPB - 1) // TPB, (20 + TPB - 1) // TPB)
    fast_matmul[blocks, (TPB, TPB)](d_a, d_b, d_c)  # finds: TW506
    error = np.abs(d_c.copy_to_host() - a @ b).max()
    print(f"largest error: {error:.3g}")


if __name__ == "__main__":
    main()
