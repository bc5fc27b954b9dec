// Device code that is compiled apart: `apart_other.cu` defines what this calls, and both launch kernels.
#include <cstdio>

__device__ int doubled(int value);
extern __device__ int shared_by_both;
void launch_other(int *out);

__global__ void here(int *out) { *out = doubled(20) + shared_by_both; }

int main() {
    int *device, host[2];
    cudaMalloc(&device, sizeof host);
    here<<<1, 1>>>(device);
    launch_other(device + 1);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", host[0], host[1], cudaGetErrorName(cudaDeviceSynchronize()));
}
