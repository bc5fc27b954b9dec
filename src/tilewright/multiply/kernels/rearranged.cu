// Copies an array of up to four axes between any strides, each element through `Finish`. It prepares operands, or
// stores results, whose layout another kernel does not support. A block copies tiles of 32 x 32 through shared memory,
// so that both reads and writes follow the axis along which elements are contiguous. It may write an element as
// several, one in each of some planes, for kernels that take sums of planes.

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

// How an element is written.
template <typename T>
struct Whole {
    enum { PLANES = 1 };
    __device__ static T part(T value, int) { return value; }
};

// As bytes, the lowest first.
template <int COUNT>
struct Digits {
    enum { PLANES = COUNT };
    template <typename T>
    __device__ static unsigned char part(T value, int plane) {
        return (unsigned char)(value >> 8 * plane);
    }
};

// As tf32 numbers: the nearest one that is finite, then the one nearest to the rest.
template <int COUNT>
struct Rests {
    enum { PLANES = COUNT };
    __device__ static float part(float value, int plane) {
        unsigned found;
        for (;; value -= __uint_as_float(found)) {  // the difference is exact
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(found) : "f"(value));
            if ((found & 0x7fffffff) == 0x7f800000 && (__float_as_uint(value) & 0x7fffffff) < 0x7f800000) {
                found = __float_as_uint(value) & 0xffffe000;  // rounding up has overflowed
            }
            if (plane-- == 0) {
                return __uint_as_float(found);
            }
        }
    }
};

// Distances are bytes, of groups of `inner` planes (w), planes (z), rows (y) and columns (x), and of an element's
// parts. `turned` of 1: read along y; of 2: write along y.
template <typename From, typename To, typename Finish, typename Parts = Whole<To>>
__global__ void __launch_bounds__(256)
    rearranged(unsigned long long from, unsigned long long to, long long from_w, long long from_z, long long from_y,
               long long from_x, long long to_w, long long to_z, long long to_y, long long to_x, long long to_part,
               int planes, int inner, int rows, int columns, int turned) {
    __shared__ To tile[32][33];
    const Finish finish{};
    for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {  // the step may pass what an int holds
        const int w = plane / inner, z = plane % inner;
        const unsigned long long from_plane = from + w * from_w + z * from_z, to_plane = to + w * to_w + z * to_z;
        for (long long top = 32 * blockIdx.y; top < rows; top += 32 * gridDim.y) {
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
                    const unsigned long long there = to_plane + (top + y) * to_y + (left + x) * to_x;
#pragma unroll
                    for (int part = 0; part < Parts::PLANES; ++part) {
                        place(there + part * to_part, Parts::part(tile[y][x], part));
                    }
                }
            }
            __syncthreads();
        }
    }
}
