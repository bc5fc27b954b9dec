// Launches a kernel many times: the program waits for an answer to the first of them only.
#include <cstdio>
#include <cstring>
#include <thread>

__global__ void add(int *sum, int what) { *sum = 2 * *sum % 1000003 + what; }
__global__ void fail(int *sum, int *place) { *sum += 1, *place = 7; }

static int expected = 0, *sum;

static void add_many(int count) {
    for (int i = 0; i < count; i++) add<<<1, 1>>>(sum, i), expected = 2 * expected % 1000003 + i;
}

static void compare(const char *what) {
    int found;
    cudaMemcpy(&found, sum, 4, cudaMemcpyDeviceToHost);
    printf("%s: %d of %d\n", what, found == expected, cudaGetLastError());
}

int main(int count, char **words) {
    cudaMalloc(&sum, 4), cudaMemset(sum, 0, 4);
    add_many(100), compare("launches");
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cudaStreamCreate(&stream);
    for (int i = 0; i < 3; i++) add<<<1, 1, 0, stream>>>(sum, 5), expected = 2 * expected % 1000003 + 5;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < 3; i++) add<<<1, 1, 0, stream>>>(sum, 5); // do not run now
    cudaStreamEndCapture(stream, &graph), cudaGraphInstantiate(&made, graph, 0);
    compare("captured");
    cudaGraphLaunch(made, stream), cudaStreamSynchronize(stream);
    for (int i = 0; i < 3; i++) expected = 2 * expected % 1000003 + 5;
    compare("graph");
    for (int i = 0; i < 2; i++) {
        add<<<1, 2048>>>(sum, 1);
        printf("refused: %d\n", cudaGetLastError());
    }
    add_many(20);
    std::thread(add_many, 20).join(); // in order, after those of this thread
    add_many(20), compare("threads");
    int *place = sum;
    for (int i = 0; i < 5; i++) {
        fail<<<1, 1>>>(sum, place);
        if (i == 2) place = nullptr;
    }
    printf("launched: %d\n", cudaPeekAtLastError());
    if (count > 1 && !strcmp(words[1], "leave")) return 0;
    printf("waited: %d %d\n", cudaDeviceSynchronize(), cudaMalloc(&place, 4));
}
