// The vendor's occupancy calculator for many cases at once: a thread a case, a row of `in` a field, a row of `out` an answer.
#include <cuda_occupancy.h>

extern "C" __global__ void reference(const int *in, int *out, int cases)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cases) return;

    cudaOccDeviceProp device;
    cudaOccFuncAttributes kernel;
    cudaOccDeviceState state;
    cudaOccResult result;
    memset(&result, 0, sizeof result);

    const int *row = in + i;
    auto next = [&] { const int value = *row; row += cases; return value; };
    device.computeMajor = next();
    device.computeMinor = next();
    device.maxThreadsPerBlock = next();
    device.maxThreadsPerMultiprocessor = next();
    device.regsPerBlock = next();
    device.regsPerMultiprocessor = next();
    device.warpSize = 32;
    device.sharedMemPerBlock = next();
    device.sharedMemPerMultiprocessor = next();
    device.numSms = 1;
    device.sharedMemPerBlockOptin = next();
    device.reservedSharedMemPerBlock = next();
    const int block = next();
    const int dynamic = next();
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = next();
    kernel.sharedSizeBytes = next();
    kernel.maxDynamicSharedSizeBytes = next();
    kernel.shmemLimitConfig = static_cast<cudaOccFuncShmemConfig>(next());
    kernel.partitionedGCConfig = static_cast<cudaOccPartitionedGCConfig>(next());
    kernel.numBlockBarriers = next();
    kernel.virtualResourceCount = next();
    state.carveoutConfig = next();
    state.cacheConfig = static_cast<cudaOccCacheConfig>(next());

    const int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, dynamic);

    const int answers[] = {
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
    };
    for (int a = 0; a < int(sizeof answers / sizeof *answers); a++) out[a * cases + i] = answers[a];
}
