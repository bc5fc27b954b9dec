"""Time that the host takes to execute an instruction of a warp or a warpgroup: `SLOWNESS` in isa/kinds.py rests on it.

Each kernel repeats its instruction in a loop; the time of a loop without it is taken off. Operands are zeros or random
numbers.

    python benchmarks/instruction_times.py [--rounds 5] [--json]
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import measuring
import numpy as np

from tilewright.programs import Program
from tilewright.simt import launch

REPEATS = 8
#: Bits that no infinity or NaN of float16 or e4m3 has.
FINITE = 0xBFBFBFBF
KERNEL = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 p_in, .param .u64 p_out, .param .u32 p_times) {{
.shared .align 1024 .b8 tile[49152];
.reg .b32 %r<80>, %at, %i, %times, %sum, %zero, %pairs;
.reg .b64 %in, %out, %w, %left, %right;
.reg .pred %more, %yes, %first;
ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; ld.param.u32 %times, [p_times];
mov.u32 %i, %tid.x; setp.eq.u32 %yes, %i, %i; setp.eq.u32 %first, %i, 0;
mul.wide.u32 %w, %i, 4; add.u64 %in, %in, %w; add.u64 %out, %out, %w;
mov.u32 %at, tile; mov.u64 %left, {left}; mov.u64 %right, {right};
mov.u32 %zero, 0; mov.b32 %pairs, 0x44444444;
clear: setp.ge.u32 %more, %i, 12288; @%more bra cleared;
mul.lo.u32 %sum, %i, 4; add.u32 %sum, %sum, %at; st.shared.u32 [%sum], %zero; add.u32 %i, %i, {threads}; bra clear;
cleared: bar.sync 0;
{loads}
mov.u32 %i, 0;
again: setp.ge.u32 %more, %i, %times; @%more bra done;
{body}
add.u32 %i, %i, 1; bra again;
done: mov.u32 %sum, 0;
{sums}
st.global.b32 [%out], %sum;
ret;
}}
"""


@dataclass(frozen=True)
class Timed:
    """An instruction of the table below, by a name in the field's words."""

    title: str
    text: str  #: Its registers are %r0 to %r79.
    target: str = "sm_90a"
    gpu: str = "h100"
    threads: int = 32
    after: str = ""  #: What waits for it.
    bits: int = 0  #: Of those of its operands, the ones that are random.


def registers(first: int, count: int) -> str:
    """So many registers in braces."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def shaped(text: str, shape: str) -> str:
    """The instruction for matrices of a shape."""
    return text.replace("SHAPE", shape)


D, A, B2, B4 = registers(0, 4), registers(4, 4), registers(8, 2), registers(8, 4)
BY_COLUMNS = "sync.aligned.SHAPE.row.col."
F16 = f"{BY_COLUMNS}f32.f16.f16.f32 {D}, {A},"
INT8 = f"mma.{BY_COLUMNS}s32.s8.s8.s32 {D}, {A}, {B2}, {D};"
FLOAT64 = f"mma.{BY_COLUMNS}f64.f64.f64.f64 {{%left, %right}}, {{%in}}, {{%out}}, {{%left, %right}};"
SPARSE = "mma.sp::ordered_metadata."
FOURS = "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
SCALES = "{%r12}, {0, 0}, {%r13}, {0, 0}"
DENSE_FOURS = f"mma.{BY_COLUMNS}{FOURS} {D}, {A}, {B2}, {D}, {SCALES};"
SPARSE_FOURS = f"{SPARSE}{BY_COLUMNS}{FOURS} {D}, {A}, {B4}, {D}, %pairs, 0, {SCALES};"
WGMMA = f"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {registers(0, 64)}, %left, %right, %yes, 1, 1, 0, 0;"
BULK = "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%at], 16384;"
COMMIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
WAIT = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
BLACKWELL = {"target": "sm_120a", "gpu": "rtx5090"}
TIMED = (
    Timed("mma f16, 16 x 8 x 16", shaped(f"mma.{F16} {B2}, {D};", "m16n8k16")),
    Timed("mma f16, random", shaped(f"mma.{F16} {B2}, {D};", "m16n8k16"), bits=FINITE),
    Timed("mma s8, 16 x 8 x 32", shaped(INT8, "m16n8k32"), bits=FINITE),
    Timed("mma f64, 8 x 8 x 4", shaped(FLOAT64, "m8n8k4")),
    Timed("mma f16, sparse, 16 x 8 x 32", shaped(f"{SPARSE}{F16} {B4}, {D}, %pairs, 0;", "m16n8k32")),
    Timed("mma e2m1 with scales, 16 x 8 x 64", shaped(DENSE_FOURS, "m16n8k64"), **BLACKWELL),
    Timed("the same, sparse, 16 x 8 x 128", shaped(SPARSE_FOURS, "m16n8k128"), **BLACKWELL),
    Timed("the same, no valid metadata", shaped(SPARSE_FOURS.replace("%pairs", "%zero"), "m16n8k128"), **BLACKWELL),
    Timed("wgmma f16, 64 x 128 x 16", f"wgmma.fence.sync.aligned; {WGMMA}", threads=128, after=WAIT),
    Timed("bulk copy of 16 KiB", BULK, after=COMMIT),
)


def program(one: Timed, repeats: int) -> Program:
    """A kernel that executes an instruction so many times in each iteration."""
    loads = "\n".join(f"ld.global.b32 %r{i}, [%in+{512 * i}];" for i in range(80))
    sums = "\n".join(f"xor.b32 %sum, %sum, %r{i};" for i in range(80))
    body = "\n".join([one.text] * repeats + [one.after])
    left, right = (start >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32 for start in (0, 16384))
    text = KERNEL.format(
        target=one.target, loads=loads, sums=sums, body=body, left=left, right=right, threads=one.threads
    )
    return Program.from_ptx(text)


def seconds(one: Timed, repeats: int, times: int) -> float:
    """Time of one launch, after one that translates."""
    rng, size = np.random.default_rng(0), 128 * 80
    given = rng.integers(0, 1 << 32, size, dtype=np.uint32) & np.uint32(one.bits)
    out, kernel = np.zeros(16384, np.uint32), program(one, repeats)
    for _ in range(2):
        start = time.perf_counter()
        launch(kernel, 1, one.threads, (given, out, np.uint32(times)), gpu=one.gpu)
        taken = time.perf_counter() - start
    return taken


def microseconds(one: Timed) -> float:
    """Time of one execution: the difference of two bodies, over as many iterations as take 50 ms."""
    times = 8
    while seconds(one, REPEATS, times) < 0.05 and times < 1 << 17:
        times *= 4
    return 1e6 * (seconds(one, REPEATS, times) - seconds(one, 0, times)) / (REPEATS * times)


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spreads = {one.title: measuring.Spread.of([microseconds(one) for _ in range(options.rounds)]) for one in TIMED}
    rows = [(title, spread.text()) for title, spread in spreads.items()]
    table = measuring.table("Time of one execution", ("instruction", "us (least - most)"), rows)
    measuring.publish({"us": spreads}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
