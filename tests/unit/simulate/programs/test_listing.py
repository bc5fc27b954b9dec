from __future__ import annotations

import contextlib

import pytest

from tilewright.errors import ArgumentValueError, CompileError, PtxError
from tilewright.programs import Program
from tilewright.simulate.programs import listing
from tilewright.simulate.ptx import parse

TWO_KERNELS = """
.version 8.0
.target sm_86
.address_size 64
// .visible .entry commented(.param .u64 no)
.shared .align 16 .b8 both[40];
.shared .f32 unused[100];
.extern .shared .align 4 .b8 dynamic[];
.visible .entry first(
    .param .u64 .ptr .global .align 4 first_param_0,
    .param .u8 first_param_1,
    .param .align 8 .b8 first_param_2[24],
    .param .f64 first_param_3
)
{
    .shared .align 4 .f32 own[2][3];
    mov.u32 %r1, both;
    mov.u32 %r2, dynamic;
    ret;
}
.weak .entry second() { mov.u32 %r1, {both}; ret; }
"""


HEAD = ".version 8.0\n.target sm_90\n"


def entry_of(text: str, name: str | None = None) -> listing.Entry:
    return listing.read_entry(parse(text), name)


def test_parameters_with_sizes_alignments_and_kinds() -> None:
    found = entry_of(TWO_KERNELS, "first")
    assert [(p.name, p.bytes, p.align, p.kind) for p in found.parameters] == [
        ("first_param_0", 8, 8, "pointer"),
        ("first_param_1", 1, 1, "integer"),
        ("first_param_2", 24, 8, "bytes"),
        ("first_param_3", 8, 8, "float"),
    ]


def test_shared_memory_that_the_kernel_names_counts() -> None:
    # 40 bytes of `both` and 24 of `own`; `unused` and the dynamic array do not count.
    assert entry_of(TWO_KERNELS, "first").shared_bytes == 40 + 24
    assert entry_of(TWO_KERNELS, "second").shared_bytes == 40


def test_shared_memory_of_a_device_function_counts() -> None:
    text = HEAD + ".shared .b32 s[4];\n.func f() { mov.u32 %r1, s; ret; }\n.entry k() { call f; ret; }\n"
    assert entry_of(text).shared_bytes == 16


def test_no_parameters() -> None:
    assert entry_of(TWO_KERNELS, "second").parameters == ()
    assert entry_of(HEAD + ".entry k { ret; }").parameters == ()


def test_several_kernels_need_a_name() -> None:
    with pytest.raises(CompileError, match="must name one of the kernels first, second"):
        entry_of(TWO_KERNELS)


def test_an_unknown_kernel_is_named_with_the_known_ones() -> None:
    with pytest.raises(CompileError, match=r"one of first, second \(got 'third'\)"):
        entry_of(TWO_KERNELS, "third")


def test_text_without_a_kernel() -> None:
    with pytest.raises(CompileError, match="found none"):
        entry_of(HEAD)


@pytest.mark.parametrize(("text", "cc"), [("sm_90", (9, 0)), ("sm_90a, debug", (9, 0)), ("sm_120", (12, 0))])
def test_target(text: str, cc: tuple[int, int]) -> None:
    assert listing.target(parse(f".version 8.0\n.target {text}\n")) == cc


def test_no_target() -> None:
    with pytest.raises(CompileError, match="must name a GPU that there is"):
        listing.target(parse(".version 8.0\n.target debug\n"))
    with pytest.raises(PtxError, match=r"expected '\.version' at the start of a module, got 'int'"):
        Program.from_ptx("int main() {}\n")


def test_source_lines_follow_loc_until_the_next() -> None:
    text = HEAD.replace("\n", " ") + "\n".join(
        [
            ".entry k() {",
            "ret;",
            ".loc 1 10 2",
            "add.u32 %r1, %r1, 1;",
            "",
            ".loc 2 20 2, function_name $s, inlined_at 1 11 3",
            "sub.u32 %r1, %r1, 1;",
            ".loc 1 0 0",
            "ret;",
            "}",
            '.file 1 "a.py"',
            '.file 2 "b.py"',
        ]
    )
    assert listing.line_table(parse(text)) == {4: ("a.py:10",), 7: ("b.py:20", "a.py:11"), 9: ("b.py:20", "a.py:11")}


def test_lines_continue_after_a_block_of_the_function_and_end_with_it() -> None:
    text = (
        HEAD.replace("\n", " ")
        + '.entry k() {\n.loc 1 10 2\n\t{ // callseq\n\tret;\n\t}\n\tret;\n}\n.global .u32 x;\n.file 1 "a.py"'
    )
    assert listing.line_table(parse(text)) == {4: ("a.py:10",), 6: ("a.py:10",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TWO_KERNELS + "// \udcff", "PTX text must be text that UTF-8 can hold"),
        (TWO_KERNELS.replace("sm_86", "sm_" + "9" * 9999), "must name a GPU that there is"),
    ],
)
def test_text_that_is_neither_ptx_nor_a_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        Program.from_ptx(text, "first")


@pytest.mark.parametrize(
    "text",
    ["/* " * 100_000 + TWO_KERNELS, "\n" * 100_000 + TWO_KERNELS.replace(".target", ".goal"),
     TWO_KERNELS.replace("[100]", "[" + "9" * 9999 + "]"), TWO_KERNELS.replace("[24]", "[" + "9" * 9999 + "]"),
     TWO_KERNELS.replace(".f32 unused[100]", f".f{'9' * 9999} unused"),
     TWO_KERNELS.replace("own[2][3]", "own" + "[1000000]" * 5000)],
    ids=range(6),
)  # fmt: skip
def test_nonsense_is_read_or_refused_quickly(text: str) -> None:
    with contextlib.suppress(CompileError, PtxError):
        assert Program.from_ptx(text, "first").parameters


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="must be a readable text file"):
        Program.from_ptx("no\0file")


@pytest.mark.parametrize(
    ("target", "cc"),
    [
        ("sm_20", (2, 0)), ("sm_75", (7, 5)), ("sm_90a", (9, 0)), ("sm_100f", (10, 0)), ("sm_107", (10, 7)),
        ("sm_121a", (12, 1)),
        *((one, None) for one in ("sm_999", "sm_91", "sm_80a", "sm_90f", "sm_90ab", "sm_100af", "sm_9", "sm_")),
        *((one, None) for one in ("compute_90", "sm_090", "sm_90x", "SM_90", "sm_1000")),
    ],
)  # fmt: skip
def test_targets_that_there_are(target: str, cc: tuple[int, int] | None) -> None:
    text = f".version 8.0\n.target {target}\n.visible .entry k() {{ ret; }}\n"
    if cc is None:
        with pytest.raises(
            CompileError, match=r"must name a GPU that there is in `\.target` \(got .*; known are sm_20, "
        ):
            Program.from_ptx(text)
    else:
        assert Program.from_ptx(text).cc == cc
