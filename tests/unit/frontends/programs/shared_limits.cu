// Static and dynamic shared memory at the limits of a launch; prints the error of each, and what is allowed.
#include <cooperative_groups.h>
#include <cstdio>

extern __shared__ int dynamic[];

__global__ void takes(int *out, int count)
{
    __shared__ int fixed[1024]; // 4 KiB
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) fixed[i] = i;
    for (int i = threadIdx.x; i < count; i += blockDim.x) dynamic[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) *out = fixed[1023] + (count ? dynamic[count - 1] : 0);
}

static int *out;

static void launched(const char *how, int bytes, cudaError_t error)
{
    int found = -1;
    if (error == cudaSuccess) error = cudaGetLastError();
    cudaGetLastError();
    if (error == cudaSuccess) cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost);
    printf("%s %d: %s %d\n", how, bytes, cudaGetErrorName(error), found);
}

static void plain(int bytes)
{
    takes<<<1, 64, bytes>>>(out, bytes / 4);
    launched("plain", bytes, cudaSuccess);
}

static void allow(int bytes)
{
    cudaError_t error = cudaFuncSetAttribute(takes, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaGetLastError();
    cudaFuncAttributes found;
    cudaFuncGetAttributes(&found, takes);
    printf("allow %d: %s %d\n", bytes, cudaGetErrorName(error), found.maxDynamicSharedSizeBytes);
}

int main()
{
    cudaMalloc(&out, sizeof *out);
    cudaFuncAttributes found;
    cudaFuncGetAttributes(&found, takes);
    printf("static %d, by default %d\n", (int)found.sharedSizeBytes, found.maxDynamicSharedSizeBytes);
    plain(44 * 1024);
    plain(44 * 1024 + 4);
    allow(223 * 1024 + 4);
    allow(64 * 1024);
    plain(64 * 1024);
    plain(64 * 1024 + 4);
    int count = 16 * 1024;
    void *arguments[] = {&out, &count};
    launched("cooperative", 64 * 1024, cudaLaunchCooperativeKernel((void *)takes, 1, 64, arguments, 64 * 1024, 0));
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = 64, config.dynamicSmemBytes = 64 * 1024;
    launched("extended", 64 * 1024, cudaLaunchKernelEx(&config, takes, out, count));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    takes<<<1, 64, 64 * 1024, stream>>>(out, count);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
    launched("graph", 64 * 1024, cudaGraphLaunch(ready, stream));
    allow(223 * 1024);
    plain(223 * 1024);
    takes<<<1, 2048>>>(out, 0);
    launched("threads", 2048, cudaSuccess);
}
