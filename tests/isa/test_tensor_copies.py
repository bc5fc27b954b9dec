"""Boxes of tensors that tensor maps describe: loads to shared memory and stores from it, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from boxes import CASES, SHARED_BYTES, box_of, load_text, store_text, unswizzled

from tilewright.errors import ArgumentTypeError, ArgumentValueError, KernelError, PtxError
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.programs import Program
from tilewright.simt import Memory, launch


@pytest.mark.parametrize("case", CASES)
def test_a_box_is_loaded(case):
    shape, box, corner, swizzle, dtype = CASES[case]
    array = np.random.default_rng(3).integers(1, 100, shape).astype(dtype)
    size = int(np.prod(box)) * array.itemsize
    out = np.zeros(SHARED_BYTES, np.uint8)
    program = Program.from_ptx(load_text(len(shape), corner, size))
    launch(program, 1, 64, (TensorMap(array, box, swizzle), out))
    found = unswizzled(out[: -(-size // 1024) * 1024], swizzle)[:size].view(dtype).reshape(box)
    assert np.array_equal(found, box_of(array, corner, box, (1,) * len(box), 0))


def test_the_address_of_a_parameter_survives_32_bits():
    """Triton keeps it in 32 bits until cvta."""
    array, out = np.arange(256, dtype=np.float32), np.zeros(SHARED_BYTES, np.uint8)
    text = load_text(1, (8,), 64).replace("mov.b64 %m, map;", "mov.b32 %t, map; cvt.u64.u32 %m, %t;")
    launch(Program.from_ptx(text), 1, 64, (TensorMap(array, (16,)), out))
    assert np.array_equal(out[:64].view(np.float32), array[8:24])


@pytest.mark.parametrize("mask", [0, 0b11, 0b1010])
def test_a_box_is_loaded_by_blocks_of_a_cluster(mask):
    """Each block loads its own; or the first one loads for all blocks that a mask names, and each counts its bytes."""
    array, size = np.arange(64, dtype=np.float32).reshape(2, 32), 128
    out = np.zeros((4, SHARED_BYTES), np.uint8)
    text = load_text(2, (0, 0), size, guard="@%root " if mask else "")
    begin = f"""ld.param.u64 %out, [p_out]; .reg .b32 %b, %n; .reg .b16 %h; .reg .pred %root; mov.u32 %b, %ctaid.x;
