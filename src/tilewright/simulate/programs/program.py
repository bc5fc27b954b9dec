"""A compiled kernel, from Python, CUDA C++ or PTX."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.errors import ArgumentTypeError, ArgumentValueError, CompileError, MissingFileError
from tilewright.ground.lazy_exports import public
from tilewright.ground.native.memo import bounded
from tilewright.ground.progress import announced
from tilewright.simulate.programs import (
    arguments as marshalling,
    assembler,
    device_runtime,
    listing,
    mangling,
    numba_compiler,
    nvrtc,
    opaque_arrays,
)
from tilewright.simulate.programs.arguments import AddressOf, Argument
from tilewright.simulate.programs.assembler import Resources
from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.ptx.frames import definition, users_calls, users_line
from tilewright.simulate.ptx.tree import CallArguments, Instruction, Module, Symbol

#: The default compute capability: that of the H100 (Hopper).
DEFAULT_CC = (9, 0)
#: The oldest compute capability that compilers support. Source: CUDA 13.0 release notes, "Deprecated or dropped
#: features": Maxwell, Pascal and Volta.
OLDEST_CC = (7, 5)


@dataclass(frozen=True)
class Program:
    """One kernel: its PTX and everything that a launch needs.

    Make one with :meth:`from_python`, :meth:`from_cuda` or :meth:`from_ptx`.

    Attributes
    ----------
    name : str
        The kernel's name in the source: `tiled`, `MatrixMulCUDA<16>`.
    ptx : str
        PTX text.
    entry : str
        The kernel's name in the PTX.
    cc : (int, int)
        Compute capability of the PTX.
    parameters : tuple of Parameter
        Kernel parameters in PTX.
    shared_bytes : int
        Static shared memory of a block, in bytes.
    arguments : tuple of Argument
        What a caller must pass.
    abi : str
        `numba` (an array is flattened to Numba's fields) or `c` (an array is a pointer).
    with_arrays : callable or None
        Compiles the kernel again with all its local arrays in local memory; None if that is not known.

    Examples
    --------
    >>> text = '''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry nothing(.param .u64 p, .param .f32 x) { ret; }
    ... '''
    >>> program = Program.from_ptx(text)
    >>> program.entry, [parameter.bytes for parameter in program.parameters]
    ('nothing', [8, 4])
    """

    name: str
    ptx: str = field(repr=False)
    entry: str
    cc: tuple[int, int]
    parameters: tuple[Parameter, ...] = field(repr=False)
    shared_bytes: int
    arguments: tuple[Argument, ...] = field(repr=False)
    abi: str
    with_arrays: Callable[[], Program] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but the compiler, which only this process has."""
        own = {name: value for name, value in self.__dict__.items() if name != "kept"}
        return own | {"with_arrays": None}

    @classmethod
    @public
    def from_python(
        cls,
        function: Any,
        argtypes: Any,
        cc: tuple[int, int] = DEFAULT_CC,
        *,
        fastmath: bool | None = None,
        lineinfo: bool = True,
        opt: bool = True,
    ) -> Program:
        """Compile a Python kernel with numba-cuda; no GPU is needed.

        Parameters
        ----------
        function : function or numba.cuda.jit object
            The kernel. A jit object's own options apply unless given here.
        argtypes : str or sequence
            A signature (`"void(float32[:, ::1], int64)"`), or Numba types, dtypes and type strings.
        cc : (int, int)
            Compute capability.
        fastmath : bool, optional
            Flush denormals, approximate divisions and roots; by default as in the jit object, else off.
        lineinfo : bool
            Whether the PTX has source lines.
        opt : bool
            Whether libNVVM optimises.

        Raises
        ------
        CompileError
            Numba refused it.
        ArgumentTypeError
            `function` is no kernel, or `argtypes` are no types.
        MissingExtraError
            numba-cuda is not installed.
        """
        options = numba_compiler.options_of(function) | {"lineinfo": lineinfo}
        if fastmath is not None:
            options["fastmath"] = fastmath
        if not opt:
            options["opt"] = False
        compiled = functools.partial(compiled_python, function, argtypes, _checked_cc(cc), options)
        return replace(compiled(), with_arrays=functools.partial(compiled, opaque=True))

    @classmethod
    @public
    def from_cuda(
        cls,
        source: str | Path,
        entry: str,
        cc: tuple[int, int] = DEFAULT_CC,
        options: Sequence[str] = (),
        *,
        lineinfo: bool = True,
        path: str | None = None,
    ) -> Program:
        """Compile CUDA C++ with NVRTC; no GPU is needed.

        Parameters
        ----------
        source : str or pathlib.Path
            Program text, or the file that holds it (a `Path`).
        entry : str
            The kernel by name expression: `kernel`, `space::kernel`, `MatrixMulCUDA<16>`.
        cc : (int, int)
            Compute capability.
        options : sequence of str
            Further NVRTC options.
        lineinfo : bool
            Whether the PTX has source lines.
        path : str, optional
            File name for messages and the line table, if `source` is text.

        Raises
        ------
        CompileError
            NVRTC rejected the source; the message marks the source line.
        MissingExtraError
            NVRTC is not installed.
        """
        if isinstance(options, str):
            raise ArgumentTypeError(f"`options` must be a sequence of strings (got {options!r}); write [{options!r}]")
        text = _read(source) if isinstance(source, Path) else source
        file = str(source) if isinstance(source, Path) else path or "kernel.cu"
        compiled = functools.partial(_of_cuda, text, entry, _checked_cc(cc), file)
        debug = functools.partial(compiled, (*options, "-G"), lineinfo=False)
        return replace(compiled(tuple(options), lineinfo=lineinfo), with_arrays=debug)

    @classmethod
    @public
    def from_ptx(cls, text_or_path: str | Path, entry: str | None = None) -> Program:
        """Use PTX unchanged.

        Parameters
        ----------
        text_or_path : str or pathlib.Path
            PTX text, or a file with it. A `str` of one line is a path, unless it ends with a brace.
        entry : str, optional
            The kernel's name; needed only if there are several.

        Raises
        ------
        CompileError
            The text has no such kernel.
        PtxError
            The text is not PTX.
        """
        if not isinstance(text_or_path, str | Path):
            raise ArgumentTypeError(
                f"`text_or_path` must be PTX text or a path (got {type(text_or_path).__name__}); decode bytes first"
            )
        if not str(text_or_path).strip() or text_or_path == Path():
            raise ArgumentValueError("`text_or_path` must be PTX text or a path (got nothing); name a file")
        is_text = isinstance(text_or_path, str) and ("\n" in text_or_path or text_or_path.rstrip().endswith("}"))
        ptx = str(text_or_path) if is_text else _read(Path(text_or_path))
        try:
            ptx.encode()
        except UnicodeEncodeError as error:
            raise CompileError(f"PTX text must be text that UTF-8 can hold ({error})") from error
        found = listing.read_entry(listing.parsed(ptx), entry)
        return _program(found.name, ptx, found.name, None, "c")

    def resources(self, cc: tuple[int, int] | None = None) -> Resources:
        """Registers, spills, stack and shared memory, as the vendor's assembler reports them.

        Parameters
        ----------
        cc : (int, int), optional
            Compute capability; by default the program's own.

        Raises
        ------
        MissingExtraError
            The assembler is not installed.
        CompileError
            The assembler rejected the PTX.
        """
        with announced("assembling", self.name):
            return assembler.resources(self.ptx, self.entry, _checked_cc(cc or self.cc))

    @property
    def module(self) -> Module:
        """The PTX as a syntax tree, with the device-runtime functions that it declares; do not change it."""
        return listing.parsed(self.ptx)

    @functools.cached_property
    def offsets(self) -> tuple[int, ...]:
        """The place of each parameter in the parameter space, in bytes."""
        found, end = [], 0
        for parameter in self.parameters:
            found.append(end + -end % parameter.align)
            end = found[-1] + parameter.bytes
        return tuple(found)

    @functools.cached_property
    def param_bytes(self) -> int:
        """Bytes of the packed parameters."""
        return self.offsets[-1] + self.parameters[-1].bytes if self.parameters else 0

    @functools.cached_property
    def kept(self) -> dict[Any, Any]:
        """What launches keep for later ones."""
        return {}

    @functools.cached_property
    def _is_dense(self) -> bool:
        """Whether each parameter begins where the one before ends."""
        starts = itertools.accumulate((parameter.bytes for parameter in self.parameters), initial=0)
        return all(map(operator.eq, self.offsets, starts))

    @functools.cached_property
    def prints(self) -> bool:
        """Whether kernels of its module print."""
        return "vprintf" in self.module.functions

    @functools.cached_property
    def prints_on(self) -> bool:
        """Whether kernels of its module print and go on, as those with assertions alone do not."""
        bodies = (one.body for one in self.module.functions.values() if one.name != "__assertfail")
        steps = (item for item in itertools.chain.from_iterable(bodies) if isinstance(item, Instruction))
        calls = (part for item in steps for part in item.operands if isinstance(part, CallArguments))
        return self.prints and any(call.target == Symbol("vprintf") for call in calls)

    @functools.cached_property
    def launches_kernels(self) -> bool:
        """Whether kernels of its module launch kernels."""
        return device_runtime.launches(self.module)

    @functools.cached_property
    def last_strides(self) -> tuple[tuple[int, int], ...]:
        """For each array of a kernel of Numba: the numbers of the parameters with its element size and last stride."""
        fields = [pair for argument in self.arguments for pair in marshalling.fields_of(argument)]
        return marshalling.last_strides(fields, len(self.parameters))

    @functools.cached_property
    def source_lines(self) -> Mapping[int, str]:
        """PTX line (from 1) to `file:line` of the user's source; empty without a line table.

        Library code counts for the user's line that calls it, as in `tilewright.simulate.ptx.frames`.
        """
        return {number: users_line(frames) for number, frames in self._line_table.items()}

    @functools.cached_property
    def definition(self) -> tuple[str, int, int]:
        """File and line of the kernel's definition, and 0; without a line table "", 0 and the PTX line of its entry."""
        file, line = definition(self.name, self.source_lines.values())
        return file, line, 0 if file else self.module.functions[self.entry].ptx_line

    @functools.cached_property
    def inner_lines(self) -> Mapping[int, str]:
        """PTX line (from 1) to the `file:line` that it was compiled from, in the user's code or a library."""
        return {number: frames[0] for number, frames in self._line_table.items()}

    @functools.cached_property
    def call_lines(self) -> Mapping[int, tuple[str, ...]]:
        """PTX line (from 1) to the user's lines that call its code, the innermost first; without lines that have none.

        For inlined code these are its own call sites; for a function that is called, all its calls in the module.
        """
        called = listing.calls(self.module)
        found = {number: users_calls(frames) for number, frames in self._line_table.items()}
        for number, places in called.items():
            found[number] = tuple(dict.fromkeys((*found.get(number, ()), *places)))
        return {number: places for number, places in found.items() if places}

    @functools.cached_property
    def _line_table(self) -> Mapping[int, tuple[str, ...]]:
        return listing.line_table(self.module)

    def marshal(self, args: Sequence[Any], address_of: AddressOf) -> tuple[bytes, ...]:
        """Convert arguments to the bytes of each kernel parameter.

        Parameters
        ----------
        args : sequence
            One for each of `arguments`.
        address_of : callable
            Gives the device address of an array argument's element [0, 0, ...].

        Raises
        ------
        LaunchError
            The number of arguments is wrong, or a scalar does not fit.
        ArgumentTypeError
            An argument has the wrong type, dtype, dimensions or layout.
        """
        return marshalling.marshal(self.name, self.arguments, self.parameters, args, address_of)

    def pack(self, values: Sequence[bytes]) -> bytes:
        """Place the values from :meth:`marshal` in the layout of the parameter space, each aligned."""
        if self._is_dense:
            return b"".join(values)
        buffer = bytearray()
        for offset, value in zip(self.offsets, values, strict=True):
            buffer += bytes(offset - len(buffer)) + value
        return bytes(buffer)


def compiled_python(
    function: Any, argtypes: Any, cc: tuple[int, int], options: Mapping[str, Any], *, opaque: bool = False
) -> Program:
    """A Python kernel, compiled with options; with `opaque` all its local arrays are in local memory.

    Raises CompileError, ArgumentTypeError, MissingExtraError: as `Program.from_python`.
    """
    python = numba_compiler.python_function(function)
    types = numba_compiler.types_of(argtypes)
    ptx, entry = numba_compiler.compile_python(python, types, cc, options, opaque_arrays.rows() if opaque else ())
    return _program(python.__name__, ptx, entry, numba_compiler.arguments_of(python, types), "numba")


def _of_cuda(
    text: str, entry: str, cc: tuple[int, int], file: str, options: tuple[str, ...], *, lineinfo: bool
) -> Program:
    ptx, lowered = nvrtc.compile_cuda(text, entry, cc, options, file, lineinfo=lineinfo)
    return _program(entry, ptx, lowered, None, "c")


def _program(name: str, ptx: str, entry: str, arguments: tuple[Argument, ...] | None, abi: str) -> Program:
    module = listing.parsed(ptx)
    found = listing.read_entry(module, entry)
    if arguments is None:
        arguments = marshalling.c_arguments(found.parameters, mangling.parameter_types(entry))
    return Program(name, ptx, entry, listing.target(module), found.parameters, found.shared_bytes, arguments, abi)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise MissingFileError.of(path) from error
    except (OSError, ValueError) as error:  # not text, or an impossible file name
        raise ArgumentValueError(f"{path} must be a readable text file ({error})") from error


def _checked_cc(cc: Any) -> tuple[int, int]:
    if not (isinstance(cc, tuple) and len(cc) == 2 and all(isinstance(part, int) for part in cc)):
        raise ArgumentTypeError(f"`cc` must be a pair of integers such as (9, 0) (got {cc!r})")
    return cc


def program_for(kernel: Any, args: Sequence[Any], cc: tuple[int, int] = DEFAULT_CC) -> Program:
    """The Program of anything that can be launched, specialised for the arguments as in Numba.

    Parameters
    ----------
    kernel : Program, function or numba.cuda.jit object
        A Program is returned unchanged.
    args : sequence
        The launch's arguments; their types select the specialisation.
    cc : (int, int)
        Compute capability to compile for.

    Raises
    ------
    ArgumentTypeError
        `kernel` cannot be launched, or Numba has no type for an argument.
    CompileError
        Numba rejected the kernel for these types.
    """
    if isinstance(kernel, Program):
        return kernel
    numba_compiler.python_function(kernel)
    return _specialised(kernel, tuple(numba_compiler.typeof(arg) for arg in args), cc)


@bounded(256)
def _specialised(kernel: Any, types: tuple[Any, ...], cc: tuple[int, int]) -> Program:
    return Program.from_python(kernel, types, cc)
