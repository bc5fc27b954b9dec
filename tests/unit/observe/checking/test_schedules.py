"""Where findings depend on which warp comes first, other orders find them; correct kernels stay silent in all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentValueError
from tilewright.observe.checking.static.deciding import decides
from tilewright.observe.checking.static.values import of_kernel
from tilewright.programs import Program
from tilewright.simulate.run import observed_launch


class Twins(NamedTuple):
    """A kernel whose place `HERE` takes one text that is a defect, and one that is not."""

    text: str
    defect: str
    clean: str
    grid: int = 2
    block: int = 32


#: `x[0]` to `x[31]` are data, and the words from `x + 32` on flags, locks and counters.
HEAD = """
#include <cuda/atomic>
__device__ void put(int *at, int value) { asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" :: "l"(at), "r"(value)); }
__device__ void release(int *at, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}
__device__ int get(int *at) {
    int value; asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at)); return value;
}
__device__ int acquire(int *at) {
    int value; asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory"); return value;
}
extern "C" __global__ void k(int *x, int *out) {
    const bool first = blockIdx.x * blockDim.x + threadIdx.x == 0, one = threadIdx.x % 32 == 0;
    if (!one) return;
    HERE
}
"""
#: A writer in block 0, and a reader in block 1 that reads the data only if the flag is up.
FLAG = "if (first) { x[0] = 7; RELEASE(x + 32, 1); } else if (ACQUIRE(x + 32)) out[0] = x[0];"
#: The same with the reader in block 0, which comes first.
EARLY = FLAG.replace("(first)", "(!first)")
FENCED = "if (first) { x[0] = 7; FENCE put(x + 32, 1); } else if (get(x + 32)) { FENCE out[0] = x[0]; }"
#: The last block to take a ticket adds what all have stored.
LAST = """
    x[blockIdx.x] = blockIdx.x + 1;
    FENCE
    if (atomicAdd(x + 32, 1) == gridDim.x - 1) {
        FENCE
        int sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += x[i];
        out[0] = sum;
    }
"""
#: Whoever gets the lock updates the data; the others leave it.
TRY = "if (TAKE) { __threadfence(); x[0] += 1; __threadfence(); release(x + 32, 0); }"
BY_TWO = "acquire(x + 32) == 0 ? (put(x + 32, 1), true) : false"
BY_ONE = "atomicCAS(x + 32, 0, 1) == 0"
#: A queue: each takes the next place and stores there.
QUEUE = "int at = NEXT; __threadfence(); x[at] = blockIdx.x; __threadfence(); put(x + 33, 1);"
#: The value of a counter says who is the owner of the data.
OWNER = """
    int turn = atomicAdd(x + 32, 1);
    __threadfence();
    if (CONDITION) x[0] = blockIdx.x + 1;
    else { while (acquire(x + 33) == 0); out[blockIdx.x] = x[0]; }
    if (turn == 0) { __threadfence(); put(x + 33, 1); }
