"""Products of tensor cores in a launch, by shape and format, and the least time for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.observe.instruments.tensor_work import TensorWorkRow
from tilewright.observe.profiling.record import Products, SiteCounts
from tilewright.simulate.isa import table
from tilewright.simulate.isa.table import Form
from tilewright.simulate.machine import Gpu

#: Formats of elements, and the field of a GPU's record with the rate of each.
_RATES = {
    **{name: name for name in ("f16", "bf16", "tf32", "f64", "s8")},
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), "f8"),
    "u8": "s8",
}
#: The same by the kind of a product in tensor memory, of whose formats a register tells; with the bits of an element.
_KINDS = {
    "kind::f16": ("f16", 16), "kind::tf32": ("tf32", 32), "kind::f8f6f4": ("f8", 8), "kind::i8": ("s8", 8),
    "kind::mxf8f6f4": ("f8", 8), "kind::mxf4": ("f4", 4), "kind::mxf4nvf4": ("f4", 4),
}  # fmt: skip
_WARPGROUP = 4
_DEPTH_BITS = 256  # of a dense product in tensor memory, along k


def products(
    gpu: Gpu, sites: Iterable[SiteCounts], blocks: int, tensor: Iterable[TensorWorkRow] = ()
) -> tuple[Products, ...]:
    """The products of a launch, from the instructions that ran, the longest time first.

    A block runs on one multiprocessor: with fewer `blocks` than multiprocessors, the other tensor cores are idle.
    `tensor` has the products in tensor memory, whose shapes are in registers.

    >>> from tilewright import machine
    >>> from tilewright.profiling import Counts
    >>> name = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
    >>> site = SiteCounts(9, name, "", Counts(warp_instructions=8))
    >>> [(found.shape, found.times) for found in products(machine.gpu("h100"), [site], 132)]
    [('m64n256k16', 2)]
    """
    clocks = min(blocks, gpu.multiprocessors) * gpu.boost_mhz * 1e6
    found = []
    for shape, elements, field, share, times, amount in (*_named(gpu, sites), *_in_tensor_memory(tensor)):
        rate = gpu.tensor_per_clock.get(field, 0) * share
        found.append(Products(shape, elements, times, amount, amount / (rate * clocks) if rate else None))
    return tuple(sorted(found, key=lambda one: -(one.seconds or 0.0)))


#: Shape, format, field of the rate, share of that rate, number of products, multiply-adds.
_Counted = tuple[str, str, str, float, int, int]


def _named(gpu: Gpu, sites: Iterable[SiteCounts]) -> Iterator[_Counted]:
    """Products of warps and warpgroups, whose shapes are in the names."""
    counted: dict[tuple[str, str, bool, bool, int], int] = {}
    for site in sites:
        form = table().find(site.opcode)
        if form is not None and (key := _key(form)) is not None and site.counts.warp_instructions:
            counted[key] = counted.get(key, 0) + site.counts.warp_instructions
    for (shape, elements, is_sparse, to_float32, warps), executed in counted.items():
        rows, columns, depth = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
        times = executed // warps
        share = gpu.tensor_float32_share if to_float32 else 1.0
        amount = times * rows * columns * depth // (1 + is_sparse)
        yield shape, elements, _RATES.get(elements, ""), share, times, amount


def _in_tensor_memory(tensor: Iterable[TensorWorkRow]) -> Iterator[_Counted]:
    """Products in tensor memory."""
    counted: dict[tuple[str, str, str], tuple[int, int]] = {}
    for row in tensor:
        words = row.site.opcode.split(".")
        kind = next(word for word in words if word in _KINDS)
        field, bits = _KINDS[kind]
        depth = _DEPTH_BITS // bits
        shape = "m{}n{}".format(*row.shape) if row.shape else "several "
        key = f"{shape}k{depth * (1 + ('sp' in words))}", kind, field
        times, amount = counted.get(key, (0, 0))
        counted[key] = times + row.times, amount + row.area * depth
    for (shape, kind, field), (times, amount) in counted.items():
        yield shape, kind, field, 1.0, times, amount


def _key(form: Form) -> tuple[str, str, bool, bool, int] | None:
    """Shape, format of A, whether A is sparse, whether it has the rate of float32 sums, warps; None for others."""
    if form.row.cost != "tensor":
        return None
    words = form.name.split(".")
    shape = next((word for word in words if word.startswith("m") and word[1:2].isdigit()), None)
    formats = [word for word in words if word in _RATES or word in ("f32", "s32", "s4", "u4", "b1")]
    if shape is None or not formats:
        return None
    elements = formats[1] if len(formats) > 2 else "f16"  # wmma with float16 names only D and C
    warps = _WARPGROUP if words[0] == "wgmma" else 1
    if "kind::mxf4" in words or "kind::mxf4nvf4" in words:
        elements = "mxf4"
    is_sparse = any(word.partition("::")[0] == "sp" for word in words)
    return shape, elements, is_sparse, formats[0] == "f32", warps
