// Calls cuBLAS as programs do that judge their kernels by it: products against a kernel, all forms against each other,
// streams and graphs, numbers on the device, wrong arguments. Prints one line a subject.
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

enum { M = 65, N = 33, K = 47 };

__global__ void naive(const float *A, const float *B, float *C)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || column >= N)
        return;
    float sum = 0;
    for (int step = 0; step < K; ++step)
        sum += A[row + step * M] * B[step + column * K];
    C[row + column * M] = sum;
}

static int wrong(const float *device, const std::vector<float> &expected, float factor = 1)
{
    std::vector<float> found(expected.size());
    cudaMemcpy(found.data(), device, 4 * found.size(), cudaMemcpyDeviceToHost);
    int count = 0;
    for (size_t i = 0; i < found.size(); ++i)
        count += found[i] != factor * expected[i];
    return count;
}

int main()
{
    std::vector<float> a(M * K), b(K * N), c(M * N);
    std::vector<__half> halves(M * K), others(K * N);
    for (size_t i = 0; i < a.size(); ++i)
        halves[i] = __half(a[i] = int(i * 7 % 13) - 6);
    for (size_t i = 0; i < b.size(); ++i)
        others[i] = __half(b[i] = int(i * 5 % 11) - 5);
    float *A, *B, *C, *D, *numbers;
    __half *HA, *HB;
    cudaMalloc(&A, 4 * M * K);
    cudaMalloc(&B, 4 * K * N);
    cudaMalloc(&C, 2 * 4 * M * N);
    cudaMalloc(&D, 4 * M * N);
    cudaMalloc(&HA, 2 * M * K);
    cudaMalloc(&HB, 2 * K * N);
    cudaMalloc(&numbers, 8);
    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    cublasSetMatrix(M, K, 4, a.data(), M, A, M);
    cublasSetMatrix(K, N, 4, b.data(), K, B, K);
    cublasSetVector(M * K, 2, halves.data(), 1, HA, 1);
    cublasSetVector(K * N, 2, others.data(), 1, HB, 1);
    naive<<<dim3((M + 15) / 16, (N + 15) / 16), dim3(16, 16)>>>(A, B, D);
    cudaMemcpy(c.data(), D, 4 * M * N, cudaMemcpyDeviceToHost);

    float one = 1, zero = 0, two = 2;
    cublasStatus_t status = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, A, M, B, K, &zero, C, M);
    printf("sgemm %s, %d wrong\n", cublasGetStatusName(status), wrong(C, c));
    cublasOperation_t N_ = CUBLAS_OP_N;
    int64_t m = M, n = N, k = K, largest64;
    status = cublasSgemm_64(handle, N_, N_, m, n, k, &two, A, m, B, k, &zero, C, m);
    cublasIsamax_64(handle, m * n, C, 1, &largest64);
    printf("counts of 64 bits %s, %d wrong, largest at %d\n", cublasGetStatusName(status), wrong(C, c, 2),
           int(largest64));
    status = cublasGemmEx(handle, N_, N_, M, N, K, &one, HA, CUDA_R_16F, M, HB, CUDA_R_16F, K, &zero, C, CUDA_R_32F, M,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
    printf("halves %s, %d wrong\n", cublasGetStatusName(status), wrong(C, c));
    cublasGemmEx(handle, N_, N_, M, N, K, &one, A, CUDA_R_32F, M, B, CUDA_R_32F, K, &one, C, CUDA_R_32F, M, CUDA_R_32F,
                 CUBLAS_GEMM_DEFAULT);
    printf("added by a type of CUDA 10, %d wrong\n", wrong(C, c, 2));
    status = cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &two, A, M, 0, B, K, 0, &zero, C, M,
                                       M * N, 2);
    printf("strided %s, %d wrong\n", cublasGetStatusName(status), wrong(C, c, 2) + wrong(C + M * N, c, 2));
    const float *lefts[] = {A, A}, *rights[] = {B, B}, **places;
    float *results[] = {C + M * N, C};
    cudaMalloc(&places, 3 * sizeof lefts);
    cudaMemcpy(places, lefts, sizeof lefts, cudaMemcpyHostToDevice);
    cudaMemcpy(places + 2, rights, sizeof rights, cudaMemcpyHostToDevice);
    cudaMemcpy(places + 4, results, sizeof results, cudaMemcpyHostToDevice);
    cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, places, M, places + 2, K, &zero,
                       (float **)places + 4, M, 2);
    printf("batched, %d wrong\n", wrong(C, c) + wrong(C + M * N, c));

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cublasSetStream(handle, stream);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaMemset(C, 0, 4 * M * N);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, A, M, B, K, &one, C, M);
    cudaStreamEndCapture(stream, &graph);
    one = 100; // a captured call keeps its numbers
    cudaGraphInstantiate(&executable, graph, 0);
    int before = wrong(C, std::vector<float>(M * N));
    cudaGraphLaunch(executable, stream);
    cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    printf("captured, %d before, %d wrong\n", before, wrong(C, c, 2));
    one = 1;

    float pair[] = {1, 0}, norm;
    int largest;
    cudaMemcpy(numbers, pair, 8, cudaMemcpyHostToDevice);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, numbers, A, M, B, K, numbers + 1, C, M);
    cublasIsamax(handle, M * N, C, 1, (int *)numbers);
    cudaMemcpy(&largest, numbers, 4, cudaMemcpyDeviceToHost);
    cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST);
    cublasSnrm2(handle, 2, A, 1, &norm);
    printf("numbers on the device, %d wrong, largest at %d, norm %.4f\n", wrong(C, c), largest, norm);

    status = cublasSgemm(handle, N_, N_, M, N, K, &one, A, 1, B, K, &zero, C, M);
    printf("lda %s\n", cublasGetStatusName(status));
    status = cublasSgemm(handle, N_, N_, 4 * M, N, K, &one, A, 4 * M, B, K, &zero, C, 4 * M);
    printf("beyond %s\n", cublasGetStatusName(status));
    printf("handle %s\n", cublasGetStatusString(cublasDestroy(handle) ? CUBLAS_STATUS_SUCCESS : cublasDestroy(handle)));
}
