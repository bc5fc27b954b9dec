"""Copies of pixels by maps of images (im2col): convolutions made of them are those of the definition."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
import vendor
from boxes import HEAD, SHARED_BYTES, load_text

from tilewright.errors import ArgumentTypeError, ArgumentValueError, KernelError
from tilewright.gpu.tensor_maps import ImageMap, TensorMap
from tilewright.observe.instruments.touched import Touched
from tilewright.programs import Program
from tilewright.simt import Memory, launch
from tilewright.simulate.programs.assembler import find_assembler


def image_text(rank: int, corner: tuple[int, ...], offsets: tuple[int, ...], size: int) -> str:
    """The kernel that loads pixels; corner and offsets are in the order of the array's axes."""
    text = load_text(rank, corner, size)
    text = text.replace(".global.mbarrier", ".global.im2col.mbarrier")
    return text.replace("}], [%o];", f"}}], [%o], {{{', '.join(map(str, offsets[::-1]))}}};")


def pixels_of(tensor: ImageMap, corner: tuple[int, ...], offsets: tuple[int, ...]) -> np.ndarray:
    """The pixels of one copy."""
    size = tensor.pixels * tensor.channels * tensor.array.itemsize
    out = np.zeros(SHARED_BYTES, np.uint8)
    launch(Program.from_ptx(image_text(tensor.array.ndim, corner, offsets, size)), 1, 64, (tensor, out))
    return out[:size].view(tensor.array.dtype).reshape(tensor.pixels, tensor.channels)


#: Filter extents, padding, stride, dilation, for each axis of places.
CONVOLUTIONS = {
    "1d": ((5,), (2,), (1,), (1,)),
    "1d-strided": ((3,), (1,), (2,), (2,)),
    "2d": ((3, 3), (1, 1), (1, 1), (1, 1)),
    "2d-mixed": ((3, 2), (2, 0), (2, 1), (1, 3)),
    "3d": ((2, 3, 1), (1, 1, 0), (1, 2, 1), (1, 1, 1)),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_a_convolution_is_a_product_of_copies(case):
    """With low = -padding and high = padding - (filter - 1) * dilation, and a filter's place as offsets."""
    extents, padding, stride, dilation = CONVOLUTIONS[case]
    axes, channels = len(extents), 4
    rng = np.random.default_rng(len(case))
    places = (9, 7, 6)[:axes]
    images = rng.integers(-5, 6, (3, *places, channels)).astype(np.float32)
    filters = rng.integers(-5, 6, (*extents, channels, 2)).astype(np.float32)
    counts = [
        (n + 2 * p - d * (f - 1) - 1) // s + 1
        for n, p, d, f, s in zip(places, padding, dilation, extents, stride, strict=True)
    ]
    low = tuple(-p for p in padding)
    high = tuple(p - (f - 1) * d for p, f, d in zip(padding, extents, dilation, strict=True))
    whole = 3 * int(np.prod(counts))
    first = 5  # a copy begins anywhere among the results
    start = np.unravel_index(first, (3, *counts))
    corner = (int(start[0]), *(int(a) * s + b for a, s, b in zip(start[1:], stride, low, strict=True)), 0)
    tensor = ImageMap(images, channels, whole - first, low, high, steps=(1, *stride, 1))
    found = np.zeros((whole - first, 2), np.float32)
    for at in itertools.product(*map(range, extents)):
        offsets = tuple(x * d for x, d in zip(at, dilation, strict=True))
        found += pixels_of(tensor, corner, offsets) @ filters[at]
    assert np.array_equal(found, convolved(images, filters, padding, stride, dilation, counts).reshape(-1, 2)[first:])


def convolved(images, filters, padding, stride, dilation, counts):
    """The definition, by a sum over a filter's places for each result."""
    out = np.zeros((len(images), *counts, filters.shape[-1]), np.float32)
    for place in np.ndindex(out.shape[:-1]):
        for at in np.ndindex(filters.shape[:-2]):
            pixel = [x * s - p + a * d for x, s, p, a, d in zip(place[1:], stride, padding, at, dilation, strict=True)]
            if all(0 <= x < n for x, n in zip(pixel, images.shape[1:-1], strict=True)):
                out[place] += images[(place[0], *pixel)] @ filters[at]
    return out


def test_pixels_beyond_the_last_image_and_channels_are_filled():
    images = np.arange(1 * 4 * 8, dtype=np.float32).reshape(1, 4, 8) + 1
    found = pixels_of(ImageMap(images, 8, 6, (0,), (0,), fill="nan"), (0, 2, 4), (0,))
    wanted = np.full((6, 8), np.nan, np.float32)
    wanted[:2, :4] = images[0, 2:, 4:]
    assert np.array_equal(found, wanted, equal_nan=True)


def test_pixels_are_stored_without_offsets():
    images = np.zeros((2, 3, 4, 4), np.int32)
    given = np.arange(1, 1 + 10 * 4, dtype=np.int32).reshape(10, 4)
    text = f"""{HEAD}
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_in) {{
.shared .align 1024 .b8 box[160];
.reg .b32 %t, %s, %v; .reg .b64 %m, %in; .reg .pred %more;
mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %in, [p_in]; mov.u32 %s, box; mov.u32 %t, 0;
again: ld.global.b32 %v, [%in]; st.shared.b32 [%s], %v; add.u32 %s, %s, 4; add.u64 %in, %in, 4;
add.u32 %t, %t, 4; setp.lt.u32 %more, %t, 160; @%more bra again;
fence.proxy.async.shared::cta; mov.u32 %s, box;
cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%m, {{0, 2, 1, 0}}], [%s];
ret;
}}
"""
    launch(Program.from_ptx(text), 1, 1, (ImageMap(images, 4, 10, (0, 0), (0, -1)), given))
    wanted = np.zeros_like(images)
    rows = [(n, h, w) for n in range(2) for h in range(3) for w in range(3)][5:15]  # width 3 is outside of the box
    for (n, h, w), pixel in zip(rows, given, strict=True):
        wanted[n, h, w] = pixel
    assert np.array_equal(images, wanted)


def test_a_map_of_the_other_kind_is_a_fault():
    boxes, images = TensorMap(np.zeros((4, 4, 4), np.float32), (1, 1, 4)), np.zeros((4, 4, 4), np.float32)
    out = np.zeros(SHARED_BYTES, np.uint8)
    with pytest.raises(KernelError, match=r"must be one of images of as many dimensions.*\(got one of 3\)"):
        launch(Program.from_ptx(image_text(3, (0, 0, 0), (0,), 16)), 1, 64, (boxes, out))
    with pytest.raises(KernelError, match=r"must be one of as many dimensions.*\(got one of images, of 3\)"):
        launch(Program.from_ptx(load_text(3, (0, 0, 0), 16)), 1, 64, (ImageMap(images, 4, 4, (0,), (0,)), out))


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        ((4, 4), {"low": (), "high": ()}, ArgumentValueError, r"rank must be 3 to 5 \(got 2\)"),
        ((4, 4, 4), {"low": (0, 0), "high": (0,)}, ArgumentValueError, "`low` must be 1 whole numbers"),
        ((4, 4, 4), {"low": (4,), "high": (0,)}, ArgumentValueError, "box of places must not be empty"),
        ((4, 4, 4, 4), {"low": (-200, 0), "high": (0, 0)}, ArgumentValueError, "LowerCorner .* from -128 to 127"),
        ((4, 4, 4), {"low": (0,), "high": (0,), "pixels": 1025}, ArgumentValueError, "`pixels` must be .* 1 to 1024"),
        ((4, 4, 4), {"low": (0,), "high": (0,), "channels": 3}, ArgumentValueError, "multiple of 16 bytes"),
        ((0, 4, 4), {"low": (0,), "high": (0,)}, ArgumentTypeError, "none empty"),
    ],
)  # fmt: skip
def test_what_a_map_of_images_refuses(shape, options, error, message):
    with pytest.raises(error, match=message):
        ImageMap(**{"array": np.zeros(shape, np.float32), "channels": 4, "pixels": 4} | options)


