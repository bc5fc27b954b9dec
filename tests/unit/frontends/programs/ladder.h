// What a ladder of kernels shares: one file starts them by number, and another judges them by cuBLAS.
#pragma once
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

// C of float, M x N, = A, M x K, times the transpose of B, N x K; all by rows.
struct Product {
    __nv_bfloat16 *a, *b;
    float *c;
    int m, n, k;
};

void run(int rung, const Product &product, cublasHandle_t handle);
