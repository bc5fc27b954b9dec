"""Fields of an error: the broken rule, the instruction, and its place."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import KernelError

BODIES = {
    "misaligned": "ld.global.u32 %r1, [%at+1];",
    "bounds global": "ld.global.u32 %r1, [%at+100000000];",
    "bounds shared": "ld.shared.u32 %r1, [s+100000];",
    "bounds local": "ld.local.u32 %r1, [l+100000];",
    "barrier": "add.u32 %r1, %block, 16; bar.sync %r1;",
    "barrier count": "mov.u32 %r1, 33; bar.sync 1, %r1;",
}
#: Warp 0 waits at a barrier for others that never come.
ALONE = "setp.lt.u32 %p1, %tid, 32; @!%p1 bra PAST; {}; PAST: @%p1 bra END; {}; END:"


def error_of(body: str) -> KernelError:
    declarations = ".shared .align 8 .b8 s[64]; .local .align 8 .b8 l[64];"
    with pytest.raises(KernelError) as raised:
        run(kernel(body + " st.global.u32 [%at], %r1;", declarations=declarations), np.zeros(64, np.uint32), block=64)
    return raised.value


@pytest.mark.parametrize("fault", BODIES)
def test_the_fault_the_instruction_and_its_line_are_reported(fault: str) -> None:
    error = error_of(BODIES[fault])
    assert error.fault == fault
    assert error.line == f"PTX line {error.ptx_line}"
    assert error.opcode in BODIES[fault]
    assert (error.block, error.thread) == ((0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        ("bar.sync 1", "bar.sync 2", "deadlock"),
        ("bar.sync 1, 64", "bar.sync 2, 64", "deadlock"),
    ],
)
def test_a_deadlock_names_the_first_incomplete_barrier(first: str, second: str, fault: str) -> None:
    error = error_of(ALONE.format(first, second))
    assert (error.fault, error.opcode, error.thread) == (fault, "bar.sync", (0, 0, 0))
    assert error.line == f"PTX line {error.ptx_line}" in str(error)
    assert error.others == ((f"PTX line {error.ptx_line}", "bar.sync", error.ptx_line),), "one line of PTX has both"


def test_one_barrier_that_takes_too_many_threads_is_a_wrong_count() -> None:
    error = error_of("bar.sync 1, 128;")
    assert (error.fault, error.opcode, error.others) == ("barrier count", "bar.sync", ())
