// Graphs, captured and made node by node, and the driver's API; the numbers printed are sums that can be done by hand.
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void add(int *x, int value) { x[threadIdx.x] += value; }

static void host(void *value) { *static_cast<int *>(value) += 1; }

static const char *PTX = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 factor = 3;
.visible .entry times(.param .u64 x) {
  .reg .b32 %r<5>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3]; ld.global.u32 %r3, [factor]; mul.lo.u32 %r4, %r2, %r3; st.global.u32 [%rd3], %r4; ret;
})";

static int first(const int *x) {
    int value;
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}

static void graphs(int *x) {
    cudaStream_t stream, other;
    cudaEvent_t event;
    cudaGraph_t graph, made, child;
    cudaGraphExec_t ready;
    size_t count = 0;
    int called = 0;
    cudaStreamCreate(&stream), cudaStreamCreate(&other), cudaEventCreate(&event);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(x, 0, 128, stream);
    add<<<1, 32, 0, stream>>>(x, 5);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event, 0);
    add<<<1, 32, 0, other>>>(x, 20);
    cudaLaunchHostFunc(other, host, &called);
    cudaEventRecord(event, other);
    cudaStreamWaitEvent(stream, event, 0);
    cudaStreamCaptureStatus status;
    cudaGraph_t growing;
    cudaStreamGetCaptureInfo(stream, &status, nullptr, &growing);
    cudaStreamEndCapture(stream, &graph);
    cudaStreamDestroy(other);
    cudaGraphGetNodes(graph, nullptr, &count);
    printf("captured %zu nodes, nothing done: %d, %d%d\n", count, first(x), status, growing == graph);
    cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphLaunch(ready, stream), cudaGraphLaunch(ready, stream);
    cudaStreamSynchronize(stream);
    printf("launched: %d, called %d\n", first(x), called);

    int value = 100;
    void *arguments[] = {&x, &value};
    cudaKernelNodeParams launch = {};
    launch.func = (void *)add, launch.gridDim = dim3(1), launch.blockDim = dim3(32), launch.kernelParams = arguments;
    cudaMemsetParams clear = {};
    clear.dst = x, clear.value = 7, clear.elementSize = 4, clear.width = 32, clear.height = 1;
    cudaGraphNode_t adding, clearing, inner;
    cudaGraphCreate(&made, 0), cudaGraphCreate(&child, 0);
    cudaGraphAddKernelNode(&adding, made, nullptr, 0, &launch);
    cudaGraphAddMemsetNode(&clearing, made, nullptr, 0, &clear);
    cudaGraphAddDependencies(made, &clearing, &adding, nullptr, 1);
    value = 1000;
    cudaGraphAddKernelNode(&inner, child, nullptr, 0, &launch);
    cudaGraphAddChildGraphNode(&inner, made, &adding, 1, child);
    cudaGraphInstantiate(&ready, made, 0);
    cudaGraphLaunch(ready, stream);
    printf("made: %d\n", first(x));

    cudaGraph_t holding;
    cudaGraphNode_t held, filled, copied, freed;
    cudaMemAllocNodeParams memory = {};
    memory.bytesize = 128;
    cudaGraphCreate(&holding, 0);
    cudaGraphAddMemAllocNode(&held, holding, nullptr, 0, &memory);
    clear.dst = memory.dptr, clear.value = 9;
    cudaGraphAddMemsetNode(&filled, holding, &held, 1, &clear);
    cudaGraphAddMemcpyNode1D(&copied, holding, &filled, 1, x, memory.dptr, 128, cudaMemcpyDeviceToDevice);
    printf("free: %d", cudaGraphAddMemFreeNode(&freed, holding, &copied, 1, x));
    printf(" %d\n", cudaGraphAddMemFreeNode(&freed, holding, &copied, 1, memory.dptr));
    cudaGraphInstantiate(&ready, holding, 0);
    cudaGraphLaunch(ready, stream), cudaGraphLaunch(ready, stream);
    printf("held: %d\n", first(x));
    cudaGraphDestroy(holding);
    unsigned long long bytes[3];
    auto held_bytes = [] {
        unsigned long long now;
        cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &now);
        return now;
    };
    bytes[0] = held_bytes();
    cudaGraphExecDestroy(ready);
    bytes[1] = held_bytes();
    // one that nothing in the graph gives back is there until the program does
    cudaGraphCreate(&holding, 0);
    cudaGraphAddMemAllocNode(&held, holding, nullptr, 0, &memory);
    cudaGraphInstantiate(&ready, holding, 0);
    cudaGraphLaunch(ready, stream);
    cudaGraphExecDestroy(ready), cudaGraphDestroy(holding);
    bytes[2] = held_bytes();
    cudaFree(memory.dptr);
    printf("kept: %llu %llu %llu %llu\n", bytes[0], bytes[1], bytes[2], held_bytes());
}

static void driver() {
    CUmodule module;
    CUfunction function;
    CUdeviceptr x, factor;
    size_t size;
    int values[32], threads = 0;
    for (int &value : values) value = 14;
    cuInit(0);
    printf("no such kernel: %d\n", cuModuleLoadData(&module, PTX) || cuModuleGetFunction(&function, module, "none"));
    cuModuleGetFunction(&function, module, "times");
    cuModuleGetGlobal(&factor, &size, module, "factor");
    cuMemAlloc(&x, sizeof values);
    cuMemcpyHtoD(x, values, sizeof values);
    void *arguments[] = {&x};
    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    cuMemsetD32(factor, 2, 1);
    size_t bytes = sizeof x;
    void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &x, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, packed);
    cuMemcpyDtoH(values, x, sizeof values);
    cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    const char *name;
    cuGetErrorName(cuMemFree(12345), &name);
    printf("driver: %d, variable of %zu bytes, %d threads, %s\n", values[31], size, threads, name);
}

// What libraries in a process ask of the driver too.
static void libraries() {
    CUlibrary library;
    CUkernel kernel;
    CUlinkState link;
    CUmodule module;
    CUfunction function;
    unsigned kernels = 0;
    const char *name = "";
    void *pinned, *code;
    size_t bytes;
    unsigned short words[4];
    cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0);
    cuLibraryGetKernelCount(&kernels, library);
    cuLibraryGetKernel(&kernel, library, "times");
    cuKernelGetName(&name, kernel);
    cuLinkCreate(0, nullptr, nullptr, &link);
    cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)PTX, strlen(PTX) + 1, "one", 0, nullptr, nullptr);
    cuLinkComplete(link, &code, &bytes);
    cuModuleLoadData(&module, code);
    int found = cuModuleGetFunction(&function, module, "times");
    cudaMallocHost(&pinned, 64);
    cudaPointerAttributes of;
    cudaPointerGetAttributes(&of, pinned);
    cuMemsetD16((CUdeviceptr)pinned, 0x1234, 4);
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE, rows.srcDevice = (CUdeviceptr)pinned, rows.srcPitch = 4;
    rows.dstMemoryType = CU_MEMORYTYPE_HOST, rows.dstHost = words, rows.dstPitch = 2;
    rows.WidthInBytes = 2, rows.Height = 2;
    int copied = cuMemcpy2D(&rows);
    printf("%u kernel %s, linked %d, memory %d, rows %d %x\n", kernels, name, found, of.type, copied, words[1]);
}

int main() {
    int *x;
    cudaMalloc(&x, 128);
    cudaMemset(x, 0, 128);
    graphs(x);
    driver();
    libraries();
}
