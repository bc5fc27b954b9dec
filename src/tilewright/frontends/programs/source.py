"""Compiles CUDA C++ to an executable with the vendor's compiler: device code stays PTX, the runtime is loaded later."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.frontends import vendor_libraries
from tilewright.frontends.programs import executables
from tilewright.frontends.programs.library import HEADERS, Library, compiler
from tilewright.ground import installation
from tilewright.ground.progress import announced
from tilewright.simulate.machine.gpu import Gpu
from tilewright.simulate.programs import removed_names, toolkits
from tilewright.simulate.programs.program import OLDEST_CC, Program
from tilewright.simulate.programs.toolkits import Toolkit

_PURPOSE = "Compiling CUDA programs"
#: Compiler options for the headers that its wheels lack.
_HEADERS = ("-Xcompiler", f"-idirafter,{HEADERS}")
_NO_HEADER = re.compile(r"fatal error: ([\w./+-]+): No such file")
#: What is missing: a library, what a library calls, or a function that is called or declared nowhere.
_NOT_LINKED = re.compile(
    r"cannot find (-l\w+)|([\w./-]+\.so[.\d]*): undefined reference|undefined reference to `(\w+)"
    r'|identifier "(\w+)" is undefined'
)

#: Files that nvcc compiles or links with a program, by the ends of their names.
_PARTS = (".cu", ".cc", ".cpp", ".cxx", ".c", ".o", ".a", ".so")
#: Libraries that ours replaces in any case, so that programs that name them are kept like others.
_REPLACED = ("-lcublas", "-lcublasLt", "-lcuda", "-lcudart", "-lcudart_static")
#: Its options that have their values in the next word, and others; those that name a GPU are left to `--gpu`.
_VALUED = ("-I", "-L", "-isystem", "-Xcompiler", "-Xlinker")
_GPU_VALUED = ("-arch", "-gencode", "-code", "--gpu-architecture", "--generate-code", "--gpu-code")
_OPTION = re.compile(
    r"-[ILlDU][A-Za-z_./]\S*|-std=\S+|-O[0-3]|-[Gg]|-w|-lineinfo|-rdc=\w+|-dc|-m64|-X\w+[=,]\S+|-isystem=\S+"
    r"|--(?:use_fast_math|std|expt|extended|relocatable|maxrregcount|ftz|prec|fmad|default-stream|diag|disable)\S*"
    r"|-(?:use_fast_math|maxrregcount|ftz|prec|fmad|expt|extended)\S*"
)


def compiler_words(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words after a program that are nvcc's, and the program's own arguments; `--` ends the first.

    >>> compiler_words(["-Iinclude", "-arch", "sm_80", "-lcublas", "512", "-Iinclude"])
    (['-Iinclude'], ['512', '-Iinclude'])
    """
    words, left = list[str](), list(argv)
    while left and left[0] != "--":
        count = 2 if left[0] in (*_VALUED, *_GPU_VALUED) else 1
        named = left[0].partition("=")[0] in _GPU_VALUED
        if not (count == 2 or named or _OPTION.fullmatch(left[0]) or _is_part(left[0])):
            return words, left
        words += [] if named or left[0] in _REPLACED else left[:count]
        del left[:count]
    return words, left[1:]


def _is_part(word: str) -> bool:
    return word.endswith(_PARTS) and Path(word).is_file()


def compiled(source: Path, gpu: Gpu, library: Library, folder: Path, options: Sequence[str] = ()) -> Path:
    """Compile a program into a folder; return the executable.

    `options` are the compiler's, further sources too. NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS of the environment apply
    as well, as the compiler documents them.

    Raises MissingExtraError: a compiler is missing; CompileError: it rejected the source.
    """
    toolkit, made = toolkits.compiler(_PURPOSE), folder / "program"
    nvcc = str(toolkit.program("nvcc"))
    linked = [
        "-lineinfo",
        "-cudart",
        "shared",
        "-lcuda",
        "--compress-mode=none",
        *(f"-L{place}" for place in toolkit.libraries),
        *options,
    ]
    command = _command(nvcc, source, gpu, toolkit, linked)

    def make(listed: Path) -> bytes:
        library.placed(folder)
        _run([*command, f"-L{folder}", "-MD", "-MF", str(listed), "-o", str(made)], source, toolkit)
        return made.read_bytes()

    facts = [str(library.file), *map(_identity, (nvcc, str(Path(nvcc).with_name("nvcc.profile")), compiler()))]
    system = [f"{toolkit.root}/", f"{Path(compiler()).resolve().parents[1]}/"]
    program = executables.kept(source, command, facts, system, make, options)
    if not made.exists():
        made.write_bytes(program)
        made.chmod(0o700)
    return made


def _identity(path: str) -> str:
    """What changes when an installer replaces a program."""
    try:
        status = Path(path).stat()
    except OSError:
        return ""
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def with_arrays(source: Path, gpu: Gpu, folder: Path, options: Sequence[str], entry: str) -> Program:
    """One kernel of a program, compiled so that its local arrays stay in memory: for the debugger.

    Raises MissingExtraError, CompileError: as :func:`compiled`.
    """
    made = folder / "debug.ptx"
    if not made.exists():
        toolkit = toolkits.compiler(_PURPOSE)
        command = _command(str(toolkit.program("nvcc")), source, gpu, toolkit, [*_without_parts(options), "-ptx", "-G"])
        _run([*command, "-o", str(made)], source, toolkit)
    return Program.from_ptx(made, entry)


def _without_parts(options: Sequence[str]) -> list[str]:
    return [one for one in options if not _is_part(one)]


def _command(nvcc: str, source: Path, gpu: Gpu, toolkit: Toolkit, options: Sequence[str]) -> list[str]:
    target = architecture(gpu)
    given = [str(source.absolute()), f"-gencode=arch={target},code={target}", "-ccbin", compiler()]
    return [nvcc, *given, *toolkit.defines, *_HEADERS, *options]


def _run(command: Sequence[str], source: Path, toolkit: Toolkit) -> None:
    with announced("compiling", source.name):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise CompileError(_why(source, done.stderr + done.stdout, toolkit))


def architecture(gpu: Gpu) -> str:
    """The virtual architecture of the PTX: that of the GPU, with its architecture-specific features."""
    major, minor = max(gpu.compute_capability, OLDEST_CC)
    return f"compute_{major}{minor}" + ("a" if (major, minor) >= (9, 0) else "")


def _why(source: Path, said: str, toolkit: Toolkit) -> str:
    """Why nvcc refused a program, and what to do where that is known."""
    for verb, missing in (("includes", _NO_HEADER), ("uses", _NOT_LINKED)):
        for names in missing.findall(said):
            name = names if isinstance(names, str) else next(filter(None, names))
            if reason := vendor_libraries.refusal(name):
                return f"{source}: {verb} {reason}; remove its calls, or replace them by kernels"
    if header := _NO_HEADER.search(said):
        package = vendor_libraries.package(header[1])
        do = (
            f"install it: {installation.packages(package)}"
            if package
            else f"name its folder: tilewright run {source} -I FOLDER"
        )
        rule = f"the header {header[1]} must be in a folder that nvcc searches (got no such file)"
        return f"{source}: {rule}; {do}\n{said.strip()}"
    advised = [*removed_names.advice(said), *filter(None, [toolkit.remedy])]
    return "\n".join([f"nvcc refused {source}:", said.strip(), *(f"{one}." for one in advised)])
