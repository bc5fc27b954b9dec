"""The source line of an instruction: chains of inlined lines, as compilers write them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program
from tilewright.simulate.observer import BlocksAlone, Launch, Observer
from tilewright.simulate.ptx import parse, to_text
from tilewright.simulate.ptx.frames import file_name, frames, package, quoted, users_line
from tilewright.simulate.ptx.tree import Instruction, Location, Module
from tilewright.simulate.translate.analysis.inline import inline_calls

LIBRARY = "/env/lib/python3.12/site-packages/numba_cuda/numba/cuda/random.py"
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
TWICE = (
    HEAD
    + f"""
.file 1 "mine.py"
.file 2 "{LIBRARY}"
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<9>;
    .loc 1 14 1
    .loc 1 10 1, function_name $s, inlined_at 1 14 1
    .loc 2 170 1, function_name $s, inlined_at 1 10 1
    .loc 2 107 1, function_name $s, inlined_at 2 170 1
    add.s32 %r1, 1, 1;
    {{
    .loc 2 108 1, function_name $s, inlined_at 2 170 1
    add.s32 %r1, 1, 2;
    }}
    .loc 1 10 1, function_name $s, inlined_at 1 15 1
    add.s32 %r1, 1, 3;
    .loc 2 170 1, function_name $s, inlined_at 1 10 1
    .loc 2 107 1, function_name $s, inlined_at 2 170 1
    add.s32 %r1, 1, 4;
    .loc 1 0 0
    add.s32 %r1, 1, 5;
}}
.visible .entry other(.param .u64 out) {{
    .reg .b32 %r<9>;
    .loc 2 107 1, function_name $s, inlined_at 2 170 1
    add.s32 %r1, 1, 6;
}}
"""
)
RANDOM_107, RANDOM_108, RANDOM_170 = (f"{LIBRARY}:{line}" for line in (107, 108, 170))
CHAINS = {
    "k": [
        (RANDOM_107, RANDOM_170, "mine.py:10", "mine.py:14"),
        (RANDOM_108, RANDOM_170, "mine.py:10", "mine.py:14"),
        ("mine.py:10", "mine.py:15"),
        (RANDOM_107, RANDOM_170, "mine.py:10", "mine.py:15"),
        (RANDOM_107, RANDOM_170, "mine.py:10", "mine.py:15"),  # line 0 is no line: the nearest before it
    ],
    "other": [(RANDOM_107, RANDOM_170)],  # lines of another function do not count for this one
}


def chains(module: Module, entry: str) -> list[tuple[str, ...]]:
    body = module.functions[entry].body
    return [frames(item.location, module.files) for item in body if isinstance(item, Instruction)]


def test_a_chain_is_read_from_the_last_line_at_each_place() -> None:
    module = parse(TWICE)
    assert {entry: chains(module, entry) for entry in CHAINS} == CHAINS


def test_the_line_table_of_the_text_says_the_same() -> None:
    program = Program.from_ptx(TWICE, "k")
    lines = TWICE.splitlines()
    at = {number: line for number, line in enumerate(lines, start=1) if "add.s32" in line}
    wanted = [chain for entry in CHAINS for chain in CHAINS[entry]]
    assert [program.source_lines.get(number, "") for number in at] == [users_line(chain) for chain in wanted]
    assert [program.inner_lines.get(number, "") for number in at] == [chain[0] if chain else "" for chain in wanted]
    assert [users_line(chain) for chain in wanted] == ["mine.py:10"] * 5 + [RANDOM_107]


def test_chains_survive_printing() -> None:
    module = parse(to_text(parse(TWICE)))
    assert {entry: chains(module, entry) for entry in CHAINS} == CHAINS


NAMES = (
    "plain.cu", "with space.py", "d\u00e9j\u00e0 vu.py", "\u65e5\u672c/\U0001f600.py", "q\"uote'.py",
    "back\\slash\\n.py", "tab\tand\nline.py", "<string>", "<ipython-input-3-0123456789ab>", "%20 #?&.py",
    "long" * 60 + ".py",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_quoted_names_of_files_are_read(name: str) -> None:
    assert file_name(quoted(name)) == name
    module = parse(TWICE.replace("mine.py", quoted(name)))
    assert module.files[1] == name
    assert parse(to_text(module)).files == module.files
    assert f"{name}:10" in Program.from_ptx(TWICE.replace("mine.py", quoted(name)), "k").source_lines.values()


def test_escapes_that_are_not_utf_8_are_read_too() -> None:
    assert [file_name(name) for name in (r"\377.py", "\\", r"\8", "\u00e9\\303\\251", r"\7x")] == [
        "\ufffd.py", "\\", "8", "\u00e9\u00e9", "\ax",
    ]  # fmt: skip


def test_a_line_that_was_inlined_into_itself_appears_once() -> None:
    again = "    .loc 1 7 3, function_name $s, inlined_at 1 7 3\n    add.s32 %r1, 1, 1;\n"
    text = f'{HEAD}.file 1 "mine.cu"\n.entry k() {{\n.reg .b32 %r<2>;\n.loc 1 20 1\n.loc 1 7 3, function_name $s, '
    found = chains(parse(f"{text}inlined_at 1 20 1\n{again * 50}}}"), "k")
    assert found == [("mine.cu:7", "mine.cu:20")] * 50


@pytest.mark.parametrize(
    ("places", "place"),
    [
        (("mine.py:3", "mine.py:9"), "mine.py:3"),
        (("/e/site-packages/lib/a.py:3", "/e/dist-packages/b.py:4", "mine.py:9"), "mine.py:9"),
        (("/e/site-packages/lib/a.py:3", "mine.py:6", "/e/site-packages/lib/a.py:7", "mine.py:9"), "mine.py:6"),
        (("/e/site-packages/lib/a.py:3", "/e/site-packages/lib/b.py:4"), "/e/site-packages/lib/a.py:3"),
        (("/e/site-packages/lib/a.py:3", "/e/site-packages/own/b.py:4"), "/e/site-packages/own/b.py:4"),
        (("/usr/local/cuda/include/mma.h:3", "k.cu:4"), "k.cu:4"),
        (("/opt/cuda-13/targets/x86_64-linux/include/mma.h:3", "k.cu:4"), "k.cu:4"),
        (("/conda/envs/a/targets/sbsa-linux/include/mma.h:3", "/usr/include/cuda_fp16.h:4", "k.cu:4"), "k.cu:4"),
        (("/mine/cuda/scan.py:3", "/mine/include/k.cuh:4"), "/mine/cuda/scan.py:3"),
        (("/src/numba-cuda/numba_cuda/numba/cuda/random.py:3", "mine.py:4"), "mine.py:4"),
    ],
)
def test_the_innermost_line_outside_of_libraries_is_reported(places: tuple[str, ...], place: str) -> None:
    assert users_line(places) == place
    assert not package(place) or package(place) == package(places[-1])


CUDA = r"""
__device__ __forceinline__ float third(const float* a, int i) { return a[i + 7]; }
__device__ __forceinline__ float second(const float* a, int i) {
  return third(a, i) * 2.f;
}
__device__ __noinline__ float called(const float* a, int i) {
  return third(a, i) * 3.f;
}
extern "C" __global__ void k(const float* a, float* b) {
  int i = threadIdx.x;
  b[i] = second(a, i)
    + called(a, i);
}
"""


@pytest.mark.parametrize("cc", [(9, 0), (10, 0)], ids=str)
def test_lines_that_nvrtc_inlines_and_errors_of_the_machine(cc: tuple[int, int]) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")
    module = parse(Program.from_cuda(CUDA, "k", cc, path="k.cu").ptx)
    inlined = inline_calls(module, module.functions["k"])
    loads = [
        frames(item.location, module.files)
        for item in inlined.body
        if isinstance(item, Instruction) and item.name.startswith("ld.global")
    ]
    assert loads == [("k.cu:2", "k.cu:4", "k.cu:11"), ("k.cu:2", "k.cu:7", "k.cu:12")]


HEADERS = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(float* a) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  a[threadIdx.x] += tile.shfl_down(a[threadIdx.x], 1);
}
"""


