"""One random kernel on the machine, compared with the interpreter."""

from __future__ import annotations

import struct

import numpy as np
from generator import arrays
from interpreter import UndefinedError, run
from kernel_tree import ARRAYS, Kernel, ptx

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import Limits

#: Findings about values, not kernels: random numbers overflow and make NaNs, and random kernels read anything.
LOSSY = ("TW501", "TW506", "TW601", "TW602", "TW603", "TW604")
_FLOATS = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}
_CODES = {"u32": "I", "s32": "i", "u64": "Q", "f32": "f"}


def arguments(kernel: Kernel, given: dict[str, np.ndarray]) -> list[object]:
    """Arrays, then numbers of the parameters' types."""
    words = {4: "I", 8: "Q"}
    numbers = [
        struct.unpack(_CODES[t], struct.pack(words[struct.calcsize(_CODES[t])], bits))[0]
        for t, bits in kernel.scalars.values()
    ]
    return [*(given[name] for name in ARRAYS), *numbers]


def registers(kernel: Kernel, out: np.ndarray) -> np.ndarray:
    """Each thread's final registers, a row a register; all NaNs become one."""
    threads = kernel.threads * kernel.grid[0]
    rows = out.reshape(-1, threads).copy() if kernel.columns else out.reshape(threads, -1).T.copy()
    for row, type_ in zip(rows, kernel.outputs, strict=True):
        if type_ in _FLOATS:
            word, number = _FLOATS[type_]
            row[np.isnan(row.astype(word).view(number))] = 1 << 63
    return rows


def wrong(kernel: Kernel, way: str = "run") -> str:
    """The difference from the interpreter, or the kernel's findings, in a line; empty if there are none.

    `way` is `run`, `check` or `profile`. Raises `UndefinedError` for a kernel that has no one right result.
    """
    given = arrays(kernel)
    wanted = run(kernel, given)
    found = {name: array.copy() for name, array in given.items()}
    program = Program.from_ptx(ptx(kernel))
    launched = (program, kernel.grid, kernel.block, arguments(kernel, found))
    limits = Limits(seconds=60)
    try:
        if way == "check":
            findings = tw.check(*launched, limits=limits, ignore=LOSSY)
            if findings:
                return f"check: {findings[0].code} {findings[0].message}"
        elif way == "profile":
            tw.profile(*launched, limits=limits)
        else:
            tw.simt.launch(*launched, limits=limits, seed=kernel.seed)
    except tw.TilewrightError as error:
        return f"{way}: {type(error).__name__}: {error}"
    return _difference(kernel, wanted, found)


def _difference(kernel: Kernel, wanted: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> str:
    ours, theirs = registers(kernel, found["out"]), registers(kernel, wanted["out"])
    places = np.argwhere((ours != theirs).T)
    if len(places):
        thread, at = places[0]
        block, lane = divmod(int(thread), kernel.threads)
        return (
            f"block {block} thread {lane}: register {at} ({kernel.outputs[at]}) is {ours[at, thread]:#x}, "
            f"must be {theirs[at, thread]:#x}; {len(places)} differ in all"
        )
    for name in ARRAYS:
        words = np.argwhere(wanted[name] != found[name])
        if name != "out" and len(words):
            at = int(words[0, 0])
            return f"{name}[{at}] is {found[name][at]:#x}, must be {wanted[name][at]:#x}; {len(words)} differ in all"
    return ""


def still_wrong(kernel: Kernel, way: str) -> bool:
    """Whether a kernel that was cut has a right result, and another on the machine."""
    try:
        return bool(wrong(kernel, way))
    except UndefinedError:
        return False
