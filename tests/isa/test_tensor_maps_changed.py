"""Tensor maps that kernels change or make: copies by them are those by a map that the host makes so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import vendor
from boxes import HEAD, SHARED_BYTES, box_of, load_text, unswizzled

from tilewright.errors import KernelError, PtxError
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.programs import Program
from tilewright.simt import Memory, launch
from tilewright.simulate.programs.assembler import find_assembler

#: Numbers of element types, as kernels have them.
TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 9}


def fields(array: np.ndarray, box: tuple[int, ...], swizzle: int, *, nans: bool, steps: tuple[int, ...]) -> str:
    """Instructions that make a map of an array whose address is in %array."""
    rank, lines = array.ndim, []

    def put(field: str, value: object, kind: str = "b32", axis: int | None = None) -> None:
        before = "" if axis is None else f"{axis}, "
        lines.append(f"tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [%s], {before}{value};")

    put("global_address", "%array", "b64")
    put("rank", rank - 1)
    for axis in range(rank):
        put("box_dim", box[::-1][axis], axis=axis)
        put("global_dim", array.shape[::-1][axis], axis=axis)
        put("element_stride", steps[::-1][axis], axis=axis)
    for axis, stride in enumerate(array.strides[-2::-1]):
        lines.append(f"mov.b64 %stride, {stride};")
        put("global_stride", "%stride", "b64", axis)
    put("elemtype", TYPES[array.dtype.str[1:]])
    put("interleave_layout", 0)
    put("swizzle_mode", (0, 32, 64, 128).index(swizzle))
    put("fill_mode", int(nans))
    return "\n".join(lines)


def made_text(rank: int, corner: tuple[int, ...], size: int, changes: str) -> str:
    """The kernel that loads a box by a map that it makes of the bytes of `map`, in shared memory."""
    text = load_text(rank, corner, size)
    text = text.replace(".param .u64 p_out)", ".param .u64 p_out, .param .u64 p_map, .param .u64 p_array)")
    made = f"""