"""
TWINS = {
    "flag that is read after the data": Twins(
        "if (first) { x[0] = 7; release(x + 32, 1); } else { HERE }",
        "int up = acquire(x + 32); out[0] = x[0] + up;",
        "if (acquire(x + 32)) out[0] = x[0];",
    ),
    "flag in an if": Twins(FLAG.replace("RELEASE", "HERE").replace("ACQUIRE", "acquire"), "put", "release"),
    "flag that comes later": Twins(EARLY.replace("RELEASE", "HERE").replace("ACQUIRE", "acquire"), "put", "release"),
    "flag with fences": Twins(FENCED.replace("FENCE", "HERE"), "", "__threadfence();"),
    "last block": Twins(LAST.replace("FENCE", "HERE"), "", "__threadfence();", grid=5),
    "lock that is tried once": Twins(TRY.replace("TAKE", "HERE"), BY_TWO, BY_ONE),
    "lock between warps": Twins(TRY.replace("TAKE", "HERE"), BY_TWO, BY_ONE, grid=1, block=96),
    "queue": Twins(QUEUE.replace("NEXT", "HERE"), "get(x + 32); put(x + 32, at + 1)", "atomicAdd(x + 32, 1)", grid=3),
    "owner by a ticket": Twins(OWNER.replace("CONDITION", "HERE"), "turn < 2", "turn < 1", grid=3),
}
BOTH = [
    pytest.param(twins, getattr(twins, side), side == "defect", id=f"{name}, {side}")
    for name, twins in TWINS.items()
    for side in ("defect", "clean")
]


def program(body: str) -> Program:
    return Program.from_cuda(HEAD.replace("HERE", body), "k", (9, 0))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(64, np.int32), np.zeros(8, np.int32)


def found(twins: Twins, part: str, seed: int | None, **options: int) -> tuple[tw.Finding, ...]:
    made = program(twins.text.replace("HERE", part))
    return tw.check(made, twins.grid, twins.block, arrays(), seed=seed, ignore=("TW501",), **options)


@pytest.mark.parametrize(("twins", "part", "defective"), BOTH)
def test_whatever_the_order_a_defect_is_found_and_its_twin_is_clean(twins: Twins, part: str, defective: bool) -> None:
    for seed in (None, 0, 1, 2, 3, 11):
        codes = {one.code for one in found(twins, part, seed)}
        assert codes <= {"TW301", "TW302", "TW303"}, seed
        assert bool(codes) is defective, (seed, codes)


def test_a_finding_of_another_order_names_the_seed_that_repeats_it() -> None:
    twins = TWINS["lock that is tried once"]
    (one,) = found(twins, twins.defect, None)
    seed = one.details["seed"]
    assert one.message.endswith(f"; seen in another order of blocks and warps, which `--seed {seed}` repeats")
    (again,) = found(twins, twins.defect, seed, schedules=0)
    assert (again.code, again.line) == (one.code, one.line)
    assert "seed" not in again.details
    assert found(twins, twins.defect, None, schedules=0) == ()


def runs(monkeypatch: pytest.MonkeyPatch, made: Program, grid: int = 2, **options: int) -> list[int | None]:
    """The seeds of all runs of a check."""
    seeds: list[int | None] = []
    real = observed_launch._run

    def noted(job, *rest):
        seeds.append(job.launch.seed)
        return real(job, *rest)

    monkeypatch.setattr(observed_launch, "_run", noted)
    tw.check(made, grid, 32, arrays(), **options)
    return seeds


def test_only_launches_whose_findings_can_depend_on_the_order_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = "if (first) { x[0] = 7; release(x + 32, 1); } else { while (!acquire(x + 32)); out[0] = x[0]; }"
    asks = waits.replace("while (!acquire(x + 32));", "if (acquire(x + 32))")
    alone = "if (!acquire(x + 32 + blockIdx.x)) x[blockIdx.x] = 1;"
    counts = "atomicAdd(x + 32, 1);"
    assert runs(monkeypatch, program(asks)) == [None, 1, 2, 3]
    assert runs(monkeypatch, program(asks), schedules=1) == [None, 1]
    assert runs(monkeypatch, program(asks), seed=2) == [2, 0, 1, 3]
    assert runs(monkeypatch, program(asks), schedules=0) == [None]
    assert runs(monkeypatch, program(asks), grid=1) == [None]
    for body in (waits, alone, counts):
        assert runs(monkeypatch, program(body)) == [None], body


def test_other_orders_leave_no_trace() -> None:
    """Results, initialised bytes and printed lines are those of the first run."""
    made = program(
        """
        int turn = atomicAdd(x + 32, 1);
        out[blockIdx.x] = turn;
        if (turn == 1) x[1] = blockIdx.x;
        printf("%d\\n", turn);
    """.replace("\\\\", "\\")
    )
    x, out = arrays()
    assert tw.check(made, 4, 32, (x, out)) == ()
    assert (x[32], x[1], out[:4].tolist()) == (4, 1, [0, 1, 2, 3])


@pytest.mark.parametrize("schedules", [-1, True, 1.5, "3"])
def test_schedules_are_a_number(schedules: object) -> None:
    with pytest.raises(ArgumentValueError, match="`schedules` must be a whole number from 0 on"):
        tw.check(program("x[0] = 1;"), 1, 32, arrays(), schedules=schedules)


BODY = """.version 8.0 .target sm_90 .address_size 64 .visible .entry k(.param .u64 x) {{
.reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<2>; ld.param.u64 %rd1, [x]; {} ret; }}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.acquire.gpu.global.u32 %r1, [%rd1];", False),
        ("ld.volatile.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], %r1;", True),
        ("atom.global.add.u32 %r1, [%rd1], 1; mul.wide.u32 %rd2, %r1, 4; st.global.u32 [%rd2], 1;", True),
        ("atom.global.add.u32 %r1, [%rd1], 1; add.u32 %r2, %r1, 1;", False),
        ("red.global.add.u32 [%rd1], 1;", False),
        ("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], %r1;", False),
        ("L: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;", False),
        ("L: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; mov.u32 %r2, %r1;"
         "st.global.u32 [%rd1+4], %r2;", True),
        ("L: st.global.u32 [%rd1+8], 1; ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0;"
         "@%p1 bra L;", True),
        ("L: atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;", True),
        ("atom.global.add.u32 %r1, [%rd1], 1;\nL: ld.volatile.global.u32 %r2, [%rd1]; setp.lt.u32 %p1, %r2, %r1;"
         "membar.gl; @%p1 bra L;", False),
    ],
)  # fmt: skip
def test_reads_that_decide(body: str, expected: bool) -> None:
    assert decides(of_kernel(BODY.format(body), "k")) is expected


ASKS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b64 %a; .reg .b32 %v, %b, %d; .reg .pred %q;
ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; mov.u32 %b, %ctaid.x; setp.eq.u32 %q, %b, 0; @%q bra writer;
{}
ld.global.u32 %d, [%a]; st.global.u32 [%a+256], %d; ret;
writer: st.global.u32 [%a], 7; st.release.gpu.global.u32 [%a+128], 1; ret; }}"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 5])
@pytest.mark.parametrize(
    ("reads", "codes"),
    [
        ("ld.acquire.gpu.global.u32 %v, [%a+128];", ["TW303"]),
        ("atom.acquire.gpu.global.add.u32 %v, [%a+128], 0;", ["TW303"]),
        ("ld.acquire.gpu.global.u32 %v, [%a+128]; setp.eq.u32 %q, %v, 0; @%q ret;", []),
        ("L: ld.acquire.gpu.global.u32 %v, [%a+128]; setp.eq.u32 %q, %v, 0; @%q bra L;", []),
    ],
)
def test_a_read_whose_value_nothing_uses_orders_nothing(reads: str, codes: list[str], seed: int | None) -> None:
    """One run shows it, whatever it read: the accesses after it would be the same if it had come first."""
    x = np.zeros(128, np.uint32)
    findings = tw.check(Program.from_ptx(ASKS.format(reads)), 2, 1, (x,), seed=seed, schedules=0)
    assert [one.code for one in findings] == codes
