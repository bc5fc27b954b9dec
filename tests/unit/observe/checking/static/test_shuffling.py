"""Shuffles from lanes outside their mask: stored results are reported, unused ones are not."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")

HEAD = """extern "C" __global__ void k(const int* x, int* out, int n) {
  int t = threadIdx.x, v = x[t]; unsigned m; int f;
"""
ALL = "0xffffffffu"
EIGHT, FIRST = (f"m = __ballot_sync({ALL}, t < {n}); if (t < {n}) " for n in "8n")
#: Body of a kernel (x has 32 elements, n is 20), and threads of its block.
DEFECTS = {
    "down, all of it stored": (f"{EIGHT}out[t] = v + __shfl_down_sync(m, v, 4);", 32),
    "up": (f"m = __ballot_sync({ALL}, t > 7); if (t > 7) out[t] = v + __shfl_up_sync(m, v, 4);", 32),
    "bfly": (f"{EIGHT}out[t] = v + __shfl_xor_sync(m, v, 8);", 32),
    "idx": (f"{EIGHT}out[t] = v + __shfl_sync(m, v, 9);", 32),
    "idx, known when it runs": (f"{EIGHT}out[t] = v + __shfl_sync(m, v, n);", 32),
    "segments": (
        f"m = __ballot_sync({ALL}, t % 16 < 4); if (t % 16 < 4) out[t] = v + __shfl_down_sync(m, v, 2, 8);", 32
    ),
    "a loop": (
        f"{EIGHT}{{\n#pragma unroll 1\n"
        "for (int d = n - 4; d; d /= 2) v += __shfl_down_sync(m, v, d); if (t == 0) out[0] = v; }",
        32,
    ),
    "a block of 16": (f"v += __shfl_down_sync({ALL}, v, 8); v += __shfl_down_sync({ALL}, v, 16); out[t] = v;", 16),
    "a mask of half a warp": ("if (t < 16) { v += __shfl_xor_sync(0xffff, v, 16); out[t] = v; }", 32),
    "what is stored is shared": (
        f"__shared__ int s[32]; m = __ballot_sync({ALL}, t < 8); if (t < 8) s[t] = __shfl_down_sync(m, v, 4);"
        " __syncwarp(); if (t < 4) out[t] = s[t];",
        32,
    ),
    "an address": (f"{EIGHT}{{ f = __shfl_down_sync(m, t, 4); if (t == 5) out[f] = v; }}", 32),
    "an atomic": (f"{EIGHT}atomicAdd(out, __shfl_down_sync(m, v, 4));", 32),
    "64 bits": (
        f"long long w = v; {EIGHT}{{ w += __shfl_down_sync(m, w, 4); out[t] = w; }}", 32
    ),
    "a mask that lanes see differently": (
        "f = t / 8; m = 0xffu << 8 * f; out[t] = v + __shfl_xor_sync(m, v, 8);", 32
    ),
}  # fmt: skip
CORRECT = {
    "half a warp's sum": (
        "if (t < 16) { for (int d = 8; d; d /= 2) v += __shfl_down_sync(0xffff, v, d); if (t == 0) out[0] = v; }", 32
    ),
    "both halves' sums": (
        "m = t < 16 ? 0xffffu : 0xffff0000u; for (int d = 8; d; d /= 2) v += __shfl_down_sync(m, v, d);"
        " if (t % 16 == 0) out[t] = v;",
        32,
    ),
    "in a loop": (
        "m = 0xffff; if (t < 16) for (int i = 0; i < n; ++i) { v = x[t] + i;\n#pragma unroll 1\n"
        "for (int d = 8; d; d /= 2) v += __shfl_down_sync(m, v, d); if (t == 0) out[i] = v; }",
        32,
    ),
    "a choice after it": (
        f"{FIRST}{{ f = __shfl_down_sync(m, v, 4); if (t + 4 < n) v += f; out[t] = v; }}",
        32,
    ),
    "a scan of the first": (
        f"{FIRST}{{ for (int d = 1; d < 32; d *= 2) {{ f = __shfl_up_sync(m, v, d);"
        " if (t >= d) v += f; } out[t] = v; }",
        32,
    ),
    "64 bits": (f"long long w = v; {EIGHT}{{ for (int d = 4; d; d /= 2) w += __shfl_down_sync(m, w, d);"
                " if (t == 0) out[0] = w; }", 32),
    "out of range": (f"out[t] = v + __shfl_down_sync({ALL}, v, 4);", 32),
    "segments": ("if (t < 16) out[t] = v + __shfl_down_sync(0xffff, v, 4, 8);", 32),
    "a leader": (f"{FIRST}out[t] = v + __shfl_sync(m, v, __ffs(m) - 1);", 32),
    "a block of 16": ("for (int d = 8; d; d /= 2) v += __shfl_xor_sync(0xffff, v, d); out[t] = v;", 16),
    "nothing stored": (f"{EIGHT}v += __shfl_down_sync(m, v, 4); out[t] = t;", 32),
    "the largest": (
        f"{FIRST}{{ f = __shfl_down_sync(m, v, 4); if (t + 4 < n && f > v) v = f;"
        " out[t] = v; }",
        32,
    ),
}  # fmt: skip


def codes(body: str, threads: int) -> list[str]:
    program = Program.from_cuda(f"{HEAD}{body}\n}}", "k")
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    found = tw.check(program, 1, threads, (x, out, 20), ignore=["TW501", "TW506"])
    return [one.code for one in found]


@pytest.mark.parametrize("name", DEFECTS)
def test_a_stored_value_from_a_lane_outside_the_mask_is_reported(name: str) -> None:
    found = codes(*DEFECTS[name])
    assert "TW405" in found
    assert set(found) == {"TW405"}


@pytest.mark.parametrize("name", CORRECT)
def test_an_unused_value_is_not_reported(name: str) -> None:
    assert codes(*CORRECT[name]) == []


def test_a_missing_value_counts_as_zero() -> None:
    body = f"{EIGHT}{{ for (int d = 16; d; d /= 2) v += __shfl_down_sync(m, v, d);"
    program = Program.from_cuda(f"{HEAD}{body} if (t == 0) out[0] = v; }}\n}}", "k")
    out = np.zeros(32, np.int32)
    tw.simt.launch(program, 1, 32, (np.arange(32, dtype=np.int32), out, 20))
    assert out[0] == sum(range(8))  # the sample's result on GPUs
