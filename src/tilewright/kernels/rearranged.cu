// Copies an array of up to four axes between any strides, each element through `Finish`. It prepares operands, or
// stores results, whose layout another kernel does not support. A block copies tiles of 32 x 32 through shared memory,
// so that both reads and writes follow the axis along which elements are contiguous.

#include "finish.cuh"

template <typename From>
__device__ inline From element(unsigned long long address) {
    if (address % sizeof(From) == 0) {
        return *reinterpret_cast<const From *>(address);
    }
    From value;
    for (int i = 0; i < sizeof(From); ++i) {  // an element need not be aligned
        reinterpret_cast<char *>(&value)[i] = reinterpret_cast<const char *>(address)[i];
    }
    return value;
}

template <typename To>
__device__ inline void place(unsigned long long address, To value) {
    if (address % sizeof(To) == 0) {
        *reinterpret_cast<To *>(address) = value;
        return;
    }
    for (int i = 0; i < sizeof(To); ++i) {
        reinterpret_cast<char *>(address)[i] = reinterpret_cast<const char *>(&value)[i];
    }
}

// Distances are bytes, of groups of `inner` planes (w), planes (z), rows (y) and columns (x). `turned` of 1: read along
// y; of 2: write along y.
template <typename From, typename To, typename Finish>
__global__ void __launch_bounds__(256)
    rearranged(unsigned long long from, unsigned long long to, long long from_w, long long from_z, long long from_y,
               long long from_x, long long to_w, long long to_z, long long to_y, long long to_x, int planes, int inner,
               int rows, int columns, int turned) {
    __shared__ To tile[32][33];
    const Finish finish{};
    for (int plane = blockIdx.z; plane < planes; plane += gridDim.z) {
        const int w = plane / inner, z = plane % inner;
        const unsigned long long from_plane = from + w * from_w + z * from_z, to_plane = to + w * to_w + z * to_z;
        for (int top = 32 * blockIdx.y; top < rows; top += 32 * gridDim.y) {
            const int left = 32 * blockIdx.x;
            for (int i = threadIdx.y; i < 32; i += 8) {
                const int y = turned & 1 ? threadIdx.x : i, x = turned & 1 ? i : threadIdx.x;
                if (top + y < rows && left + x < columns) {
                    const From value = element<From>(from_plane + (top + y) * from_y + (left + x) * from_x);
                    tile[y][x] = finish(value, 0, 0, true);
                }
            }
            __syncthreads();
            for (int i = threadIdx.y; i < 32; i += 8) {
                const int y = turned & 2 ? threadIdx.x : i, x = turned & 2 ? i : threadIdx.x;
                if (top + y < rows && left + x < columns) {
                    place<To>(to_plane + (top + y) * to_y + (left + x) * to_x, tile[y][x]);
                }
            }
            __syncthreads();
        }
    }
}
