// Two kernels on two streams write one buffer; words say what orders them, each with streams and a buffer of its own.
#include <cstdio>
#include <cstring>

__global__ void first(int *x) { x[threadIdx.x] = threadIdx.x; }
__global__ void second(int *x) { x[threadIdx.x] += 1; }

static void run(const char *order) {
    auto is = [&](const char *word) { return !strcmp(order, word); };
    int *x, host[32];
    cudaStream_t one, other;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    cudaMalloc(&x, sizeof host);
    if (is("graph")) {
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
        first<<<1, 32, 0, one>>>(x);
        second<<<1, 32, 0, one>>>(x);
        cudaStreamEndCapture(one, &graph), cudaGraphInstantiate(&ready, graph, 0);
        cudaGraphLaunch(ready, one), cudaGraphLaunch(ready, one);
        second<<<1, 32, 0, one>>>(x);
    } else {
        first<<<1, 32, 0, one>>>(x);
        if (is("event")) cudaEventRecord(event, one), cudaStreamWaitEvent(other, event, 0);
        if (is("late")) cudaStreamWaitEvent(other, event, 0), cudaEventRecord(event, one);
        if (is("stream")) cudaStreamSynchronize(one);
        if (is("device")) cudaDeviceSynchronize();
        if (is("copy")) cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, one);
        if (is("default")) cudaMemcpy(host, host, sizeof host, cudaMemcpyHostToHost); // waits for no other stream
        second<<<1, 32, 0, other>>>(x);
    }
    cudaDeviceSynchronize();
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d\n", host[31]);
}

int main(int, char **words) {
    while (*++words) run(*words);
}
