"""What cuBLASLt declares beside its products: structures that are opaque to programs, enumerations, functions.

A descriptor is a structure in the program's memory, of the size that the vendor states. Its attributes lie in it one
behind the other, behind a mark that says what it is; programs see neither.

Source: cuBLAS, "Using the cuBLASLt API"; names, numbers, sizes and defaults as in `cublasLt.h`.
"""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a descriptor."""

    number: int
    form: str  #: The format of its value in `struct`.
    default: int

    @property
    def size_bytes(self) -> int:
        """Size of its value."""
        return struct.calcsize(self.form)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A structure of attributes."""

    words: int  #: Its size in words of 8 bytes.
    attributes: Mapping[str, Attribute]
    enumeration: tuple[str, str]  #: The type of the attributes' numbers, and how their names begin.
    first: str = ""  #: Parameters that give values to attributes when it is made.
    least: int = 0  #: Its size in older programs, without the attributes that do not fit; 0: the same.

    @property
    def given(self) -> list[str]:
        """The names of these attributes."""
        words = (word.partition(":")[0] for word in self.first.split())
        return [re.sub("(?=[A-Z])", "_", word).upper() for word in words]

    @property
    def mark(self) -> int:
        """The number at its start."""
        return zlib.crc32(self.enumeration[0].encode())

    @property
    def sizes(self) -> tuple[int, int]:
        """Its size in bytes in older programs, and in new ones."""
        return 8 * (self.least or self.words), 8 * self.words

    def places(self, size: int) -> dict[str, int]:
        """Where each attribute lies in one of this size in bytes, as far as it fits."""
        ends = itertools.accumulate((one.size_bytes for one in self.attributes.values()), initial=4)
        found = zip(self.attributes.items(), ends, strict=False)
        return {name: start for (name, one), start in found if start + one.size_bytes <= size}

    def packed(self, values: Mapping[str, int], size: int = 0) -> bytes:
        """Its bytes; attributes without a value have their default."""
        size = size or self.sizes[1]
        names = self.places(size)
        form = "<I" + "".join(self.attributes[name].form for name in names)
        each = (values.get(name, self.attributes[name].default) for name in names)
        return struct.pack(form, self.mark ^ (size < self.sizes[1]), *each).ljust(size, b"\0")

    def unpacked(self, read: Callable[[int, int], bytes]) -> dict[str, int] | None:
        """The values of its attributes; None if it is something else. `read` gives bytes by place and count."""
        small, large = self.sizes
        data = read(0, small)
        mark = int.from_bytes(data[:4], "little")
        if mark not in (self.mark, self.mark ^ 1) or (mark != self.mark and small == large):
            return None
        data += read(small, large - small) if mark == self.mark and small < large else b""
        names = self.places(len(data))
        form = "<I" + "".join(self.attributes[name].form for name in names)
        return dict(zip(names, struct.unpack_from(form, data)[1:], strict=True))


def _attributes(text: str) -> Mapping[str, Attribute]:
    """Attributes as `NAME:form` with `=default`; numbers rise by one from `@number` on.

    >>> _attributes("TYPE:I COUNT@4:i=1")
    mappingproxy({'TYPE': Attribute(number=0, form='I', default=0), 'COUNT': Attribute(number=4, form='i', default=1)})
    """
    found: dict[str, Attribute] = {}
    number = 0
    for name, place, form, default in re.findall(r"(\w+)(?:@(\d+))?:(\w)(?:=(-?\d+))?", text):
        number = int(place or number)
        found[name] = Attribute(number, form, int(default or 0))
        number += 1
    return MappingProxyType(found)


