"""Memory of the host: a kernel's variables and local memory cannot use it up, whatever its PTX declares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import LaunchError, OutOfMemoryError, PtxError, TilewrightError
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.programs import Program
from tilewright.simt import Limits, Memory, launch
from tilewright.simulate.machine import host_memory

OUT = np.zeros(4, np.uint64)
MIB, GIB = 1 << 20, 1 << 30


def declaring(module: str = "", body: str = "") -> Program:
    return Program.from_ptx(
        f".version 8.7\n.target sm_70\n.address_size 64\n{module}\n.visible .entry k(.param .u64 p) {{\n{body}\n"
        ".reg .b64 %d<3>;\nld.param.u64 %d1, [p];\nmov.u64 %d2, a;\nst.global.u64 [%d1], %d2;\nret;\n}\n"
    )


def fake_room(monkeypatch: pytest.MonkeyPatch, room_bytes: int) -> None:
    """Let the host have so many bytes besides those in use now."""
    before = host_memory.resident_bytes()

    def left() -> int:
        return max(0, room_bytes - (host_memory.resident_bytes() - before))

    monkeypatch.setattr(host_memory, "available_bytes", left)
    monkeypatch.setattr(host_memory, "reserve_bytes", lambda: room_bytes // 8)


#: The most that is accepted, and one element more with what the error says.
SPACES = {
    "const": (".const .f32 a[16384];", ".const .f32 a[16385];", r":4: .* at most 65,536 bytes \(got 65,540 with 'a'\)"),
    "const of two": (
        ".const .b8 b[5]; .const .align 8 .b8 a[65531];",
        ".const .b8 b[6]; .const .align 8 .b8 a[65531];",
        r"got 65,537 with 'a'",
    ),
    "const of a kernel": ("b:.const .b8 a[65536];", "b:.const .b8 a[65537];", r"kernel.ptx:6: .*got 65,537 with 'a'"),
    "global": (
        ".global .f32 a[4000000000];",
        ".global .f32 a[4000000001];",
        r"k: .* the 16,000,000,000 bytes of memory of NVIDIA T4 \(got 16,000,000,004\); declare smaller",
    ),
    "shared": (
        ".shared .b8 a[65536];",
        ".shared .b8 a[65537];",
        r"must be at most 65,536 bytes together on the NVIDIA T4",
    ),
    "local": ("b:.local .b8 a[524288];", "b:.local .b8 a[524289];", "at most 524,288 bytes"),
}


@pytest.mark.parametrize("space", SPACES)
def test_variables_fit_the_gpu(monkeypatch: pytest.MonkeyPatch, space: str) -> None:
    fake_room(monkeypatch, 64 * GIB)
    fits, too_large, message = SPACES[space]
    for text, refused in ((fits, False), (too_large, True)):
        program = declaring(body=text[2:]) if text.startswith("b:") else declaring(text)
        if refused:
            with pytest.raises(TilewrightError, match=message):
                launch(program, 1, 32, (OUT,), gpu="t4")
        else:
            launch(program, 1, 32, (OUT,), gpu="t4")


@pytest.mark.parametrize("space", ["const", "global", "shared"])
@pytest.mark.parametrize("size", ["[549755813888]", "[549755813888][2097151]", "[][549755813888][549755813888]"])
def test_no_size_is_too_large_for_an_error(space: str, size: str) -> None:
    """2 TB, 2**60 bytes, 2**78 bytes in rows: each is an error before memory is allocated."""
    initial = "" if "[]" not in size else " = {{{1}}}"
    with pytest.raises((LaunchError, PtxError), match=r"bytes|elements"):
        launch(declaring(f".{space} .b8 a{size}{initial};"), 1, 32, (OUT,))
    if space != "shared":
        with pytest.raises((LaunchError, PtxError, OutOfMemoryError), match=r"bytes|elements"):
            Memory().variables(declaring(f".{space} .b8 a{size}{initial};"))


def test_variables_fit_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel might write all of them, so the host must have their bytes, and some more."""
    fake_room(monkeypatch, 4 * GIB)
    launch(declaring(f".global .b8 a[{2 * GIB}];"), 1, 32, (OUT,))
    large = declaring(f".global .b8 a[{4 * GIB}];")
    message = r"kernel.ptx: the variables of a module take 4,294,967,296 bytes: the host must have 4 GiB of free memory"
    for run in (lambda: launch(large, 1, 32, (OUT,)), lambda: Memory().variables(large)):
        with pytest.raises(OutOfMemoryError, match=message):
            run()


