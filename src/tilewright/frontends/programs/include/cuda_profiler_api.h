/* Found where the vendor's own header is not installed: the package of the runtime does not have it. */
#pragma once
#include <driver_types.h>
#ifdef __cplusplus
extern "C" {
#endif
extern __host__ cudaError_t CUDARTAPI cudaProfilerStart(void);
extern __host__ cudaError_t CUDARTAPI cudaProfilerStop(void);
#ifdef __cplusplus
}
#endif
