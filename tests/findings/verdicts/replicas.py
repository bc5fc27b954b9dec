"""In-place code of tiles that have fewer elements than the block has threads, as Triton compiles it.

Every thread loads an element, and one thread of each set stores it. PTX's model calls a load and another thread's store
a race whatever becomes of the loaded value; no execution can tell whether a load ran whose value nobody uses, so a
compiler may add it, and only a value that reaches a store, a branch, an address or another thread counts.
"""

from __future__ import annotations

import numpy as np
from case import Case, ptx

SOURCE = r"""
.visible .entry replicas_scalar(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %v, %w; .reg .b64 %x;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_tile(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %f, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 63; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
and.b32 %f, %t, 64; setp.eq.u32 %p, %f, 0;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_reused(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 63; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
and.b32 %e, %t, 64; setp.eq.u32 %p, %e, 0;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_reused_before(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 64; setp.eq.u32 %p, %e, 0;
and.b32 %e, %t, 63; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o; setp.lt.u32 %p, %e, 64;
ld.global.u32 %v, [%x]; add.u32 %w, %v, %t; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_lanes(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 15; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
setp.lt.u32 %p, %t, 16;
ld.global.u32 %v, [%x]; mul.lo.u32 %w, %v, 3; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_vector(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w, %a, %b; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 31; mul.wide.u32 %o, %e, 8; add.s64 %x, %x, %o;
setp.lt.u32 %p, %t, 32;
ld.global.v2.u32 {%v, %w}, [%x]; add.u32 %a, %v, %w; sub.u32 %b, %v, %w;
@%p st.global.v2.u32 [%x], {%a, %b}; ret; }

.visible .entry replicas_chosen(.param .u64 x, .param .u64 out) {
.reg .pred %p, %q; .reg .b32 %t, %v, %w; .reg .b64 %x;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
ld.global.u32 %v, [%x]; setp.gt.s32 %q, %v, 5; selp.u32 %w, 1, 7, %q; @%p st.global.u32 [%x], %w; ret; }

.visible .entry replicas_copied_out(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %v, %w; .reg .b64 %x, %out, %o;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
mul.wide.u32 %o, %t, 4; add.s64 %out, %out, %o;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w; st.global.u32 [%out], %v; ret; }

.visible .entry replicas_branch(.param .u64 x, .param .u64 out) {
.reg .pred %p, %q; .reg .b32 %t, %v, %w; .reg .b64 %x, %out, %o;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
mul.wide.u32 %o, %t, 4; add.s64 %out, %out, %o;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w;
setp.gt.s32 %q, %v, 0; @%q bra END; st.global.u32 [%out], %t; END: ret; }

.visible .entry replicas_address(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %v, %w; .reg .b64 %x, %out, %o;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w;
and.b32 %v, %v, 1; mad.lo.u32 %v, %t, 2, %v; and.b32 %v, %v, 511; mul.wide.u32 %o, %v, 4; add.s64 %out, %out, %o;
st.global.u32 [%out], %t; ret; }

.visible .entry replicas_neighbour(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %n, %v, %w; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 63; mul.wide.u32 %o, %e, 4; add.s64 %y, %x, %o;
add.u32 %n, %t, 32; and.b32 %n, %n, 63; mul.wide.u32 %o, %n, 4; add.s64 %x, %x, %o;
and.b32 %e, %t, 64; setp.eq.u32 %p, %e, 0;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%y], %w; ret; }

.visible .entry replicas_both_store(.param .u64 x, .param .u64 out) {
.reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 63; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
ld.global.u32 %v, [%x]; add.u32 %w, %v, %t; st.global.u32 [%x], %w; ret; }

.visible .entry replicas_shuffled(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %v, %w; .reg .b64 %x, %out, %o;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
mul.wide.u32 %o, %t, 4; add.s64 %out, %out, %o;
ld.global.u32 %v, [%x]; add.u32 %w, %v, 1; @%p st.global.u32 [%x], %w;
shfl.sync.bfly.b32 %v, %v, 1, 31, 0xffffffff; st.global.u32 [%out], %v; ret; }

.visible .entry replicas_scanned(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 15; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
ld.global.u32 %v, [%x]; shfl.sync.up.b32 %w, %v, 1, 0, 0xffffffff; setp.eq.u32 %p, %e, 0; selp.b32 %w, 0, %w, %p;
add.u32 %v, %v, %w; shfl.sync.up.b32 %w, %v, 2, 0, 0xffffffff; setp.lt.u32 %p, %e, 2; selp.b32 %w, 0, %w, %p;
add.u32 %v, %v, %w; setp.lt.u32 %p, %t, 16; @%p st.global.u32 [%x], %v; ret; }

.visible .entry replicas_of_copies(.param .u64 x, .param .u64 out) {
.reg .pred %p; .reg .b32 %t, %e, %v, %w; .reg .b64 %x, %o;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %e, %t, 15; mul.wide.u32 %o, %e, 4; add.s64 %x, %x, %o;
ld.global.u32 %v, [%x]; shfl.sync.down.b32 %w, %v, 16, 31, 0xffffffff;
setp.lt.u32 %p, %t, 16; @%p st.global.u32 [%x], %w; ret; }
"""


def _arrays(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(1, 99, 64).astype(np.uint32), np.zeros(512, np.uint32)


def _case(entry: str, threads: int, why: str, *codes: str) -> Case:
    name = f"replicas_{entry}"
    return Case(name, ptx(__file__, SOURCE, name), 1, threads, _arrays, why=why, codes=codes)


_RACES = ("TW302", "TW304")
CASES = (
    _case("scalar", 128, "The value of threads from 1 on reaches no store: their loads cannot be told from none."),
    _case("tile", 128, "Threads from 64 on load elements that the first 64 store, and use nothing of them."),
    _case("reused", 128, "The same, with one register for an element's number and for the guard."),
    _case("reused_before", 128, "The register has that number before, and another one at the guard.", *_RACES),
    _case("lanes", 32, "The same within one warp: the upper 16 lanes use nothing."),
    _case("vector", 128, "Loads of two elements, of which three warps use nothing."),
    _case("chosen", 64, "The value is compared and chosen by, and still only thread 0 stores what comes of it."),
    _case("copied_out", 128, "Every thread stores what it loaded, and thread 0 overwrites the element.", *_RACES),
    _case("branch", 128, "Every thread branches by what it loaded, before or after the store.", *_RACES),
    _case("address", 128, "Every thread makes an address of what it loaded.", *_RACES),
    _case("neighbour", 128, "Threads that store load an element that another warp's thread stores.", *_RACES),
    _case("both_store", 128, "Both threads of an element store, and each its own value.", *_RACES),
    _case("scanned", 32, "Lanes from 16 on get what the others loaded, and store nothing of it."),
    _case("of_copies", 32, "What is stored was loaded by the lanes from 16 on.", *_RACES),
    _case("shuffled", 32, "What the others loaded reaches stores through a shuffle.", *_RACES),
)  # fmt: skip
