"""Every kernel's record. The command line, the ladder and the tests iterate these; there is no second list."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from tilewright.errors import ArgumentValueError
from tilewright.ground.lazy_exports import public
from tilewright.multiply.kernels.boxes import (
    HALVES as _HALVES,
    IN_ONE as _IN_ONE,
    RESIDENT as _RESIDENT,
    blackwell as _blackwell,
    hopper as _hopper,
    of_planes as _of_planes,
    stated as _stated,
)
from tilewright.multiply.kernels.compiling import bits as _bits, cuda as _cuda, python as _python
from tilewright.multiply.kernels.planes import Planes
from tilewright.multiply.kernels.record import CANONICAL, OLDEST, LaunchShape, Record
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.dtypes import DTYPES, element

_INTEGERS_FIRST = ("int32", "float32", "float64")
#: Compute capability of the first GPUs with asynchronous copies.
_AMPERE = (8, 0)
#: Compute capability of the first GPUs that multiply 8-bit floats.
_ADA = (8, 9)
#: Steps of k of a tile, and tiles in flight, of most kernels of tensor cores.
_RING: Mapping[str, Any] = MappingProxyType({"depth": 32, "stages": 3})
#: Their warps have 64 x 64 results, and read fragments while they multiply others.
_WIDE: Mapping[str, Any] = MappingProxyType({"columns": 64, "ahead": True})

#: What kernels for GPUs without asynchronous copies have.
_TURING: Mapping[str, Any] = MappingProxyType({"cc": OLDEST, "family": True, "stages": 2})

#: The source rows of kernels; `docs/sources.md` describes them.
SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "S1": "Numba, one thread per element",
        "S2": "Numba, tiles of 16 x 16 in shared memory",
        "S3": "CUDA C++, blocks of C, like the vendor's sample",
        "S4": "OpenCL, for Numba's removed AMD target",
        "S5": "the host, three loops",
        "S6": "CUDA C++, one thread per element, integers",
        "S9": "CUDA C++, tiles in shared memory, integers",
        "S11": "CUDA C++, several results per thread",
        "SGEMM": "CUDA C++, float32, up to warp tiles",
        "SR": "CUDA C++, any algebra and any epilogue",
        "TC": "CUDA C++, tensor cores",
        "CPU": "the host's engine behind tw.matmul",
        "OpenCL": "OpenCL, tiles in registers",
    }
)


def records() -> tuple[Record, ...]:
    """Every kernel, from the first rung of the ladder up.

    Examples
    --------
    >>> [record.name for record in records()][:3]
    ['three_loops', 'cpu_engine', 'naive_published']
    """
    return _RECORDS


@public
def find(name: str) -> Record:
    """The record of a name.

    Raises
    ------
    ArgumentValueError
        There is none.
    """
    for record in records():
        if record.name == name:
            return record
    raise ArgumentValueError.of_name("`kernel`", name, [record.name for record in records()])


#: Dtypes of the host's engine and OpenCL's kernels: every number of NumPy itself.
_NUMBERS = tuple(dict.fromkeys((*CANONICAL, *(x.name for x in DTYPES if not x.extends_numpy))))


#: Options of kernels that are compiled for each product.
_ALL: tuple[Literal["epilogue", "algebra"], ...] = ("epilogue", "algebra")
#: Those of kernels on GPUs that also take a batch.
_BATCH: tuple[Literal["batch"], ...] = ("batch",)
#: Dtypes of GPUs' arithmetic: float32, float64 and every integer.
_COMPUTED = tuple(dict.fromkeys((*CANONICAL, *(x.name for x in DTYPES if x.carried is None))))

#: Floats of a byte, which tensor cores sum in float32 too, but with few bits: sums of tiles are added up outside of
#: them.
_BYTES = tuple(x.name for x in DTYPES if x.bytes == 1 and x.is_float and x.cuda)
#: Integers of a byte, which tensor cores sum modulo 2^32.
_WHOLE_BYTES = tuple(x.name for x in DTYPES if x.bytes == 1 and not x.is_float)


def _numba(name: str, module: str, title: str, source: str, *, made: bool = True, **more: Any) -> Record:
    """A Python kernel of 16 x 16 threads; `made` says that its function is a factory over dtypes."""
    compiler = functools.partial(_python, module, name, made=made)
    return Record(name, title, source, "gpu", tile=(16, 16), block=(16, 16), compiler=compiler, **more)


def _template(
    name: str, file: str, entry: str, title: str, source: str, size: int, operands: Any, rows: int = 0, **more: Any
) -> Record:
    """A CUDA C++ kernel of square blocks of C, with `rows` rows of threads if fewer than the block's."""
    return Record(
        name,
        f"CUDA C++: {title}",
        source,
        "gpu",
        tile=(size, size),
        block=(size, rows or size),
        operands=operands,
        compiler=functools.partial(_cuda, file, entry),
        **more,
    )


