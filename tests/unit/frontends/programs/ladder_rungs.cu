// Kernels by number, as programs that teach products have them: cuBLAS, a plain one, one of warp groups.
#include <cuda.h>
#include <stdint.h>
#include <stdexcept>

#include <ladder.h>

constexpr int TILE = 64;

__global__ void plain(Product of)
{
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < of.k; i++)
        sum += __bfloat162float(of.a[row * of.k + i]) * __bfloat162float(of.b[column * of.k + i]);
    of.c[row * of.n + column] = sum;
}

__device__ uint32_t shared(const void *at) { return uint32_t(__cvta_generic_to_shared(at)); }

__device__ void load(const void *to, const CUtensorMap &map, int x, int y, const uint64_t &barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(shared(to)), "l"(&map), "r"(x), "r"(y), "r"(shared(&barrier)) : "memory");
}

__device__ void wait(const uint64_t &barrier, int phase)
{
    for (int done = 0; !done;)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(shared(&barrier)), "r"(phase) : "memory");
}

#define FOUR(at) "+f"(sums[at]), "+f"(sums[at + 1]), "+f"(sums[at + 2]), "+f"(sums[at + 3])

__device__ void multiply(float (&sums)[32], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, 1, 1, 1, 0, 0;"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28) : "l"(a), "l"(b));
}

// Rows of 128 bytes, swizzled: eight rows are 1024 bytes.
__device__ uint64_t described(const void *at) { return shared(at) >> 4 | 64ull << 32 | 1ull << 62; }

__global__ void __launch_bounds__(128)
    grouped(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, Product of)
{
    __shared__ alignas(1024) __nv_bfloat16 left[TILE * TILE], right[TILE * TILE];
    __shared__ uint64_t barrier;
    int row = blockIdx.y * TILE, column = blockIdx.x * TILE, lane = threadIdx.x % 32;
    float sums[32] = {};
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async;" ::"r"(shared(&barrier)) : "memory");
    __syncthreads();
    for (int step = 0; step < of.k / TILE; step++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&barrier)),
                         "r"(uint32_t(sizeof left + sizeof right)) : "memory");
            load(left, a, step * TILE, row, barrier);
            load(right, b, step * TILE, column, barrier);
        }
        wait(barrier, step % 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int part = 0; part < TILE; part += 16)
            multiply(sums, described(left + part), described(right + part));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        // No barrier: the product is the warpgroup's, so no warp goes on before all of them have read their operands.
    }
    row += threadIdx.x / 32 * 16 + lane / 4, column += lane % 4 * 2;
    for (int at = 0; at < 32; at++)
        of.c[(row + at / 2 % 2 * 8) * of.n + column + at / 4 * 8 + at % 2] = sums[at];
}

CUtensorMap mapped(__nv_bfloat16 *matrix, int rows, int columns)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status);
    CUtensorMap map;
    cuuint64_t sizes[] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[] = {2ull * columns};
    cuuint32_t box[] = {TILE, TILE}, steps[] = {1, 1};
    CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        throw std::runtime_error("no tensor map");
    return map;
}

void run(int rung, const Product &of, cublasHandle_t handle)
{
    float one = 1, zero = 0;
    switch (rung) {
    case 0:
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, of.n, of.m, of.k, &one, of.b, CUDA_R_16BF, of.k,
                     of.a, CUDA_R_16BF, of.k, &zero, of.c, CUDA_R_32F, of.n, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT_TENSOR_OP);
        break;
    case 1:
        plain<<<dim3(of.n / 16, of.m / 16), dim3(16, 16)>>>(of);
        break;
    case 2:
        grouped<<<dim3(of.n / TILE, of.m / TILE), 128>>>(mapped(of.a, of.m, of.k), mapped(of.b, of.n, of.k), of);
        break;
    default:
        throw std::invalid_argument("no such rung");
    }
}
