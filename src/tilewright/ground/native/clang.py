"""Compiles C to bitcode that every supported host can use: for building the project, and for instruments in C.

    python -m tilewright.ground.native.clang FILE.c ...

writes FILE.bc beside each. The compiler is that of the `ziglang` wheel, whose LLVM must not be newer than llvmlite's.
Code is optimised only as far as the result is the same for every processor; the rest happens on the user's host, where
the bitcode is linked. So the bitcode must not depend on the target: each file is compiled for x86-64 and for AArch64,
and both must have the same parameters and the same effects on memory. Python and C agree on integers, pointers, `float`
and `double` as parameters; a vector is passed by pointer.

Source: LLVM Language Reference (attribute groups, module-level metadata); Clang's command line reference.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from tilewright.ground.native.bitcode import PACKAGE, module_name

TARGETS = ("x86_64-linux-none", "aarch64-linux-none")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-unused-parameter", "-Wno-unused-command-line-argument")
FLAGS = (
    "-std=c11", "-O2", "-g0", "-ffreestanding",
    # left to the host that links it
    "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops",
    # results have the bits, and memory the meaning, that the source states
    "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
    "-fno-sanitize=all", "-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables",
    "-fno-pic", "-fno-ident",
)  # fmt: skip
_TARGET = re.compile(r'^(target |source_filename = |; |!llvm\.|!\d+ = !\{i32 \d+, !").*\n', re.MULTILINE)
_COMMENT = re.compile(r" +; preds = .*")
_GROUP = re.compile(r"^(attributes #\d+ = \{)(.*)\}$", re.MULTILINE)
_QUOTED = re.compile(r' "[^"]*"(="[^"]*")?')
#: Alias facts of an inlined call. Which parameters are pointers depends on the target.
_ALIASES = re.compile(
    r", !(noalias|alias\.scope) !\d+|^.*@llvm\.experimental\.noalias\.scope\.decl\(.*\n", re.MULTILINE
)
_BINDING = re.compile(r"^(define|declare|@|%)| (load|store|call|atomicrmw|cmpxchg) ")
_NUMBER = re.compile(r"[%!#]\d+")
_EXTENDED = re.compile(r"\b(zeroext|signext|dso_local) ")


def compile_c(source: Path, compiler: Sequence[str] | None = None) -> bytes:
    """The bitcode of a C file.

    `compiler` is the command of a clang, by default that of the `ziglang` wheel.

    Raises ValueError: the file is not valid C, or gives a warning, or depends on the processor. The message says which.
    """
    text, other = (stripped(_text(source, target, compiler)) for target in TARGETS)
    for line, twin in zip_longest(_promises(text), _promises(other), fillvalue=""):
        if line != twin:
            raise ValueError(f"{source.name} must mean one thing on {' and '.join(TARGETS)} (got:\n{line}\n{twin})")
    import llvmlite.binding as llvm

    # A context of its own: in a shared one a second struct of the same name is renamed, which changes the bytes.
    named = f'source_filename = "{module_name(source)}"\n{text}'
    module = llvm.parse_assembly(named, context=llvm.context.create_context())
    module.verify()
    return bytes(module.as_bitcode())


def stripped(text: str) -> str:
    r"""LLVM text without what belongs to one processor or one compiler.

    >>> stripped('target triple = "x"\ndefine zeroext i1 @f() #0 {\nattributes #0 = { nounwind "target-cpu"="y" }')
    'define i1 @f() #0 {\nattributes #0 = { nounwind }'
    """
    text = _GROUP.sub(lambda match: f"{match[1]}{_QUOTED.sub('', match[2]).rstrip() or ' nounwind'} }}", text)
    for left_out in (_TARGET, _COMMENT, _ALIASES, _EXTENDED):
        text = left_out.sub("", text)
    return text


def _text(source: Path, target: str, compiler: Sequence[str] | None) -> str:
    command = [*(compiler or ziglang()), "-target", target, *FLAGS, *WARNINGS, f"-I{PACKAGE}"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ll"
        done = subprocess.run(
            [*command, "-S", "-emit-llvm", "-o", str(out), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(f"{source.name} does not compile for {target}:\n{done.stderr}")
        return out.read_text("utf-8")


def _promises(text: str) -> list[str]:
    """The lines that show how code is called and how it uses memory: there a dependence on the target shows.

    Arithmetic is left out, since targets prefer different forms of it. So are the alignment of arrays on the stack and
    the order of declarations.
    """
    lines = [_NUMBER.sub("%", line) for line in text.splitlines() if _BINDING.search(line)]
    return sorted(lines, key=lambda line: line if line.startswith("declare ") else "")


def ziglang() -> list[str]:
    """The command of the `ziglang` wheel's C compiler."""
    return [sys.executable, "-m", "ziglang", "cc"]


def main(paths: Sequence[str]) -> None:
    """Write the bitcode of each C file beside it."""
    for path in map(Path, paths):
        path.with_suffix(".bc").write_bytes(compile_c(path))


if __name__ == "__main__":
    main(sys.argv[1:])
