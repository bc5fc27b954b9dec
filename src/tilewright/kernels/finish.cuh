// How a sum becomes an element of C: a functor of the sum, its place in C, and whether the place is inside C.
// `functors.py` makes those of epilogues from traced expressions, after this file.

#pragma once

// By default a sum is rounded to C's type.
template <typename C>
struct Rounded {
    __device__ void advance(int) {}

    template <typename T>
    __device__ C operator()(T sum, int, int, bool) const {
        return C(sum);
    }
};

// An element of an operand, which is not read if its place is outside C. It is predicated, because branches would make
// hundreds of blocks of code; and not volatile, so that results that share an element share the read.
template <typename T>
__device__ inline T read_within(const T *from, bool inside) {
    const size_t address = __cvta_generic_to_global(from);
    unsigned long long bits;
#define READ(type)                                                                             \
    asm("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.b64 %0, 0;\n@p ld.global." type " %0, [%1];\n}" \
        : "=l"(bits)                                                                           \
        : "l"(address), "r"((int)inside))
    if (sizeof(T) == 1) {
        READ("u8");
    } else if (sizeof(T) == 2) {
        READ("u16");
    } else if (sizeof(T) == 4) {
        READ("u32");
    } else {
        READ("u64");
    }
#undef READ
    return *reinterpret_cast<T *>(&bits);
}
