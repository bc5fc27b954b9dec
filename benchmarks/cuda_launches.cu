// Launches a kernel many times, each with a stream, an event and memory of its own; `cuda_launches.py` watches.
#include <cstdio>
#include <cstdlib>

__global__ void add(int *sum, const int *one) { atomicAdd(sum, *one); }

static void launches(int count, int *sum, const int *one) {
    for (int i = 0; i < count; i++) {
        cudaStream_t stream;
        cudaEvent_t event;
        int *copy;
        cudaStreamCreate(&stream), cudaEventCreate(&event);
        cudaMallocAsync(&copy, 4, stream);
        cudaMemcpyAsync(copy, one, 4, cudaMemcpyDeviceToDevice, stream);
        add<<<1, 32, 0, stream>>>(sum, copy);
        cudaEventRecord(event, stream), cudaStreamSynchronize(stream);
        cudaFreeAsync(copy, stream), cudaEventDestroy(event), cudaStreamDestroy(stream);
    }
}

// A line, once the one who watches has read it.
static void mark(const char *text, int number) {
    printf("%s %d\n", text, number);
    fflush(stdout);
    getchar();
}

int main(int, char **words) {
    int warm = atoi(words[1]), count = atoi(words[2]), *numbers;
    cudaMallocManaged(&numbers, 8);
    numbers[0] = 0, numbers[1] = 1;
    launches(warm, numbers, numbers + 1), mark("warm", numbers[0]);
    launches(count, numbers, numbers + 1), mark("done", numbers[0]);
    return cudaDeviceSynchronize();
}
