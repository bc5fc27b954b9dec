// Uses what programs use of the runtime; each line of output is what the C standard and CUDA's manual say of it.
#include <cassert>
#include <cstdio>
#include <cstdlib>

__constant__ float factors[4];
__device__ int counter;
__managed__ int common = 5;

__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factors[i % 4];
    atomicAdd(&counter, 1);
    if (i == 0) common += 37, printf("kernel %s\n", "prints");
}

template <typename T, int N> __global__ void set(T *x) { x[threadIdx.x] = N; }

__global__ void beyond(float *x) { x[1 << 28] = 1; }

__global__ void claims(int value) { assert(value == 1); }

static void add(void *value) { *static_cast<int *>(value) += 1; }

#define SHOW(call) printf("%s: %s\n", #call, cudaGetErrorName(call))

int main(int count, char **words) {
    float host[64], table[4] = {1, 2, 3, 4};
    int seen = 0, *pinned, *reached, *own = static_cast<int *>(malloc(100000)), called = 0;
    float *device;
    for (int i = 0; i < 64; i++) host[i] = i;
    cudaMemcpyToSymbol(factors, table, sizeof table);
    cudaMalloc(&device, sizeof host);
    cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    printf("before\n");
    scale<<<2, 32>>>(device, 63);
    printf("after\n");
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&seen, counter, sizeof seen);
    printf("%g %g %g %g, %d threads, %d\n", host[0], host[1], host[62], host[63], seen, common);
    cudaHostAlloc(&pinned, 256, cudaHostAllocMapped);
    cudaHostGetDevicePointer(&reached, pinned, 0);
    set<int, 7><<<1, 32>>>(reached);
    own[3] = 9;
    cudaHostRegister(own, 100000, cudaHostRegisterMapped);
    cudaHostGetDevicePointer(&reached, own, 0);
    set<int, 8><<<1, 32>>>(reached + 4);
    cudaDeviceSynchronize();
    printf("pinned %d, registered %d %d\n", pinned[31], own[3], own[35]);
    cudaHostUnregister(own);
    printf("unregistered %d %d\n", own[3], own[35]);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaLaunchHostFunc(stream, add, &called);
    cudaStreamSynchronize(stream);
    cudaEvent_t first, last;
    float milliseconds = -1;
    cudaEventCreate(&first), cudaEventCreate(&last);
    cudaEventRecord(first, stream), cudaEventRecord(last, stream);
    cudaEventElapsedTime(&milliseconds, first, last);
    cudaDeviceProp about;
    cudaGetDeviceProperties(&about, 0);
    printf("called %d, time %d, sm_%d%d\n", called, milliseconds >= 0, about.major, about.minor);
    scale<<<1, 2048>>>(device, 1);
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());
    SHOW(cudaMemcpy(device, host, 4 * sizeof host, cudaMemcpyHostToDevice));
    SHOW(cudaMalloc(&device, size_t(1) << 50));
    SHOW(cudaMallocMipmappedArray(nullptr, nullptr, {}, 1));
    cudaPointerAttributes pointer;
    cudaPointerGetAttributes(&pointer, device);
    printf("memory of kind %d\n", pointer.type);
    if (count > 1 && words[1][0] == 'a') claims<<<1, 2>>>(0);
    if (count > 1 && words[1][0] == 'b') beyond<<<1, 1>>>(device);
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaFree(device));
    return count;
}