def _block_partitioned(size: int) -> Record:
    return _template(
        f"block_partitioned_{size}",
        "block_partitioned.cu",
        f"MatrixMulCUDA<{size}, TYPE>",
        f"block-partitioned product, {size}x{size}",
        "S3",
        size,
        "cab m k n",
        depth=size,
        notes="guarded edges; the source takes multiples of the block only",
    )


def _shared_memory(size: int) -> Record:
    return _template(
        f"shared_memory_{size}",
        "shared_memory.cu",
        f"shared_memory<{size}, TYPE>",
        f"shared memory, {size}x{size}",
        "S9",
        size,
        "abc m n k",
        dtypes=_INTEGERS_FIRST,
        depth=size,
        takes=_BATCH,
        notes="S10 blames bank conflicts for the 8x8 and 16x16 tiles; compare the conflicts counted",
    )


def _several_results(count: int) -> Record:
    s = "s" * (count > 1)
    return _template(
        f"results_{count}",
        "several_results.cu",
        f"several_results<TYPE, 32, {count}>",
        f"{count} result{s} per thread, 32x32",
        "S11",
        32,
        "abc m n k",
        32 // count,
        results=(count, 1),
        depth=32,
        takes=_BATCH,
        notes=f"rows {32 // count} apart; one read of B's tile serves {count} multiply-add{s}",
    )


