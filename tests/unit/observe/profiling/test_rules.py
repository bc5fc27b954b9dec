"""Each rule of the verdict on compiled kernels: it names a defect, and the edit that it recommends saves time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright import machine, profiling
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling.verdict import NOTHING, RULES, register_cap
from tilewright.programs import Program
from tilewright.simulate.machine import limiters as names


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@dataclass(frozen=True)
class Example:
    """A kernel with a defect, and the same work after the edit: CUDA C++ with `%s`, or a function that makes one."""

    kernel: str | Callable[[Any], Any]
    defect: Any  #: What stands for `%s`.
    edited: Any
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    gpu: str = "h100"
    edited_grid: Any = None
    alone: bool = True  #: Whether the counts of the PTX name the rule too.

    def launch(self, *, edited: bool = False) -> tuple[Any, ...]:
        filled, grid = (self.edited, self.edited_grid or self.grid) if edited else (self.defect, self.grid)
        if callable(self.kernel):
            return self.kernel(filled), grid, self.block, self.arguments
        text = 'extern "C" __global__ void ' + self.kernel.replace("%s", filled)
        head = "".join(f"#include <{name}.h>\n" for name in ("cuda_fp16", "mma") if "half" in text)
        cc = machine.gpu(self.gpu).compute_capability
        return Program.from_cuda(head + text, "k", cc=cc), grid, self.block, self.arguments

    def predicted(self, *, edited: bool = False) -> Prediction:
        return tw.predict(*self.launch(edited=edited), gpu=self.gpu, all_blocks=True)


def product(swapped: bool) -> Any:
    @cuda.jit
    def multiply(a: Any, b: Any, c: Any) -> None:
        row, column = cuda.grid(2)
        if not swapped:
            row, column = column, row
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total

    return multiply


#: Values that stay in registers: %s of them for each thread.
MANY = "{values} for (int k = 0; k < m; k++) {{ {steps} }} a[threadIdx.x] = {total}; }}"


def many(count: int) -> str:
    """A kernel that works on so many values at once."""
    values = "".join(f"float x{n} = a[threadIdx.x + {n} * 256];" for n in range(count))
    steps = "".join(f"x{n} = x{n} * x{(n + 1) % count} + 1;" for n in range(count))
    return "k(float *a, int m) {" + MANY.format(
        values=values, steps=steps, total="+".join(f"x{n}" for n in range(count))
    )


HALVES = """k(const __half *a, const __half *b, float *c, int n) {
    __shared__ __half as[32][32], bs[32][64];
    int x = threadIdx.x, y = threadIdx.y;
    float s[8] = {0}, t[8] = {0};
    a += blockIdx.y * 32 * n; b += blockIdx.x * 64; c += blockIdx.y * 32 * n + blockIdx.x * 64;
    for (int k = 0; k < n; k += 32) {
        for (int r = y; r < 32; r += 4) {
            as[r][x] = a[r * n + k + x]; bs[r][x] = b[(k + r) * n + x]; bs[r][x + 32] = b[(k + r) * n + x + 32];
        }
        __syncthreads();
        for (int j = 0; j < 32; j++) {
            float v = __half2float(bs[j][x]), w = __half2float(bs[j][x + 32]);
            for (int r = 0; r < 8; r++) {
                float u = __half2float(as[y * 8 + r][j]); s[r] += u * v; t[r] += u * w;
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; r++) { c[(y * 8 + r) * n + x] = s[r]; c[(y * 8 + r) * n + x + 32] = t[r]; }
}"""
FRAGMENTS = """k(const __half *a, const __half *b, float *c, int n) {
    using namespace nvcuda::wmma;
    a += blockIdx.y * 32 * n; b += blockIdx.x * 64 + threadIdx.y * 16;
    c += blockIdx.y * 32 * n + blockIdx.x * 64 + threadIdx.y * 16;
    fragment<matrix_a, 16, 16, 16, __half, row_major> fa; fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc[2];
    fill_fragment(fc[0], 0.0f); fill_fragment(fc[1], 0.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(fb, b + k * n, n);
        for (int i = 0; i < 2; i++) { load_matrix_sync(fa, a + i * 16 * n + k, n); mma_sync(fc[i], fa, fb, fc[i]); }
    }
    for (int i = 0; i < 2; i++) store_matrix_sync(c + i * 16 * n, fc[i], n, mem_row_major);
}"""
FAR = 64 * 132 * 8
EXAMPLES = {
    "few blocks": Example(
        """k(float *x, int n) {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2; }""",
        "", "", 4, 256, (zeros(1 << 16), np.int32(1 << 16)), edited_grid=256,
    ),
    "bank conflicts": Example(
        """k(float *c) { __shared__ float a[32][%s]; int x = threadIdx.x, y = threadIdx.y; float s = 0;
        a[y][x] = c[32 * y + x]; __syncthreads();
        #pragma unroll 1
        for (int n = 0; n < 32; n++) s += a[x][(n + y) % 32];
        c[32 * y + x] = s; }""",
        "32", "33", 264, (32, 32), (zeros(32, 32),),
    ),
    "uncoalesced access": Example(
        product, True, False, (12, 12), (16, 16), (zeros(192, 192), zeros(192, 192), zeros(192, 192)), alone=False
    ),
    "local arrays": Example(
        """k(const int *which, float *x) { float v[32], s = 0;
        for (int k = 0; k < 32; k++) v[k] = x[k * 256 + threadIdx.x];
        for (int k = 0; k < 32; k++) s += v[%s];
        x[threadIdx.x] = s; }""",
        "which[k]", "k", 264, 256, (np.arange(32, dtype=np.int32), zeros(33 * 256)),
    ),
    "spilled registers": Example(
        "%s " + many(96), "__launch_bounds__(256, 5)", "__launch_bounds__(256)", 264, 256,
        (zeros(97 * 256), np.int32(16)), alone=False,
    ),
    "divergence": Example(
        """k(float *x) { int i = blockIdx.x * 256 + threadIdx.x, odd = threadIdx.x%s % 2; float v = x[i];
        #pragma unroll 1
        for (int k = 0; k < 16; k++)
            if (odd) for (int j = 0; j < 16; j++) v = v * 1.5f + 2;
            else for (int j = 0; j < 16; j++) v = v * v - 1;
        x[i] = v; }""",
        "", "/ 32", 1056, 256, (zeros(1056 * 256),),
    ),
    "float64 by accident": Example(
        """k(float *x) { int i = blockIdx.x * 256 + threadIdx.x; float v = x[i];
        for (int k = 0; k < 16; k++) v = v * 0.5%s + 1;
        x[i] = v; }""",
        "", "f", 512, 256, (zeros(512 * 256),), gpu="rtx4090",
    ),
    "tensor cores not used": Example(
        "%s", HALVES, FRAGMENTS, (6, 24), (32, 4),
        (zeros(768, 384, dtype=np.float16), zeros(384, 384, dtype=np.float16), zeros(768, 384), np.int32(384)),
        alone=False,
    ),
    "low occupancy": Example(
        """k(const int *next, float *x) { __shared__ float room[%s];
        int i = blockIdx.x * 64 + threadIdx.x, at = i; float v = 0; room[threadIdx.x] = i;
        #pragma unroll 1
        for (int k = 0; k < 32; k++) { at = next[at]; v += at; }
        x[i] = v + room[threadIdx.x]; }""",
        "12000", "64", 132 * 8, 64, ((np.arange(FAR, dtype=np.int32) + 4096) % FAR, zeros(FAR)), alone=False,
    ),
    "barriers": Example(
        """k(float *x) { float v = x[threadIdx.x];
        #pragma unroll 64
        for (int k = 0; k < 1024; k += %s) {
            for (int j = 0; j < %s; j++) v = v * 0.5f + 1;
            __syncthreads();
        }
        x[threadIdx.x] = v; }""",
        "1", "16", 132, 128, (zeros(128),), alone=False,
    ),
}  # fmt: skip


def test_every_rule_has_an_example() -> None:
    assert [rule.name for rule in RULES] == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_names_its_defect_and_its_edit_saves_time(name: str) -> None:
    example = EXAMPLES[name]
    found, edited = example.predicted(), example.predicted(edited=True)
    assert (found.verdict.rule, edited.verdict.rule) == (name, NOTHING)
    assert edited.seconds < 0.8 * found.seconds
    assert found.verdict.mended_seconds is None or edited.seconds <= 1.1 * found.verdict.mended_seconds
    assert found.verdict.edit and "{" not in found.verdict.sentence + found.verdict.edit
    assert found.verdict.causes and found.verdict.causes[0].line
    assert {found.limiter, edited.limiter} <= {*names.UNITS, *names.STALLS}


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if example.alone])
def test_the_counts_of_the_ptx_name_the_rule_too(name: str) -> None:
    example = EXAMPLES[name]
    defect, edited = (profiling.profile(*example.launch(edited=how), gpu=example.gpu) for how in (False, True))
    assert defect.verdict is not None and edited.verdict is not None
    assert (defect.verdict.rule, defect.verdict.share) == (name, None)
    assert edited.verdict.rule != name


@pytest.mark.parametrize(
    ("bounds", "count", "cap"),
    [
        ("__launch_bounds__(256, 5)", 96, "its launch bounds of 256 threads and 5 blocks"),
        ("__maxnreg__(48)", 96, "its maxnreg of 48"),
        ("", 280, ""),
        ("__launch_bounds__(256)", 280, ""),
    ],
)
def test_the_edit_for_spills_names_the_cap_on_registers_where_there_is_one(bounds: str, count: int, cap: str) -> None:
    """Without a cap the kernel has the most registers already, so that only fewer values help."""
    program = Program.from_cuda(f'extern "C" __global__ void {bounds} {many(count)}', "k")
    found = tw.predict(program, 264, 256, (zeros((count + 1) * 256), np.int32(16))).verdict
    assert found.rule == "spilled registers"
    assert found.edit.startswith("raise the cap on registers (" if cap else "keep fewer values alive")
    assert cap in found.edit and "keep fewer values alive in each thread" in found.edit


@pytest.mark.parametrize(
    ("directives", "cap"),
    [
        ({".reqntid": (1024, 1, 1)}, "launch bounds of 1,024 threads"),
        ({".maxntid": (16, 8, 1), ".minnctapersm": (2,)}, ""),
        ({".maxnreg": (40,), ".maxntid": (1024, 1, 1)}, "maxnreg of 40"),
    ],
)
def test_a_cap_on_registers_is_what_leaves_a_thread_fewer_than_the_most(directives: Any, cap: str) -> None:
    assert register_cap(directives, machine.gpu("h100")) == cap
