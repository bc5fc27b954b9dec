"""The record of one kernel of the corpus: what is launched, on what, and what must come of it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.simt import DeviceArray, Memory
from tilewright.simulate.programs.program import Program, program_for

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]
#: The arguments before the launch -> what the arrays at these positions hold after it.
Reference = Callable[..., dict[int, Any]]


#: Text, options and instance of a template -> what was made of it. All kernels of a text are compiled together:
#: headers alone take NVRTC two seconds.
_COMPILED: dict[tuple[str, tuple[str, ...], str], Program] = {}


@dataclass(frozen=True)
class Text:
    """A kernel as text in a Python file; :func:`cuda_cpp` and :func:`ptx` make one.

    Attributes
    ----------
    path : Path
        The file.
    text : str
        The kernel, after as many empty lines as the file has before it, so that lines have the file's numbers.
    entry : str
    options : tuple of str
        Further NVRTC options.
    language : {"cuda", "ptx"}
    """

    path: Path
    text: str = field(repr=False)
    entry: str
    options: tuple[str, ...] = ()
    language: str = "cuda"

    @functools.cached_property
    def program(self) -> Program:
        if self.language == "ptx":
            return Program.from_ptx(self.text, self.entry)
        key = (self.text, self.options, self.entry if "<" in self.entry else "")
        if key not in _COMPILED:
            _COMPILED[key] = Program.from_cuda(self.text, self.entry, options=self.options, path=str(self.path))
        found = _COMPILED[key]
        if found.name == self.entry:
            return found
        mangled = f"_Z{len(self.entry)}{self.entry}"
        lowered = [one.name for one in found.module.entries if one.name == self.entry or one.name.startswith(mangled)]
        again = functools.partial(Program.from_cuda, self.text, self.entry, options=self.options, path=str(self.path))
        named = Program.from_ptx(found.ptx, *lowered)
        return dataclasses.replace(named, name=self.entry, with_arrays=lambda: again().with_arrays())


def _placed(file: str, text: str) -> tuple[Path, str]:
    path = Path(file)
    before, found, _ = path.read_text(encoding="utf-8").partition(text)
    assert found, f"{path}: a kernel's text must stand in the file as it is; write it as a raw string"
    return path, "\n" * before.count("\n") + text


#: What stands above every PTX kernel of the corpus, on the first line.
_HEADER = ".version 8.0 .target sm_90 .address_size 64"


def cuda_cpp(file: str, text: str, entry: str, *options: str) -> Text:
    """CUDA C++ in a raw string of the Python file `file` (`__file__`); headers of `cuda/` are found."""
    return Text(*_placed(file, text), entry, (f"-I{Path(__file__).parent / 'cuda'}", *options))


def ptx(file: str, text: str, entry: str) -> Text:
    """PTX without its header, in a raw string of the Python file `file` (`__file__`)."""
    path, placed = _placed(file, text)
    return Text(path, _HEADER + placed, entry, language="ptx")


def matrices(m: int, k: int, n: int) -> Arguments:
    """The arguments of a product: small whole numbers as float32, which any order sums up alike, and C full of 0."""

    def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
        a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        return a, b, np.zeros((m, n), np.float32)

    return arguments


def numbers(size: int) -> Arguments:
    """The arguments of a kernel of two int32 arrays: numbers from 1 to 98, and as many zeros."""
    return lambda rng: (rng.integers(1, 99, size).astype(np.int32), np.zeros(size, np.int32))


def given(size: int, results: int) -> Arguments:
    """The arguments of a kernel of two int32 arrays, with the number of elements that it reads."""
    return lambda rng: (rng.integers(1, 99, size).astype(np.int32), np.zeros(results, np.int32), np.int32(size))


def zeros(size: int) -> Arguments:
    """The argument of a kernel of one int32 array."""
    return lambda rng: (np.zeros(size, np.int32),)


def product(a: Any, b: Any, c: Any) -> dict[int, Any]:
    """The reference of a product of :func:`matrices`."""
    return {2: a @ b}


def copied(x: Any, out: Any) -> dict[int, Any]:
    """The reference of a kernel that copies an array."""
    return {1: x}


def backwards(x: Any, out: Any, *sizes: Any) -> dict[int, Any]:
    """The reference of a kernel that turns an array round."""
    return {1: x[::-1]}


def doubled(x: Any, out: Any) -> dict[int, Any]:
    """The reference of a kernel that takes each number twice."""
    return {1: 2 * x}


def swapped(x: Any, out: Any) -> dict[int, Any]:
    """The reference of a kernel whose clusters of two blocks exchange their numbers, 64 each."""
    return {1: x.reshape(-1, 2, 64)[:, ::-1].ravel()}


def across(x: Any, out: Any) -> dict[int, Any]:
    """The same, of two clusters, with the numbers of each block backwards."""
    return {1: x.reshape(2, 2, 64)[:, ::-1, ::-1].ravel()}


def unchanged(values: Any) -> Any:
    """A result as it is."""
    return values


@dataclass(frozen=True)
class Case:
    """One launch of one kernel.

    Attributes
    ----------
    name : str
    kernel : numba.cuda.jit object or Text
    grid, block : int or tuple of int
    arguments : callable
        A random generator -> the arguments; an array may be a view with any strides.
    reference : callable
        The arguments as they were before the launch -> by position, what an array must hold afterwards. A defective
        kernel has none: what it computes depends on luck.
    shared_bytes : int
        Dynamic shared memory.
    rtol : float
        Tolerance; 0 asks for the same values.
    settled : callable
        Applied to result and reference before they are compared, where the kernel leaves the order open.
    unwritten : tuple of int
        Positions of arrays that the host only allocates.
    gpu : str, optional
        Which GPU it needs, where another than the default one.
    cooperative : bool
        Whether blocks can wait for each other.
    strict : bool
        Whether it is checked with `strict`.
    defective : bool
        The `finds:` comments of the file are about this case; every other case must give no finding.
    finds : mapping of str to tuple of str
        Text of a line of the kernel -> codes, for a Python kernel of another file, which has no comments.
    why : str
        In `verdicts/`: the argument for the verdict.
    codes : tuple of str
        In `verdicts/`: the codes of which one must be found; none, where the kernel is correct.
    known : str
        In `verdicts/`: why `check` gives another verdict today.
    """

    name: str
    kernel: Any
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: Arguments
    reference: Reference | None = None
    shared_bytes: int = 0
    rtol: float = 0.0
    settled: Callable[[Any], Any] = unchanged
    unwritten: tuple[int, ...] = ()
    gpu: str | None = None
    cooperative: bool = False
    strict: bool = False
    defective: bool = False
    finds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: str = ""
    codes: tuple[str, ...] = ()
    known: str = ""

    @property
    def path(self) -> Path:
        """The file with the kernel's source."""
        if isinstance(self.kernel, Text):
            return self.kernel.path
        return Path(inspect.getfile(getattr(self.kernel, "py_func", self.kernel)))

    def launchable(self) -> Any:
        """The kernel as `tilewright.simt.launch` and `tilewright.check` take it."""
        return self.kernel.program if isinstance(self.kernel, Text) else self.kernel

    def program(self) -> Program:
        """The kernel compiled for this launch."""
        return program_for(self.launchable(), self.device_arguments(Memory())[0])

    def device_arguments(self, memory: Memory) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(what is launched with, the same on the host as it is before the launch)."""
        given = self.arguments(np.random.default_rng(2026))
        launched, before = list(given), list(given)
        for position, value in enumerate(given):
            if position in self.unwritten:
                launched[position] = memory.empty(value.shape, value.dtype)
            else:
                before[position] = copy.deepcopy(value)
        return tuple(launched), tuple(before)

    def compare(self, arguments: tuple[Any, ...], before: tuple[Any, ...], message: str) -> None:
        """Assert that the arrays are as the reference of what they were before has them."""
        assert self.reference is not None, f"{self.name}: a correct kernel must have a reference"
        for position, wanted in self.reference(*before).items():
            value = arguments[position]
            came = self.settled(value.to_host() if isinstance(value, DeviceArray) else value)
            due = self.settled(np.asarray(wanted))
            where = f"{self.name}, argument {position}, {message}"
            if self.rtol:
                np.testing.assert_allclose(came, due, rtol=self.rtol, err_msg=where)
            else:
                np.testing.assert_array_equal(came, due, err_msg=where)
