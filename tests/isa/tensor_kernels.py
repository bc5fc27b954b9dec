"""Kernels that use tensor memory: they fill it from an array, execute a body, and copy all of it out."""

from __future__ import annotations

import numpy as np

from tilewright.programs import Program
from tilewright.simt import launch

LANES, COLUMNS, THREADS = 128, 512, 128
#: Columns that 32 registers move.
_STEP = 32


def _list(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def _each(what: str) -> str:
    """Loops over the columns of each thread's lane, 32 at a time, at `%move` in tensor memory and `%at` in an array."""
    registers = "".join(what.replace("{i}", str(i)).replace("{b}", str(4 * i)) for i in range(_STEP))
    return registers


def text(body: str, *, shared_bytes: int = 16, registers: str = "", tail: str = "") -> str:
    """A kernel of arrays `shared` (bytes), `tensor` (lanes, columns) and `out`, and of numbers, `given`.

    In `body` %q is true in one thread; %zero is 0, %tensor the address of tensor memory, %own that of the warp's lanes,
    %given the address of the numbers, `shared` what holds the bytes and `bar` an mbarrier of one arrival. `tail` comes
    behind the copy, before the memory is freed.
    """
    moved = _list("v", _STEP)
    loads, stores = _each("ld.global.b32 %v{i}, [%at+{b}];\n"), _each("st.global.b32 [%at+{b}], %v{i};\n")
    return f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_shared, .param .u64 p_tensor, .param .u64 p_out, .param .u64 p_given) {{
.shared .align 1024 .b8 shared[{max(shared_bytes, 16)}];
.shared .align 8 .b64 bar;
.shared .align 4 .b32 place;
.reg .b32 %t, %i, %v<{_STEP}>, %s, %tensor, %own, %move, %warp, %zero, %r<140>;
.reg .b64 %from, %w, %in, %out, %at, %given, %l<9>;
.reg .pred %q, %more, %yes, %no, %done, %p<9>;
{registers}
ld.param.u64 %from, [p_shared]; ld.param.u64 %in, [p_tensor]; ld.param.u64 %out, [p_out];
ld.param.u64 %given, [p_given];
mov.u32 %t, %tid.x; mov.u32 %zero, 0; setp.eq.u32 %yes, %t, %t; setp.ne.u32 %no, %t, %t;
shr.u32 %warp, %t, 5; setp.eq.u32 %q, %t, 0;
mov.u32 %s, shared; shl.b32 %i, %t, 2;
copy: setp.ge.u32 %more, %i, {shared_bytes}; @%more bra copied;
cvt.u64.u32 %w, %i; add.u64 %w, %w, %from; ld.global.b32 %v0, [%w];
add.u32 %move, %s, %i; st.shared.b32 [%move], %v0; add.u32 %i, %i, {4 * THREADS}; bra copy;
copied:
@%q mbarrier.init.shared.b64 [bar], 1;
setp.eq.u32 %p0, %warp, 0;
@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 512;
@%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
fence.proxy.async.shared::cta;
bar.sync 0;
ld.shared.b32 %tensor, [place];
shl.b32 %own, %warp, 21; add.u32 %own, %own, %tensor;
mul.wide.u32 %w, %t, {4 * COLUMNS};
add.u64 %at, %in, %w; mov.u32 %i, 0;
fill: add.u32 %move, %own, %i;
{loads}
tcgen05.st.sync.aligned.32x32b.x32.b32 [%move], {moved};
add.u64 %at, %at, {4 * _STEP}; add.u32 %i, %i, {_STEP}; setp.lt.u32 %more, %i, {COLUMNS}; @%more bra fill;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
{body}
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
mul.wide.u32 %w, %t, {4 * COLUMNS};
add.u64 %at, %out, %w; mov.u32 %i, 0;
read: add.u32 %move, %own, %i;
tcgen05.ld.sync.aligned.32x32b.x32.b32 {moved}, [%move];
tcgen05.wait::ld.sync.aligned;
{stores}
add.u64 %at, %at, {4 * _STEP}; add.u32 %i, %i, {_STEP}; setp.lt.u32 %more, %i, {COLUMNS}; @%more bra read;
{tail}
bar.sync 0;
@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tensor, 512;
ret;
}}
"""


#: One thread's products and copies have ended.
AWAIT = """
@%q tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
wait: mbarrier.try_wait.parity.shared.b64 %done, [bar], 0; @!%done bra wait;
tcgen05.fence::after_thread_sync;
"""


def run(
    source: str | Program, tensor: np.ndarray, shared: np.ndarray | None = None, given: np.ndarray | None = None
) -> np.ndarray:
    """The final contents of tensor memory, (lanes, columns) of 32 bits."""
    program = Program.from_ptx(source) if isinstance(source, str) else source
    out = np.zeros((LANES, COLUMNS), np.uint32)
    shared = np.zeros(16, np.uint8) if shared is None else shared
    given = np.zeros(8, np.uint64) if given is None else given
    launch(program, 1, THREADS, (shared, tensor.reshape(-1), out.reshape(-1), given.reshape(-1)), gpu="b200")
    return out


def noise(seed: int = 0) -> np.ndarray:
    """Tensor memory full of random bits."""
    return np.random.default_rng(seed).integers(0, 1 << 32, (LANES, COLUMNS), dtype=np.uint32)
