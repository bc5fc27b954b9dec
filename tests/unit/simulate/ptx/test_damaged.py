"""Texts that are not PTX: the parser raises PtxError with a line, never another exception, and never hangs."""

from __future__ import annotations

import random
import re

import pytest
from ptx_specimens import GRAMMAR

from tilewright.errors import PtxError
from tilewright.simulate.ptx import parse, to_text

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = HEADER + ".entry k() {\n.reg .b32 %r<9>; .reg .pred %p<3>; .shared .b32 s[4];\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kernel.ptx:1: expected '.version' at the start of a module, got the end of the text"),
        (".version 8", "kernel.ptx:1: expected a version such as 8.0, got '8'"),
        (HEADER + "\nfoo", "kernel.ptx:5: expected a directive, a variable (.global, .const, .shared) or a function"),
        (HEADER + HEADER, "kernel.ptx:4: .version must be given once"),
        (HEADER + "/* a\nb", "kernel.ptx:4: expected a directive, a variable (.global, .const, .shared) or a function "
         "(.entry, .func), got a comment '/*' that is never closed"),
        (HEADER + ".global .u33 x;", "kernel.ptx:4: expected a type, got '.u33'"),
        (HEADER + ".global x;", "kernel.ptx:4: expected a type such as .b32, got 'x'"),
        (HEADER + ".global .u32 x[2] = {1,2,3};", "kernel.ptx:4: 'x' has 2 elements but 3 initial values"),
        (HEADER + ".global .u32 x[-1];", "kernel.ptx:4: an array's size must be from 0 to 2**40 (got -1)"),
        (HEADER + ".global .u32 x[4][];", "kernel.ptx:4: only the first dimension of an array may be left empty"),
        (HEADER + ".global .align 3 .u32 x;", "kernel.ptx:4: an alignment must be a power of two, at most 1,048,576"),
        (HEADER + ".global .align 2097152 .u32 x;", "a power of two, at most 1,048,576 (got 2,097,152)"),
        (HEADER + ".global .u32 x<60000>;\n.global .u32 y<5537>;",
         "kernel.ptx:5: '<count>' must declare at most 5,536 more names (got 5537); use an array"),
        (HEADER + ".global .u8 x[2][2097154] = {{1},{2}};\n.global .u8 y[2][2097154] = {{1},{2}};",
         "kernel.ptx:5: the initialisers of a module must leave at most 4,194,304 elements"),
        (HEADER + ".global .u32 x; .global .u32 x;", "kernel.ptx:4: 'x' is defined twice in this module"),
        (HEADER + ".global .u32 x[9][1000000][1000000] = {{1},{2}};", "kernel.ptx:4: an initialised array has at most"),
        (HEADER + ".entry k(){ret;} .entry k(){ret;}", "kernel.ptx:4: 'k' is defined twice in this module"),
        (HEADER + ".entry (.param .b32 r) k(){ret;}",
         "kernel.ptx:4: expected a kernel's name (a kernel returns nothing)"),
        (HEADER + ".func f(.b32 x);", "kernel.ptx:4: expected a parameter (.param or .reg), got '.b32'"),
        (HEADER + ".alias f, g;", "kernel.ptx:4: .alias needs a function defined in this module (got 'g')"),
        (HEADER + ".section .x { .b8 1", "kernel.ptx:4: this .section is never closed by '}'"),
        (KERNEL + "add.s32 %r1, %r2;\nadd.s32 %r1 %r2;\n}",
         "kernel.ptx:7: expected ',' or ';' in the operands of 'add.s32'"
         ", got '%r2'"),
        (KERNEL + "ret\n}", "kernel.ptx:7: expected a constant, got '}'"),
        (KERNEL + "ret;",
         "kernel.ptx:6: expected an instruction, a directive, a label or '}', got the end of the text"),
        (KERNEL + "bra there;\n}", "kernel.ptx:6: 'there' is not declared here; declare it before its first use"),
        (KERNEL + "{ L: } bra L;\n}", "kernel.ptx:6: 'L' is not declared here"),
        (KERNEL + "L: L: ret;\n}", "kernel.ptx:6: 'L' is declared twice in one block; rename one"),
        (KERNEL + ".reg .b32 a, a;\n}", "kernel.ptx:6: 'a' is declared twice in one block; rename one"),
        (KERNEL + "@5 ret;\n}", "kernel.ptx:6: expected a predicate register, got '5'"),
        (KERNEL + "@s ret;\n}", "kernel.ptx:6: expected a predicate register, got 's'"),
        (KERNEL + "mov.u32 %r1, 08;\n}", "kernel.ptx:6: expected a number, got '08'"),
        (KERNEL + "mov.u32 %r1, %r2+4;\n}",
         "kernel.ptx:6: expected ',' or ';' (only an address takes an offset), got '+'"),
        (KERNEL + "mov.u32 %r1, s[%r2];\n}",
         "kernel.ptx:6: expected a constant index (compute the address where the index"),
        (KERNEL + "mov.u32 %r1, k[1];\n}", "kernel.ptx:6: only a variable can be indexed (got 'k')"),
        (KERNEL + "ld.shared.u32 %r1, [s+%r2];\n}", "kernel.ptx:6: expected a constant, got '%r2'"),
        (KERNEL + "ld.shared.u32 %r1, [s+4;\n}", "kernel.ptx:6: expected ']' after an address, got ';'"),
        (KERNEL + "mov.b64 {%r1, {%r2}}, %r3;\n}",
         "kernel.ptx:6: expected a register or a constant inside braces, got '{'"),
        (KERNEL + ".reg .v2 .b32 v;\nmov.b64 {%r1, v}, %r3;\n}",
         "kernel.ptx:7: expected a register or a constant inside braces, got 'v'"),
        (KERNEL + "mov.b64 %r1, {%r2, s[1]};\n}",
         "kernel.ptx:6: expected a register or a constant inside braces, got 's'"),
        (KERNEL + "call (%r1), 5, ();\n}", "kernel.ptx:6: expected the function to call, got '5'"),
        (KERNEL + "{" * 300 + "}" * 300 + "}", "kernel.ptx:6: blocks nested more than 256 deep"),
        (KERNEL + "mov.u32 %r1, é;\n}", "kernel.ptx:6: expected a constant, got 'é'"),
        (KERNEL + ".bar;\n}", "kernel.ptx:6: expected an instruction, a declaration, .loc or .pragma, got '.bar'"),
    ],
)  # fmt: skip
def test_messages(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=re.escape(message)):
        parse(text)


