// A kernel that launches a kernel.
#include <cstdio>

__global__ void inner(int *x) { *x = 7; }

__global__ void outer(int *x) {
    if (threadIdx.x == 0)
        inner<<<1, 1>>>(x);
}

int main() {
    int *x, host = 0;
    cudaMalloc(&x, sizeof host);
    cudaMemset(x, 0, sizeof host);
    outer<<<1, 32>>>(x);
    puts(cudaGetErrorName(cudaGetLastError()));
    inner<<<1, 1>>>(x);
    cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %s\n", host, cudaGetErrorName(cudaGetLastError()));
}
