// Clusters that a launch names, and those that a kernel does; each block reads what its neighbour in the cluster has.
#include <cstdio>

__device__ void told_by_the_next(int *out) {
    __shared__ int mine;
    unsigned rank = __clusterRelativeBlockRank(), blocks = __clusterSizeInBlocks();
    mine = 100 * blockIdx.x;
    __cluster_barrier_arrive(), __cluster_barrier_wait();
    int *next = static_cast<int *>(__cluster_map_shared_rank(&mine, (rank + 1) % blocks));
    out[blockIdx.x] = *next + rank * 10 + blocks;
    __cluster_barrier_arrive(), __cluster_barrier_wait();
}

__global__ void named_at_launch(int *out) { told_by_the_next(out); }
__global__ void __cluster_dims__(2, 1, 1) named_by_kernel(int *out) { told_by_the_next(out); }

static int *device;

static void show(const char *what) {
    int host[8];
    cudaError_t error = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s:", what);
    for (int value : host) printf(" %d", value);
    printf(" %s\n", cudaGetErrorName(error));
    cudaMemset(device, 0, sizeof host);
}

int main() {
    cudaMalloc(&device, 32 * sizeof(int));
    cudaMemset(device, 0, 32 * sizeof(int));
    named_by_kernel<<<8, 1>>>(device), show("kernel");
    for (unsigned blocks : {1, 4, 3, 0, 16, 8, 16, 32}) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = blocks, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks > 8 ? blocks : 8), config.blockDim = dim3(1);
        config.attrs = &attribute, config.numAttrs = 1;
        cudaError_t error = cudaLaunchKernelEx(&config, named_at_launch, device);
        if (error) printf("%u: %s\n", blocks, cudaGetErrorName(error)), cudaGetLastError();
        else show("launch");
        if (blocks == 8) cudaFuncSetAttribute(named_at_launch, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
}
