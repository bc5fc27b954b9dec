// Threads that come and go while others call, and a function of the host that launches.
#include <cstdio>
#include <thread>
#include <vector>

__global__ void count(int *sum) { *sum += 1; }

static int *sum;

static void launch(void *) {
    for (int i = 0; i < 3; i++) count<<<1, 1>>>(sum);
}

static void ask() {
    int device;
    for (int i = 0; i < 5; i++) cudaGetDevice(&device);
}

static int counted() {
    int found = -1;
    cudaMemcpy(&found, sum, 4, cudaMemcpyDeviceToHost);
    return found;
}

int main() {
    cudaStream_t stream;
    cudaMalloc(&sum, 4), cudaMemset(sum, 0, 4), cudaStreamCreate(&stream);
    count<<<1, 1>>>(sum);
    cudaLaunchHostFunc(stream, launch, nullptr), cudaDeviceSynchronize();
    printf("called: %d\n", counted());
    for (int round = 0; round < 30; round++) {
        std::vector<std::thread> all;
        for (int i = 0; i < 4; i++) all.emplace_back(ask);
        for (auto &one : all) one.join();
    }
    count<<<1, 1>>>(sum);
    printf("threads: %d, %d\n", counted(), cudaGetLastError());
}
