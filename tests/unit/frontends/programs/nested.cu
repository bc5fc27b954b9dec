// Kernels that launch kernels: in order, into streams, behind the grid, too deep, too many, and wrongly.
#include <cstdio>

__global__ void inner(int *x, double scale, char add, int row) {
    if (threadIdx.x == 0)
        printf("inner %d\n", row);
    x[row * 32 + threadIdx.x] = int(row * scale) + int(threadIdx.x) + add;
}

__global__ void after(int *x) {
    if (threadIdx.x == 0)
        printf("after\n");
    x[threadIdx.x] += 1;
}

__global__ void outer(int *x) {
    if (threadIdx.x != 0)
        return;
    after<<<1, 32, 0, cudaStreamTailLaunch>>>(x);
    inner<<<1, 32>>>(x, 100.5, 'a', 0);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    inner<<<1, 32, 0, stream>>>(x, 100.5, 'a', 1);
    inner<<<1, 0>>>(x, 0, 0, 0);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaMemcpyAsync(x + 64, x + 32, 128, cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(x + 96, 1, 4, stream);
    cudaStreamDestroy(stream);
    int *more;
    printf("%d %d\n", cudaMalloc(&more, 100), more != nullptr);
    cudaFree(more);
}

__global__ void deeper(int *x, int level) {
    int *own = static_cast<int *>(alloca(level * 4 + 4));  // the stack too is of a size that only the run knows
    own[level] = level;
    x[128 + level] = own[level];
    deeper<<<1, 1>>>(x, level + 1);
    if (cudaError_t error = cudaGetLastError())
        printf("%d: %s, then %s\n", level, cudaGetErrorString(error), cudaGetErrorName(cudaPeekAtLastError()));
}

__global__ void beyond(int *x) {
    inner<<<1, 32, 0, cudaStreamFireAndForget>>>(x, 0, 0, 1000000);
}

int main(int argc, char **) {
    int *x, host[256];
    cudaMalloc(&x, sizeof host);
    cudaMemset(x, 0, sizeof host);
    outer<<<1, 32>>>(x);
    deeper<<<1, 1>>>(x, 0);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d %d %d\n", host[0], host[33], host[65], host[96], host[128 + 24], host[128 + 25]);
    if (argc > 1)
        beyond<<<1, 1>>>(x);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