#: Every descriptor, by the name that its type and functions begin with after `cublasLt`.
DESCRIPTORS: Mapping[str, Descriptor] = MappingProxyType(
    {
        "MatrixLayout": Descriptor(
            14,
            _attributes(
                "TYPE:I ORDER:i ROWS:Q COLS:Q LD:q BATCH_COUNT:i=1 STRIDED_BATCH_OFFSET:q PLANE_OFFSET:q BATCH_MODE:I "
                "GROUPED_ROWS_ARRAY:Q GROUPED_COLS_ARRAY:Q GROUPED_LD_ARRAY:Q GROUPED_ROWS_COLS_ARRAY_INTEGER_WIDTH:i "
                "GROUPED_LD_ARRAY_INTEGER_WIDTH:i"
            ),
            ("cublasLtMatrixLayoutAttribute_t", "CUBLASLT_MATRIX_LAYOUT_"),
            "type:cudaDataType rows:uint64_t cols:uint64_t ld:int64_t",
            least=8,
        ),
        "MatmulDesc": Descriptor(
            32,
            _attributes(
                "COMPUTE_TYPE:i SCALE_TYPE:i POINTER_MODE:i TRANSA:i TRANSB:i TRANSC:i FILL_MODE:i=2 EPILOGUE:I=1 "
                "BIAS_POINTER:Q BIAS_BATCH_STRIDE@10:q EPILOGUE_AUX_POINTER:Q EPILOGUE_AUX_LD:q "
                "EPILOGUE_AUX_BATCH_STRIDE:q ALPHA_VECTOR_BATCH_STRIDE:q SM_COUNT_TARGET:i A_SCALE_POINTER@17:Q "
                "B_SCALE_POINTER:Q C_SCALE_POINTER:Q D_SCALE_POINTER:Q AMAX_D_POINTER:Q EPILOGUE_AUX_DATA_TYPE:i=-1 "
                "EPILOGUE_AUX_SCALE_POINTER:Q EPILOGUE_AUX_AMAX_POINTER:Q FAST_ACCUM:b BIAS_DATA_TYPE:i=-1 "
                "A_SCALE_MODE@31:i B_SCALE_MODE:i C_SCALE_MODE:i D_SCALE_MODE:i EPILOGUE_AUX_SCALE_MODE:i "
                "D_OUT_SCALE_POINTER:Q D_OUT_SCALE_MODE:i EMULATION_DESCRIPTOR:Q ALPHA_BATCH_STRIDE:q "
                "BETA_BATCH_STRIDE:q BATCH_INVARIANCE_FLAGS:i=32768"
            ),
            ("cublasLtMatmulDescAttributes_t", "CUBLASLT_MATMUL_DESC_"),
            "computeType scaleType:cudaDataType",
        ),
        "MatrixTransformDesc": Descriptor(
            8,
            _attributes("SCALE_TYPE:i POINTER_MODE:i TRANSA:i TRANSB:i"),
            ("cublasLtMatrixTransformDescAttributes_t", "CUBLASLT_MATRIX_TRANSFORM_DESC_"),
            "scaleType:cudaDataType",
        ),
        "MatmulPreference": Descriptor(
            12,
            _attributes(
                "SEARCH_MODE:I MAX_WORKSPACE_BYTES:Q REDUCTION_SCHEME_MASK@3:I=7 MIN_ALIGNMENT_A_BYTES@5:I=256 "
                "MIN_ALIGNMENT_B_BYTES:I=256 MIN_ALIGNMENT_C_BYTES:I=256 MIN_ALIGNMENT_D_BYTES:I=256 "
                "MAX_WAVES_COUNT:f IMPL_MASK@12:Q=18446744073709551615 GROUPED_AVERAGE_REDUCTION_DIM:I "
                "GROUPED_DESC_D_AVERAGE_ROWS:I GROUPED_DESC_D_AVERAGE_COLS:I"
            ),
            ("cublasLtMatmulPreferenceAttributes_t", "CUBLASLT_MATMUL_PREF_"),
            least=8,
        ),
        "EmulationDesc": Descriptor(
            8,
            _attributes(
                "STRATEGY:i SPECIAL_VALUES_SUPPORT:i=65535 FIXEDPOINT_MANTISSA_CONTROL:i "
                "FIXEDPOINT_MAX_MANTISSA_BIT_COUNT:i FIXEDPOINT_MANTISSA_BIT_OFFSET:i "
                "FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER:Q"
            ),
            ("cublasLtEmulationDescAttributes_t", "CUBLASLT_EMULATION_DESC_"),
        ),
    }
)
#: What an algorithm is set to: a descriptor, but programs hold it by value.
ALGO = Descriptor(
    8,
    _attributes(
        "ID:i TILE_ID:I SPLITK_NUM:i=1 REDUCTION_SCHEME:I CTA_SWIZZLING:I CUSTOM_OPTION:I STAGES_ID:I "
        "INNER_SHAPE_ID:H CLUSTER_SHAPE_ID:H"
    ),
    ("cublasLtMatmulAlgoConfigAttributes_t", "CUBLASLT_ALGO_CONFIG_"),
)
#: What algorithms can do: all of them everything that is served, at any alignment. What has no effect, they lack, so
#: programs that try all combinations try few.
CAPABILITIES = _attributes(
    "SPLITK_SUPPORT:i REDUCTION_SCHEME_MASK:I CTA_SWIZZLING_SUPPORT:I STRIDED_BATCH_SUPPORT:i=1 "
    "OUT_OF_PLACE_RESULT_SUPPORT:i=1 UPLO_SUPPORT:i TILE_IDS:I CUSTOM_OPTION_MAX:i CUSTOM_MEMORY_ORDER@10:i "
    "POINTER_MODE_MASK:I=31 EPILOGUE_MASK:I=1023 STAGES_IDS:I LD_NEGATIVE:i NUMERICAL_IMPL_FLAGS:Q "
    "MIN_ALIGNMENT_A_BYTES:I=1 MIN_ALIGNMENT_B_BYTES:I=1 MIN_ALIGNMENT_C_BYTES:I=1 MIN_ALIGNMENT_D_BYTES:I=1 "
    "POINTER_ARRAY_BATCH_SUPPORT@21:i=1 FLOATING_POINT_EMULATION_SUPPORT:i POINTER_ARRAY_GROUPED_SUPPORT:i=1"
)