mad.wide.u32 %out, %b, {SHARED_BYTES}, %out; setp.eq.u32 %root, %b, 0; mov.u16 %h, {mask};
mov.u32 %n, {mask or 15}; shr.u32 %n, %n, %b; and.b32 %n, %n, 1; mul.lo.u32 %n, %n, {size};"""
    more = {"complete_tx::bytes\n": "complete_tx::bytes.multicast::cluster\n", "}], [%o];": "}], [%o], %h;"}
    for before, after in {
        "ld.param.u64 %out, [p_out];": begin,
        "bar.sync 0;": "barrier.cluster.arrive; barrier.cluster.wait;",
        f"[%o], {size};": "[%o], %n;",
        "over: ret;": "over: barrier.cluster.arrive; barrier.cluster.wait; ret;",
        **(more if mask else {}),
    }.items():
        assert before in text
        text = text.replace(before, after)
    launch(Program.from_ptx(text), 4, 64, (TensorMap(array, (1, 32)), out), cluster=4)
    for block, raw in enumerate(out):
        came = not mask or bool(mask >> block & 1)
        assert np.array_equal(raw[:size].view(np.float32), array[0]) == came, block


def test_steps_and_nans():
    array = np.random.default_rng(3).standard_normal((9, 40, 64)).astype(np.float32)
    out, box, steps = np.zeros(SHARED_BYTES, np.uint8), (4, 16, 8), (3, 5, 1)
    program = Program.from_ptx(load_text(3, (1, 30, 60), 2 * 4 * 8 * 4))
    launch(program, 1, 64, (TensorMap(array, box, steps=steps, fill="nan"), out))
    found = out[: 2 * 4 * 8 * 4].view(np.float32).reshape(2, 4, 8)
    assert np.array_equal(found, box_of(array, (1, 30, 60), box, steps, np.nan), equal_nan=True)
    assert set(found.view(np.uint32)[np.isnan(found)]) == {0x7FFFFFFF}
    assert not np.isnan(found).all()


@pytest.mark.parametrize("case", ["1d", "2d", "2d-64", "2d-128", "edges", "before", "3d", "5d"])
def test_a_box_is_stored(case):
    shape, box, corner, swizzle, dtype = CASES[case]
    array = np.zeros(shape, dtype)
    size = int(np.prod(box)) * array.itemsize
    given = np.random.default_rng(4).integers(1, 100, box).astype(dtype)
    raw = np.zeros(-(-size // 1024) * 1024, np.uint8)
    raw[:size] = given.reshape(-1).view(np.uint8)
    text = store_text(corner, len(raw))
    launch(Program.from_ptx(text), 1, 64, (TensorMap(array, box, swizzle), unswizzled(raw, swizzle)))
    wanted = np.zeros(shape, dtype)
    for place in np.ndindex(box):
        at = tuple(c + p for c, p in zip(corner, place, strict=True))
        if all(0 <= x < extent for x, extent in zip(at, shape, strict=True)):
            wanted[at] = given[place]
    assert np.array_equal(array, wanted)


def test_other_bytes_than_a_tensor_map_are_a_fault():
    program = Program.from_ptx(load_text(2, (0, 0), 512))
    for other in (bytes(128), TensorMap(np.zeros(64, np.float32), (8,))):
        with pytest.raises(KernelError, match="the tensor map must be one of as many dimensions"):
            launch(program, 1, 64, (other, np.zeros(SHARED_BYTES, np.uint8)))


def test_a_map_that_points_outside_memory_is_a_fault():
    array = np.zeros((64, 64), np.float32)
    raw = bytearray(TensorMap(array, (8, 8)).encoded(1 << 36))
    raw[0:8] = (1 << 62).to_bytes(8, "little")
    with pytest.raises(KernelError, match=r"out of bounds|outside"):
        launch(Program.from_ptx(load_text(2, (0, 0), 256)), 1, 64, (bytes(raw), np.zeros(SHARED_BYTES, np.uint8)))


def test_a_box_that_does_not_fit_shared_memory_is_a_fault():
    array = np.zeros((256, 256), np.float32)
    with pytest.raises(KernelError, match=r"out of bounds|outside"):
        launch(Program.from_ptx(load_text(2, (0, 0), 262144)), 1, 64,
               (TensorMap(array, (256, 256)), np.zeros(SHARED_BYTES, np.uint8)))  # fmt: skip


def test_a_box_not_aligned_to_128_bytes_is_a_fault():
    text = load_text(1, (0,), 32).replace("[%s], [%m", "[%s+16], [%m")
    with pytest.raises(KernelError, match=r"misaligned shared store .* at address 0x10 .* a multiple of 128"):
        launch(
            Program.from_ptx(text), 1, 64, (TensorMap(np.zeros(64, np.float32), (8,)), np.zeros(SHARED_BYTES, np.uint8))
        )


def test_a_map_of_an_array_on_the_device():
    memory, out = Memory(1 << 20), np.zeros(SHARED_BYTES, np.uint8)
    array = memory.array(np.arange(256, dtype=np.float32))
    launch(Program.from_ptx(load_text(1, (8,), 64)), 1, 64, (TensorMap(array, (16,)), out), memory=memory)
    assert np.array_equal(out[:64].view(np.float32), np.arange(8, 24, dtype=np.float32))


def test_the_number_of_coordinates_is_that_of_the_name():
    with pytest.raises(PtxError, match=r"takes 3 coordinates in braces .* \(got 2\)"):
        launch(Program.from_ptx(load_text(2, (0, 0), 512, dim="3")), 1, 64,
               (TensorMap(np.zeros((64, 64), np.float32), (8, 16)), np.zeros(SHARED_BYTES, np.uint8)))  # fmt: skip


@pytest.mark.parametrize(
    ("array", "box", "options", "error", "message"),
    [
        (np.zeros((2, 2, 2, 2, 2, 2), np.float32), (1,) * 6, {}, ArgumentTypeError, "1 to 5 dimensions"),
        (np.zeros(8, np.complex128), (1,), {}, ArgumentTypeError, "1, 2, 4 or 8 bytes"),
        ([1, 2, 3, 4], (4,), {}, ArgumentTypeError, r"\(got list\)"),
        (np.zeros((0, 8), np.float32), (8, 8), {}, ArgumentTypeError, "none empty"),
        (np.zeros(8, ">f4"), (8,), {}, ArgumentTypeError, "the host's byte order"),
        (np.zeros(8, object), (8,), {}, ArgumentTypeError, "must have .* numbers"),
        (np.zeros((8, 8), np.float32), 8, {}, ArgumentValueError, "`box` must be 2 whole numbers"),
        (np.zeros((8, 8), np.float32), (8.5, 8), {}, ArgumentValueError, "`box` must be 2 whole numbers"),
        (np.zeros((8, 8), np.float32), ("a", 8), {}, ArgumentValueError, "`box` must be 2 whole numbers"),
        (np.zeros((8, 8), np.float32)[::-1], (8, 8), {}, ArgumentValueError, "strides"),
        (np.zeros((8, 8), np.float32), (8,), {}, ArgumentValueError, "`box` must be 2 whole numbers"),
        (np.zeros((8, 8), np.float32), (257, 8), {}, ArgumentValueError, "from 1 to 256"),
        (np.zeros((8, 8), np.float32), (8, 8), {"steps": (9, 1)}, ArgumentValueError, "`steps` must be 2 .* 1 to 8"),
        (np.zeros((8, 8), np.float32), (8, 3), {}, ArgumentValueError, "multiple of 16 bytes"),
        (np.zeros((8, 64), np.float32), (8, 64), {"swizzle": 128}, ArgumentValueError, "no longer than the swizzle"),
        (np.zeros((8, 8), np.float32), (8, 8), {"swizzle": 16}, ArgumentValueError, "`swizzle` must be one of"),
        (np.zeros((8, 8), np.float32), (8, 8), {"swizzle": 48}, ArgumentValueError, r"`swizzle` must .* \(got 48\)"),
        (np.zeros((8, 9), np.float32), (8, 8), {}, ArgumentValueError, "strides"),
        (np.zeros((8, 8), np.float32).T, (8, 8), {}, ArgumentValueError, "strides"),
        (np.zeros((8, 8), np.int32), (8, 8), {"fill": "nan"}, ArgumentValueError, "`fill`"),
    ],
)  # fmt: skip
def test_what_a_tensor_map_refuses(array, box, options, error, message):
    with pytest.raises(error, match=message):
        TensorMap(array, box, **options)
