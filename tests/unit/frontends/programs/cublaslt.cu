// Calls cuBLASLt as programs do that fuse a layer: a product with bias and ReLU against a kernel, its gradient by the
// mask that it left, bytes and floats of 8 bits with factors, rows in place of columns, a captured call, wrong
// descriptors. Prints one line a subject.
#include <cstdio>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <vector>

enum { M = 64, N = 48, K = 32, MASK_LD = 128 };

// D = max(A^T B + bias, 0), by columns; A has K rows
__global__ void layer(const __half *A, const __half *B, const __half *bias, __half *D)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int step = 0; step < K; ++step)
        sum += __half2float(A[step + row * K]) * __half2float(B[step + column * K]);
    D[row + column * M] = __float2half(fmaxf(sum + __half2float(bias[row]), 0));
}

template <class T> static T *device(const std::vector<T> &values)
{
    T *made;
    cudaMalloc(&made, values.size() * sizeof(T));
    cudaMemcpy(made, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return made;
}

template <class T> static int wrong(const T *found, const std::vector<float> &expected)
{
    std::vector<T> values(expected.size());
    cudaMemcpy(values.data(), found, values.size() * sizeof(T), cudaMemcpyDeviceToHost);
    int count = 0;
    for (size_t i = 0; i < values.size(); ++i)
        count += float(values[i]) != expected[i];
    return count;
}

template <class T> static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, T value)
{
    if (cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) != CUBLAS_STATUS_SUCCESS)
        printf("attribute %d refused\n", attribute);
}

struct Layouts {
    cublasLtMatrixLayout_t a, b, d;
    Layouts(cudaDataType in, cudaDataType out)
    {
        cublasLtMatrixLayoutCreate(&a, in, K, M, K);
        cublasLtMatrixLayoutCreate(&b, in, K, N, K);
        cublasLtMatrixLayoutCreate(&d, out, M, N, M);
    }
    ~Layouts()
    {
        cublasLtMatrixLayoutDestroy(a);
        cublasLtMatrixLayoutDestroy(b);
        cublasLtMatrixLayoutDestroy(d);
    }
};

