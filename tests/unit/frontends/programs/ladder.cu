// Judges the kernels whose numbers are its arguments by cuBLAS, and times them.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ladder.h>

int main(int count, char **words)
{
    Product of{nullptr, nullptr, nullptr, 128, 64, 192}, judge;
    std::vector<__nv_bfloat16> a(of.m * of.k), b(of.n * of.k);
    std::vector<float> c(of.m * of.n), expected(of.m * of.n);
    for (__nv_bfloat16 &one : a) one = float(rand() % 9 - 4);
    for (__nv_bfloat16 &one : b) one = float(rand() % 9 - 4);
    cudaMalloc(&of.a, a.size() * 2);
    cudaMalloc(&of.b, b.size() * 2);
    cudaMalloc(&of.c, c.size() * 4);
    judge = of;
    cudaMalloc(&judge.c, c.size() * 4);
    cudaMemcpy(of.a, a.data(), a.size() * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(of.b, b.data(), b.size() * 2, cudaMemcpyHostToDevice);
    cublasHandle_t handle;
    cudaEvent_t start, stop;
    if (cublasCreate(&handle)) return 1;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    run(0, judge, handle);
    cudaMemcpy(expected.data(), judge.c, c.size() * 4, cudaMemcpyDeviceToHost);
    for (int at = 1; at < count; at++) {
        float elapsed = -1;
        int wrong = 0;
        cudaMemset(of.c, 255, c.size() * 4);
        cudaEventRecord(start);
        for (int repeat = 0; repeat < 3; repeat++) run(atoi(words[at]), of, handle);
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&elapsed, start, stop);
        cudaMemcpy(c.data(), of.c, c.size() * 4, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < c.size(); i++) wrong += c[i] != expected[i];
        const char *error = cudaGetErrorName(cudaGetLastError());
        printf("rung %s: %s, %d wrong, timed %d\n", words[at], error, wrong, elapsed >= 0);
    }
    cublasDestroy(handle);
}
