#include <cuda_profiler_api.h>

__global__ void reversed(float *x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[63 - threadIdx.x];
}

int main() {
    float *x;
    cudaProfilerStart();
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMemset(x, 0, 64 * sizeof(float));
    reversed<<<1, 64>>>(x);
    return cudaDeviceSynchronize();
}