def _rows() -> Iterator[tuple[str, str, str]]:
    """The functions of descriptors: in the form of `calls.ROWS`."""
    for name, one in DESCRIPTORS.items():
        kind, value = f"cublasLt{name}_t", f"attr:{one.enumeration[0]} buf:{{}}* sizeInBytes:size_t"
        yield "", f"Lt{name}Init_internal", f"place:{kind} size:size_t {one.first}"
        yield "", f"Lt{name}Create", f"place:{kind}* {one.first}"
        yield "", f"Lt{name}Destroy", f"place:{kind}"
        yield "", f"Lt{name}SetAttribute", f"place:{kind} {value.format('const_void')}"
        yield "", f"Lt{name}GetAttribute", f"place:{kind} {value.format('void')} sizeWritten:size_t*"
    arrays = "type:cudaDataType groupCount:int rows_array:const_void* cols_array:const_void* ld_array:const_void*"
    yield "", "LtGroupedMatrixLayoutInit_internal", f"place:cublasLtMatrixLayout_t size:size_t {arrays}"
    yield "", "LtGroupedMatrixLayoutCreate", f"place:cublasLtMatrixLayout_t* {arrays}"
    kind, types = "cublasLtMatmulAlgo_t", " ".join(f"{one}:cudaDataType" for one in "scaleType A B C D".split())
    sought = "handle:cublasLtHandle_t operationDesc:cublasLtMatmulDesc_t " + " ".join(
        f"{one}desc:cublasLtMatrixLayout_t" for one in "ABCD"
    )
    found = "result:cublasLtMatmulHeuristicResult_t*"
    config, sized = f"attr:{ALGO.enumeration[0]}", "buf:void* sizeInBytes:size_t sizeWritten:size_t*"
    wanted = f"{sought} preference:cublasLtMatmulPreference_t requested:int {found} returned:int*"
    for end, stream in (("", ""), ("ForStream", " stream")):
        yield "", f"LtMatmulAlgoGetHeuristic{end}", wanted + stream
        yield "", f"LtMatmulAlgoCheck{end}", f"{sought} algo:const_{kind}* {found}{stream}"
    yield (
        "",
        "LtMatmulAlgoGetIds",
        f"handle:cublasLtHandle_t computeType {types} requested:int ids:int* returned:int*",
    )
    yield "", "LtMatmulAlgoInit", f"handle:cublasLtHandle_t computeType {types} algoId:int algo:{kind}*"
    yield "", "LtMatmulAlgoCapGetAttribute", f"algo:const_{kind}* attr:cublasLtMatmulAlgoCapAttributes_t {sized}"
    yield "", "LtMatmulAlgoConfigSetAttribute", f"algo:{kind}* {config} buf:const_void* sizeInBytes:size_t"
    yield "", "LtMatmulAlgoConfigGetAttribute", f"algo:const_{kind}* {config} {sized}"