def test_code_of_cuda_s_headers_is_reported_at_the_line_that_calls_it() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")
    program = Program.from_cuda(HEADERS, "k", path="k.cu")
    assert {place.rpartition(":")[0] for place in program.source_lines.values()} == {"k.cu"}
    headers = {place for place in program.inner_lines.values() if "cooperative_groups" in place}
    assert headers
    assert all(package(place) for place in headers)


def test_code_without_its_own_line_belongs_to_the_call() -> None:
    helper = ".func helper() {\n.reg .b32 %r<2>;\nadd.s32 %r1, 1, 7;\n.loc 2 9 1\nadd.s32 %r1, 1, 8;\nret;\n}\n"
    text = TWICE.replace("add.s32 %r1, 1, 5;", "call helper, ();").replace(".loc 1 0 0", ".loc 1 16 1")
    module = parse(text.replace(".visible .entry k", f"{helper}.visible .entry k"))
    body = inline_calls(module, module.functions["k"]).body
    found = [i.location for i in body if isinstance(i, Instruction)][4:6]
    assert found == [Location(1, 16, 1), Location(2, 9, 1, Location(1, 16, 1))]


@dataclass
class Kept(Observer):
    """The programs that were launched."""

    programs: list[Program] = field(default_factory=list)

    def launching(self, launch: Launch, alone: BlocksAlone | None) -> bool:
        self.programs.append(launch.program)
        return False


def test_lines_that_numba_inlines() -> None:
    cuda = pytest.importorskip("numba.cuda", reason="not run: the gpu extra is not installed")
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_next

    @cuda.jit(device=True)
    def one(states, i):  # type: ignore[no-untyped-def]
        return xoroshiro128p_next(states, i)

    @cuda.jit
    def draw(states, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        out[i] = one(states, i)

    start = one.py_func.__code__.co_firstlineno
    kept = Kept()
    with tw.simulated_gpu(observers=[kept]):
        draw[1, 32](create_xoroshiro128p_states(32, seed=1), cuda.to_device(np.zeros(32, np.uint64)))
    (program,) = kept.programs
    lines = {
        line: text
        for line, text in enumerate(program.ptx.splitlines(), start=1)
        if ".global.u64 " in text and ".to." not in text
    }
    module = parse(program.ptx)
    found = [
        frames(item.location, module.files)
        for item in module.functions[program.entry].body
        if isinstance(item, Instruction) and item.ptx_line in lines
    ]
    theirs = [chain for chain in found if len(chain) > 1]
    assert len(theirs) == 4, "two loads and two stores of a state"
    assert all(chain[1:] == (f"{__file__}:{start + 2}", f"{__file__}:{start + 7}") for chain in theirs)
    assert all(package(chain[0]).endswith("numba_cuda") for chain in theirs)
    assert {program.source_lines[line] for line in lines} == {f"{__file__}:{start + 2}", f"{__file__}:{start + 7}"}
