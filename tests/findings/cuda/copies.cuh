// What the corpus's kernels with asynchronous copies share.
#pragma once

#include <cuda_pipeline.h>

// A tile to which each thread of the block begins to copy its element of `x`. A macro, as what is found stands at the
// line that uses it.
#define COPY_TO_TILE(type, size, x)                                                                                    \
    __shared__ type tile[size];                                                                                        \
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], sizeof(type))