#: Every function that is served, as in `calls.ROWS`.
ROWS: Sequence[tuple[str, str, str]] = (
    ("", "LtCreate", "handle:cublasLtHandle_t*"),
    ("", "LtDestroy", "handle:cublasLtHandle_t"),
    ("", "LtGetProperty", "type:libraryPropertyType value:int*"),
    ("", "LtHeuristicsCacheGetCapacity", "capacity:size_t*"),
    ("", "LtHeuristicsCacheSetCapacity", "capacity:size_t"),
    (
        "",
        "LtMatmul",
        "handle:cublasLtHandle_t computeDesc:cublasLtMatmulDesc_t alpha:const_void* A:const_void* "
        "Adesc:cublasLtMatrixLayout_t B:const_void* Bdesc:cublasLtMatrixLayout_t beta:const_void* C:const_void* "
        "Cdesc:cublasLtMatrixLayout_t D:void* Ddesc:cublasLtMatrixLayout_t algo:const_cublasLtMatmulAlgo_t* "
        "workspace:void* workspaceSizeInBytes:size_t stream",
    ),
    (
        "",
        "LtMatrixTransform",
        "handle:cublasLtHandle_t transformDesc:cublasLtMatrixTransformDesc_t alpha:const_void* A:const_void* "
        "Adesc:cublasLtMatrixLayout_t beta:const_void* B:const_void* Bdesc:cublasLtMatrixLayout_t C:void* "
        "Cdesc:cublasLtMatrixLayout_t stream",
    ),
    *_rows(),
    ("", "LtLoggerSetCallback", "callback:cublasLtLoggerCallback_t"),
    ("", "LtLoggerSetFile", "file:FILE*"),
    ("", "LtLoggerOpenFile", "logFile:const_char*"),
    ("", "LtLoggerSetLevel", "level:int"),
    ("", "LtLoggerSetMask", "mask:int"),
    ("", "LtLoggerForceDisable", ""),
)
#: What a program's library does by itself, by the name of the function: its statements. The memory is the program's.
IN_PROGRAM: Mapping[str, str] = MappingProxyType(
    {
        f"cublasLt{name}{verb}": statements.format(
            f"cublasLt{name}",
            "".join(f", {word.partition(':')[0]}" for word in first.split()),
            f"cublasLt{name.removeprefix('Grouped')}_t",
        )
        for name, first in (
            *((name, one.first) for name, one in DESCRIPTORS.items()),
            ("GroupedMatrixLayout", "type groupCount rows_array cols_array ld_array"),
        )
        for verb, statements in (
            (
                "Create",
                "if (!place) return CUBLAS_STATUS_INVALID_VALUE; *place = ({2})malloc(sizeof **place); "
                "return {0}Init_internal(*place, sizeof **place{1});",
            ),
            ("Destroy", "if (place) memset(place, 0, sizeof *place); free(place); return CUBLAS_STATUS_SUCCESS;"),
        )
    }
)
#: What is added to a product, by the name after `CUBLASLT_EPILOGUE_`.
EPILOGUES: Mapping[str, int] = MappingProxyType(
    {
        name: int(value)
        for name, value in re.findall(
            r"(\w+)=(\d+)",
            "DEFAULT=1 RELU=2 RELU_AUX=130 BIAS=4 RELU_BIAS=6 RELU_AUX_BIAS=134 DRELU=136 DRELU_BGRAD=152 GELU=32 "
            "GELU_AUX=160 GELU_BIAS=36 GELU_AUX_BIAS=164 DGELU=192 DGELU_BGRAD=208 BGRADA=256 BGRADB=512",
        )
    }
)
_SHAPES = (
    "1x1x1 2x1x1 4x1x1 1x2x1 2x2x1 4x2x1 1x4x1 2x4x1 4x4x1 8x1x1 1x8x1 8x2x1 2x8x1 16x1x1 1x16x1 3x1x1 5x1x1 6x1x1 "
    "7x1x1 9x1x1 10x1x1 11x1x1 12x1x1 13x1x1 14x1x1 15x1x1 3x2x1 5x2x1 6x2x1 7x2x1 1x3x1 2x3x1 3x3x1 4x3x1 5x3x1 "
    "3x4x1 1x5x1 2x5x1 3x5x1 1x6x1 2x6x1 1x7x1 2x7x1 1x9x1 1x10x1 1x11x1 1x12x1 1x13x1 1x14x1 1x15x1"
).split()
_STAGES = (
    *(f"{size}x{count}" for size in (16, 32, 64, 128) for count in range(1, 7)),
    *("32x10", "8x4", "16x10", "8x5", "", "", "8x3"),
    *(f"{size}xAUTO" for size in (8, 16, 32, 64, 128, 256, 768)),
)


