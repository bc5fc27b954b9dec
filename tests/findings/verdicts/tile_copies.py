"""Copies of one element of a tile, which several threads compute and store to one word of shared memory.

Triton's compiler does so for what a reduction hands on where a tile has fewer elements than the block has threads:
every lane of a warp has the warp's sum, and warps beyond the tile have those of the first. By PTX's model weak stores
that nothing orders are a data race. Copies that are equal leave nothing to chance, and the author of the kernel wrote
no store: silent. Copies that differ in the last bit, as where one lane's square is part of a fused multiply-add,
leave that bit to chance: a warning with `--strict`. Copies that differ more come of a function that depends on the
order of its operands, and are an error. All shared memory of such a kernel is one variable, whose places the compiler
chooses; in other kernels the author stores, and equal values are a warning with `--strict`.
"""

from __future__ import annotations

import numpy as np
from case import Case, ptx

#: Threads store the value of `x` at their own index to the place that `place` gives them.
SOURCE = r"""
.extern .shared .align 16 .b8 global_smem[];

.visible .entry tile_words(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .b32 %t, %v, %p, %s; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
ld.global.b32 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 2; mov.u32 %p, global_smem; add.u32 %s, %s, %p;
st.shared.b32 [%s], %v; bar.sync 0; ld.shared.b32 %v, [%s]; st.global.b32 [%y], %v; ret; }

.visible .entry tile_doubles(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .b32 %t, %p, %s; .reg .b64 %x, %y, %o, %v;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
ld.global.b64 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 3; mov.u32 %p, global_smem; add.u32 %s, %s, %p;
st.shared.b64 [%s], %v; bar.sync 0; ld.shared.b64 %v, [%s]; st.global.b64 [%y], %v; ret; }

.visible .entry tile_halves(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .b16 %v; .reg .b32 %t, %p, %s; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 2; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
ld.global.b16 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 1; mov.u32 %p, global_smem; add.u32 %s, %s, %p;
st.shared.b16 [%s], %v; bar.sync 0; ld.shared.b16 %v, [%s]; st.global.b16 [%y], %v; ret; }

.visible .entry tile_read_early(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .b32 %t, %v, %p, %s; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
ld.global.b32 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 2; mov.u32 %p, global_smem; add.u32 %s, %s, %p;
st.shared.b32 [%s], %v; ld.shared.b32 %v, [%s]; st.global.b32 [%y], %v; ret; }

.visible .entry tile_two_stores(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .pred %q; .reg .b32 %t, %v, %p, %s; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %x, %x, %o; add.s64 %y, %y, %o; setp.lt.u32 %q, %t, 32;
ld.global.b32 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 2; mov.u32 %p, global_smem; add.u32 %s, %s, %p;
@%q st.shared.b32 [%s], %v; @!%q st.shared.b32 [%s], %v; bar.sync 0;
ld.shared.b32 %v, [%s]; st.global.b32 [%y], %v; ret; }
"""

OWN = r"""
.shared .align 16 .b8 words[256];

.visible .entry tile_own(.param .u64 x, .param .u64 out, .param .u32 place) {
.reg .b32 %t, %v, %p, %s; .reg .b64 %x, %y, %o;
ld.param.u64 %x, [x]; ld.param.u64 %y, [out]; ld.param.u32 %p, [place];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
ld.global.b32 %v, [%x]; and.b32 %s, %t, %p; shl.b32 %s, %s, 2; mov.u32 %p, words; add.u32 %s, %s, %p;
st.shared.b32 [%s], %v; bar.sync 0; ld.shared.b32 %v, [%s]; st.global.b32 [%y], %v; ret; }
"""
#: Which bits of its index a thread's place has: two warps share 32 places, or the lanes of each warp one.
WARPS, LANES = 31, 32


def _case(
    name: str, entry: str, place: int, step: float, dtype: str, why: str, *codes: str, strict: bool = True
) -> Case:
    """Two warps store numbers from 1 on, by their places; each further thread of a place stores `step` more."""

    def arguments(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.uint32]:
        thread = np.arange(64)
        copy = thread // 32 if place == WARPS else thread % 32
        values = (1 + (thread & place) + step * copy).astype(dtype)
        return values, np.zeros_like(values), np.uint32(place)

    kernel = ptx(__file__, OWN if entry == "own" else SOURCE, f"tile_{entry}")
    dynamic = 0 if entry == "own" else 512
    return Case(
        f"tile_copies_{name}", kernel, 1, 64, arguments, shared_bytes=dynamic, strict=strict, why=why, codes=codes
    )


_BIT = "Both values are right to the last bit but one, and either may remain."
CASES = (
    _case("warps_equal", "words", WARPS, 0, "f4", "Two warps store the same, and a barrier precedes the loads."),
    _case("lanes_equal", "words", LANES, 0, "f4", "So do the lanes of each warp."),
    _case("integers_equal", "words", WARPS, 0, "i4", "The same of integers."),
    _case("warps_rounded", "words", WARPS, 2.0**-18, "f4", _BIT, "TW312"),
    _case("lanes_rounded", "words", LANES, 2.0**-18, "f4", _BIT, "TW312"),
    _case("doubles_rounded", "doubles", WARPS, 2.0**-44, "f8", _BIT, "TW312"),
    _case("halves_rounded", "halves", WARPS, 2.0**-9, "f2", _BIT, "TW312"),
    _case("rounded_not_strict", "words", WARPS, 2.0**-18, "f4", "The same, without `--strict`.", strict=False),
    _case("warps_differ", "words", WARPS, 1, "f4", "The values have nothing in common.", "TW301", strict=False),
    _case("lanes_differ", "words", LANES, 1, "f4", "Nor have those of lanes.", "TW304", strict=False),
    _case("integers_differ", "words", WARPS, 1, "i4", "Small integers that differ by 1 are not rounded.", "TW301"),
    _case("doubles_differ", "doubles", WARPS, 0.5, "f8", "Nor are doubles that differ by a half.", "TW301"),
    _case("read_early", "read_early", WARPS, 0, "f4", "No barrier orders a load and the other warp's store.", "TW301"),
    _case("two_stores", "two_stores", WARPS, 0, "f4", "Two instructions store, so these are no copies.", "TW312"),
    _case("two_stores_differ", "two_stores", WARPS, 2.0**-18, "f4", "And their values differ.", "TW301"),
    _case("own_equal", "own", WARPS, 0, "f4", "The author of the kernel stores one value twice.", "TW312"),
    _case("own_rounded", "own", WARPS, 2.0**-18, "f4", "The author of the kernel stores two values.", "TW301"),
)  # fmt: skip
