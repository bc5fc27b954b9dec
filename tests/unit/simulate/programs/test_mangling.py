from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.programs import Program
from tilewright.simulate.programs.mangling import parameter_types

SOURCE = """
#include <cuda_fp16.h>
namespace one { namespace two {
struct Pair { int a, b; };
template <typename T, int N, bool B, typename U> __global__ void deep(
    const T *__restrict__ a, T *const b, U **c, Pair p, const Pair *q, volatile unsigned char *v, U u,
    const T *again) {}
template <typename T> struct Outer { };
__global__ void plain(Outer<float> *o, Outer<float> *p, long long n, unsigned long m, const __half *h, double *d) {}
} }
static __global__ void hidden(short s, unsigned short t, signed char c, bool b, void *p, const void *q) {}
__global__ void nothing() {}
template __global__ void one::two::deep<float, -3, true, unsigned>(
    const float *, float *, unsigned **, one::two::Pair, const one::two::Pair *, volatile unsigned char *, unsigned,
    const float *);
"""


def names(entry: str) -> list[str] | None:
    types = parameter_types(Program.from_cuda(SOURCE, entry).entry)
    return None if types is None else [type_.name for type_ in types]


def test_templates_namespaces_and_references() -> None:
    assert names("one::two::deep<float, -3, true, unsigned>") == [
        "const float *", "float *", "unsigned int * *", "Pair", "const Pair *", "unsigned char *", "unsigned int",
        "const float *",
    ]  # fmt: skip


def test_classes_of_templates() -> None:
    assert names("one::two::plain") == [
        "Outer *", "Outer *", "long long", "unsigned long", "const __half *", "double *",
    ]  # fmt: skip


def test_builtins() -> None:
    assert names("hidden") == ["short", "unsigned short", "signed char", "bool", "void *", "const void *"]
    assert names("nothing") == []


@pytest.mark.parametrize("symbol", ["kernel", "_Z", "_Z3foo", "_Z1fU3abc", "_ZN1aE", "_Z1fDp", "_Z1fS5_", "_Z9short"])
def test_other_symbols_have_no_parameters(symbol: str) -> None:
    assert not parameter_types(symbol)


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="not run: no c++filt to compare with")
def test_the_systems_demangler_agrees() -> None:
    for symbol in ("_Z13MatrixMulCUDAILi16EfEvPT0_PKS0_S3_iii", "_ZN5inner5scaleILi32EdEEvPT0_PKS1_S1_s"):
        text = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout
        listed = text[text.index("(") + 1 : text.rindex(")")].split(", ")
        types = parameter_types(symbol)
        assert types is not None
        ours = [f"{t.name.removeprefix('const ')} const*".replace(" *", "") if t.const else t.name for t in types]
        assert [name.replace(" ", "") for name in ours] == [name.replace(" ", "") for name in listed]


def test_dtypes_are_checked_by_it() -> None:
    source = "__global__ void k(float *out, const float *in, unsigned n, double x) {}"
    program = Program.from_cuda(source, "k")
    array = np.zeros(4, np.float32)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False

    def marshal(*args: object) -> None:
        program.marshal(args, lambda _: 0)

    marshal(array, frozen, 4, 1)
    marshal(4096, frozen, np.uint8(4), np.float32(1))
    with pytest.raises(ArgumentTypeError, match=r"argument 1 must be const float \* \(got array\(float64, 1d, C\)\)"):
        marshal(array, np.zeros(4), 4, 1)
    with pytest.raises(ArgumentTypeError, match=r"argument 0 must be float \* .*read-only"):
        marshal(frozen, frozen, 4, 1)
    with pytest.raises(LaunchError, match=r"argument 2 must fit unsigned int \(got -1\)"):
        marshal(array, frozen, -1, 1)
    with pytest.raises(ArgumentTypeError, match="argument 3 must be double"):
        marshal(array, frozen, 1, array)
