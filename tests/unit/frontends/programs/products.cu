// Products by cuBLAS and no kernel: three alike, a batch of two, halves, complex numbers, and one by cuBLASLt.

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>

int main()
{
    const int m = 64, n = 128, k = 256;
    const float one = 1, zero = 0;
    const cuComplex complex_one = {1, 0}, complex_zero = {0, 0};
    char *a, *b, *c;
    const float **lists;
    cudaMalloc(&a, m * k * 4);
    cudaMalloc(&b, k * n * 4);
    cudaMalloc(&c, m * n * 4);
    cudaMemset(a, 0, m * k * 4);
    cudaMemset(b, 0, k * n * 4);
    cudaMallocManaged(&lists, 4 * sizeof *lists);
    lists[0] = lists[1] = (float *)a;
    lists[2] = lists[3] = (float *)b;
    float **results;
    cudaMallocManaged(&results, 2 * sizeof *results);
    results[0] = results[1] = (float *)c;
    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 1;
    for (int i = 0; i < 3; ++i)
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, (float *)a, m, (float *)b, k, &zero,
                    (float *)c, m);
    cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, lists, m, lists + 2, k, &zero, results, m, 2);
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, CUDA_R_16F, m, b, CUDA_R_16F, k, &zero, c,
                 CUDA_R_16F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasCgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, &complex_one, (cuComplex *)a, 32, (cuComplex *)b, 32,
                &complex_zero, (cuComplex *)c, 32);
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t left, right, result;
    cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&left, CUDA_R_32F, m, k, m);
    cublasLtMatrixLayoutCreate(&right, CUDA_R_32F, k, n, k);
    cublasLtMatrixLayoutCreate(&result, CUDA_R_32F, m, n, m);
    if (cublasLtMatmul((cublasLtHandle_t)handle, product, &one, a, left, b, right, &zero, c, result, c, result, 0, 0, 0,
                       0) != CUBLAS_STATUS_SUCCESS)
        return 2;
    return cudaDeviceSynchronize() != cudaSuccess;
}
