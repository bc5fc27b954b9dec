// A shared library with a kernel and the vendor's runtime, as its compiler makes one by default.
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }

extern "C" int work(int n) {
    int *x = nullptr;
    if (cudaMallocManaged(&x, 32 * sizeof *x) != cudaSuccess)
        return -1;
    for (int i = 0; i < 32; i++)
        x[i] = n + i;
    twice<<<1, 32>>>(x);
    return cudaDeviceSynchronize() == cudaSuccess ? x[3] : -2;
}
