"""The runtime's functions that the simulated GPU answers: a table of prototypes and of the driver's call each one is.

What the driver's call takes is what the runtime's takes, in its order. Where it is not, the answer has the runtime's
name, in `runtime`. All other functions of the runtime are refused, with their name.

Source: CUDA Runtime API; `cuda_runtime_api.h`.
"""

from __future__ import annotations

#: Prototype, and the driver's call; "" where the answer is in `runtime`.
ROWS: tuple[tuple[str, str], ...] = (
    ("cudaDriverGetVersion(int *driverVersion)", "cuDriverGetVersion"),
    ("cudaRuntimeGetVersion(int *runtimeVersion)", "cuDriverGetVersion"),
    ("cudaGetLastError()", ""),
    ("cudaPeekAtLastError()", ""),
    # Devices
    ("cudaGetDeviceCount(int *count)", "cuDeviceGetCount"),
    ("cudaGetDevice(int *device)", ""),
    ("cudaSetDevice(int device)", ""),
    ("cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)", ""),
    ("cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, CUdevice device)", "cuDeviceGetAttribute"),
    ("cudaGetDeviceProperties(void *prop, int device)", ""),
    ("cudaGetDeviceProperties_v2(void *prop, int device)", ""),
    ("cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)", "cuDeviceGetByPCIBusId"),
    ("cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)", "cuDeviceGetPCIBusId"),
    ("cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)", ""),
    ("cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)", "cuCtxEnablePeerAccess"),
    ("cudaDeviceGetLimit(size_t *pValue, cudaLimit limit)", "cuCtxGetLimit"),
    ("cudaDeviceSetLimit(cudaLimit limit, size_t value)", "cuCtxSetLimit"),
    ("cudaDeviceGetStreamPriorityRange(int *least, int *greatest)", "cuCtxGetStreamPriorityRange"),
    ("cudaDeviceSynchronize()", "cuCtxSynchronize"),
    ("cudaDeviceReset()", ""),
    ("cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)", "cuDeviceGetDefaultMemPool"),
    ("cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)", "cuDeviceGetMemPool"),
    ("cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)", "cuDeviceSetMemPool"),
    ("cudaProfilerStart()", "cuProfilerStart"),
    ("cudaProfilerStop()", "cuProfilerStop"),
    # Memory
    ("cudaMemGetInfo(size_t *free, size_t *total)", "cuMemGetInfo"),
    ("cudaMalloc(void **devPtr, size_t size)", ""),
    ("cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)", ""),
    ("cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)", "cuMemAllocManaged"),
    ("cudaMallocHost(void **ptr, size_t size)", ""),
    ("cudaHostAlloc(void **pHost, size_t size, unsigned int flags)", ""),
    ("cudaHostRegister(void *ptr, size_t size, unsigned int flags)", "cuMemHostRegister"),
    ("cudaHostUnregister(void *ptr)", "cuMemHostUnregister"),
    ("cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)", "cuMemHostGetDevicePointer"),
    ("cudaHostGetFlags(unsigned int *pFlags, void *pHost)", "cuMemHostGetFlags"),
    ("cudaFree(void *devPtr)", ""),
    ("cudaFreeHost(void *ptr)", ""),
    ("cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)", ""),
    ("cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)", ""),
    ("cudaFreeAsync(void *devPtr, cudaStream_t hStream)", ""),
    ("cudaMemPoolCreate(cudaMemPool_t *memPool, const void *poolProps)", "cuMemPoolCreate"),
    ("cudaMemPoolDestroy(cudaMemPool_t memPool)", "cuMemPoolDestroy"),
    ("cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)", "cuMemPoolTrimTo"),
    ("cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void *value)", "cuMemPoolGetAttribute"),
    ("cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void *value)", "cuMemPoolSetAttribute"),
    ("cudaMemPrefetchAsync(const void *devPtr, size_t count, unsigned long long location, unsigned int flags, "
     "cudaStream_t stream)", "cuMemPrefetchAsync"),
    ("cudaMemAdvise(const void *devPtr, size_t count, cudaMemoryAdvise advice, unsigned long long location)",
     "cuMemAdvise"),
    ("cudaPointerGetAttributes(void *attributes, const void *ptr)", ""),
    ("cudaMemcpy(void *dst, const void *src, size_t count, cudaMemcpyKind kind)", ""),
    ("cudaMemcpyAsync(void *dst, const void *src, size_t count, cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)", "cuMemcpyPeer"),
    ("cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count, "
     "cudaStream_t stream)", "cuMemcpyPeerAsync"),
    ("cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, "
     "cudaMemcpyKind kind)", ""),
    ("cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, "
     "cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaMemset(void *devPtr, int value, size_t count)", "cuMemsetD8"),
    ("cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)", "cuMemsetD8Async"),
    # Code
    ("cudaLibraryUnload(cudaLibrary_t library)", "cuLibraryUnload"),
    ("cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)", "cuLibraryGetKernel"),
    ("cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)", "cuLibraryGetKernelCount"),
    ("cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)",
     "cuLibraryGetGlobal"),
    ("cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)",
     "cuLibraryGetManaged"),
    # Streams and events
    ("cudaStreamCreate(cudaStream_t *pStream)", ""),
    ("cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)", "cuStreamCreate"),
    ("cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)",
     "cuStreamCreateWithPriority"),
    ("cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)", "cuStreamGetFlags"),
    ("cudaStreamGetPriority(cudaStream_t hStream, int *priority)", "cuStreamGetPriority"),
    ("cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)", "cuStreamGetId"),
    ("cudaStreamGetDevice(cudaStream_t hStream, int *device)", "cuStreamGetDevice"),
    ("cudaStreamDestroy(cudaStream_t stream)", "cuStreamDestroy"),
    ("cudaStreamSynchronize(cudaStream_t stream)", "cuStreamSynchronize"),
    ("cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags)",
     "cuStreamAddCallback"),
    ("cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)", "cuLaunchHostFunc"),
    ("cudaStreamQuery(cudaStream_t stream)", "cuStreamQuery"),
    ("cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)", "cuStreamWaitEvent"),
    ("cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)", "cuStreamBeginCapture"),
    ("cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)", "cuStreamEndCapture"),
    ("cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *pCaptureStatus)", "cuStreamIsCapturing"),
    ("cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)",
     "cuGraphInstantiateWithFlags"),
    ("cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)", "cuGraphUpload"),
    ("cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)", "cuGraphLaunch"),
    ("cudaGraphDestroy(cudaGraph_t graph)", "cuGraphDestroy"),
    ("cudaGraphExecDestroy(cudaGraphExec_t graphExec)", "cuGraphExecDestroy"),
    ("cudaEventCreate(cudaEvent_t *event)", ""),
    ("cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)", "cuEventCreate"),
    ("cudaEventDestroy(cudaEvent_t event)", "cuEventDestroy"),
    ("cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)", "cuEventElapsedTime"),
    ("cudaEventQuery(cudaEvent_t event)", "cuEventQuery"),
    ("cudaEventRecord(cudaEvent_t event, cudaStream_t stream)", "cuEventRecord"),
    ("cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)",
     "cuEventRecordWithFlags"),
    ("cudaEventSynchronize(cudaEvent_t event)", "cuEventSynchronize"),
)  # fmt: skip

#: Functions that take a kernel, for programs whose kernels are known here.
OF_KERNELS: tuple[tuple[str, str], ...] = (
    ("cudaFuncSetAttribute(cudaFunction_t func, cudaFuncAttribute attr, int value)", "cuFuncSetAttribute"),
    ("cudaFuncSetCacheConfig(cudaFunction_t func, cudaFuncCache config)", "cuFuncSetCacheConfig"),
    ("cudaFuncSetSharedMemConfig(cudaFunction_t func, cudaSharedMemConfig config)", "cuFuncSetSharedMemConfig"),
    ("cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cudaFunction_t func, int threads, size_t dynamic)",
     "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, cudaFunction_t func, int threads, "
     "size_t dynamic, unsigned int flags)", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"),
    ("cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, cudaFunction_t func, int blocks, int threads)",
     "cuOccupancyAvailableDynamicSMemPerBlock"),
    ("cudaLaunchKernelExC(const void *config, cudaFunction_t func, void *args)", "cuLaunchKernelEx"),
)  # fmt: skip
