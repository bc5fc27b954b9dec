"""Why TW413 ignores constants in registers that no product has used since the last `wgmma.fence`."""

from __future__ import annotations

from tilewright.programs import Program

SOURCE = r"""
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define MULTIPLY(d)                                                                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;\n"  \
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"                            \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(matrix))
template <bool right>
__global__ void two_products(float *out, unsigned long long matrix) {
    float first[4] = {}, second[4];
    FENCE;
    MULTIPLY(first);
    out[threadIdx.x] = first[0];
    if (!right) FENCE;
    for (int i = 0; i < 4; ++i) second[i] = 0;
    if (right) FENCE;
    MULTIPLY(second);
    out[128 + threadIdx.x] = second[0];
}
"""


def instructions(right: bool) -> list[str]:
    """The kernel's instructions, without its name and the places in its source."""
    entry = f"two_products<{str(right).lower()}>"
    program = Program.from_cuda(SOURCE, entry, (9, 0), ("--gpu-architecture=compute_90a",))
    text = program.ptx.replace(program.entry, "two_products")
    lines = (line.strip() for line in text[text.index("{") : text.index("ret;")].splitlines())
    return [line for line in lines if line and not line.startswith((".loc", "//", "$"))]


def test_a_compiler_moves_constants_behind_a_fence_so_that_both_programs_are_one() -> None:
    assert instructions(right=True) == instructions(right=False)
    assert sum("wgmma.fence" in line for line in instructions(right=True)) == 2
