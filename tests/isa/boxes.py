"""Kernels that copy boxes of tensors, and an oracle that lists a box's elements one by one."""

from __future__ import annotations

import numpy as np

SHARED_BYTES = 32768
HEAD = """
.version 8.7
.target sm_90a
.address_size 64
"""


def load_text(rank: int, corner: tuple[int, ...], size: int, *, dim: str = "", guard: str = "") -> str:
    """A kernel whose elected thread loads a box; it waits, and copies shared memory to `out`."""
    coordinates = ", ".join(map(str, corner[::-1]))
    return f"""{HEAD}
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_out) {{
.shared .align 1024 .b8 box[{SHARED_BYTES}];
.shared .align 8 .b64 object;
.reg .b32 %t, %at, %v, %s, %o; .reg .b64 %m, %out, %w; .reg .pred %first, %done, %end;
mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %out, [p_out];
mov.u32 %t, %tid.x; mov.u32 %s, box; mov.u32 %o, object; setp.eq.u32 %first, %t, 0;
@!%first bra ready;
mbarrier.init.shared::cta.b64 [%o], 1;
fence.mbarrier_init.release.cluster;
ready: bar.sync 0;
@!%first bra wait;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%o], {size};
{guard}cp.async.bulk.tensor.{dim or rank}d.shared::cluster.global.mbarrier::complete_tx::bytes
  [%s], [%m, {{{coordinates}}}], [%o];
wait: mbarrier.try_wait.parity.shared::cta.b64 %done, [%o], 0;
@!%done bra wait;
shl.b32 %at, %t, 2;
again: setp.ge.u32 %end, %at, {SHARED_BYTES}; @%end bra over;
add.u32 %v, %s, %at; ld.shared.b32 %v, [%v]; cvt.u64.u32 %w, %at; add.u64 %w, %w, %out; st.global.b32 [%w], %v;
add.u32 %at, %at, 256; bra again;
over: ret;
}}
"""


def box_of(
    array: np.ndarray, corner: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...], fill: float
) -> np.ndarray:
    """The elements of a box, one by one, with the traversal's strides."""
    counts = tuple(-(-extent // step) for extent, step in zip(box, steps, strict=True))
    found = np.full(counts, fill, array.dtype)
    for place in np.ndindex(counts):
        at = tuple(c + p * s for c, p, s in zip(corner, place, steps, strict=True))
        if all(0 <= x < extent for x, extent in zip(at, array.shape, strict=True)):
            found[place] = array[at]
    return found


def store_text(corner: tuple[int, ...], size: int) -> str:
    """A kernel that fills shared memory from an array of this many bytes, and then stores a box of it."""
    coordinates = ", ".join(map(str, corner[::-1]))
    return f"""{HEAD}
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_in) {{
.shared .align 1024 .b8 box[{SHARED_BYTES}];
.reg .b32 %t, %at, %v, %s; .reg .b64 %m, %in, %w; .reg .pred %first, %end;
mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %in, [p_in];
mov.u32 %t, %tid.x; mov.u32 %s, box; setp.eq.u32 %first, %t, 0;
shl.b32 %at, %t, 2;
again: setp.ge.u32 %end, %at, {size}; @%end bra over;
cvt.u64.u32 %w, %at; add.u64 %w, %w, %in; ld.global.b32 %v, [%w]; add.u32 %t, %s, %at; st.shared.b32 [%t], %v;
add.u32 %at, %at, 256; bra again;
over: bar.sync 0; fence.proxy.async.shared::cta;
@!%first bra done;
cp.async.bulk.tensor.{len(corner)}d.global.shared::cta.bulk_group [%m, {{{coordinates}}}], [%s];
done: ret;
}}
"""


def unswizzled(raw: np.ndarray, swizzle: int) -> np.ndarray:
    """Bytes of shared memory in the order of the box: unit u of line l lies at u xor (l mod units)."""
    if not swizzle:
        return raw
    units = raw.reshape(-1, 128 // 16, 16)
    lines = np.arange(len(units)) % (swizzle // 16)
    order = np.arange(8)[None, :] ^ lines[:, None]
    return np.take_along_axis(units, order[..., None], axis=1).reshape(-1)


CASES = {
    "1d": ((1000,), (64,), (100,), 0, "u4"),
    "2d": ((50, 64), (16, 32), (4, 8), 0, "f4"),
    "2d-32": ((50, 64), (16, 16), (4, 8), 32, "u2"),
    "2d-64": ((50, 64), (16, 32), (4, 8), 64, "u2"),
    "2d-128": ((50, 64), (40, 64), (4, 0), 128, "f2"),
    "edges": ((50, 64), (32, 32), (30, 40), 0, "f4"),
    "before": ((50, 64), (32, 32), (-7, -9), 0, "f4"),
    "outside": ((50, 64), (8, 8), (99, 0), 0, "f4"),
    "3d": ((5, 9, 16), (3, 4, 8), (1, 6, 4), 0, "i4"),
    "4d": ((3, 4, 5, 32), (2, 3, 2, 16), (2, 1, 4, 3), 0, "u1"),
    "5d": ((2, 3, 4, 5, 8), (2, 2, 2, 3, 4), (0, 1, 3, 2, 4), 0, "i8"),
}
