// Copies memory of the device to the host, after one of several ways to write it or a part of it.

#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

struct Padded {
    int number;
    double value;
};

__device__ float table[64];

__global__ void first(float *to, int count)
{
    if (threadIdx.x < count)
        to[threadIdx.x] = threadIdx.x;
}

__global__ void members(Padded *to)
{
    to[threadIdx.x].number = 1;
    to[threadIdx.x].value = 2;
}

int main(int, char **words)
{
    const auto is = [&](const char *name) { return !std::strcmp(words[1], name); };
    float host[100], *device;
    Padded structures[33], *padded;
    cudaMalloc(&device, sizeof host);
    cudaMalloc(&padded, sizeof structures);
    if (is("all") || is("half")) {
        first<<<1, 128>>>(device, is("all") ? 100 : 50);
        cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    } else if (is("written half") || is("half in a stream")) {
        first<<<1, 128>>>(device, 50);
        const int count = is("written half") ? 50 : 64;
        cudaMemcpyAsync(host, device, count * sizeof *host, cudaMemcpyDefault, cudaStreamPerThread);
        cudaStreamSynchronize(cudaStreamPerThread);
    } else if (is("structures")) {
        members<<<1, 33>>>(padded);
        cudaMemcpy(structures, padded, sizeof structures, cudaMemcpyDeviceToHost);
    } else if (is("initial zeros")) {
        cudaMemcpyFromSymbol(host, table, sizeof table);
    } else if (is("managed") || is("pinned")) {
        float *shared;
        is("managed") ? cudaMallocManaged(&shared, sizeof host) : cudaMallocHost(&shared, sizeof host);
        std::memset(shared, 0, sizeof host);
        cudaMemcpy(host, shared, sizeof host, cudaMemcpyDefault);
    } else if (is("rows") || is("rows but the last")) {
        size_t pitch;
        cudaMallocPitch(&device, &pitch, 40, 10);
        cudaMemset2D(device, pitch, 0, 40, is("rows") ? 10 : 9);
        cudaMemcpy2D(host, 40, device, pitch, 40, 10, cudaMemcpyDeviceToHost);
    } else if (is("on the device")) {
        float *other;
        cudaMalloc(&other, sizeof host);
        cudaMemcpy(other, device, sizeof host, cudaMemcpyDeviceToDevice);
    }
    std::puts("done");
}
