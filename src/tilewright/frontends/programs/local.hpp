// Calls that need no simulated GPU: data that the compiler's launch code passes to itself.
namespace tilewright {
struct Configuration {
    dim3 grid, block;
    size_t shared;
    void *stream;
};
struct Configurations {
    Configuration values[64];
    int count = 0;
};
inline thread_local Configurations configurations_;
} // namespace tilewright

extern "C" unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    auto &all = tilewright::configurations_;
    if (all.count == 64) return 1;
    all.values[all.count++] = {grid, block, shared, stream};
    return 0;
}

extern "C" cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    auto &all = tilewright::configurations_;
    if (!all.count) return cudaErrorMissingConfiguration;
    auto &last = all.values[--all.count];
    *grid = last.grid, *block = last.block, *shared = last.shared, *static_cast<void **>(stream) = last.stream;
    return cudaSuccess;
}

// At the program's end, its device ends too.
extern "C" void CUDARTAPI __cudaUnregisterFatBinary(void **) {}

// A kernel's handle is the address of its function in the program.
extern "C" cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}

extern "C" cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                                    size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}

extern "C" cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                                         size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}

#undef cudaGetKernel
extern "C" cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}

extern "C" cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *found, const void *symbol) {
    *found = (cudaFunction_t)symbol;
    return cudaSuccess;
}

extern "C" cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                  cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

extern "C" const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    for (auto &one : tilewright_errors)
        if (one.number == (int)error) return one.name;
    return "unrecognized error code";
}

extern "C" const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    for (auto &one : tilewright_errors)
        if (one.number == (int)error) return one.text;
    return "unrecognized error code";
}

extern "C" CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text) {
    for (auto &one : tilewright_results)
        if (one.number == (int)error) return *text = one.name, CUDA_SUCCESS;
    return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text) {
    for (auto &one : tilewright_results)
        if (one.number == (int)error) return *text = one.text, CUDA_SUCCESS;
    return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult CUDAAPI cuGetProcAddress(const char *name, void **found, int, cuuint64_t,
                                             CUdriverProcAddressQueryResult *status) {
    for (auto &one : tilewright_names)
        if (!strcmp(one.name, name)) {
            *found = one.function;
            if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
            return CUDA_SUCCESS;
        }
    *found = nullptr;
    if (status) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
}

extern "C" cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned,
                                                                  unsigned long long,
                                                                  cudaDriverEntryPointQueryResult *status) {
    bool there = cuGetProcAddress(name, found, 0, 0, nullptr) == CUDA_SUCCESS;
    if (status) *status = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return there ? cudaSuccess : cudaErrorSymbolNotFound;
}
