"""The runtime functions that the simulated GPU implements: a table of prototypes and equivalent driver functions.

A driver function in the table has the same parameters, in the same order. A runtime function without an equivalent is
implemented under its own name, in `runtime`, `graphs` or `textures`. All other runtime functions are refused by name.

Source: CUDA Runtime API; `cuda_runtime_api.h`.
"""

from __future__ import annotations

#: Prototype, and the driver's call; "" where the answer has the name of the runtime.
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
    ("cudaChooseDevice(int *device, const void *prop)", ""),
    ("cudaSetDeviceFlags(unsigned int flags)", ""),
    ("cudaGetDeviceFlags(unsigned int *flags)", ""),
    ("cudaDeviceGetCacheConfig(cudaFuncCache *config)", ""),
    ("cudaDeviceSetCacheConfig(cudaFuncCache config)", "cuCtxSetCacheConfig"),
    ("cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config)", ""),
    ("cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config)", "cuCtxSetSharedMemConfig"),
    ("cudaCtxResetPersistingL2Cache()", "cuCtxResetPersistingL2Cache"),
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
    ("cudaMemPoolSetAccess(cudaMemPool_t memPool, const void *descList, size_t count)", "cuMemPoolSetAccess"),
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
    ("cudaMalloc3D(cudaPitchedPtr *pitchedDevPtr, cudaExtent extent)", ""),
    ("cudaMemcpy3D(const cudaMemcpy3DParms *p)", "cuMemcpy3D"),
    ("cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream)", "cuMemcpy3DAsync"),
    ("cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)", "cuMemsetD2D8"),
    ("cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)",
     "cuMemsetD2D8Async"),
    ("cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent)", ""),
    ("cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream)", ""),
    # Arrays, textures, surfaces
    ("cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width, size_t height, "
     "unsigned int flags)", ""),
    ("cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, cudaExtent extent, unsigned int "
     "flags)", ""),
    ("cudaFreeArray(cudaArray_t array)", ""),
    ("cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned int *flags, cudaArray_t array)", ""),
    ("cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_t array)", ""),
    ("cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t "
     "width, size_t height, cudaMemcpyKind kind)", ""),
    ("cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, "
     "size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_t src, size_t wOffset, size_t hOffset, size_t "
     "width, size_t height, cudaMemcpyKind kind)", ""),
    ("cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_t src, size_t wOffset, size_t hOffset, "
     "size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_t src, size_t "
     "wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, cudaMemcpyKind kind)", ""),
    ("cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count, "
     "cudaMemcpyKind kind)", ""),
    ("cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count, "
     "cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaMemcpyFromArray(void *dst, cudaArray_t src, size_t wOffset, size_t hOffset, size_t count, "
     "cudaMemcpyKind kind)", ""),
    ("cudaMemcpyFromArrayAsync(void *dst, cudaArray_t src, size_t wOffset, size_t hOffset, size_t count, "
     "cudaMemcpyKind kind, cudaStream_t stream)", ""),
    ("cudaCreateTextureObject(cudaTextureObject_t *pTexObject, const cudaResourceDesc *pResDesc, const "
     "cudaTextureDesc *pTexDesc, const void *pResViewDesc)", "cuTexObjectCreate"),
    ("cudaDestroyTextureObject(cudaTextureObject_t texObject)", "cuTexObjectDestroy"),
    ("cudaGetTextureObjectResourceDesc(cudaResourceDesc *pResDesc, cudaTextureObject_t texObject)",
     "cuTexObjectGetResourceDesc"),
    ("cudaGetTextureObjectTextureDesc(cudaTextureDesc *pTexDesc, cudaTextureObject_t texObject)",
     "cuTexObjectGetTextureDesc"),
    ("cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject, const cudaResourceDesc *pResDesc)",
     "cuSurfObjectCreate"),
    ("cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)", "cuSurfObjectDestroy"),
    ("cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *pResDesc, cudaSurfaceObject_t surfObject)",
     "cuSurfObjectGetResourceDesc"),
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
    ("cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, const void *value)", ""),
    ("cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags)",
     "cuStreamAttachMemAsync"),
    ("cudaStreamSynchronize(cudaStream_t stream)", "cuStreamSynchronize"),
    ("cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags)",
     "cuStreamAddCallback"),
    ("cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)", "cuLaunchHostFunc"),
    ("cudaStreamQuery(cudaStream_t stream)", "cuStreamQuery"),
    ("cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)", "cuStreamWaitEvent"),
    ("cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)", "cuStreamBeginCapture"),
    ("cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)", "cuStreamEndCapture"),
    ("cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *pCaptureStatus)", "cuStreamIsCapturing"),
    ("cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, "
     "cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edgeData, size_t "
     "*numDependencies)", "cuStreamGetCaptureInfo_v3"),
    ("cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)", "cuThreadExchangeStreamCaptureMode"),
    # Graphs
    ("cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)", "cuGraphCreate"),
    ("cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)", "cuGraphClone"),
    ("cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph)",
     "cuGraphNodeFindInClone"),
    ("cudaGraphGetNodes(cudaGraph_t graph, void *nodes, void *numNodes)", "cuGraphGetNodes"),
    ("cudaGraphGetRootNodes(cudaGraph_t graph, void *pRootNodes, void *pNumRootNodes)", "cuGraphGetRootNodes"),
    ("cudaGraphGetEdges(cudaGraph_t graph, void *from, void *to, void *edgeData, void *numEdges)",
     "cuGraphGetEdges_v2"),
    ("cudaGraphNodeGetDependencies(cudaGraphNode_t node, void *pDependencies, void *edgeData, void "
     "*pNumDependencies)", "cuGraphNodeGetDependencies_v2"),
    ("cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, void *pDependentNodes, void *edgeData, void "
     "*pNumDependentNodes)", "cuGraphNodeGetDependentNodes_v2"),
    ("cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *pType)", "cuGraphNodeGetType"),
    ("cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const "
     "cudaGraphEdgeData *edgeData, size_t numDependencies)", "cuGraphAddDependencies_v2"),
    ("cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, "
     "const cudaGraphEdgeData *edgeData, size_t numDependencies)", "cuGraphRemoveDependencies_v2"),
    ("cudaGraphDestroyNode(cudaGraphNode_t node)", "cuGraphDestroyNode"),
    ("cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, const cudaKernelNodeParams *pNodeParams)", "cuGraphAddKernelNode"),
    ("cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, const cudaMemcpy3DParms *pCopyParams)", "cuGraphAddMemcpyNode"),
    ("cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, void *dst, const void *src, size_t count, cudaMemcpyKind kind)", ""),
    ("cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, const cudaMemsetParams *pMemsetParams)", "cuGraphAddMemsetNode"),
    ("cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, "
     "size_t numDependencies, const cudaHostNodeParams *pNodeParams)", "cuGraphAddHostNode"),
    ("cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, "
     "size_t numDependencies)", "cuGraphAddEmptyNode"),
    ("cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, cudaGraph_t childGraph)", "cuGraphAddChildGraphNode"),
    ("cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)", "cuGraphChildGraphNodeGetGraph"),
    ("cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, void *nodeParams)", "cuGraphAddMemAllocNode"),
    ("cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t "
     "*pDependencies, size_t numDependencies, void *dptr)", "cuGraphAddMemFreeNode"),
    ("cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *pNodeParams)",
     "cuGraphKernelNodeSetParams"),
    ("cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *pNodeParams)",
     "cuGraphMemcpyNodeSetParams"),
    ("cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *pNodeParams)",
     "cuGraphMemsetNodeSetParams"),
    ("cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *pNodeParams)",
     "cuGraphHostNodeSetParams"),
    ("cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const "
     "cudaKernelNodeParams *pNodeParams)", "cuGraphExecKernelNodeSetParams"),
    ("cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemcpy3DParms "
     "*pNodeParams)", "cuGraphExecMemcpyNodeSetParams"),
    ("cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemsetParams "
     "*pNodeParams)", "cuGraphExecMemsetNodeSetParams"),
    ("cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaHostNodeParams "
     "*pNodeParams)", "cuGraphExecHostNodeSetParams"),
    ("cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, void *resultInfo)", "cuGraphExecUpdate_v2"),
    ("cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr, void *value)",
     "cuDeviceGetGraphMemAttribute"),
    ("cudaDeviceGraphMemTrim(int device)", "cuDeviceGraphMemTrim"),
    ("cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)",
     "cuGraphInstantiateWithFlags"),
    ("cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy, unsigned int "
     "initialRefcount, unsigned int flags)", "cuUserObjectCreate"),
    ("cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)", "cuUserObjectRetain"),
    ("cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)", "cuUserObjectRelease"),
    ("cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int "
     "flags)", "cuGraphRetainUserObject"),
    ("cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)",
     "cuGraphReleaseUserObject"),
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
    ("cudaFuncGetAttributes(void *attr, cudaFunction_t func)", ""),
    ("cudaLaunchKernel(cudaFunction_t func, dim3 gridDim, dim3 blockDim, void *args, size_t sharedMem, "
     "cudaStream_t stream)", ""),
    ("cudaLaunchCooperativeKernel(cudaFunction_t func, dim3 gridDim, dim3 blockDim, void *args, size_t sharedMem, "
     "cudaStream_t stream)", ""),
)  # fmt: skip

#: Functions that take a variable, for programs whose variables are known here.
OF_VARIABLES: tuple[tuple[str, str], ...] = (
    ("cudaGetSymbolAddress(void **devPtr, cudaSymbol_t symbol)", ""),
    ("cudaGetSymbolSize(size_t *size, cudaSymbol_t symbol)", ""),
    ("cudaMemcpyToSymbol(cudaSymbol_t symbol, const void *src, size_t count, size_t offset, cudaMemcpyKind kind)", ""),
    ("cudaMemcpyToSymbolAsync(cudaSymbol_t symbol, const void *src, size_t count, size_t offset, cudaMemcpyKind "
     "kind, cudaStream_t stream)", ""),
    ("cudaMemcpyFromSymbol(void *dst, cudaSymbol_t symbol, size_t count, size_t offset, cudaMemcpyKind kind)", ""),
    ("cudaMemcpyFromSymbolAsync(void *dst, cudaSymbol_t symbol, size_t count, size_t offset, cudaMemcpyKind kind, "
     "cudaStream_t stream)", ""),
)  # fmt: skip