def _tiles() -> list[str]:
    """Tiles in the order of their numbers from 1 on."""
    old = (
        "8x8 8x16 16x8 8x32 16x16 32x8 8x64 16x32 32x16 64x8 32x32 32x64 64x32 32x128 64x64 128x32 64x128 128x64 "
        "64x256 128x128 256x64 64x512 128x256 256x128 512x64 64x96 96x64 96x128 128x160 160x128 192x128 128x192 "
        "128x96 32x256 256x32"
    ).split()
    rows, columns = range(8, 769, 8), range(64, 769, 64)
    wide = [f"{m}x{n}" for m, n in itertools.product(rows, columns) if m * n <= 49152]
    tall = [f"{m}x{n}" for m, n in itertools.product(columns, rows) if m * n <= 65536]
    narrow = [f"{m}x1" for m in (4, 8, 16, 24, 32, 40, 48, 64, 128, 192, 256)]
    return list(dict.fromkeys((*old, *wide, *tall, "256x512", "256x1024", "512x512", "512x1024", *narrow)))


def _numbered(start: str, names: Sequence[str], first: int = 0) -> dict[str, int]:
    found = {f"{start}_{name}": at for at, name in enumerate(names, first) if name}
    return {**found, f"{start}_END": first + len(names)}


def _of_attributes(prefix: str, attributes: Mapping[str, Attribute]) -> dict[str, int]:
    grouped = prefix.replace("_MATRIX", "_GROUPED_MATRIX") if prefix.endswith("LAYOUT_") else f"{prefix}GROUPED_"
    return {re.sub(f"^{prefix}GROUPED_", grouped, prefix + name): one.number for name, one in attributes.items()}


