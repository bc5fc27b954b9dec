"""Compiles C to bitcode that every supported host can use: part of building the project, and for instruments in C.

    python -m tilewright.native.clang FILE.c ...

writes FILE.bc beside each. It takes the compiler of the `ziglang` wheel, whose LLVM must not be newer than llvmlite's.
Code is optimised as far as that is the same for every processor; the rest is done on the user's host, where the bitcode
is linked. So nothing of the target may be left in it: a file is compiled for x86-64 and for AArch64, and both must take
the same parameters and do the same to memory. Python and C agree on integers, pointers, `float` and `double` as
parameters; a vector goes by pointer.

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

from tilewright.native.bitcode import PACKAGE, module_name

TARGETS = ("x86_64-linux-none", "aarch64-linux-none")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-unused-parameter", "-Wno-unused-command-line-argument")
FLAGS = (
    "-std=c11", "-O2", "-g0", "-ffreestanding",
    # left to the host that links it
    "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops",
    # the bits of results and what memory means are those of the text
    "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
    "-fno-sanitize=all", "-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables",
    "-fno-pic", "-fno-ident",
)  # fmt: skip
_TARGET = re.compile(r'^(target |source_filename = |; |!llvm\.|!\d+ = !\{i32 \d+, !").*\n', re.MULTILINE)
_COMMENT = re.compile(r" +; preds = .*")
_GROUP = re.compile(r"^(attributes #\d+ = \{)(.*)\}$", re.MULTILINE)
_QUOTED = re.compile(r' "[^"]*"(="[^"]*")?')
#: What an inlined call says of pointers that it took; which are pointers, a target's rules decide.
_ALIASES = re.compile(
    r", !(noalias|alias\.scope) !\d+|^.*@llvm\.experimental\.noalias\.scope\.decl\(.*\n", re.MULTILINE
)
_BINDING = re.compile(r"^(define|declare|@|%)| (load|store|call|atomicrmw|cmpxchg) ")
_NUMBER = re.compile(r"[%!#]\d+")
_EXTENDED = re.compile(r"\b(zeroext|signext|dso_local) ")


def compile_c(source: Path, compiler: Sequence[str] | None = None) -> bytes:
    """The bitcode of a C file.

    `compiler` is the command of a clang, by default that of the `ziglang` wheel.

    Raises ValueError: it is no valid C, warns, or means different things on different processors; the message says
    which.
    """
    text, other = (stripped(_text(source, target, compiler)) for target in TARGETS)
    for line, twin in zip_longest(_promises(text), _promises(other), fillvalue=""):
        if line != twin:
            raise ValueError(f"{source.name} must mean one thing on {' and '.join(TARGETS)} (got:\n{line}\n{twin})")
    import llvmlite.binding as llvm

    # A context of its own: in a shared one a second struct of one name is renamed, and the bytes with it.
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
    """The lines by which code binds itself to others and to memory: what a target's rules decide shows there.

    Arithmetic is left out, for which targets have their taste, as is how an array on the stack is aligned, and in which
    order functions are declared.
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
