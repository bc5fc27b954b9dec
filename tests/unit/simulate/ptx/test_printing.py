"""Printing a tree and parsing the text gives the same tree, except line numbers and the directive `debug`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from ptx_specimens import GRAMMAR

from tilewright.errors import MissingExtraError
from tilewright.programs import Program
from tilewright.simulate.programs import assembler
from tilewright.simulate.ptx import parse, to_text
from tilewright.simulate.ptx.tree import Immediate, Instruction, Register

#: Fields of the tree that the text does not have.
NOT_PRINTED = ("ptx_line", "debug")


def without_lines(tree: Any) -> Any:
    """The tree as plain data of the fields that are printed."""
    if is_dataclass(tree) and not isinstance(tree, type):
        return [type(tree), *(without_lines(getattr(tree, f.name)) for f in fields(tree) if f.name not in NOT_PRINTED)]
    if isinstance(tree, dict):
        return {key: without_lines(value) for key, value in tree.items()}
    return [without_lines(item) for item in tree] if isinstance(tree, list | tuple) else tree


def test_parsing_the_printed_text_gives_the_tree() -> None:
    tree = parse(GRAMMAR)
    assert without_lines(parse(to_text(tree))) == without_lines(tree)


def test_the_comparison_sees_a_changed_operand() -> None:
    tree, changed = parse(GRAMMAR), parse(GRAMMAR)
    body = changed.functions["k"].body
    at = next(i for i, item in enumerate(body) if isinstance(item, Instruction) and item.name == "mov.u32")
    item = body[at]
    assert isinstance(item, Instruction)
    body[at] = replace(item, operands=(Register("%r1"), Immediate(1)))
    assert without_lines(changed) != without_lines(tree)


def test_the_vendors_assembler_reads_printed_text() -> None:
    try:
        assembler.find_assembler()
    except MissingExtraError as error:
        pytest.skip(f"not run: {error}")
    assert assembler.cubin(to_text(parse(GRAMMAR)), "k", (9, 0))


@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("-G",), ("-rdc=true",)])
def test_ptx_that_nvrtc_writes(options: tuple[str, ...]) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")
    tree = parse(Program.from_cuda(SOURCE, "k", options=options).ptx)
    assert sum(isinstance(item, Instruction) for item in tree.functions["k"].body) > 20
    assert without_lines(parse(to_text(tree))) == without_lines(tree)


SOURCE = r"""
struct S { char c; double d; short s[3]; };
typedef int (*fn)(int, int);
__device__ int g = 5;
__device__ int *where = &g;
struct __attribute__((packed)) Q { char c; int *p; };
__device__ Q packed = {3, &g};
__noinline__ __device__ int add(int a, int b) { return a + b; }
__noinline__ __device__ int mul(int a, int b) { return a * b; }
__device__ fn table[2] = {add, mul};
__noinline__ __device__ S make(S x, int k) { x.c += k; x.s[1] = k; return x; }
__noinline__ __device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void __launch_bounds__(256, 2) k(int *o, S s, float4 *v, int n) {
    extern __shared__ int dyn[];
    __shared__ float2 tile[64];
    int i = threadIdx.x + blockIdx.x * blockDim.x, local[16];
    dyn[threadIdx.x] = table[i & 1](i, n);
    tile[threadIdx.x % 64] = make_float2(i, n);
    __syncthreads();
    S t = make(s, i);
    for (int j = 0; j < 16; j++) local[j] = o[j * i];
    switch (i % 9) {
    case 0: o[0] = 1; break;
    case 1: o[1] = i * 3; break;
    case 2: o[2] = fib(i); break;
    case 3: o[4] = local[n & 15]; break;
    case 5: o[7] += n; break;
    default: o[i] = 0;
    }
    asm volatile("{ .reg .b32 t; .reg .pred p; setp.ne.b32 p, %0, 0; @p bra L; mov.b32 %0, 1; L: }" : "+r"(n));
    asm volatile("{ .reg .b32 t; .reg .pred p; setp.ne.b32 p, %0, 1; @p bra L; mov.b32 %0, 2; L: }" : "+r"(n));
    float4 f = v[i];
    f.x += tile[i % 64].x + atomicAdd(o, n) + *where + *packed.p;
    v[i] = f;
    o[i] += t.s[1] + t.c + dyn[0];
    if (n == 77) printf("%d %f\n", n, f.x);
}
"""
