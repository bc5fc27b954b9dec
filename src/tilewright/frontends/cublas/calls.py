"""The functions of cuBLAS that are served: a table of names and parameters, for all kinds of callers.

A row stands for one function of each element type. From the table come the headers of programs (`header.py`), the
functions of the library in programs and in this process, and the names under which implementations find their values.
The rows of cuBLASLt are in `lt_calls.py`.

Source: cuBLAS, "Using the cuBLAS API"; names and parameters as in `cublas_api.h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.frontends.cublas import lt_calls

#: The type in C that every function of the table returns.
STATUS = "cublasStatus_t"
#: Element types by letter: of elements, and of their absolute values.
ELEMENTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "S": ("float", "float"), "D": ("double", "double"), "C": ("cuComplex", "float"),
        "Z": ("cuDoubleComplex", "double"), "H": ("__half", "__half"), "": ("void", "void"),
    }
)  # fmt: skip
#: Parameters that have one type in all functions.
_TYPES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys("m n k kl ku lda ldb ldc incx incy batchCount group_count elemSize rows cols inc".split(), "int")
    | dict.fromkeys("m_array n_array k_array lda_array ldb_array ldc_array group_size".split(), "const int *")
    | dict.fromkeys("transa_array transb_array".split(), "const cublasOperation_t *")
    | dict.fromkeys("trans transa transb".split(), "cublasOperation_t")
    | dict.fromkeys("strideA strideB strideC stridex stridey".split(), "long long int")
    | dict.fromkeys(
        "Atype Btype Ctype xType yType alphaType resultType executionType abType csType paramType d1Type d2Type x1Type "
        "y1Type".split(),
        "cudaDataType",
    )
    | {
        "uplo": "cublasFillMode_t", "side": "cublasSideMode_t", "diag": "cublasDiagType_t",
        "computeType": "cublasComputeType_t", "algo": "cublasGemmAlgo_t", "stream": "cudaStream_t",
        "countAddress": "int **",
    }
)  # fmt: skip
#: Types of parameters that rows name and that are passed by value, with all whose names end in `_t`.
_VALUES = (
    "int",
    "libraryPropertyType",
    "cudaDataType",
    "cudaEmulationMantissaControl",
    "cudaEmulationSpecialValuesSupport",
    "cublasLogCallback",
)
#: Types of counts, and their types in functions whose counts have 64 bits.
_WIDE: Mapping[str, str] = MappingProxyType({"int": "int64_t", "int *": "int64_t *", "const int *": "const int64_t *"})
#: Functions without a form for counts of 64 bits.
_NARROW = ("tpttr", "trttp")
#: Halves of level 2: letters of A and x, of the sums, and of y, with the types of A and y.
_HALVES = (
    ("HSH", "__half", "__half"),
    ("HSS", "__half", "float"),
    ("TST", "__nv_bfloat16", "__nv_bfloat16"),
    ("TSS", "__nv_bfloat16", "float"),
)
_PLAIN, _REAL, _COMPLEX = "S:S D:D C:C Z:Z", "S:S D:D", "C:C Z:Z"

#: Prefixes of names with their element types; the rest of the name; the parameters after the handle. A parameter with
#: `*` is an address that is written, others without a type above are read; `:R` means the type of absolute values. `**`
#: means an array of addresses that are read, `***` one of addresses that are written.
ROWS: tuple[tuple[str, str, str], ...] = (
    # Level 1
    ("Is:S Id:D Ic:C Iz:Z", "amax_v2", "n x incx result:int*"),
    ("Is:S Id:D Ic:C Iz:Z", "amin_v2", "n x incx result:int*"),
    ("S:S D:D Sc:C Dz:Z", "asum_v2", "n x incx result:R*"),
    ("S:S D:D Sc:C Dz:Z", "nrm2_v2", "n x incx result:R*"),
    (_PLAIN, "axpy_v2", "n alpha x incx y* incy"),
    (_PLAIN, "copy_v2", "n x incx y* incy"),
    (_PLAIN, "swap_v2", "n x* incx y* incy"),
    (_REAL, "dot_v2", "n x incx y incy result*"),
    (_COMPLEX, "dotu_v2", "n x incx y incy result*"),
    (_COMPLEX, "dotc_v2", "n x incx y incy result*"),
    (_PLAIN, "scal_v2", "n alpha x* incx"),
    ("Cs:C Zd:Z", "scal_v2", "n alpha:R x* incx"),
    (_PLAIN, "rot_v2", "n x* incx y* incy c:R s"),
    ("Cs:C Zd:Z", "rot_v2", "n x* incx y* incy c:R s:R"),
    (_PLAIN, "rotg_v2", "a* b* c:R* s*"),
    (_REAL, "rotm_v2", "n x* incx y* incy param"),
    (_REAL, "rotmg_v2", "d1* d2* x1* y1 param*"),
    ("I:", "amaxEx", "n x xType incx result:int*"),
    ("I:", "aminEx", "n x xType incx result:int*"),
    (":", "AsumEx", "n x xType incx result* resultType executionType"),
    (":", "CopyEx", "n x xType incx y* yType incy"),
    (":", "SwapEx", "n x* xType incx y* yType incy"),
    (":", "RotEx", "n x* xType incx y* yType incy c s csType executionType"),
    (":", "RotgEx", "a* b* abType c* s* csType executionType"),
    (":", "RotmEx", "n x* xType incx y* yType incy param paramType executionType"),
    (":", "RotmgEx", "d1* d1Type d2* d2Type x1* x1Type y1 y1Type param* paramType executionType"),
    (":", "AxpyEx", "n alpha alphaType x xType incx y* yType incy executionType"),
    (":", "DotEx", "n x xType incx y yType incy result* resultType executionType"),
    (":", "DotcEx", "n x xType incx y yType incy result* resultType executionType"),
    (":", "Nrm2Ex", "n x xType incx result* resultType executionType"),
    (":", "ScalEx", "n alpha alphaType x* xType incx executionType"),
    # Level 2
    (_PLAIN, "gemv_v2", "trans m n alpha A lda x incx beta y* incy"),
    (_PLAIN, "gemvBatched", "trans m n alpha Aarray** lda xarray** incx beta yarray*** incy batchCount"),
    (_PLAIN, "gemvStridedBatched", "trans m n alpha A lda strideA x incx stridex beta y* incy stridey batchCount"),
    *(
        row
        for name, a, y in _HALVES
        for row in (
            (
                f"{name}:",
                "gemvBatched",
                f"trans m n alpha:float Aarray:{a}** lda xarray:{a}** incx beta:float yarray:{y}*** incy batchCount",
            ),
            (
                f"{name}:",
                "gemvStridedBatched",
                f"trans m n alpha:float A:{a} lda strideA x:{a} incx stridex beta:float y:{y}* incy stridey batchCount",
            ),
        )
    ),
    (_PLAIN, "gbmv_v2", "trans m n kl ku alpha A lda x incx beta y* incy"),
    (_REAL, "ger_v2", "m n alpha x incx y incy A* lda"),
    (_COMPLEX, "geru_v2", "m n alpha x incx y incy A* lda"),
    (_COMPLEX, "gerc_v2", "m n alpha x incx y incy A* lda"),
    (_PLAIN, "symv_v2", "uplo n alpha A lda x incx beta y* incy"),
    (_COMPLEX, "hemv_v2", "uplo n alpha A lda x incx beta y* incy"),
    (_REAL, "sbmv_v2", "uplo n k alpha A lda x incx beta y* incy"),
    (_COMPLEX, "hbmv_v2", "uplo n k alpha A lda x incx beta y* incy"),
    (_REAL, "spmv_v2", "uplo n alpha AP x incx beta y* incy"),
    (_COMPLEX, "hpmv_v2", "uplo n alpha AP x incx beta y* incy"),
    (_PLAIN, "syr_v2", "uplo n alpha x incx A* lda"),
    (_COMPLEX, "her_v2", "uplo n alpha:R x incx A* lda"),
    (_REAL, "spr_v2", "uplo n alpha x incx AP*"),
    (_COMPLEX, "hpr_v2", "uplo n alpha:R x incx AP*"),
    (_PLAIN, "syr2_v2", "uplo n alpha x incx y incy A* lda"),
    (_COMPLEX, "her2_v2", "uplo n alpha x incx y incy A* lda"),
    (_REAL, "spr2_v2", "uplo n alpha x incx y incy AP*"),
    (_COMPLEX, "hpr2_v2", "uplo n alpha x incx y incy AP*"),
    (_PLAIN, "trmv_v2", "uplo trans diag n A lda x* incx"),
    (_PLAIN, "trsv_v2", "uplo trans diag n A lda x* incx"),
    (_PLAIN, "tbmv_v2", "uplo trans diag n k A lda x* incx"),
    (_PLAIN, "tbsv_v2", "uplo trans diag n k A lda x* incx"),
    (_PLAIN, "tpmv_v2", "uplo trans diag n AP x* incx"),
    (_PLAIN, "tpsv_v2", "uplo trans diag n AP x* incx"),
    # Level 3
    (_PLAIN, "gemm_v2", "transa transb m n k alpha A lda B ldb beta C* ldc"),
    ("H:H", "gemm", "transa transb m n k alpha A lda B ldb beta C* ldc"),
    (_COMPLEX, "gemm3m", "transa transb m n k alpha A lda B ldb beta C* ldc"),
    (
        "H:H " + _PLAIN,
        "gemmBatched",
        "transa transb m n k alpha Aarray** lda Barray** ldb beta Carray*** ldc batchCount",
    ),
    (
        "H:H " + _PLAIN,
        "gemmStridedBatched",
        "transa transb m n k alpha A lda strideA B ldb strideB beta C* ldc strideC batchCount",
    ),
    (
        "S:S C:C",
        "gemmEx",
        "transa transb m n k alpha A:void Atype lda B:void Btype ldb beta C:void* Ctype ldc",
    ),
    ("C:C", "gemm3mEx", "transa transb m n k alpha A:void Atype lda B:void Btype ldb beta C:void* Ctype ldc"),
    (":", "GemmEx", "transa transb m n k alpha A Atype lda B Btype ldb beta C* Ctype ldc computeType algo"),
    (
        ":",
        "GemmBatchedEx",
        "transa transb m n k alpha Aarray** Atype lda Barray** Btype ldb beta Carray*** Ctype ldc batchCount "
        "computeType algo",
    ),
    (
        ":",
        "GemmStridedBatchedEx",
        "transa transb m n k alpha A Atype lda strideA B Btype ldb strideB beta C* Ctype ldc strideC batchCount "
        "computeType algo",
    ),
    ("C:C", "gemm3mBatched", "transa transb m n k alpha Aarray** lda Barray** ldb beta Carray*** ldc batchCount"),
    (
        "C:C",
        "gemm3mStridedBatched",
        "transa transb m n k alpha A lda strideA B ldb strideB beta C* ldc strideC batchCount",
    ),
    (
        _REAL,
        "gemmGroupedBatched",
        "transa_array transb_array m_array n_array k_array alpha_array Aarray** lda_array Barray** ldb_array "
        "beta_array Carray*** ldc_array group_count group_size",
    ),
    (
        ":",
        "GemmGroupedBatchedEx",
        "transa_array transb_array m_array n_array k_array alpha_array Aarray** Atype lda_array Barray** Btype "
        "ldb_array beta_array Carray*** Ctype ldc_array group_count group_size computeType",
    ),
    (_PLAIN, "symm_v2", "side uplo m n alpha A lda B ldb beta C* ldc"),
    (_COMPLEX, "hemm_v2", "side uplo m n alpha A lda B ldb beta C* ldc"),
    (_PLAIN, "syrk_v2", "uplo trans n k alpha A lda beta C* ldc"),
    (_COMPLEX, "herk_v2", "uplo trans n k alpha:R A lda beta:R C* ldc"),
    *(
        ("C:C", f"{name}Ex", "uplo trans n k alpha A:void Atype lda beta C:void* Ctype ldc")
        for name in ("syrk", "syrk3m")
    ),
    *(
        ("C:C", f"{name}Ex", "uplo trans n k alpha:R A:void Atype lda beta:R C:void* Ctype ldc")
        for name in ("herk", "herk3m")
    ),
    (_PLAIN, "syr2k_v2", "uplo trans n k alpha A lda B ldb beta C* ldc"),
    (_COMPLEX, "her2k_v2", "uplo trans n k alpha A lda B ldb beta:R C* ldc"),
    (_PLAIN, "syrkx", "uplo trans n k alpha A lda B ldb beta C* ldc"),
    (_COMPLEX, "herkx", "uplo trans n k alpha A lda B ldb beta:R C* ldc"),
    (_PLAIN, "trmm_v2", "side uplo trans diag m n alpha A lda B ldb C* ldc"),
    (_PLAIN, "trsm_v2", "side uplo trans diag m n alpha A lda B* ldb"),
    (_PLAIN, "trsmBatched", "side uplo trans diag m n alpha Aarray** lda Barray*** ldb batchCount"),
    # Extensions
    (_PLAIN, "geam", "transa transb m n alpha A lda beta B ldb C* ldc"),
    (_PLAIN, "dgmm", "side m n A lda x incx C* ldc"),
    (_PLAIN, "tpttr", "uplo n AP A* lda"),
    (_PLAIN, "trttp", "uplo n A lda AP*"),
    # The library and its handles
    ("", "Create_v2", "handle:cublasHandle_t*"),
    ("", "Destroy_v2", "handle:cublasHandle_t"),
    ("", "GetVersion_v2", "handle:cublasHandle_t version:int*"),
    ("", "GetProperty", "type:libraryPropertyType value:int*"),
    ("", "SetWorkspace_v2", "handle:cublasHandle_t workspace:void* workspaceSizeInBytes:size_t"),
    ("", "SetStream_v2", "handle:cublasHandle_t streamId:cudaStream_t"),
    ("", "GetStream_v2", "handle:cublasHandle_t streamId:cudaStream_t*"),
    ("", "SetPointerMode_v2", "handle:cublasHandle_t mode:cublasPointerMode_t"),
    ("", "GetPointerMode_v2", "handle:cublasHandle_t mode:cublasPointerMode_t*"),
    ("", "SetAtomicsMode", "handle:cublasHandle_t mode:cublasAtomicsMode_t"),
    ("", "GetAtomicsMode", "handle:cublasHandle_t mode:cublasAtomicsMode_t*"),
    ("", "SetMathMode", "handle:cublasHandle_t mode:cublasMath_t"),
    ("", "GetMathMode", "handle:cublasHandle_t mode:cublasMath_t*"),
    ("", "SetSmCountTarget", "handle:cublasHandle_t smCountTarget:int"),
    ("", "GetSmCountTarget", "handle:cublasHandle_t smCountTarget:int*"),
    ("", "SetEmulationStrategy", "handle:cublasHandle_t emulationStrategy:cublasEmulationStrategy_t"),
    ("", "GetEmulationStrategy", "handle:cublasHandle_t emulationStrategy:cublasEmulationStrategy_t*"),
    ("", "SetEmulationSpecialValuesSupport", "handle:cublasHandle_t mask:cudaEmulationSpecialValuesSupport"),
    ("", "GetEmulationSpecialValuesSupport", "handle:cublasHandle_t mask:cudaEmulationSpecialValuesSupport*"),
    *(
        ("", f"{verb}FixedPointEmulation{name}", f"handle:cublasHandle_t value:{type_}{star}")
        for name, type_ in (
            ("MantissaControl", "cudaEmulationMantissaControl"),
            ("MaxMantissaBitCount", "int"),
            ("MantissaBitOffset", "int"),
        )
        for verb, star in (("Set", ""), ("Get", "*"))
    ),
    ("", "SetFixedPointEmulationMantissaBitCountPointer", "handle:cublasHandle_t mantissaBitCount:int*"),
    ("", "GetFixedPointEmulationMantissaBitCountPointer", "handle:cublasHandle_t countAddress"),
    ("", "LoggerConfigure", "logIsOn:int logToStdOut:int logToStdErr:int logFileName:const_char*"),
    ("", "SetLoggerCallback", "userCallback:cublasLogCallback"),
    ("", "GetLoggerCallback", "userCallback:cublasLogCallback*"),
    ("", "SetVector", "n:int elemSize x:const_void* incx devicePtr:void* incy"),
    ("", "GetVector", "n:int elemSize x:const_void* incx y:void* incy"),
    ("", "SetVectorAsync", "n:int elemSize hostPtr:const_void* incx devicePtr:void* incy stream"),
    ("", "GetVectorAsync", "n:int elemSize devicePtr:const_void* incx hostPtr:void* incy stream"),
    ("", "SetMatrix", "rows cols elemSize A:const_void* lda B:void* ldb"),
    ("", "GetMatrix", "rows cols elemSize A:const_void* lda B:void* ldb"),
    ("", "SetMatrixAsync", "rows cols elemSize A:const_void* lda B:void* ldb stream"),
    ("", "GetMatrixAsync", "rows cols elemSize A:const_void* lda B:void* ldb stream"),
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library."""

    name: str
    stem: str  #: The name without prefix, element type and version: that of the implementation.
    letter: str  #: Its element type in `ELEMENTS`; "" where parameters name the types.
    parameters: tuple[tuple[str, str], ...]  #: C type and name of each, the handle's too.

    @property
    def is_lt(self) -> bool:
        """Whether it is of cuBLASLt, which has a header of its own."""
        return self.stem.startswith("Lt")

    @property
    def statements(self) -> str:
        """The C++ code of one that a program's library does by itself; "" for others."""
        return lt_calls.IN_PROGRAM.get(self.name, "")

    @property
    def declared(self) -> str:
        """Its parameters in C."""
        listed = ", ".join(f"{type_}{' ' * (type_[-1] != '*')}{name}" for type_, name in self.parameters)
        return listed or "void"


