"""How fast the simulated GPU multiplies by mma.sync: a product of float16, against the ladder's float32 kernel.

GFLOPS here are the host's: 2 m n k divided by the host's seconds of running blocks. They say nothing of any GPU. Both
kernels take turns, and their products are compared with NumPy's first. The kernel loads its fragments from global
memory, four by four products of 16 x 8 x 16 a warp; the time of one instruction is measured separately, in registers.

    python benchmarks/tensor_cores.py [--size 1024] [--threads 2] [--rounds 7] [--hosts own,avx2,sse] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import measuring
import narrow_hosts
import numpy as np

from tilewright import simt
from tilewright.programs import Program

_TILES = 4  # of 16 rows and of 8 columns, of a warp
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
#: Instructions of one form in registers that are timed: how many, and how often in a row.
_REPEATED, _IN_A_ROW = 2000, 8
#: Forms that are timed separately, with registers of D, A, B and C, and the operands after C (metadata and scales).
_FOURS = "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
_SCALES = ", %ones, {0, 0}, %ones, {0, 0}"
FORMS = {
    _MMA: (4, 4, 2, 4, ""),
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16": (2, 4, 2, 2, ""),
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": (4, 4, 2, 4, ""),
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (4, 4, 2, 4, ""),
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32": (4, 4, 2, 4, ""),
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32": (4, 4, 2, 4, ""),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32": (4, 4, 4, 4, ", %pairs, 0"),
    f"mma.sync.aligned.m16n8k64.row.col.{_FOURS}": (4, 4, 2, 4, _SCALES),
    f"mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.{_FOURS}": (4, 4, 4, 4, f", %pairs, 0{_SCALES}"),
}


def main() -> None:
    parser = measuring.arguments_of_speed(__doc__, size=1024, rounds=7)
    options = parser.parse_args()
    products, forms = [], []
    for host in options.hosts.split(","):
        narrow_hosts.use_host(setattr, host)
        products += rates(options.size, options.threads, options.rounds, host)
        forms += [{"form": form, "host": host, "ns": one(form, options.rounds)} for form in FORMS]
    results = {"size": options.size, "threads": options.threads, "products": products, "forms": forms}
    measuring.publish(results, [product_table(results), form_table(results)], as_json=options.json)


def registers(letter: str, count: int, first: int = 0) -> str:
    """A list in braces."""
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def kernel() -> Program:
    """C = A B by rows, with A (m x k) by rows and B (k x n) by columns, of float16; C is float32."""
    lines = []
    for i in range(_TILES):  # rows g and g + 8 of each tile, chunks t and t + 4
        for register, (row, chunk) in enumerate(((0, 0), (8, 0), (0, 4), (8, 4))):
            lines.append(
                f"mad.lo.u64 %p, %k2, {16 * i + row}, %a; ld.global.b32 %a{4 * i + register}, [%p+{4 * chunk}];"
            )
    for j in range(_TILES):
        for register, chunk in enumerate((0, 4)):
            lines.append(f"mad.lo.u64 %p, %k2, {8 * j}, %b; ld.global.b32 %b{2 * j + register}, [%p+{4 * chunk}];")
    for i in range(_TILES):
        for j in range(_TILES):
            c = registers("c", 4, 4 * (_TILES * i + j))
            lines.append(f"{_MMA} {c}, {registers('a', 4, 4 * i)}, {registers('b', 2, 2 * j)}, {c};")
    stores = [
        f"mad.lo.u64 %p, %n4, {16 * i + 8 * half}, %c; st.global.v2.f32 [%p+{32 * j}], "
        f"{registers('c', 2, 4 * (_TILES * i + j) + 2 * half)};"
        for i in range(_TILES)
        for j in range(_TILES)
        for half in range(2)
    ]
    return Program.from_ptx(_text("\n".join(lines), "\n".join(stores)))


def _text(loop: str, stores: str) -> str:
    rows, columns = 16 * _TILES, 8 * _TILES
    return f"""{_HEAD}
