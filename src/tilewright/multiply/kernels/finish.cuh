// How a sum becomes an element of C: a functor of the sum, its place in C, and whether the place is inside C.
// `functors.py` makes those of epilogues from traced expressions, after this file.
//
// With `InBatch` around it a launch computes many products of one shape, one for each blockIdx.z or, where blocks take
// several tiles in turn, for each run of tiles.

#pragma once

// By default a sum is rounded to C's type.
template <typename C>
struct Rounded {
    __device__ void advance(int, int) {}

    template <typename T>
    __device__ C operator()(T sum, int, int, bool) const {
        return C(sum);
    }
};

// In place of a functor, for kernels that round no sums.
struct Alone {
    __device__ void advance(int, int) {}
};

// A batch: products along two axes. For each matrix and axis, the elements from one product's matrix to the next, or 1
// for operands with tensor maps; 0 if products share it.
template <typename Finish>
struct InBatch {
    int outer, inner;
    long long outer_a, inner_a, outer_b, inner_b, outer_c, inner_c;
    Finish finish;

    template <typename T>
    __device__ auto operator()(T sum, int y, int x, bool inside) const {
        return finish(sum, y, x, inside);
    }
};

// Moves A, B, C and an epilogue's operands to the block's product of a batch. One product alone costs nothing.
template <typename Finish, typename T, typename C>
__device__ inline void find_product(Finish &, const T *&, const T *&, C *&) {}

template <typename Finish, typename T, typename C>
__device__ inline void find_product(InBatch<Finish> &of, const T *&a, const T *&b, C *&c) {
    const int y = blockIdx.z / of.inner, x = blockIdx.z % of.inner;
    a += y * of.outer_a + x * of.inner_a;
    b += y * of.outer_b + x * of.inner_b;
    c += y * of.outer_c + x * of.inner_c;
    of.finish.advance(y, x);
}

// How many products there are, and whether there may be several.
template <typename Finish>
struct Products {
    enum { MANY = false };
    __device__ static int count(const Finish &) { return 1; }
};

template <typename Finish>
struct Products<InBatch<Finish>> {
    enum { MANY = true };
    __device__ static int count(const InBatch<Finish> &of) { return of.outer * of.inner; }
};

// Moves C and an epilogue's operands to a product of a batch, of which operands are copied by tensor maps.
template <typename Finish, typename C>
__device__ inline void find_result(Finish &, int, C *&) {}

template <typename Finish, typename C>
__device__ inline void find_result(InBatch<Finish> &of, int product, C *&c) {
    const int y = product / of.inner, x = product % of.inner;
    c += y * of.outer_c + x * of.inner_c;
    of.finish.advance(y, x);
}

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