def functions() -> Iterator[Function]:
    """Every function that is served; those that take counts have a second one, of counts in 64 bits."""
    for prefixes, rest, parameters in (*ROWS, *lt_calls.ROWS):
        for prefix in prefixes.split() or [""]:
            before, _, letter = prefix.partition(":")
            handle = (("cublasHandle_t", "handle"),) if prefixes else ()
            declared = tuple(_parameter(text, letter) for text in parameters.split())
            one = Function(f"cublas{before}{rest}", rest.removesuffix("_v2"), letter, handle + declared)
            yield one
            if rest not in _NARROW and any(_TYPES.get(word) == "int" for word in parameters.split()):
                wide = tuple((_WIDE.get(type_, type_), name) for type_, name in one.parameters)
                yield Function(f"{one.name}_64", one.stem, letter, wide)


def _parameter(text: str, letter: str) -> tuple[str, str]:
    """C type and name of a parameter, as `ROWS` writes it.

    >>> _parameter("alpha", "S"), _parameter("y*", "C"), _parameter("Aarray**", "D"), _parameter("result:R*", "Z")
    (('const float *', 'alpha'), ('cuComplex *', 'y'), ('const double *const *', 'Aarray'), ('double *', 'result'))
    """
    declared = text.rstrip("*")
    stars = len(text) - len(declared)
    name, _, type_ = declared.partition(":")
    if not stars and (name in _TYPES if not type_ else type_ in _VALUES or type_.endswith("_t")):
        return type_ or _TYPES[name], name
    element, absolute = ELEMENTS[letter]
    pointed = {"": element, "R": absolute}.get(type_, type_)
    if stars > 1:
        return f"{'const ' * (stars == 2)}{pointed} *const *", name
    if pointed.startswith("const_"):
        stars, pointed = 0, pointed.removeprefix("const_")
    return f"{'const ' * (not stars)}{pointed} *", name
