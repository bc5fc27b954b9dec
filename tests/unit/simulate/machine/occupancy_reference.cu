// The vendor's occupancy calculator for many cases at once: a thread a case, a row of `in` a field, a row of `out` an
// answer. The answers to one question are one kernel's.
#include <cuda_occupancy.h>

struct Case {
    cudaOccDeviceProp device;
    cudaOccFuncAttributes kernel;
    cudaOccDeviceState state;
    int block, dynamic;

    __device__ Case(const int *row, int cases)
    {
        auto next = [&] { const int value = *row; row += cases; return value; };
        device.computeMajor = next();
        device.computeMinor = next();
#ifdef MAJOR  // known to the compiler, which then has less to emit
        device.computeMajor = MAJOR;
        device.computeMinor = MINOR;
#endif
        device.maxThreadsPerBlock = next();
        device.maxThreadsPerMultiprocessor = next();
        device.regsPerBlock = next();
        device.regsPerMultiprocessor = next();
        device.warpSize = 32;
        device.sharedMemPerBlock = next();
        device.sharedMemPerMultiprocessor = next();
        device.numSms = next();
        device.sharedMemPerBlockOptin = next();
        device.reservedSharedMemPerBlock = next();
        block = next();
        dynamic = next();
        kernel.maxThreadsPerBlock = next();
        kernel.numRegs = next();
        kernel.sharedSizeBytes = next();
        kernel.maxDynamicSharedSizeBytes = next();
        kernel.shmemLimitConfig = static_cast<cudaOccFuncShmemConfig>(next());
        kernel.partitionedGCConfig = static_cast<cudaOccPartitionedGCConfig>(next());
        kernel.numBlockBarriers = next();
        kernel.virtualResourceCount = next();
        state.carveoutConfig = next();
        state.cacheConfig = static_cast<cudaOccCacheConfig>(next());
    }
};

template <int N> __device__ void answer(int *out, int cases, const int (&answers)[N])
{
    for (int a = 0; a < N; a++) out[a * cases] = answers[a];
}

// How many blocks are resident.
extern "C" __global__ void occupancy(const int *in, int *out, int cases)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cases) return;
    const Case c(in + i, cases);
    cudaOccResult result;
    memset(&result, 0, sizeof result);
    const int status =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &c.device, &c.kernel, &c.state, c.block, c.dynamic);
    answer(out + i, cases, {
        status,
        result.activeBlocksPerMultiprocessor,
        static_cast<int>(result.limitingFactors),
        result.blockLimitWarps,
        result.blockLimitRegs,
        result.blockLimitSharedMem,
        result.blockLimitBlocks,
        result.blockLimitBarriers,
        result.blockLimitVirtual,
        result.allocatedRegistersPerBlock,
        static_cast<int>(result.allocatedSharedMemPerBlock),
        result.partitionedGCConfig,
    });
}

// Which block to launch; `dynamic` is the bytes of dynamic shared memory for each thread.
extern "C" __global__ void suggestion(const int *in, int *out, int cases)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cases) return;
    const Case c(in + i, cases);
    int grid = 0, block = 0;
    const int status = cudaOccMaxPotentialOccupancyBlockSizeVariableSMem(
        &grid, &block, &c.device, &c.kernel, &c.state, [&](int threads) { return size_t(threads * c.dynamic); });
    answer(out + i, cases, {status, block, grid});
}

// How much dynamic shared memory there is room for; `dynamic` is the number of blocks.
extern "C" __global__ void room(const int *in, int *out, int cases)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cases) return;
    const Case c(in + i, cases);
    size_t bytes = 0;
    const int status =
        cudaOccAvailableDynamicSMemPerBlock(&bytes, &c.device, &c.kernel, &c.state, c.dynamic, c.block);
    answer(out + i, cases, {status, static_cast<int>(bytes)});
}