@pytest.mark.skipif(not vendor.present(), reason="needs the vendor's assembler")
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_vendors_assembler_takes_these_forms(tmp_path: Path, rank: int):
    zeros, inner = (0,) * rank, (0,) * (rank - 2)
    at = ", ".join(map(str, zeros))
    more = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group [%m, {{{at}}}], [%s];"
    offsets = ", ".join(map(str, inner))
    more += f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col [%m, {{{at}}}], {{{offsets}}};"
    text = image_text(rank, zeros, inner, 64).replace("wait: mbarrier", more + "wait: mbarrier")
    path = tmp_path / "k.ptx"
    path.write_text(text)
    command = [find_assembler(), "-arch=sm_90a", path, "-o", tmp_path / "k.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tensor = ImageMap(np.zeros((2,) * (rank - 1) + (4,), np.float32), 4, 4, inner, inner)
    launch(Program.from_ptx(text), 1, 64, (tensor, np.zeros(SHARED_BYTES, np.uint8)))


def test_instruments_hear_of_the_pixels_that_are_read():
    memory = Memory()
    images = memory.array(np.ones((2, 3, 4, 8), np.float32))
    tensor, given = ImageMap(images, 4, 6, (0, 0), (0, -1)), np.zeros(SHARED_BYTES, np.uint8)
    program = Program.from_ptx(image_text(4, (0, 1, 2, 2), (0, 1), 6 * 4 * 4))
    results = launch(program, 1, 64, (tensor, given), memory=memory, instruments=[Touched()]).results
    read = results["touched"].of(results["touched"].read, images.address, (*images.shape, 4), (*images.strides, 1))
    wanted = np.zeros((2, 3, 4, 8, 4), bool)
    for n, h, w in [(n, h, w) for n in range(2) for h in range(3) for w in range(3)][5:11]:
        wanted[n, h, w + 1, 2:6] = True
    assert np.array_equal(read, wanted)
