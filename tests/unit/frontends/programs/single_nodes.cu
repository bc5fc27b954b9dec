// A texture and a graph of single nodes by the driver's API, as test_cupy.py has them in Python.
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void sample(cudaTextureObject_t picture, float *out, int width) {
    out[threadIdx.y * width + threadIdx.x] = tex2D<float>(picture, threadIdx.x + 1.0f, threadIdx.y + 0.5f);
}

__global__ void add(float *out, float value) { out[threadIdx.x] += value; }

int main() {
    float numbers[12], found[32], *out;
    for (int i = 0; i < 12; i++) numbers[i] = float(i * i);
    cudaMalloc(&out, sizeof found);

    CUDA_ARRAY3D_DESCRIPTOR shape = {4, 3, 0, CU_AD_FORMAT_FLOAT, 1, 0}, same;
    CUarray array;
    cuArray3DCreate(&array, &shape);
    cuArray3DGetDescriptor(&same, array);
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = numbers, copy.srcPitch = 16;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
    copy.WidthInBytes = 16, copy.Height = 3, copy.Depth = 1;
    cuMemcpy3D(&copy);
    CUDA_RESOURCE_DESC resource = {}, described = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC sampling = {};
    sampling.addressMode[0] = sampling.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;
    CUtexObject picture;
    cuTexObjectCreate(&picture, &resource, &sampling, nullptr);
    cuTexObjectGetResourceDesc(&described, picture);
    sample<<<1, dim3(4, 3)>>>(picture, out, 4);
    cudaMemcpy(found, out, 48, cudaMemcpyDeviceToHost);
    printf("%g %g %g, %zu channels %u, %d\n", found[0], found[3], found[10], same.Width, same.NumChannels,
           described.res.array.hArray == array);

    CUgraph graph;
    CUgraphNode cleared, added, again;
    CUgraphExec ready;
    CUcontext context;
    CUfunction function;
    cuCtxGetCurrent(&context);
    function = (CUfunction)add; // as CUDA's runtime allows for kernels
    cuGraphCreate(&graph, 0);
    CUDA_MEMSET_NODE_PARAMS clear = {};
    clear.dst = (CUdeviceptr)out, clear.elementSize = 4, clear.width = 32, clear.height = 1;
    cuGraphAddMemsetNode(&cleared, graph, nullptr, 0, &clear, context);
    float value = 2.5f;
    void *arguments[] = {&out, &value};
    CUDA_KERNEL_NODE_PARAMS launch = {};
    launch.func = function, launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
    launch.blockDimX = 32, launch.blockDimY = launch.blockDimZ = 1, launch.kernelParams = arguments;
    cuGraphAddKernelNode(&added, graph, &cleared, 1, &launch);
    cuGraphAddKernelNode(&again, graph, &added, 1, &launch);
    cuGraphInstantiate(&ready, graph, 0);
    for (int i = 0; i < 2; i++) cuGraphLaunch(ready, nullptr);
    cudaMemcpy(found, out, 128, cudaMemcpyDeviceToHost);
    printf("%g ", found[31]);
    value = 10;
    cuGraphExecKernelNodeSetParams(ready, again, &launch);
    cuGraphLaunch(ready, nullptr);
    cudaMemcpy(found, out, 128, cudaMemcpyDeviceToHost);
    printf("%g\n", found[31]);
}
