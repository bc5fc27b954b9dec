/* The vendor's occupancy calculator behind one function, so that a test can call it. */

#include <cuda_occupancy.h>

/* out: active blocks, limiting factors, then the limits of warps, registers, shared memory, blocks, barriers. */
int reference(int major, int minor, int threads_per_block, int threads_per_sm, int registers_per_block,
              int registers_per_sm, int shared_per_block, int shared_per_sm, int shared_optin, int shared_reserved,
              int registers, int shared, int block, int barriers, int *out)
{
    struct cudaOccDeviceProp device = {0};
    struct cudaOccFuncAttributes kernel = {0};
    struct cudaOccDeviceState state = {0};
    struct cudaOccResult result = {0};
    int status;

    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = threads_per_block;
    device.maxThreadsPerMultiprocessor = threads_per_sm;
    device.regsPerBlock = registers_per_block;
    device.regsPerMultiprocessor = registers_per_sm;
    device.warpSize = 32;
    device.sharedMemPerBlock = shared_per_block;
    device.sharedMemPerMultiprocessor = shared_per_sm;
    device.numSms = 1;
    device.sharedMemPerBlockOptin = shared_optin;
    device.reservedSharedMemPerBlock = shared_reserved;

    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = registers;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared;
    kernel.numBlockBarriers = barriers;

    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;

    status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, shared);
    out[0] = result.activeBlocksPerMultiprocessor;
    out[1] = (int)result.limitingFactors;
    out[2] = result.blockLimitWarps;
    out[3] = result.blockLimitRegs;
    out[4] = result.blockLimitSharedMem;
    out[5] = result.blockLimitBlocks;
    out[6] = result.blockLimitBarriers;
    return status;
}
