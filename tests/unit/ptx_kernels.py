"""PTX kernels for tests of the machine: the test writes the body, this module the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.programs import Program
from tilewright.simt import Limits, Run, launch

_REGISTERS = """.reg .pred %p<64>; .reg .b16 %h<64>; .reg .b32 %r<128>; .reg .b64 %d<128>;
.reg .f32 %f<64>; .reg .f64 %e<64>;
.reg .b32 %x, %y, %z, %tid, %gid, %block, %threads, %lane; .reg .b64 %out, %a1, %a2, %a3, %at;"""

#: A kernel that doubles 32-bit words in place, a thread a word.
DOUBLE_IT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry double_it(.param .u64 x) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3]; add.s32 %r2, %r2, %r2; st.global.u32 [%rd3], %r2; ret;
}"""

#: %tid: thread in its block; %threads: threads of a block; %block: linear block; %gid: thread in the grid;
#: %out, %a1, %a2, %a3: the pointer parameters; %at: address of out[gid] as 32-bit words.
_PRELUDE = """mov.u32 %x, %ntid.x; mov.u32 %y, %ntid.y; mov.u32 %z, %ntid.z;
mul.lo.u32 %threads, %x, %y; mul.lo.u32 %threads, %threads, %z;
mov.u32 %tid, %tid.z; mov.u32 %gid, %tid.y; mad.lo.u32 %tid, %tid, %y, %gid;
mov.u32 %gid, %tid.x; mad.lo.u32 %tid, %tid, %x, %gid;
mov.u32 %block, %ctaid.z; mov.u32 %gid, %nctaid.y; mov.u32 %lane, %ctaid.y;
mad.lo.u32 %block, %block, %gid, %lane; mov.u32 %gid, %nctaid.x; mov.u32 %lane, %ctaid.x;
mad.lo.u32 %block, %block, %gid, %lane;
mad.lo.u32 %gid, %block, %threads, %tid; mov.u32 %lane, %laneid;
mad.wide.u32 %at, %gid, 4, %out;"""


def kernel(body: str, pointers: int = 1, module: str = "", declarations: str = "", prelude: bool = True) -> Program:
    """A kernel `k` of up to four pointers `p0` ... in `%out, %a1, %a2, %a3`."""
    names = ["%out", "%a1", "%a2", "%a3"][:pointers]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(pointers))
    loads = " ".join(f"ld.param.u64 {name}, [p{i}];" for i, name in enumerate(names))
    return Program.from_ptx(
        f""".version 8.7
.target sm_90
.address_size 64
{module}
.visible .entry k({parameters}) {{
{_REGISTERS}
{declarations}
{loads}
{_PRELUDE if prelude else ""}
{body}
ret;
}}
"""
    )


def run(program: Program, *arrays: Any, grid: Any = 1, block: Any = 32, **options: Any) -> Run:
    """Launch with arrays as arguments; an endless kernel fails."""
    options.setdefault("limits", Limits(seconds=30))
    return launch(program, extents(grid), extents(block), arrays, **options)


def extents(size: Any) -> tuple[int, int, int]:
    """All three extents: the prelude reads every index."""
    x, y, z = (*np.atleast_1d(size).tolist(), 1, 1)[:3]
    return x, y, z


def words(body: str, count: int, grid: Any = 1, block: Any = 32, fill: int = 0, **options: Any) -> np.ndarray:
    """The results of a kernel with one output array of 32-bit words."""
    keywords = {k: options.pop(k) for k in ("module", "declarations") if k in options}
    out = np.full(count, fill, np.uint32)
    run(kernel(body, 1, **keywords), out, grid=grid, block=block, **options)
    return out
