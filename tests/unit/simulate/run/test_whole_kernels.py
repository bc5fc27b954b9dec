"""Kernels as users write them, from Python and CUDA C++, against NumPy, in several orders of warps and blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.programs import Program
from tilewright.simt import launch

cuda = pytest.importorskip("numba.cuda")
SEEDS = [None, 3, 4]
RANDOM = np.random.default_rng(11)


@cuda.jit
def transpose(a, out):
    tile = cuda.shared.array((16, 17), np.float32)
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    row = cuda.blockIdx.x * 16 + cuda.threadIdx.y
    column = cuda.blockIdx.y * 16 + cuda.threadIdx.x
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (33, 50), (7, 100)])
def test_transpose_through_shared_memory(shape, seed):
    a = RANDOM.random(shape).astype(np.float32)
    out = np.zeros(shape[::-1], np.float32)
    launch(transpose, (-(-shape[1] // 16), -(-shape[0] // 16)), (16, 16), (a, out), seed=seed)
    assert np.array_equal(out, a.T)


@cuda.jit
def histogram(values, counts):
    local = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    if t < 64:
        local[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(local, values[i], 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.add(counts, t, local[t])


@pytest.mark.parametrize("seed", SEEDS)
def test_histogram_with_atomics_in_two_spaces(seed):
    values = RANDOM.integers(0, 64, 5000).astype(np.int32)
    counts = np.zeros(64, np.int32)
    launch(histogram, 5, 96, (values, counts), seed=seed)
    assert counts.tolist() == np.bincount(values, minlength=64).tolist()


@cuda.jit
def mandelbrot(out, rounds):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        cr, ci, zr, zi = x * 0.05 - 2.0, y * 0.05 - 1.0, 0.0, 0.0
        count = 0
        while count < rounds and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            count += 1
        out[y, x] = count


@pytest.mark.parametrize("block", [(8, 8), (32, 2), (5, 13)])
def test_a_while_loop_of_each_point(block):
    out = np.zeros((40, 60), np.int32)
    launch(mandelbrot, (-(-60 // block[0]), -(-40 // block[1])), block, (out, 50))
    wanted = np.zeros((40, 60), np.int32)
    for y in range(40):
        for x in range(60):
            c, z, count = complex(x * 0.05 - 2.0, y * 0.05 - 1.0), 0j, 0
            while count < 50 and z.real**2 + z.imag**2 < 4.0:
                z, count = z * z + c, count + 1
            wanted[y, x] = count
    assert (out == wanted).mean() > 0.99  # the compiler fuses products and sums: points at the edge may differ
    assert out.max() == 50


BITONIC = """
extern "C" __global__ void sort(int *data) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = data[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int other = t ^ j;
      if (other > t) {
        int a = s[t], b = s[other];
        if ((a > b) == ((t & k) == 0)) { s[t] = b; s[other] = a; }
      }
      __syncthreads();
    }
  data[blockIdx.x * 256 + t] = s[t];
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_bitonic_sort_in_shared_memory(seed):
    data = RANDOM.integers(-1000, 1000, (6, 256)).astype(np.int32)
    wanted = np.sort(data, axis=1)
    launch(Program.from_cuda(BITONIC, "sort"), 6, 256, (data,), seed=seed)
    assert np.array_equal(data, wanted)


LOOK_BACK = """
// Inclusive scan in one pass: every block takes a ticket and waits for the sum of the block before it.
__device__ unsigned int ticket;
extern "C" __global__ void scan(const int *in, int *out, volatile int *flags, volatile int *sums, int n) {
  __shared__ unsigned int block;
  __shared__ int partial[4];
  __shared__ int before;
  if (threadIdx.x == 0) block = atomicAdd(&ticket, 1);
  __syncthreads();
  int i = block * 128 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int value = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(0xffffffff, value, d);
    if (lane >= d) value += other;
  }
  if (lane == 31) partial[warp] = value;
  __syncthreads();
  for (int w = 0; w < warp; w++) value += partial[w];
  if (threadIdx.x == 127) {
    int sum = 0;
    if (block > 0) {
      while (flags[block - 1] == 0) { }
      __threadfence();
      sum = sums[block - 1];
    }
    before = sum;
    sums[block] = sum + value;
    __threadfence();
    flags[block] = 1;
  }
  __syncthreads();
  if (i < n) out[i] = before + value;
}
"""


