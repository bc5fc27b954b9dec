// Copies of boxes of matrices by TMA, the mbarriers that count their bytes, and those of blocks of a cluster.

#pragma once

// The tensor map that the launch makes of a matrix: 128 bytes that only copies of boxes read.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

constexpr int LINE = 128;       // bytes, the swizzle's width
constexpr int BOX = 64 * LINE;  // bytes of a box of 64 lines
constexpr int GROUP = 16;       // rows of tiles in a group

__device__ inline void init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase with this parity is complete; before the first phase, the previous one is.
__device__ inline void wait(unsigned barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier), "r"(parity)
                 : "memory");
}

// Starts to copy the box of a tensor whose first element is [y, x]; the mbarrier counts its bytes.
__device__ inline void copy_box(unsigned to, const TensorMap &from, int y, int x, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

// The same, to the same place in each block of the cluster that a mask names; the mbarrier of each counts the bytes.
__device__ inline void copy_box_to(int blocks, unsigned to, const TensorMap &from, int y, int x, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(&from), "r"(x), "r"(y), "r"(barrier), "h"((short)blocks)
                 : "memory");
}

// The matrices of a batch, whose tensor map has two axes before rows, and the place of one of them.
struct Matrices {
    const TensorMap &map;
    int outer, inner;
};

__device__ inline void copy_box(unsigned to, const Matrices &from, int y, int x, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5}], [%6];" ::"r"(to), "l"(&from.map), "r"(x), "r"(y), "r"(from.inner), "r"(from.outer), "r"(barrier)
                 : "memory");
}

// Arrives at the mbarrier at this place in another block of the cluster.
__device__ inline void arrive_at(int block, unsigned barrier) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier), "r"(block)
                 : "memory");
}

__device__ inline void synchronise_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};