.reg .b64 %array, %stride, %kept, %word; .reg .b32 %i, %q; .reg .pred %warp;
ld.param.u64 %kept, [p_map]; ld.param.u64 %array, [p_array];
setp.lt.u32 %warp, %t, 32; @!%warp bra made;
@!%first bra whole;
mov.u32 %i, 0; mov.u32 %q, %s;
more: ld.b64 %word, [%m]; st.shared.b64 [%q], %word; add.u64 %m, %m, 8; add.u32 %q, %q, 8; add.u32 %i, %i, 8;
setp.lt.u32 %done, %i, 128; @%done bra more;
{changes}
whole: bar.warp.sync 0xffffffff;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%kept], [%s], 128;
made: mov.b64 %m, %kept;
fence.proxy.tensormap::generic.acquire.gpu [%m], 128;
fence.proxy.async.shared::cta;
@!%first bra ready;
mbarrier.init"""
    return text.replace("@!%first bra ready;\nmbarrier.init", made)


CASES = {
    "1d": ((1000,), (64,), (100,), 0, "u4", False),
    "2d": ((50, 64), (16, 32), (40, 8), 128, "f4", True),
    "3d": ((5, 9, 16), (3, 4, 8), (1, 6, 12), 32, "f2", True),
    "5d": ((2, 3, 4, 5, 8), (2, 2, 2, 3, 4), (0, 1, 3, 2, 4), 0, "i8", False),
    "bytes": ((20, 64), (8, 16), (15, 50), 0, "u1", False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_map_that_is_made_of_zeros(case):
    shape, box, corner, swizzle, dtype, nans = CASES[case]
    array = np.random.default_rng(3).integers(1, 100, shape).astype(dtype)
    steps = (2,) * (len(shape) - 1) + (1,)
    wanted = box_of(array, corner, box, steps, np.nan if nans else 0)
    out, kept = np.zeros(SHARED_BYTES, np.uint8), np.zeros(16, np.uint64)
    changes = fields(array, box, swizzle, nans=nans, steps=steps)
    program = Program.from_ptx(made_text(len(shape), corner, wanted.nbytes, changes))
    launch(program, 1, 64, (bytes(128), out, kept, array))
    found = unswizzled(out[: -(-wanted.nbytes // 1024) * 1024], swizzle)[: wanted.nbytes]
    assert np.array_equal(found.view(array.dtype).reshape(wanted.shape), wanted, equal_nan=nans)


def test_a_map_of_the_host_gets_another_address_and_extent():
    given, array = np.zeros((64, 64), np.float32), np.random.default_rng(4).random((30, 64), np.float32)
    changes = """tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%s], %array;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%s], 1, 30;"""
    out, text = np.zeros(SHARED_BYTES, np.uint8), made_text(2, (20, 8), 16 * 32 * 4, changes)
    arguments = (TensorMap(given, (16, 32)), out, np.zeros(16, np.uint64), array)
    launch(Program.from_ptx(text), 1, 64, arguments)
    wanted = np.zeros((16, 32), np.float32)
    wanted[:10] = array[20:, 8:40]
    assert np.array_equal(out[: wanted.nbytes].view(np.float32).reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    "change",
    ["rank.shared::cta.b1024.b32 [%s], 2", "interleave_layout.shared::cta.b1024.b32 [%s], 1",
     "swizzle_mode.shared::cta.b1024.b32 [%s], 4", "elemtype.shared::cta.b1024.b32 [%s], 8",
     "elemtype.shared::cta.b1024.b32 [%s], 99", "box_dim.shared::cta.b1024.b32 [%s], 0, 257",
     "element_stride.shared::cta.b1024.b32 [%s], 1, 65537"],
)  # fmt: skip
def test_a_field_that_no_copy_takes_is_a_fault(change):
    array, out = np.zeros((64, 64), np.float32), np.zeros(SHARED_BYTES, np.uint8)
    text = made_text(2, (0, 0), 512, f"tensormap.replace.tile.{change};")
    with pytest.raises(KernelError, match="the tensor map must be one of as many dimensions"):
        launch(Program.from_ptx(text), 1, 64, (TensorMap(array, (16, 8)), out, np.zeros(16, np.uint64), array))


def test_a_map_outside_memory_is_a_fault():
    """The second half too: the last array in memory has only 64 bytes left."""
    array, out, memory = np.zeros((64, 64), np.float32), np.zeros(SHARED_BYTES, np.uint8), Memory(1 << 20)
    text = made_text(2, (0, 0), 512, "").replace("ld.param.u64 %kept, [p_map];", "mov.b64 %kept, 64;")
    with pytest.raises(KernelError, match=r"out of bounds|outside"):
        launch(Program.from_ptx(text), 1, 64, (TensorMap(array, (16, 8)), out, np.zeros(16, np.uint64), array),
               memory=memory)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 5, 1;", "number of an axis, a literal 0 to 4"),
        ("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%kept], [%s], 64;",
         "must copy 128 bytes"),
        ("tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%s], 1;", "10.0 or later"),
    ],
)  # fmt: skip
def test_what_is_refused(change, message):
    array, out = np.zeros((64, 64), np.float32), np.zeros(SHARED_BYTES, np.uint8)
    with pytest.raises(PtxError, match=message):
        launch(Program.from_ptx(made_text(2, (0, 0), 512, change)), 1, 64,
               (TensorMap(array, (16, 8)), out, np.zeros(16, np.uint64), array))  # fmt: skip


@pytest.mark.skipif(not vendor.present(), reason="needs the vendor's assembler")
def test_the_vendors_assembler_takes_these_forms(tmp_path: Path):
    changes = fields(np.zeros((4, 8, 16, 32, 64), np.float32), (1, 2, 4, 8, 16), 64, nans=True, steps=(1,) * 5)
    changes += "\ntensormap.replace.tile.rank.global.b1024.b32 [%kept], %i;"
    changes += "\ntensormap.replace.tile.global_address.b1024.b64 [%kept], %array;"
    path = tmp_path / "k.ptx"
    path.write_text(made_text(5, (0,) * 5, 64, changes))
    command = [find_assembler(), "-arch=sm_90a", path, "-o", tmp_path / "k.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert HEAD in path.read_text()