def _sgemm(
    name: str, entry: str, title: str, edge: int, results: tuple[int, int], notes: str, file: str = "", **more: Any
) -> Record:
    """A kernel of the float32 ladder: square tiles of C, blocks of one dimension."""
    return Record(
        name,
        f"CUDA C++: {title}",
        "SGEMM",
        "gpu",
        ("float32",),
        tile=(edge, edge),
        results=results,
        block=(edge * edge // (results[0] * results[1]), 1),
        operands="abc m n k",
        notes=notes,
        compiler=functools.partial(_cuda, file or f"{name}.cu", entry),
        **more,
    )


def _tensor_core(
    name: str,
    entry: str,
    title: str,
    dtypes: tuple[str, ...],
    bound: Bound | None,
    notes: str,
    edge: int = 128,
    operands: Any = "abc m n k ld",
    cc: tuple[int, int] = _AMPERE,
    tensor: str = "f16",
    columns: int = 32,
    **more: Any,
) -> Record:
    """A kernel of tensor cores: square tiles of C; a warp computes half the rows and some columns."""
    file = f"{entry.partition('<')[0]}.cu"
    return Record(
        name,
        f"CUDA C++: {title}",
        "TC",
        "gpu",
        dtypes,
        order="tensor-core" if bound else "fma",
        bound=bound,
        cc=cc,
        limits=_stated(bound),
        notes=notes,
        tile=(edge, edge),
        block=(64 * edge // columns, 1),
        results=(edge // 16, columns // 4),
        operands=operands,
        tensor=tensor,
        **{**_RING, "takes": ("epilogue", "batch"), **more},
        compiler=functools.partial(_cuda, file, entry),
    )


def _words(name: str, dtypes: tuple[str, ...], passes: int, notes: str) -> Record:
    """A kernel for integers of some bytes by products of bytes: a warp computes 32 rows and 32 columns."""
    bits = element(dtypes[0]).bits
    found = _tensor_core(
        name,
        "tensor_core_words<TYPE, 128, 64, 32, 2>",
        f"tensor cores, integers of {bits} bits by bytes",
        dtypes,
        None,
        notes,
        tensor="s8",
        passes=passes,
        depth=1024 // bits,
        stages=2,
    )
    return replace(found, tile=(128, 64), results=(8, 4))


def _opencl(form: Literal["naive", "tiled", "register_tiled"], source: str, title: str, notes: str) -> Record:
    return Record(f"opencl_{form}", f"OpenCL: {title}", source, "opencl", _NUMBERS, notes=notes, form=form, takes=_ALL)


#: Ends of names of kernels that read operands by columns.
_TURNED = (("t", "n", "A"), ("n", "t", "B"), ("t", "t", "A and B"))
_OF_BYTES = "tensor_core_bytes<TYPE, 128, 128, 64, 64, 32, {}>"

_RECORDS = (
    Record(
        "three_loops", "CPU: three loops", "S5", "cpu",
        notes="one running sum, nothing blocked: the first rung of the ladder",
    ),
    Record(
        "cpu_engine", "CPU: the engine behind tw.matmul", "CPU", "cpu", _NUMBERS, takes=_ALL,
        notes="packed, tiled in registers, vectors and threads: the same bits as the three loops",
    ),
    _numba(
        "naive_published", "tilewright.multiply.kernels.numba_naive", "Numba CUDA: naive kernel, as published", "S1",
        made=False, any_block=True, dtypes=("float32", "float64"), order="rounded-product", published=True,
        rows_by_x=True, limits="right for every shape, in an order of its own for float32",
        notes="sums float32 products in float64, and is uncoalesced: the row follows threadIdx.x",
    ),
    _numba(
        "naive", "tilewright.multiply.kernels.numba_naive", "Numba CUDA: naive kernel, typed sum, coalesced", "S1",
        any_block=True, notes="the column follows threadIdx.x and the sum has the operands' width", reads=4,
    ),
    _numba(
        "tiled_published", "tilewright.multiply.kernels.tiled_published",
        "Numba CUDA: shared-memory tiles, as published", "S2", made=False,
        dtypes=("float32",), order="rounded-product", published=True, rows_by_x=True,
        limits="right only where m, n and k are multiples of 16 and k equals m",
        notes="guards with `and`, fills no edges, takes gridDim.x steps along k, and indexes tiles [tx, ty]",
    ),
    _numba(
        "tiled", "tilewright.multiply.kernels.tiled", "Numba CUDA: shared-memory tiles, corrected", "S2",
        notes="any shape; tiles indexed [ty, tx]",
    ),
    *(_block_partitioned(size) for size in (16, 32)),
    _template(
        "global_memory", "global_memory.cu", "global_memory<TYPE>", "global memory only", "S6", 32, "abc m n k",
        dtypes=_INTEGERS_FIRST, any_block=True, notes="S7 counts it at width 32: 5,120 load and 128 store transactions",
    ),
    *(_shared_memory(size) for size in (8, 16, 32)),
    *(_several_results(count) for count in (1, 2, 4, 8, 16, 32)),
    _sgemm(
        "uncoalesced", "one_element<32, false>", "one thread per element, rows along a warp", 32, (1, 1),
        "the row follows threadIdx.x: what not to do, right for every shape", "coalesced.cu", reads=16,
    ),
    _sgemm(
        "coalesced", "one_element<32, true>", "one thread per element, columns along a warp", 32, (1, 1),
        "the column follows threadIdx.x", "coalesced.cu",
    ),
    _sgemm(
        "thread_tile_1d", "thread_tile_1d<64, 64, 8, 8>", "8 results of a column per thread, 64x64x8", 64, (8, 1),
        "one read of B's tile serves 8 multiply-adds", depth=8,
    ),
    _sgemm(
        "thread_tile_2d", "thread_tile_2d<128, 128, 8, 8, 8>", "8x8 results per thread, 128x128x8", 128, (8, 8),
        "16 reads serve 64 multiply-adds; bank conflicts in reading both tiles", depth=8, reads=2,
    ),
    _sgemm(
        "vectorised", "vectorised<128, 128, 8, 8, 8>", "8x8 results per thread, float4, A transposed", 128, (8, 8),
        "rows that are not aligned to 16 bytes go element by element; conflicts in storing A, reading B",
        depth=8, reads=2,
    ),
    _sgemm(
        "padded", "padded<128, 128, 8, 8, 8>", "the same without bank conflicts", 128, (8, 8),
        "rows of A's tile are 4 elements longer, and a thread's results lie in patches of 4x4", depth=8,
    ),
    _sgemm(
        "double_buffered", "double_buffered<128, 128, 8, 8, 8>", "the same with two buffers", 128, (8, 8),
        "the next tiles are loaded while these are multiplied; one barrier a step", depth=8, stages=2,
        takes=_BATCH,
    ),
    _sgemm(
        "warp_tiled", "warp_tiled<128, 128, 16, 64, 64, 8>", "warp tiles of 64x64, 128x128x16", 128, (8, 16),
        "24 reads serve 128 multiply-adds", takes=_BATCH,
    ),
    Record(
        "semiring", "CUDA C++: any algebra and any epilogue, 4x4 results per thread, 64x64x16", "SR", "gpu", _COMPUTED,
        tile=(64, 64), block=(256, 1), results=(4, 4), operands="abc m n k", takes=(*_ALL, *_BATCH), beside=24,
        notes="its operations come from traced expressions, as the processor's and OpenCL's do",
        compiler=functools.partial(_cuda, "semiring.cu", "semiring<TYPE, PlusTimes<TYPE>, 64, 64, 16, 4, 4>"),
    ),
    _tensor_core(
        "tensor_core", "tensor_core<TYPE, 128, 128, 32, 64, 64, 3>", "tensor cores, three stages of copies",
        _HALVES, _IN_ONE,
        "a warp's product of 16 x 8 x 16 is one instruction; tiles swizzled, read by ldmatrix", **_WIDE,
    ),
    _tensor_core(
        "split_k", "split_k<TYPE, 64, 64, 32, 32, 32, 4>", "tensor cores, k split over blocks", _HALVES, Bound(1, 32),
        "for few tiles and many steps; the last block of a tile adds the sums of all, k ascending", 64,
        "abc m n k ld work", split=512, stages=4, ahead=True, takes=("epilogue",),
    ),
    _tensor_core(
        "stream_k", "stream_k<TYPE, 128, 128, 32, 64, 64, 3>", "tensor cores, the steps of all tiles dealt evenly",
        _HALVES, Bound(1, 32), "no multiprocessor idles in a last wave; blocks share tiles where they begin and end",
        operands="abc m n k ld work", split=32, resident=2 * _RESIDENT, group=1, takes=("epilogue",), **_WIDE,
    ),
    _tensor_core(
        "tensor_core_64", "tensor_core<TYPE, 64, 64, 32, 32, 32, 4>", "the same, blocks of 64x64, four stages", _HALVES,
        _IN_ONE, "for few tiles, or many small products", 64, stages=4, alike="tensor_core", ahead=True,
    ),
    _tensor_core(
        "transposed", "transposed<TYPE, 128, 128, 32, 64, 64, 3>", "tensor cores, operands by rows or by columns",
        _HALVES, _IN_ONE, "all four ways without a copy: ldmatrix transposes",
        operands="abc m n k ld turned", alike="tensor_core", **_WIDE,
    ),
    _hopper(
        "hopper", "tensor cores by warpgroups, copies by a warpgroup of their own",
        "persistent blocks; boxes swizzled by 128 bytes; rows of an operand that boxes cannot copy are copied "
        "first, to multiples of 16 bytes",
    ),
    _hopper(
        "hopper_multicast", "the same, B's tiles copied for two blocks at once",
        "clusters of two blocks, whose tiles are below each other", cluster=2,
    ),
    _hopper(
        "hopper_stores", "as hopper, results stored by copies of boxes",
        "while the next tile begins; rows of C that do not begin at multiples of 16 bytes are stored by lanes",
        by_boxes=True,
    ),
    *(
        _hopper(
            f"hopper_{of_a}{of_b}", f"tensor cores by warpgroups, {which} by columns", "descriptors of products say so",
            columns=(of_a == "t", of_b == "t"),
        )
        for of_a, of_b, which in _TURNED
    ),
    _hopper(
        "hopper_fp8", "tensor cores by warpgroups, 8-bit floats",
        "C is float32; sums of a tile are added up by the float32 units; B by columns, since bytes must be along k",
        _BYTES, Bound.of_cut_tiles(tile=128, group=32, fraction=13), 128, columns=(False, True),
    ),
    _hopper(
        "hopper_s8", "tensor cores by warpgroups, bytes",
        "exact in any order; as hopper_multicast, B by columns, since bytes must be along k", ("int8", "uint8"), None,
        cluster=2, columns=(False, True),
    ),
    _of_planes(
        "hopper_tf32x3", "tensor cores by warpgroups, float32 as three",
        "a kernel before splits each operand in two tf32 numbers; right for finite operands from 1e-30 on",
        ("float32",), Planes(2, "float32", together=True), "tf32", Bound(1 / 64, 20),
    ),
    _of_planes(
        "hopper_digits", "tensor cores by warpgroups, int32 as ten products of bytes",
        "a kernel before splits each operand in four bytes; modulo 2^32, so exact in any order",
        ("int32", "uint32"), Planes(4, "uint8", together=False), "s8",
    ),
    _of_planes(
        "hopper_digits16", "tensor cores by warpgroups, int16 as three products of bytes",
        "C is int16 too, so that sums modulo 2^16 are enough; a kernel before splits each operand in two bytes",
        ("int16", "uint16"), Planes(2, "uint8", together=False), "s8", epilogue=False,
    ),
    _blackwell(
        "blackwell", "tensor cores by tensor memory, warps that copy, multiply and store",
        "persistent blocks; results of one tile are stored while the next is multiplied", blocks=1,
    ),
    _blackwell(
        "blackwell_pairs", "the same, by pairs of blocks",
        "clusters of two blocks, which multiply 256 x 256 together: each copies half of B's tile",
    ),
    *(
        _blackwell(
            f"blackwell_{of_a}{of_b}", f"tensor cores by tensor memory, pairs of blocks, {which} by columns",
            "descriptors of products say so", columns=(of_a == "t", of_b == "t"),
        )
        for of_a, of_b, which in _TURNED
    ),
    *(
        _blackwell(
            f"blackwell_{name}{end}", f"tensor cores by tensor memory, pairs of blocks, {what}{by}", notes, dtypes,
            tensor, columns=(False, bool(end)),
        )
        for name, what, notes, dtypes, tensor in (
            ("fp8", "8-bit floats", "C is float32; all steps of k in one sum of 25 fraction bits", _BYTES, "f8"),
            ("s8", "bytes", "exact in any order", _WHOLE_BYTES, "s8"),
        )
        for end, by in (("", ""), ("_nt", ", B by columns"))
    ),
    _blackwell(
        "blackwell_tf32", "tensor cores by tensor memory, pairs of blocks, float32 cut to tf32",
        "the low 13 bits of operands are cut off; B by columns, since words must be along k", ("float32",), "tf32",
        columns=(False, True),
    ),
    _tensor_core(
        "tensor_core_tf32", "tensor_core_f32<false, 128, 128, 16, 64, 32, 3>", "tensor cores, float32 cut to tf32",
        ("float32",), Bound(1, 2**13 + 32), "operands are rounded to 11 bits: half of what a float32 has is gone",
        tensor="tf32", depth=16,
    ),
    _tensor_core(
        "tensor_core_tf32x3", "tensor_core_f32<true, 128, 128, 16, 64, 32, 3>", "tensor cores, float32 as three",
        ("float32",), Bound(1 / 32, 64),
        "each operand is two tf32 numbers; right for operands of 1e-30 to 3.4e38 in magnitude",
        tensor="tf32", passes=3, depth=16,
    ),
    _tensor_core(
        "tensor_core_bf16x9", "tensor_core_bf16x9<128, 128, 16, 64, 32, 3>", "tensor cores, float32 as nine",
        ("float32",), Bound(1 / 32, 64),
        "each operand is three bfloat16 numbers; right for finite operands from 1e-30 on",
        tensor="bf16", passes=9, depth=16,
    ),
    _tensor_core(
        "tensor_core_f64", "tensor_core_f64<64, 64, 16, 32, 32, 3>", "tensor cores, float64", ("float64",), None,
        "a chain of fused multiply-adds, so the canonical bits", 64, tensor="f64", depth=16,
    ),
    _tensor_core(
        "tensor_core_s8", _OF_BYTES.format(3), "tensor cores, bytes", _WHOLE_BYTES, None,
        "exact in any order; B's columns are put together from bytes of two registers", tensor="s8", depth=64,
    ),
    _words(
        "tensor_core_words", ("int32", "uint32"), 10, "modulo 2^32, so exact in any order; ten products of bytes"
    ),
    _words(
        "tensor_core_shorts", ("int16", "uint16"), 3,
        "exact in any order; three products of bytes if C has 16 bits too, else four",
    ),
    _tensor_core(
        "turing", "tensor_core<TYPE, 128, 128, 32, 64, 32, 2>", "tensor cores of 7.5, halves", ("float16",), _IN_ONE,
        "tiles go through registers; a warp's product of 16 x 8 x 16 is two instructions", **_TURING,
    ),
    _tensor_core(
        "turing_s8", _OF_BYTES.format(2), "tensor cores of 7.5, bytes", _WHOLE_BYTES, None,
        "tiles go through registers, of which an epilogue spills a few; a warp's product is four instructions",
        tensor="s8", depth=64, **_TURING,
    ),
    _tensor_core(
        "tensor_core_fp8", _OF_BYTES.format(3), "tensor cores, 8-bit floats", _BYTES,
        Bound.of_cut_tiles(tile=64, group=16, fraction=13),
        "C is float32; sums of a tile are added up by the float32 units: 8.9 keeps 13 fraction bits of a sum", cc=_ADA,
        tensor="f8", depth=64,
    ),
    Record(
        "tensor_core_bits", "CUDA C++: tensor cores, truth values", "TC", "gpu", ("bool",), cc=_AMPERE, compiler=_bits,
        notes="exact in any order; blocks pack bytes in bits as they read them, 256 steps of k at a time",
        tile=(128, 128), block=(256, 1), results=(8, 8), operands="abc m n k ld", tensor="b1", depth=256, stages=2,
        takes=_BATCH, algebras=("or-and", "xor-and"),
    ),
    _opencl("naive", "S4", "naive kernel", "a work-item an element of C"),
    _opencl("tiled", "S4", "tiles in local memory, 16x16", "any shape; the source takes multiples of 16"),
    _opencl(
        "register_tiled", "OpenCL", "tiles in local memory and registers, vectors", "tiles by the device's kind"
    ),
)  # fmt: skip

__all__ = ["SOURCES", "LaunchShape", "Record", "find", "records"]
