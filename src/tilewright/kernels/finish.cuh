// What becomes of a sum before it is C: a class with a call of it, of its place in C, and of whether that lies within.
// Those of epilogues are made of traced expressions (`functors.py`), behind this file.

#pragma once

// By default sums are rounded to C's type.
template <typename C>
struct Rounded {
    __device__ void advance(int) {}

    template <typename T>
    __device__ C operator()(T sum, int, int, bool) const {
        return C(sum);
    }
};

// An element of an operand, which is not read where its place is not within C. Branches would make hundreds of blocks of
// code; and it is no volatile read, so that one is enough of what several results share.
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
