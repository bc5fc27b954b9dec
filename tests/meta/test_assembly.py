"""LLVM assembly in Python's strings stays below a ceiling, which is only lowered.

Code that does not depend on the kernel is C (docs/design/runtime.md). Emitters that write a kernel's code one
instruction at a time count too.

How lines are counted: in every string that is no docstring, f-strings with their values left out, each line that
begins as an instruction, a definition or a declaration does; and, in strings that define a function, labels and closing
braces.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from source_tree import Module, modules

#: Lines in all of src/; lower it when you remove some.
CEILING = 161
_LINE = re.compile(
    r"""\s*(%[\w.\x00]+\ =\ |(tail\ )?call\ [^(]*@|store\ |br\ (label|i1)\ |ret\ (void|i\d|ptr|float|double|<|\x00)
    |switch\ i\d|define\ |declare\ |unreachable$|fence\ \w)""",
    re.VERBOSE,
)
_FRAME = re.compile(r"[\w.]+:$|\}$")


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string but docstrings; a value in an f-string is a zero byte."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [*ast.walk(tree)]
    # Docstrings, and parts of f-strings.
    others = {id(n.body[0].value) for n in nodes if isinstance(n, documented) and ast.get_docstring(n)}  # type: ignore[attr-defined]
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            others |= {id(part) for part in node.values if isinstance(part, ast.Constant)}
            yield "".join(str(x.value) if isinstance(x, ast.Constant) else "\0" for x in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in others:
            yield node.value


def lines_of_assembly(text: str) -> int:
    """How many lines of a string are LLVM assembly."""
    lines = text.splitlines()
    defines = any(line.startswith("define ") for line in lines)
    return sum(bool(_LINE.match(line) or (defines and _FRAME.match(line))) for line in lines)


def counted(module: Module) -> int:
    return sum(map(lines_of_assembly, strings(module.tree)))


def test_assembly_in_strings_only_becomes_less() -> None:
    found = Counter({m.name: n for m in modules() if (n := counted(m))})
    total = sum(found.values())
    most = ", ".join(f"{name} {n}" for name, n in found.most_common(8))
    assert total <= CEILING, f"{total} lines, most of them in {most}; write it in C (docs/design/runtime.md)"


def test_the_rule_sees_assembly() -> None:
    text = '''
"""ret void"""
def f(x):
    """%x = add i32 1, 2"""
    code.line(f"store {x}, ptr %y, align 4")
    code.line(f"%{x} = load i32, ptr %y")
    return f"""
define void @{x}(ptr %p) {{
entry:
  %a = call i32 @g(
      i32 {x})
{field(x)}
  br label %entry
}}
""" + "ret = 5; call me; store: a; label:"
'''
    assert counted(Module("m", modules()[0].path, text)) == 7


def test_the_rule_leaves_ptx_and_c_alone() -> None:
    for text in ("ret;", "call (x), f, (y);", "$L1:\n}", "int f() {\n}", "st.global.u32 [%rd1], %r1;", "%r1, %r2"):
        assert lines_of_assembly(text) == 0
