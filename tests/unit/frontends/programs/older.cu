// Calls as programs make them that were built for CUDA 12: names and parameters that CUDA 13 changed.
#include <cstdio>
#include <cuda.h>
#undef cuCtxCreate
#undef cuEventElapsedTime

// `cudaDeviceProp` of CUDA 12, up to its multiprocessors.
struct Properties {
    char name[256], uuid[16], luid[8];
    unsigned mask;
    size_t memory, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clockRate;
    size_t constant;
    int major, minor;
    size_t alignment, pitchAlignment;
    int overlap, multiprocessors;
    char others[1024];
};

extern "C" {
cudaError_t cudaGetDeviceProperties_v2(Properties *properties, int device);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,
                                        const cudaGraphNode_t **, size_t *);
cudaError_t cudaThreadSynchronize(void);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
}

__global__ void ten(int *x, int digit) { *x = *x * 10 + digit; }

static void *arguments(int *&x, int &digit) {
    static void *given[2];
    given[0] = &x, given[1] = &digit;
    return given;
}

static cudaGraphNode_t node(cudaGraph_t graph, int *x, int digit) {
    cudaKernelNodeParams what{};
    what.func = (void *)ten, what.gridDim = what.blockDim = dim3(1);
    what.kernelParams = (void **)arguments(x, digit);
    cudaGraphNode_t made;
    cudaGraphAddKernelNode(&made, graph, nullptr, 0, &what);
    return made;
}

int main() {
    Properties of;
    printf("%d ", cudaGetDeviceProperties_v2(&of, 0));
    printf("%d.%d %d MHz %d\n", of.major, of.minor, of.clockRate / 1000, of.multiprocessors);

    int *x, found;
    cudaMalloc(&x, 4);
    cudaMemset(x, 0, 4);
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphNode_t second = node(graph, x, 2), first = node(graph, x, 1);
    auto depend = (cudaError_t(*)(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *,
                                  size_t))cudaGraphAddDependencies;
    printf("%d ", depend(graph, &first, &second, 1));
    cudaGraphExec_t made;
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphLaunch(made, 0);
    cudaThreadSynchronize();
    cudaMemcpy(&found, x, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", found);

    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    printf("%d ", cudaStreamGetCaptureInfo_v2(0, &status, nullptr, nullptr, nullptr, nullptr));
    CUcontext context = nullptr;
    printf("%d ", cuCtxCreate_v2(&context, 0, 0));
    printf("%d %d\n", status, context != nullptr);
    printf("%d\n", cuMipmappedArrayCreate(nullptr, nullptr, 0));
}