int main()
{
    std::vector<float> a(M * K), b(K * N), bias(M), c(M * N, 0), kept(M * N), plain(M * N);
    std::vector<__half> ha, hb, hbias, blank(M * N);
    std::vector<int8_t> ia, ib;
    std::vector<__nv_fp8_e4m3> fa, fb;
    for (size_t i = 0; i < a.size(); ++i)
        a[i] = int(i * 7 % 9) - 4, ha.push_back(__half(a[i])), ia.push_back(a[i]), fa.push_back(__nv_fp8_e4m3(a[i]));
    for (size_t i = 0; i < b.size(); ++i)
        b[i] = int(i * 5 % 7) - 3, hb.push_back(__half(b[i])), ib.push_back(b[i]), fb.push_back(__nv_fp8_e4m3(b[i]));
    for (int i = 0; i < M; ++i)
        bias[i] = i % 5 - 2, hbias.push_back(__half(bias[i]));
    for (int i = 0; i < M * N; ++i)
        for (int step = 0; step < K; ++step)
            plain[i] += a[step + i % M * K] * b[step + i / M * K];
    __half *A = device(ha), *B = device(hb), *Bias = device(hbias), *C = device(blank), *D = device(blank);
    layer<<<dim3(M / 16, N / 16), dim3(16, 16)>>>(A, B, Bias, C);
    std::vector<__half> expected(M * N);
    cudaMemcpy(expected.data(), C, 2 * M * N, cudaMemcpyDeviceToHost);
    for (int i = 0; i < M * N; ++i)
        c[i] = float(expected[i]), kept[i] = c[i] > 0 ? plain[i] : 0;

    cublasLtHandle_t handle;
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, Bias);
    uint8_t *mask = device(std::vector<uint8_t>(MASK_LD / 8 * N));
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask);
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(MASK_LD));
    Layouts halves(CUDA_R_16F, CUDA_R_16F), bytes(CUDA_R_8I, CUDA_R_32I), eights(CUDA_R_8F_E4M3, CUDA_R_16F);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    size_t room = 1 << 22;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    cublasLtMatmulHeuristicResult_t results[8];
    int count;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, halves.a, halves.b, halves.d, halves.d,
                                                           preference, 8, results, &count);
    printf("search %s, %d found\n", cublasLtGetStatusName(status), count);
    float one = 1, zero = 0, half = 0.5f;
    for (int i = 0; i < count; ++i) {
        cudaMemset(D, 0, 2 * M * N);
        status = cublasLtMatmul(handle, desc, &one, A, halves.a, B, halves.b, &zero, nullptr, halves.d, D, halves.d,
                                &results[i].algo, nullptr, results[i].workspaceSize, 0);
        printf("bias and ReLU %s, %d wrong\n", cublasLtGetStatusString(status), wrong(D, c));
    }
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DRELU);
    cublasLtMatmul(handle, desc, &one, A, halves.a, B, halves.b, &zero, D, halves.d, D, halves.d, nullptr, nullptr, 0,
                   0);
    printf("gradient by its mask, %d wrong\n", wrong(D, kept));

    cublasLtMatmulDescOpaque_t own; // in the program's memory
    cublasLtMatmulDescInit(&own, CUBLAS_COMPUTE_32I, CUDA_R_32I);
    set(&own, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    int whole = 1, none = 0, *sums = device(std::vector<int>(M * N));
    status = cublasLtMatmul(handle, &own, &whole, device(ia), bytes.a, device(ib), bytes.b, &none, sums, bytes.d, sums,
                            bytes.d, nullptr, nullptr, 0, 0);
    printf("bytes %s, %d wrong\n", cublasLtGetStatusName(status), wrong(sums, plain));

    cublasLtMatmulDescInit(&own, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(&own, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(&own, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, device(std::vector<float>{0.5f}));
    set(&own, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, device(std::vector<float>{4}));
    status = cublasLtMatmul(handle, &own, &half, device(fa), eights.a, device(fb), eights.b, &zero, D, eights.d, D,
                            eights.d, nullptr, nullptr, 0, 0);
    printf("floats of 8 bits %s, %d wrong\n", cublasLtGetStatusName(status), wrong(D, plain));

    // the same product with D by rows, captured, from a handle of cuBLAS
    cublasHandle_t other;
    cublasCreate(&other);
    int32_t order = CUBLASLT_ORDER_ROW;
    int64_t ld = N;
    cublasLtMatrixLayout_t rows;
    cublasLtMatrixLayoutCreate(&rows, CUDA_R_16F, M, N, ld);
    cublasLtMatrixLayoutSetAttribute(rows, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    cublasLtMatmulDescInit(&own, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(&own, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamCreate(&stream);
    cudaMemset(C, 0, 2 * M * N);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cublasLtMatmul((cublasLtHandle_t)other, &own, &one, A, halves.a, B, halves.b, &zero, C, rows, C, rows, nullptr,
                   nullptr, 0, stream);
    cudaStreamEndCapture(stream, &graph);
    one = 100; // a captured call keeps its numbers
    cudaGraphInstantiate(&executable, graph, 0);
    int before = wrong(C, std::vector<float>(M * N));
    cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    one = 1;
    cublasLtMatrixTransformDesc_t turn;
    cublasLtMatrixTransformDescCreate(&turn, CUDA_R_32F);
    cublasLtMatrixTransform(handle, turn, &one, C, rows, &zero, nullptr, nullptr, D, halves.d, 0);
    printf("by rows, captured, %d before; by columns again, %d wrong\n", before, wrong(D, plain));
    cublasLtMatrixTransformDescDestroy(turn);

    cublasLtMatmulAlgo_t algo;
    status = cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F,
                                    CUDA_R_16F, 0, &algo);
    cublasLtMatmulTile_t tile = CUBLASLT_MATMUL_TILE_128x128;
    cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile);
    tile = CUBLASLT_MATMUL_TILE_UNDEFINED;
    size_t written;
    cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &written);
    printf("algorithm %s, tile %d of %d bytes\n", cublasLtGetStatusName(status), tile, int(written));

    order = CUBLASLT_ORDER_COL32;
    cublasLtMatrixLayoutSetAttribute(rows, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    status = cublasLtMatmul(handle, &own, &one, A, halves.a, B, halves.b, &zero, C, rows, C, rows, nullptr, nullptr, 0,
                            0);
    printf("order %s\n", cublasLtGetStatusName(status));
    status = cublasLtMatmul(handle, &own, &one, A, halves.a, B, halves.a, &zero, D, halves.d, D, halves.d, nullptr,
                            nullptr, 0, 0);
    printf("shapes %s\n", cublasLtGetStatusName(status));
    status = cublasLtMatmul(handle, &own, &one, A, halves.a, B, halves.b, &zero, C + 16, halves.d, C + 16, halves.d,
                            nullptr, nullptr, 0, 0);
    printf("beyond %s\n", cublasLtGetStatusName(status));
    printf("nowhere %s\n", cublasLtGetStatusName(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 1, 1, 1)));
    cublasLtMatrixLayoutDestroy(rows);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    printf("versions %d %d, handle %s\n", int(cublasLtGetVersion()), int(cublasLtGetCudartVersion()) / 1000,
           cublasLtGetStatusName(cublasLtDestroy(handle) ? CUBLAS_STATUS_SUCCESS : cublasLtDestroy(handle)));
}
