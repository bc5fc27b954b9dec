"""Conversions of 16-bit floats in integer arithmetic, for processors that lack one of their instructions.

LLVM calls them by the names that compilers' run-time libraries use, and such a library may not be loaded. Processors
before F16C (2012) need all conversions of half; those without AVX-512 FP16 need the one from double; those without
AVX-512 BF16 need the ones to bfloat. `halves.c` defines them.

Source: LLVM's RuntimeLibcalls for the names.
"""

from __future__ import annotations

from pathlib import Path

#: The C file that defines them.
SOURCE = Path(__file__).with_name("halves.c")
#: The functions that a module calls where its processor lacks the instruction.
SYMBOLS = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
#: For each LLVM type: the processor feature that has instructions for all of its conversions.
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