#: Enumerations, with their values.
ENUMERATIONS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "cublasLtMatmulTile_t": _numbered("CUBLASLT_MATMUL_TILE", ["UNDEFINED", *_tiles()]),
        "cublasLtMatmulStages_t": _numbered("CUBLASLT_MATMUL_STAGES", ["UNDEFINED", *_STAGES]),
        "cublasLtClusterShape_t": {
            "CUBLASLT_CLUSTER_SHAPE_AUTO": 0,
            **_numbered("CUBLASLT_CLUSTER_SHAPE", _SHAPES, 2),
        },
        "cublasLtMatmulInnerShape_t": _numbered(
            "CUBLASLT_MATMUL_INNER_SHAPE", "UNDEFINED MMA884 MMA1684 MMA1688 MMA16816".split()
        ),
        "cublasLtMatmulMatrixScale_t": {
            **_numbered(
                "CUBLASLT_MATMUL_MATRIX_SCALE",
                [
                    *"SCALAR_32F VEC16_UE4M3 VEC32_UE8M0 OUTER_VEC_32F VEC128_32F BLK128x128_32F".split(),
                    *("PER_BATCH_SCALAR_32F", "", "", "", "", "", "VEC128_MN_K4_UE8M0", "VEC32_MN_K4_UE8M0"),
                ],
            ),
            "CUBLASLT_MATMUL_MATRIX_SCALE_RESERVED": 127,
        },
        "cublasLtIntegerWidth_t": {"CUBLASLT_INTEGER_WIDTH_32": 0, "CUBLASLT_INTEGER_WIDTH_64": 1},
        "cublasLtMatmulBatchInvarianceFlags_t": {
            f"CUBLASLT_BATCH_INVARIANCE_{name}": value
            for name, value in (
                ("DISABLED", 0),
                ("ALIGN_2B", 1),
                ("ALIGN_4B", 2),
                ("ALIGN_8B", 3),
                ("ALIGN_16B", 4),
                ("AUTO", 8),
                ("UNSET", 32768),
            )
        },
        **{
            f"cublasLtPointerMode{end}_t": {
                f"CUBLASLT_POINTER_MODE_{part}{name}": 1 << at if part else at
                for at, name in enumerate(
                    "HOST DEVICE DEVICE_VECTOR ALPHA_DEVICE_VECTOR_BETA_ZERO ALPHA_DEVICE_VECTOR_BETA_HOST".split()
                )
            }
            for end, part in (("", ""), ("Mask", "MASK_"))
        },
        "cublasLtOrder_t": {
            f"CUBLASLT_ORDER_{name}": at for at, name in enumerate("COL ROW COL32 COL4_4R2_8C COL32_2R_4R4".split())
        },
        "cublasLtBatchMode_t": {
            "CUBLASLT_BATCH_MODE_STRIDED": 0,
            "CUBLASLT_BATCH_MODE_POINTER_ARRAY": 1,
            "CUBLASLT_BATCH_MODE_GROUPED": 2,
        },
        "cublasLtReductionScheme_t": {
            f"CUBLASLT_REDUCTION_SCHEME_{name}": value
            for name, value in (("NONE", 0), ("INPLACE", 1), ("COMPUTE_TYPE", 2), ("OUTPUT_TYPE", 4), ("MASK", 7))
        },
        "cublasLtEpilogue_t": {f"CUBLASLT_EPILOGUE_{name}": value for name, value in EPILOGUES.items()},
        "cublasLtMatmulSearch_t": {
            "CUBLASLT_SEARCH_BEST_FIT": 0,
            "CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID": 1,
            **{f"CUBLASLT_SEARCH_RESERVED_{at:02}": at for at in range(2, 10)},
        },
        **{
            one.enumeration[0]: _of_attributes(one.enumeration[1], one.attributes)
            for one in (*DESCRIPTORS.values(), ALGO)
        },
        "cublasLtMatmulAlgoCapAttributes_t": _of_attributes("CUBLASLT_ALGO_CAP_", CAPABILITIES),
    }
)
#: Bits that say how an algorithm computes: from the lowest of each group on.
FLAGS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "": (0, "FMA HMMA IMMA DMMA"),
        "ACCUMULATOR_": (8, "16F 32F 64F 32I"),
        "INPUT_": (16, "16F 16BF TF32 32F 64F 8I 8F_E4M3 8F_E5M2"),
    }
)
