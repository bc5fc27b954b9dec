"""Our headers of cuBLAS and cuBLASLt declare what the vendor's do, which torch's wheel for CUDA brings."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tilewright.frontends.cublas import calls, header, lt_calls

torch = pytest.importorskip("torch", reason="torch's wheel for CUDA brings the vendor's headers")
if torch.version.cuda is None:
    pytest.skip("this torch is a build for the CPU, without the vendor's headers", allow_module_level=True)


def without_comments(name: str) -> str:
    (found,) = Path(sys.prefix).rglob(name)
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", found.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("file", ["cublas_api.h", "cublasLt.h"])
def test_the_enumerations_are_the_vendor_s(file: str) -> None:
    text = without_comments(file)
    for body, name in re.findall(r"typedef enum \{(.*?)\} (\w+);", text, flags=re.DOTALL):
        values: dict[str, int] = {}
        number = -1
        for one in filter(None, (one.strip() for one in body.split(","))):
            word, _, value = one.partition("=")
            known = {**header.ENUMERATIONS["cublasPointerMode_t"], **values}
            number = eval(value, {}, known) if value else number + 1
            values[word.strip()] = number
        ours = {**header.ENUMERATIONS, **lt_calls.ENUMERATIONS}[name]
        older = {word: number for word, number in values.items() if not word.endswith("_END")}
        assert older.items() <= ours.items(), name  # the vendor's may be older


def test_the_structures_and_functions_of_cublaslt_are_the_vendor_s() -> None:
    text = without_comments("cublasLt.h")
    for words, name in re.findall(r"uint64_t data\[(\d+)\];\s*\} cublasLt(\w+?)(?:Opaque)?_t;", text):
        assert 8 * int(words) in lt_calls.DESCRIPTORS.get(name, lt_calls.ALGO).sizes, name
    declared = set(re.findall(r"CUBLASWINAPI (cublasLt\w+)", text))
    ours = set(re.findall(r"(cublasLt\w+)\(", header.text("cublasLt.h")))
    assert declared <= ours
    for name, value in re.findall(r"(CUBLASLT_NUMERICAL_IMPL_FLAGS_\w+) \((\w+ << \d+)\)", text):
        assert f"#define {name} ({eval(value.replace('ull', '')):#x}ull)\n" in header.text("cublasLt.h"), name


def test_declarations_are_the_vendor_s() -> None:
    text = without_comments("cublas_api.h") + without_comments("cublasLt.h")
    declared = {
        name: [_plain(one) for one in parameters.split(",") if one.strip() not in ("", "void")]
        for name, parameters in re.findall(r"cublasStatus_t\s+CUBLASWINAPI\s+(\w+)\s*\(([^()]*)\)\s*;", text)
    }
    for function in calls.functions():
        newer = function.name not in declared and ("Grouped" in function.name or function.name.endswith("ForStream"))
        assert newer or [type_.replace(" ", "") for type_, _ in function.parameters] == declared[function.name], (
            function.name
        )


def _plain(parameter: str) -> str:
    """The type of a parameter without spaces; an array is a pointer."""
    pointer = "*" if "[" in parameter else ""
    type_ = re.sub(r"\w+\s*(\[\w*\])?\s*$", "", parameter.strip()).replace(" ", "")
    return type_.replace("cudaDataType_t", "cudaDataType") + pointer
