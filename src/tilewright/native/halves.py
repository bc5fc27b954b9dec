"""Conversions of 16-bit floats in integers, for processors that lack one of their instructions.

LLVM calls these by the names that compilers' run-time libraries give them, and no such library is sure to be loaded.
Before F16C (2012) all of half's are called, without AVX-512 FP16 the one from double, and without AVX-512 BF16 those to
bfloat. `halves.c` has them.

Source: LLVM's RuntimeLibcalls for the names.
"""

from __future__ import annotations

from pathlib import Path

#: The C file that defines them.
SOURCE = Path(__file__).with_name("halves.c")
#: What a module calls where its processor lacks the instruction.
SYMBOLS = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
#: By LLVM's name of a type, the feature of processors that have instructions for all of its conversions.
_NATIVE = {"half": "+avx512fp16", "bfloat": "+avx512bf16"}


def needed(ir: str, triple: str, features: str) -> bool:
    """Whether an LLVM module may call a conversion that its processor has no instruction for.

    >>> needed("%y = fpext half %x to float", "x86_64-unknown-linux-gnu", "+avx2")
    True
    >>> needed("%y = fpext half %x to float", "aarch64-unknown-linux-gnu", "+neon")
    False
    """
    present = features.split(",")
    return triple.startswith("x86_64") and any(type_ in ir and x not in present for type_, x in _NATIVE.items())
