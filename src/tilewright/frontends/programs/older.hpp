// Functions of CUDA 12 whose names CUDA 13 gave up, or gave other parameters. Programs that were built for CUDA 12 call
// them.
//
// Source: cuda_runtime_api.h and cuda.h of CUDA 12.9 and 13.5.
#if CUDART_VERSION >= 13000
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuMemAdvise
#undef cuMemPrefetchAsync

static CUmemLocation on(CUdevice device) {
    CUmemLocation found{};
    found.type = CU_MEM_LOCATION_TYPE_DEVICE, found.id = device;
    return found;
}

extern "C" {

cudaError_t CUDARTAPI cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }

cudaError_t CUDARTAPI cudaThreadExit(void) { return cudaDeviceReset(); }

cudaError_t CUDARTAPI cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end) {
    return cudaEventElapsedTime(ms, start, end);
}

cudaError_t CUDARTAPI cudaMemPrefetchAsync_v2(const void *memory, size_t size, cudaMemLocation where, unsigned flags,
                                              cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, size, where, flags, stream);
}

cudaError_t CUDARTAPI cudaMemAdvise_v2(const void *memory, size_t size, cudaMemoryAdvise advice,
                                       cudaMemLocation where) {
    return cudaMemAdvise(memory, size, advice, where);
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                                  unsigned long long *number, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **before, const cudaGraphEdgeData **edges,
                                                  size_t *count) {
    return cudaStreamGetCaptureInfo(stream, status, number, graph, before, edges, count);
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                                  unsigned long long *number, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **before, size_t *count) {
    return cudaStreamGetCaptureInfo(stream, status, number, graph, before, nullptr, count);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v4(context, nullptr, flags, device);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned flags,
                                CUdevice device) {
    return count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v4(context, nullptr, flags, device);
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *number, CUdevice device) { return cuDeviceGetUuid_v2(number, device); }

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(ms, start, end);
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr memory, size_t size, CUmem_advise advice, CUdevice device) {
    return cuMemAdvise_v2(memory, size, advice, on(device));
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr memory, size_t size, CUdevice device, CUstream stream) {
    return cuMemPrefetchAsync_v2(memory, size, on(device), 0, stream);
}

} // extern "C"
#endif
