"""Kernels that draw random numbers by cuRAND's headers, which torch's wheel brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch's wheel depends on nvidia-curand")
if not list(Path(sys.prefix).rglob("curand_kernel.h")):
    pytest.skip("this torch comes without nvidia-curand", allow_module_level=True)

SOURCE = r"""
#include <cstdio>
#include <curand_kernel.h>

template <class State> __global__ void draw(float *out) {
    State state;
    curand_init(1234, threadIdx.x, 0, &state);
    out[threadIdx.x] = curand_uniform(&state);
}

template <class State> void print() {
    float *out, host[64];
    cudaMalloc(&out, sizeof host);
    draw<State><<<1, 64>>>(out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (float one : host) printf("%.9g ", one);
    printf("\n");
}

int main() {
    print<curandStateXORWOW_t>();
    print<curandStatePhilox4_32_10_t>();
}
"""


def philox(subsequence: int, seed: int) -> int:
    """The first word of a subsequence of Philox4x32-10.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 4.3 and its constants.
    """
    word = 2**32 - 1
    counter, key = [0, 0, subsequence, 0], [seed & word, seed >> 32]
    for _ in range(10):
        left, right = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [right >> 32 ^ counter[1] ^ key[0], right & word, left >> 32 ^ counter[3] ^ key[1], left & word]
        key = [(key[0] + 0x9E3779B9) & word, (key[1] + 0xBB67AE85) & word]
    return counter[0]


def test_kernels_draw_the_generators_numbers(tmp_path: Path) -> None:
    path = tmp_path / "draw.cu"
    path.write_text(SOURCE)
    command = [sys.executable, "-m", "tilewright", "run", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    xorwow, drawn = (np.array(line.split(), np.float32) for line in ran.stdout.splitlines())
    # cuRAND: a word times 2^-32, plus 2^-33, so that 0 is left out.
    scale, words = np.float32(2.0**-32), np.array([philox(i, 1234) for i in range(64)], np.float32)
    assert np.array_equal(drawn, words * scale + scale / 2)
    assert np.allclose(xorwow[:4], [0.145468, 0.820181, 0.550399, 0.294830], atol=5e-7)  # as cuRAND gives for this seed