@pytest.mark.parametrize("seed", [*SEEDS, 5, 6])
def test_a_scan_whose_blocks_wait_for_the_one_before(seed):
    data = RANDOM.integers(-50, 50, 1999).astype(np.int32)
    out, flags, sums = np.zeros(1999, np.int32), np.zeros(16, np.int32), np.zeros(16, np.int32)
    launch(Program.from_cuda(LOOK_BACK, "scan"), 16, 128, (data, out, flags, sums, 1999), seed=seed)
    assert np.array_equal(out, np.cumsum(data))


TEMPLATE = """
template <typename T, int K> __global__ void stencil(const T *in, T *out, int n) {
  extern __shared__ unsigned char raw[];
  T *s = reinterpret_cast<T *>(raw);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = threadIdx.x; j < blockDim.x + 2 * K; j += blockDim.x) {
    int at = (int)(blockIdx.x * blockDim.x) + j - K;
    s[j] = at >= 0 && at < n ? in[at] : T(0);
  }
  __syncthreads();
  if (i >= n) return;
  T sum = 0;
#pragma unroll
  for (int k = -K; k <= K; k++) sum += s[threadIdx.x + K + k] * T(k + 1);
  out[i] = sum;
}
"""


@pytest.mark.parametrize(
    ("c_type", "dtype"), [("int", "i4"), ("float", "f4"), ("double", "f8"), ("short", "i2"), ("long long", "i8")]
)
@pytest.mark.parametrize("radius", [1, 3])
def test_a_stencil_in_dynamic_shared_memory(c_type, dtype, radius):
    data = RANDOM.integers(-9, 9, 333).astype(dtype)
    out = np.zeros(333, dtype)
    program = Program.from_cuda(TEMPLATE, f"stencil<{c_type}, {radius}>")
    launch(program, 7, 50, (data, out, 333), shared_bytes=(50 + 2 * radius) * data.itemsize)
    padded = np.pad(data, radius)
    wanted = sum(padded[radius + k : radius + k + 333] * (k + 1) for k in range(-radius, radius + 1))
    assert np.array_equal(out, wanted.astype(dtype))


WARP = """
extern "C" __global__ void warp(const float *in, float *sums, unsigned *ballots, int *firsts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = in[i];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  sums[i] = v;
  ballots[i] = __ballot_sync(0xffffffff, in[i] > 0);
  if (in[i] > 0) firsts[i] = __shfl_sync(__activemask(), (int)threadIdx.x, __ffs(__activemask()) - 1);
  else firsts[i] = -1;
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_exchange_values(seed):
    data = RANDOM.integers(-3, 4, 256).astype(np.float32)
    sums, ballots, firsts = np.zeros(256, np.float32), np.zeros(256, np.uint32), np.zeros(256, np.int32)
    launch(Program.from_cuda(WARP, "warp"), 2, 128, (data, sums, ballots, firsts), seed=seed)
    warps = data.reshape(8, 32)
    assert np.array_equal(sums.reshape(8, 32), np.repeat(warps.sum(1), 32).reshape(8, 32))
    bits = ((warps > 0) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)
    assert np.array_equal(ballots.reshape(8, 32), np.repeat(bits, 32).reshape(8, 32))
    for number, warp in enumerate(warps):
        positive = np.flatnonzero(warp > 0)
        wanted = [number % 4 * 32 + positive[0] if v > 0 else -1 for v in warp]
        assert firsts[32 * number : 32 * number + 32].tolist() == wanted


def test_many_small_blocks():
    out = np.zeros(70_000, np.int32)
    program = Program.from_cuda(
        'extern "C" __global__ void k(int *x) { x[blockIdx.x] = blockIdx.x * 2 + gridDim.x; }', "k"
    )
    launch(program, 70_000, 1, (out,))
    assert np.array_equal(out, np.arange(70_000) * 2 + 70_000)
