// What kernels share that read and write four floats at once, where the arrays' rows allow it.

#pragma once

// Whether rows of a row-major array begin at multiples of 16 bytes, as a float4 must.
__device__ inline bool aligned(const float *array, int columns) {
    return reinterpret_cast<size_t>(array) % sizeof(float4) == 0 && columns % 4 == 0;
}

// The four elements at `from`, of which `left` are before the end of their row; `fill` for those past it.
__device__ inline float4 read4(const float *from, int left, bool wide, float fill) {
    if (wide) {  // rows are multiples of four: all four are before the end, or none
        return left > 0 ? *reinterpret_cast<const float4 *>(from) : make_float4(fill, fill, fill, fill);
    }
    return make_float4(left > 0 ? from[0] : fill, left > 1 ? from[1] : fill,
                       left > 2 ? from[2] : fill, left > 3 ? from[3] : fill);
}

// Writes four elements likewise, those past the end of the row left out.
__device__ inline void write4(float *to, int left, bool wide, const float *values) {
    if (wide) {
        if (left > 0) {
            *reinterpret_cast<float4 *>(to) = make_float4(values[0], values[1], values[2], values[3]);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (j < left) {
            to[j] = values[j];
        }
    }
}