def test_a_check_of_large_variables_fits_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps a byte for each of theirs from the beginning; here a thirtieth of that is left."""
    program = declaring(f".global .b8 a[{MIB * 300}];")
    fake_room(monkeypatch, 10 * GIB)
    launch(program, 1, 32, (OUT,))
    asked: list[int] = []
    refused: Callable[[int], str] = host_memory.refused
    monkeypatch.setattr(
        "tilewright.observe.instruments.shadow.states.refused", lambda n: asked.append(n) or refused(32 * n)
    )
    with pytest.raises(OutOfMemoryError, match="a check keeps a byte for each byte of GPU memory, so the host must"):
        launch(program, 1, 32, (OUT,), instruments=(MemoryCheck(program.module),))
    assert asked[0] > MIB * 300


def test_contents_that_are_restored_fit_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    memory.allocate(300 * MIB)
    fake_room(monkeypatch, 300 * MIB)
    with pytest.raises(OutOfMemoryError, match="contents of GPU memory are kept and restored, so the host must"):
        memory.restored().__enter__()
    fake_room(monkeypatch, GIB)
    with memory.restored() as changed:
        memory.view(memory.allocations()[0][0], 1)[:] = 1
        assert len(changed()) == 1
    assert not memory.view(memory.allocations()[0][0], 1).any()


WAITING = """.version 8.7 .target sm_70 .address_size 64
.visible .entry waiting(.param .u64 p) {
    .local .align 16 .b8 a[262144];
    .reg .b64 %d<3>; .reg .b32 %r<7>; .reg .pred %p;
    ld.param.u64 %d2, [p]; mov.u64 %d1, a; mov.u32 %r1, 0;
    FILL: st.local.u32 [%d1], %r1; add.u64 %d1, %d1, 4096; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 64; @%p bra FILL;
    atom.global.add.u32 %r2, [%d2], 1; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ntid.x; mul.lo.u32 %r3, %r3, %r4;
    WAIT: ld.volatile.global.u32 %r4, [%d2]; setp.lt.u32 %p, %r4, %r3; @%p bra WAIT;
    ret;
}
"""


def test_a_launch_that_uses_up_the_host_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block fills 8 MiB of local memory and then waits for all others: 4 fit the host, 256 do not."""
    program = Program.from_ptx(WAITING)
    fake_room(monkeypatch, 64 * MIB)
    monkeypatch.setattr(host_memory, "LARGE_BYTES", 8 * MIB)
    limits = Limits(seconds=60)
    counter = np.zeros(4, np.uint64)
    launch(program, 4, 32, (counter,), limits=limits)
    assert counter[0] == 128
    with pytest.raises(OutOfMemoryError, match=r"waiting: a launch must leave .* of the host's memory .*; use less"):
        launch(program, 256, 32, (np.zeros(4, np.uint64),), limits=limits)
    assert tw.simt.launch(program, 1, 32, (np.zeros(4, np.uint64),)).seconds < 60


FILLING = """
extern "C" __global__ void filling(char *p, long bytes) {
    for (long i = blockIdx.x * 4096L; i < bytes; i += gridDim.x * 4096L) {
        p[i] = 1;
        for (volatile int wait = 0; wait < 200; wait++) {}
    }
    for (volatile int wait = 0; wait < 2000000; wait++) {}
}
"""


def test_launches_that_use_up_the_host_together_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes 16 MiB of global memory, without instruments: 3 leave the host too little."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")
    program, memory = Program.from_cuda(FILLING, "filling"), Memory()
    parts = [np.uint64(memory.allocate(16 * MIB)) for _ in range(3)]
    launch(program, 1, 32, (parts[0], np.int64(0)), memory=memory)
    fake_room(monkeypatch, 48 * MIB)
    monkeypatch.setattr(host_memory, "LARGE_BYTES", 8 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"filling: a launch must leave 6 MiB of the host's memory"):
        for part in parts:
            launch(program, 1, 32, (part, np.int64(16 * MIB)), memory=memory, limits=Limits(seconds=60))
    assert memory.view(int(parts[1]), 1)[0] == 1