def test_the_path_is_named() -> None:
    with pytest.raises(PtxError, match=r"^folder/a\.ptx:1: "):
        parse("x", "folder/a.ptx")


TOKENS = re.findall(r"//[^\n]*\n|[\w$%.:]+|\s+|\"[^\"]*\"|.", GRAMMAR, re.DOTALL)
NASTY = [
    "{", "}", "(", ")", "[", "]", "<", ">", ";", ",", "@", "!", "|", "-", "?", ":", "=", '"', "/*", "\0", "\\", "é",
    "\u0660", "0f", "0x", "1e999", "9" * 5000, "(" * 2000, "{" * 2000, "-" * 2000, "1?" * 500, "%r<99999999999>",
    "[9999999999999]",
    ".b8 x[1099511627776];", "generic(", ".align", "_", "%", "$", ".reg", ".v4", ".param", "1/0", "call",
]  # fmt: skip


def damaged(seed: int) -> str:
    """The grammar specimen with a few tokens deleted, inserted, replaced, or copied from elsewhere."""
    rng = random.Random(seed)
    tokens = list(TOKENS)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(tokens))
        match rng.randrange(4):
            case 0:
                del tokens[at : at + rng.randrange(1, 4)]
            case 1:
                tokens.insert(at, rng.choice(NASTY))
            case 2:
                tokens[at] = rng.choice(NASTY + TOKENS)
            case _:
                source = rng.randrange(len(tokens))
                tokens[at:at] = tokens[source : source + rng.randrange(20)]
    text = "".join(tokens)
    return text[: rng.randrange(len(text))] if rng.random() < 0.1 else text


def check(seed: int) -> bool:
    try:
        tree = parse(damaged(seed))
    except PtxError as error:
        assert re.match(r"kernel\.ptx:\d+: ", str(error)), seed
        return False
    text = to_text(tree)
    assert to_text(parse(text)) == text, seed
    return True


def test_damaged_texts() -> None:
    read = sum(check(seed) for seed in range(600))
    assert 20 < read < 580  # both outcomes are frequent


@pytest.mark.volume
def test_many_damaged_texts() -> None:
    assert sum(check(seed) for seed in range(1000, 40_000))


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 50_000, "{" * 100_000, "." * 100_000, '"' * 100_001, "a" * 300_000, "a." * 100_000, "1e" * 100_000,
        KERNEL + "{" * 250 + "add.u32 %r1,%r1,%r1;" * 5000, KERNEL + "L:" * 30_000, KERNEL + "add.u32 " + "1+" * 50_000,
        HEADER + ".global .u8 x[] = {" + "{" * 50_000, KERNEL + "call f, (" + "%r1," * 50_000,
        "9" * 300_000, KERNEL + "mov.b32 %r1, 0" + "7" * 300_000, "1" * 300_000 + ".5", "/* " * 200_000,
        '"' + '\\"' * 300_000, HEADER + ".global .u32 x" + "[1000000]" * 2000 + ";",
        KERNEL + "ld.shared.b32 %r1, " + "[s," * 20_000,
    ],
    ids=range(19),
)  # fmt: skip
def test_long_nonsense_ends(text: str) -> None:
    with pytest.raises(PtxError):
        parse(text)
