// OpenCL C's names in CUDA C++, because traced expressions use them (`multiply/problem/c_text.py`).
// Types are as `functors.py` renames them. Source: OpenCL 1.2 Specification, sections 6.2.3 (conversions) and 6.2.4.

#pragma once

#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
// NVRTC's own functions are correctly rounded, unless its options say otherwise.
#define DIVIDE(T, x, y) ((x) / (y))
#define SQUARE_ROOT(T, x) sqrt(x)

template <typename To, typename From>
__device__ inline To with_bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From), "bits are all there is");
    To found;
    memcpy(&found, &value, sizeof(To));
    return found;
}
#define as_int with_bits_of<int>
#define as_uint with_bits_of<unsigned>
#define as_float with_bits_of<float>
#define as_long with_bits_of<long long>
#define as_ulong with_bits_of<unsigned long long>
#define as_double with_bits_of<double>

// To the nearest float, ties to even, which is how every conversion is rounded.
#define convert_float_rte(x) ((float)(x))
#define convert_double_rte(x) ((double)(x))

// To integers, towards zero and saturating, as `cvt` does for 32 and 64 bits.
__device__ inline int convert_int_sat_rtz(float x) { return __float2int_rz(x); }
__device__ inline int convert_int_sat_rtz(double x) { return __double2int_rz(x); }
__device__ inline unsigned convert_uint_sat_rtz(float x) { return __float2uint_rz(x); }
__device__ inline unsigned convert_uint_sat_rtz(double x) { return __double2uint_rz(x); }
__device__ inline long long convert_long_sat_rtz(float x) { return __float2ll_rz(x); }
__device__ inline long long convert_long_sat_rtz(double x) { return __double2ll_rz(x); }
__device__ inline unsigned long long convert_ulong_sat_rtz(float x) { return __float2ull_rz(x); }
__device__ inline unsigned long long convert_ulong_sat_rtz(double x) { return __double2ull_rz(x); }
#define WITHIN(x, least, most) min(max(convert_int_sat_rtz(x), least), most)
#define convert_char_sat_rtz(x) ((signed char)WITHIN(x, -128, 127))
#define convert_uchar_sat_rtz(x) ((unsigned char)WITHIN(x, 0, 255))
#define convert_short_sat_rtz(x) ((short)WITHIN(x, -32768, 32767))
#define convert_ushort_sat_rtz(x) ((unsigned short)WITHIN(x, 0, 65535))

// A float of C from its bits.
template <typename Bits>
struct Stored {
    Bits bits;
};

// Halves, by conversions that every GPU has.
typedef Stored<unsigned short> half_bits;
__device__ inline float vload_half(int, const half_bits *from) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(from->bits));
    return value;
}
__device__ inline void vstore_half_rte(float value, int, half_bits *to) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(value));
}