.visible .entry mma(.param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u32 p_n, .param .u32 p_k) {{
.reg .b32 %a<{4 * _TILES}>, %b<{2 * _TILES}>, %lane, %g, %t, %warp, %row, %column, %n, %k, %x; .reg .pred %more;
.reg .f32 %c<{4 * _TILES * _TILES}>; .reg .b64 %a, %b, %c, %p, %k2, %n4;
ld.param.u64 %a, [p_a]; ld.param.u64 %b, [p_b]; ld.param.u64 %c, [p_c]; ld.param.u32 %n, [p_n]; ld.param.u32 %k, [p_k];
mov.u32 %x, %tid.x; and.b32 %lane, %x, 31; shr.u32 %warp, %x, 5; shr.u32 %g, %lane, 2; and.b32 %t, %lane, 3;
mov.u32 %row, %ctaid.y; mad.lo.u32 %row, %row, {rows}, %g;
mov.u32 %column, %ctaid.x; mad.lo.u32 %column, %column, 4, %warp; mul.lo.u32 %column, %column, {columns};
mul.wide.u32 %k2, %k, 2; mul.wide.u32 %n4, %n, 4;
mad.lo.u32 %x, %row, %k, 0; mad.wide.u32 %a, %x, 2, %a; mad.wide.u32 %a, %t, 4, %a;
add.u32 %x, %column, %g; mul.lo.u32 %x, %x, %k; mad.wide.u32 %b, %x, 2, %b; mad.wide.u32 %b, %t, 4, %b;
mul.lo.u32 %x, %row, %n; add.u32 %x, %x, %column; mad.lo.u32 %x, %t, 2, %x; mad.wide.u32 %c, %x, 4, %c;
{" ".join(f"mov.f32 %c{i}, 0f00000000;" for i in range(4 * _TILES * _TILES))}
again:
{loop}
add.u64 %a, %a, 32; add.u64 %b, %b, 32; sub.u32 %k, %k, 16; setp.gt.u32 %more, %k, 0; @%more bra again;
{stores}
ret;
}}"""


def rates(size: int, threads: int, rounds: int, host: str) -> list[dict[str, Any]]:
    """Both kernels, in turns."""
    from simt_speed import prepared

    from tilewright.multiply.kernels import catalogue

    launches = {"mma.sync, float16": tensor(size, threads)}
    record = next(r for r in catalogue.records() if r.name == "results_8")
    launch, right = prepared(record, "float32", size, threads)
    assert right, "the float32 kernel is wrong"
    launches["results_8, float32"] = launch
    found: list[dict[str, Any]] = [{"name": name, "host": host, "wall": [], "processor": []} for name in launches]
    for _ in range(rounds):
        for row in found:
            start = time.process_time()
            run = launches[row["name"]]()
            row["processor"].append(2e-9 * size**3 * threads / (time.process_time() - start))
            row["wall"].append(2e-9 * size**3 / run.seconds)
    return [row | {of: measuring.Spread.of(row[of]) for of in ("wall", "processor")} for row in found]


def tensor(size: int, threads: int) -> Callable[[], simt.Run]:
    """A launch of the kernel above, whose product was compared."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (size, size)).astype(np.float16) for _ in "ab")
    memory = simt.Memory()
    arrays = [memory.array(x) for x in (a, np.ascontiguousarray(b.T), np.zeros((size, size), np.float32))]
    program, limits = kernel(), simt.Limits(threads=threads)

    def launch() -> simt.Run:
        grid = (size // (4 * 8 * _TILES), size // (16 * _TILES))
        return simt.launch(program, grid, 128, [*arrays, size, size], limits=limits)

    launch()
    np.testing.assert_array_equal(arrays[2].view(), a.astype(np.float32) @ b.astype(np.float32))
    return launch


def one(form: str, rounds: int) -> measuring.Spread:
    """Processor time of one instruction in nanoseconds, operands and results in registers."""
    d, a, b, c, more = FORMS[form]
    head, gpu = (_HEAD.replace("sm_90", "sm_120a"), "rtx5090") if more.endswith(_SCALES) else (_HEAD, "h100")
    factors = f"{registers('a', a)}, {registers('b', b)}"
    body = "\n".join(
        f"{form} {registers('d', d, 4 * i)}, {factors}, {registers('d', c, 4 * i)}{more};" for i in range(_IN_A_ROW)
    )
    values = "\n".join(
        f"mul.lo.u32 %{x}{i}, %lane, {2654435761 + 977 * i}; and.b32 %{x}{i}, %{x}{i}, 0xBBFFBBFF; "
        f"or.b32 %{x}{i}, %{x}{i}, 0x20002000;"
        for x, count in (("a", a), ("b", b))
        for i in range(count)
    )
    program = Program.from_ptx(f"""{head}
.visible .entry one(.param .u64 p) {{ .reg .b32 %a<8>, %b<8>, %d<{4 * _IN_A_ROW}>, %lane, %i, %pairs, %ones;
.reg .pred %more; .reg .b64 %out; ld.param.u64 %out, [p]; mov.u32 %lane, %tid.x; mov.u32 %i, 0;
mov.b32 %pairs, 0x44444444; mov.b32 %ones, 0x38383838;
{values} {" ".join(f"mov.b32 %d{i}, 0;" for i in range(4 * _IN_A_ROW))}
again: {body}
add.u32 %i, %i, 1; setp.lt.u32 %more, %i, {_REPEATED}; @%more bra again;
st.global.b32 [%out], %d0; ret; }}""")
    out = np.zeros(1, np.uint32)
    simt.launch(program, 1, 32, (out,), gpu=gpu)
    found = []
    for _ in range(rounds):
        start = time.process_time()
        simt.launch(program, 1, 32, (out,), gpu=gpu)
        found.append((time.process_time() - start) / (_REPEATED * _IN_A_ROW) * 1e9)
    return measuring.Spread.of(found)


def product_table(results: dict[str, Any]) -> Any:
    """The table of products."""
    rows = [(r["name"], r["host"], r["wall"].text(), r["processor"].text()) for r in results["products"]]
    return measuring.table(
        f"Products at {results['size']}^3 on {results['threads']} host threads, GFLOPS",
        ("kernel", "host", "by wall", "by processor time"),
        rows,
        "median (least - most); rates of the simulator on this host, not of a GPU",
    )


def form_table(results: dict[str, Any]) -> Any:
    """The table of single instructions."""
    rows = [(r["form"], r["host"], r["ns"].text(1, ",.0f")) for r in results["forms"]]
    return measuring.table(
        "Processor time of one instruction, ns",
        ("form", "host", "ns"),
        rows,
        "on an H100's rules, with scales on an RTX 5090's",
    )


if __name__ == "__main__":
    main()
