"""Prototypes of the driver's functions that the simulated GPU implements for code in C.

Addresses of structures, arrays and host buffers are `void *` here. A structure of eight bytes passed by value is a
number. An implementation is found by the function's name without its version. Versions of one function are in order.

Source: CUDA Driver API; `cuda.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROTOTYPES: tuple[str, ...] = (
    "cuInit(unsigned int Flags)",
    "cuDriverGetVersion(int *driverVersion)",
    "cuGetErrorString(CUresult error, const char **pStr)",
    "cuGetErrorName(CUresult error, const char **pStr)",
    "cuGetExportTable(const void **ppExportTable, const void *pExportTableId)",
    "cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags)",
    "cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags, "
    "CUdriverProcAddressQueryResult *symbolStatus)",
    # Devices
    "cuDeviceGet(CUdevice *device, int ordinal)",
    "cuDeviceGetCount(int *count)",
    "cuDeviceGetName(char *name, int len, CUdevice dev)",
    "cuDeviceGetUuid_v2(void *uuid, CUdevice dev)",
    "cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)",
    "cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)",
    "cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)",
    "cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)",
    "cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)",
    "cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)",
    "cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)",
    "cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)",
    "cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)",
    "cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)",
    # Contexts
    "cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)",
    "cuDevicePrimaryCtxRelease_v2(CUdevice dev)",
    "cuDevicePrimaryCtxReset_v2(CUdevice dev)",
    "cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)",
    "cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)",
    "cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)",
    "cuCtxCreate_v3(CUcontext *pctx, void *paramsArray, int numParams, unsigned int flags, CUdevice dev)",
    "cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned int flags, CUdevice dev)",
    "cuCtxDestroy_v2(CUcontext ctx)",
    "cuCtxGetCurrent(CUcontext *pctx)",
    "cuCtxSetCurrent(CUcontext ctx)",
    "cuCtxPushCurrent_v2(CUcontext ctx)",
    "cuCtxPopCurrent_v2(CUcontext *pctx)",
    "cuCtxGetDevice(CUdevice *device)",
    "cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)",
    "cuCtxGetFlags(unsigned int *flags)",
    "cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)",
    "cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)",
    "cuCtxSynchronize()",
    "cuCtxGetLimit(size_t *pvalue, CUlimit limit)",
    "cuCtxSetLimit(CUlimit limit, size_t value)",
    "cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)",
    "cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)",
    "cuProfilerStart()",
    "cuProfilerStop()",
    # Code
    "cuModuleLoad(CUmodule *module, const char *fname)",
    "cuModuleLoadData(CUmodule *module, const void *image)",
    "cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, void *options, void *values)",
    "cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)",
    "cuModuleUnload(CUmodule hmod)",
    "cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)",
    "cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)",
    "cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)",
    "cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)",
    "cuLibraryLoadData(CUlibrary *library, const void *code, void *jitOptions, void *jitOptionsValues, "
    "unsigned int numJitOptions, void *libraryOptions, void *libraryOptionValues, unsigned int numLibraryOptions)",
    "cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, void *jitOptions, void *jitOptionsValues, "
    "unsigned int numJitOptions, void *libraryOptions, void *libraryOptionValues, unsigned int numLibraryOptions)",
    "cuLibraryUnload(CUlibrary library)",
    "cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)",
    "cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)",
    "cuLibraryEnumerateKernels(void *kernels, unsigned int numKernels, CUlibrary lib)",
    "cuLibraryGetModule(CUmodule *pMod, CUlibrary library)",
    "cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)",
    "cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)",
    "cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)",
    "cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)",
    "cuKernelGetName(const char **name, CUkernel hfunc)",
    "cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)",
    "cuKernelGetParamCount(CUkernel kernel, size_t *paramCount)",
    "cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)",
    "cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)",
    "cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)",
    "cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)",
    "cuFuncGetName(const char **name, CUfunction hfunc)",
    "cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)",
    "cuFuncGetParamCount(CUfunction func, size_t *paramCount)",
    "cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)",
    "cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)",
    "cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)",
    "cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)",
    "cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)",
    "cuFuncLoad(CUfunction function)",
    "cuLinkCreate_v2(unsigned int numOptions, void *options, void *optionValues, CUlinkState *stateOut)",
    "cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, "
    "unsigned int numOptions, void *options, void *optionValues)",
    "cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions, "
    "void *options, void *optionValues)",
    "cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)",
    "cuLinkDestroy(CUlinkState state)",
    # Launches
    "cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
    "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, "
    "CUstream hStream, void *kernelParams, void *extra)",
    "cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, "
    "unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, "
    "CUstream hStream, void *kernelParams)",
    "cuLaunchKernelEx(const void *config, CUfunction f, void *kernelParams, void *extra)",
    "cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, "
    "size_t dynamicSMemSize)",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, "
    "size_t dynamicSMemSize, unsigned int flags)",
    "cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, "
    "CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)",
    "cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)",
    # Tensor maps
    "cuTensorMapEncodeTiled(void *tensorMap, CUtensorMapDataType tensorDataType, unsigned int tensorRank, "
    "void *globalAddress, const unsigned long long *globalDim, const unsigned long long *globalStrides, "
    "const unsigned int *boxDim, const unsigned int *elementStrides, CUtensorMapInterleave interleave, "
    "CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)",
    # Memory
    "cuMemGetInfo_v2(size_t *free, size_t *total)",
    "cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)",
    "cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, "
    "unsigned int ElementSizeBytes)",
    "cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)",
    "cuMemFree_v2(CUdeviceptr dptr)",
    "cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)",
    "cuMemAllocHost_v2(void **pp, size_t bytesize)",
    "cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)",
    "cuMemFreeHost(void *p)",
    "cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)",
    "cuMemHostUnregister(void *p)",
    "cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)",
    "cuMemHostGetFlags(unsigned int *pFlags, void *p)",
    "cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)",
    "cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)",
    "cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)",
    "cuMemPoolCreate(CUmemoryPool *pool, const void *poolProps)",
    "cuMemPoolDestroy(CUmemoryPool pool)",
    "cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)",
    "cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)",
    "cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)",
    "cuMemPoolSetAccess(CUmemoryPool pool, const void *map, size_t count)",
    "cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)",
    "cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, unsigned long long location, unsigned int flags, "
    "CUstream hStream)",
    "cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)",
    "cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, unsigned long long location)",
    "cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)",
    "cuPointerGetAttributes(unsigned int numAttributes, void *attributes, void *data, CUdeviceptr ptr)",
    "cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)",
    "cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)",
    "cuMemcpyPeer(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount)",
    "cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, "
    "size_t ByteCount, CUstream hStream)",
    "cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)",
    "cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)",
    "cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)",
    "cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)",
    "cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)",
    "cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)",
    "cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)",
    "cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)",
    "cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)",
    "cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)",
    "cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)",
    "cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)",
    "cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)",
    "cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount)",
    "cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)",
    "cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)",
    "cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)",
    "cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)",
    "cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)",
    "cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)",
    "cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)",
    "cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, "
    "CUstream hStream)",
    "cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, "
    "CUstream hStream)",
    "cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, "
    "CUstream hStream)",
    # Arrays, textures, surfaces
    "cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)",
    "cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)",
    "cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)",
    "cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)",
    "cuArrayDestroy(CUarray hArray)",
    "cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, "
    "const CUDA_TEXTURE_DESC *pTexDesc, const void *pResViewDesc)",
    "cuTexObjectDestroy(CUtexObject texObject)",
    "cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)",
    "cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)",
    "cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)",
    "cuSurfObjectDestroy(CUsurfObject surfObject)",
    "cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)",
    "cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)",
    "cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)",
    "cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)",
    "cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)",
    "cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)",
    "cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)",
    # Streams and events
    "cuStreamCreate(CUstream *phStream, unsigned int Flags)",
    "cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)",
    "cuStreamDestroy_v2(CUstream hStream)",
    "cuStreamSynchronize(CUstream hStream)",
    "cuStreamQuery(CUstream hStream)",
    "cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)",
    "cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)",
    "cuStreamGetPriority(CUstream hStream, int *priority)",
    "cuStreamGetFlags(CUstream hStream, unsigned int *flags)",
    "cuStreamGetId(CUstream hStream, unsigned long long *streamId)",
    "cuStreamGetDevice(CUstream hStream, CUdevice *device)",
    "cuStreamGetCtx(CUstream hStream, CUcontext *pctx)",
    "cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)",
    "cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)",
    "cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)",
    "cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, unsigned long long *id_out, "
    "CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out)",
    "cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, unsigned long long *id_out, "
    "CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, "
    "size_t *numDependencies_out)",
    "cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)",
    "cuGraphCreate(CUgraph *phGraph, unsigned int flags)",
    "cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)",
    "cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)",
    "cuGraphGetNodes(CUgraph hGraph, void *nodes, void *numNodes)",
    "cuGraphGetRootNodes(CUgraph hGraph, void *rootNodes, void *numRootNodes)",
    "cuGraphGetEdges(CUgraph hGraph, void *from, void *to, void *numEdges)",
    "cuGraphGetEdges_v2(CUgraph hGraph, void *from, void *to, void *edgeData, void *numEdges)",
    "cuGraphNodeGetDependencies(CUgraphNode hNode, void *dependencies, void *numDependencies)",
    "cuGraphNodeGetDependencies_v2(CUgraphNode hNode, void *dependencies, void *edgeData, void *numDependencies)",
    "cuGraphNodeGetDependentNodes(CUgraphNode hNode, void *dependentNodes, void *numDependentNodes)",
    "cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, void *dependentNodes, void *edgeData, void *numDependentNodes)",
    "cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)",
    "cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)",
    "cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, "
    "const CUgraphEdgeData *edgeData, size_t numDependencies)",
    "cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)",
    "cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, "
    "const CUgraphEdgeData *edgeData, size_t numDependencies)",
    "cuGraphDestroyNode(CUgraphNode hNode)",
    "cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)",
    "cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)",
    "cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)",
    "cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)",
    "cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies)",
    "cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, CUgraph childGraph)",
    "cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)",
    "cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, void *nodeParams)",
    "cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, "
    "size_t numDependencies, CUdeviceptr dptr)",
    "cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)",
    "cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)",
    "cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)",
    "cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)",
    "cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode, "
    "const CUDA_KERNEL_NODE_PARAMS *nodeParams)",
    "cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, "
    "CUcontext ctx)",
    "cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, "
    "const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)",
    "cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)",
    "cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, void *resultInfo)",
    "cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)",
    "cuDeviceGraphMemTrim(CUdevice device)",
    "cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)",
    "cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, void *instantiateParams)",
    "cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)",
    "cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)",
    "cuGraphDestroy(CUgraph hGraph)",
    "cuGraphExecDestroy(CUgraphExec hGraphExec)",
    "cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount, "
    "unsigned int flags)",
    "cuUserObjectRetain(CUuserObject object, unsigned int count)",
    "cuUserObjectRelease(CUuserObject object, unsigned int count)",
    "cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)",
    "cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)",
    "cuEventCreate(CUevent *phEvent, unsigned int Flags)",
    "cuEventDestroy_v2(CUevent hEvent)",
    "cuEventRecord(CUevent hEvent, CUstream hStream)",
    "cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)",
    "cuEventQuery(CUevent hEvent)",
    "cuEventSynchronize(CUevent hEvent)",
    "cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)",
)

#: Versions of functions with other parameters than the version before: the CUDA version that has them first.
SINCE: Mapping[str, int] = MappingProxyType(
    {
        "cuGetProcAddress_v2": 12000, "cuCtxCreate_v3": 11040, "cuCtxCreate_v4": 12050, "cuCtxGetDevice_v2": 13000,
        "cuMemPrefetchAsync_v2": 12020, "cuMemAdvise_v2": 12020,
        "cuStreamGetCaptureInfo_v3": 12030, "cuGraphGetEdges_v2": 12030, "cuGraphNodeGetDependencies_v2": 12030,
        "cuGraphNodeGetDependentNodes_v2": 12030, "cuGraphAddDependencies_v2": 12030,
        "cuGraphRemoveDependencies_v2": 12030,
    }
)  # fmt: skip
