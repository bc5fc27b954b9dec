"""Asynchronous copies: each shape of address, size, guard and width against a loop over threads and bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.isa import table

THREADS = 64
PITCH = 272  # bytes between rows of eight threads, which only the run knows
SHARED = 4096
ORDER = np.random.default_rng(3).permutation(THREADS).astype(np.uint32)
SIZES = np.random.default_rng(4).integers(0, 17, THREADS).astype(np.uint32)
#: Each thread's byte offset on either side, and the PTX that leaves it in %o, from %t, with %n bytes an element.
PLACES = {
    "uniform": (lambda t, n: 16, "mov.u32 %o, 16;"),
    "neighbours": (lambda t, n: t * n, "mul.lo.u32 %o, %t, {n};"),
    "apart": (lambda t, n: t * 2 * n, "mul.lo.u32 %o, %t, {n}; shl.b32 %o, %o, 1;"),
    "backwards": (lambda t, n: (63 - t) * n, "sub.u32 %o, 63, %t; mul.lo.u32 %o, %o, {n};"),
    "rows": (
        lambda t, n: t // 8 * PITCH + t % 8 * n,
        "shr.u32 %o, %t, 3; mul.lo.u32 %o, %o, %pitch; and.b32 %a, %t, 7; mad.lo.u32 %o, %a, {n}, %o;",
    ),
    "swizzled": (
        lambda t, n: (t ^ t >> 3 & 7) * n,
        "bfe.u32 %a, %t, 3, 3; xor.b32 %o, %t, %a; mul.lo.u32 %o, %o, {n};",
    ),
    "table": (lambda t, n: int(ORDER[t]) * n, "mul.lo.u32 %o, %order, {n};"),
}
#: The bytes of a copy that a thread reads, and the src-size operand; %size differs by thread.
READ = {
    "": (lambda t, n: n, ""),
    "none": (lambda t, n: 0, ", 0"),
    "some": (lambda t, n: 3, ", 3"),
    "own": (lambda t, n: min(int(SIZES[t]), n), ", %size"),
    "uniform": (lambda t, n: 2, ", %two"),
    "ignored": (lambda t, n: 0 if t % 3 == 0 else n, ", %third"),
    "not ignored": (lambda t, n: n if t % 3 == 0 else 0, ", !%third"),
    "all": (lambda t, n: 0, ", %always"),
}
#: Which threads copy.
RUN = {
    "": (lambda t: True, "", ""),
    "guard": (lambda t: t % 2 == 1, "@%odd", ""),
    "uniform guard": (lambda t: True, "@%always", ""),
    "branch": (lambda t: t >= 37, "", "setp.lt.u32 %low, %t, 37; @%low bra after;"),
}
TEXT = """.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 out, .param .u64 order, .param .u64 sizes, .param .u32 pitch) {{
.reg .b32 %t, %o, %a, %pitch, %order, %size, %two, %s, %end;
.reg .b64 %from, %out, %l, %w;
.reg .pred %odd, %third, %always, %low;
.shared .align 16 .b8 memory[{shared}];
ld.param.u64 %from, [from];
ld.param.u64 %out, [out];
ld.param.u32 %pitch, [pitch];
mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, 4;
ld.param.u64 %l, [order]; add.u64 %l, %l, %w; ld.global.u32 %order, [%l];
ld.param.u64 %l, [sizes]; add.u64 %l, %l, %w; ld.global.u32 %size, [%l];
min.u32 %size, {n}, %size;
min.u32 %two, %pitch, 2;
and.b32 %a, %t, 1; setp.eq.u32 %odd, %a, 1;
rem.u32 %a, %t, 3; setp.eq.u32 %third, %a, 0;
setp.ne.u32 %always, %pitch, 0;
mov.u32 %s, memory;
{target}
add.u32 %s, %s, %o;
{source}
cvt.u64.u32 %w, %o;
add.u64 %l, %from, %w;
{branch}
{guard} {copy} [%s+{ahead}], [%l+{ahead}], {n}{size};
after:
cp.async.wait_all;
bar.sync 0;
shl.b32 %a, %t, 2;
mov.u32 %s, memory;
add.u32 %s, %s, %a;
cvt.u64.u32 %w, %a;
add.u64 %out, %out, %w;
mov.u32 %end, 0;
loop:
ld.shared.u32 %o, [%s];
st.global.u32 [%out], %o;
add.u32 %s, %s, {step};
add.u64 %out, %out, {step};
add.u32 %end, %end, {step};
setp.lt.u32 %low, %end, {shared};
@%low bra loop;
ret;
}}
"""


def program(source: str, target: str, n: int, size: str = "", run: str = "", copy: str = "cp.async.ca.shared.global"):
    _, guard, branch = RUN[run]
    return Program.from_ptx(
        TEXT.format(
            n=n, source=PLACES[source][1].format(n=n), target=PLACES[target][1].format(n=n), size=READ[size][1],
            guard=guard, branch=branch, copy=copy, shared=SHARED, step=4 * THREADS, ahead=n,
        )
    )  # fmt: skip


def run(made: Program, given: np.ndarray, **how) -> np.ndarray:
    out = np.zeros(SHARED, np.uint8)
    launch(made, 1, THREADS, (given, out.view(np.uint32), ORDER, SIZES, np.uint32(PITCH)), **how)
    return out


def expected(given: np.ndarray, source: str, target: str, n: int, size: str = "", run: str = "", fill: int = 0):
    """The bytes of shared memory after the copies."""
    memory = [fill] * SHARED
    for t in range(THREADS):
        if RUN[run][0](t):
            start, place = PLACES[source][0](t, n) + n, PLACES[target][0](t, n) + n
            for byte in range(n):
                memory[place + byte] = int(given[start + byte]) if byte < READ[size][0](t, n) else 0
    return np.array(memory, np.uint8)


def bytes_given() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, 4096).astype(np.uint8)


def compared(*case, copy: str = "cp.async.ca.shared.global") -> None:
    given = bytes_given()
    untouched = run(program("neighbours", "neighbours", 4, "all", "branch"), given)[-1]  # what fresh memory holds
    got = run(program(*case, copy=copy), given)
    np.testing.assert_array_equal(got, expected(given, *case, fill=untouched), err_msg=str(case))


#: One of so many cases is tried, each time another one; the volume tests try the others too.
SHARES = pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.volume)])


@SHARES
@pytest.mark.parametrize("source", PLACES)
def test_addresses(source, share):
    for (i, target), (j, n) in itertools.product(enumerate(PLACES), enumerate((4, 8, 16))):
        if target != "uniform" and (n, target) != (16, "apart") and (list(PLACES).index(source) + i + j) % share == 0:
            compared(source, target, n)


@SHARES
@pytest.mark.parametrize("size", [name for name in READ if name])
@pytest.mark.parametrize("run_", RUN)
def test_sizes_and_guards(size, run_, share):
    cases = itertools.product(("uniform", "neighbours", "rows", "table"), (4, 16))
    first = (list(READ).index(size) + list(RUN).index(run_)) % share
    for source, n in itertools.islice(cases, first, None, share):
        compared(source, "neighbours" if n == 16 else "swizzled", n, size, run_)


@pytest.mark.parametrize("run_", [name for name in RUN if name])
def test_guards(run_):
    for source, target in (("neighbours", "neighbours"), ("rows", "swizzled"), ("table", "rows")):
        compared(source, target, 8, "", run_)


@pytest.mark.parametrize(
    "copy",
    ["cp.async.cg.shared.global", "cp.async.ca.shared::cta.global", "cp.async.ca.shared.global.L2::64B",
     "cp.async.cg.shared.global.L2::256B", "cp.async.shared.global.cg"],
)  # fmt: skip
def test_forms(copy):
    compared("neighbours", "neighbours", 16, "own", copy=copy)


@pytest.mark.parametrize("operands", ["", ", %size", ", %third"])
def test_a_policy_changes_nothing(operands):
    size = {"": "", ", %size": "own", ", %third": "ignored"}[operands]
    case = ("neighbours", "neighbours", 16, size)
    text = program(*case, copy="cp.async.cg.shared.global.L2::cache_hint.L2::128B").ptx
    policy = "createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;"
    for change in (
        (f"], 16{operands};", f"], 16{operands}, %policy;"),
        (".reg .b64", ".reg .b64 %policy; .reg .b64"),
        ("mov.u32 %t,", f"{policy} mov.u32 %t,"),
    ):
        assert change[0] in text
        text = text.replace(*change)
    given = bytes_given()
    np.testing.assert_array_equal(run(Program.from_ptx(text), given), run(program(*case), given))


def test_bytes_that_are_not_read_may_have_any_address():
    """A source may have any address if nothing is read, and may end with its array if a part is read."""
    given = bytes_given()[:80]
    text = program("neighbours", "neighbours", 16, "own").ptx.replace("min.u32 %size, 16, %size;", """
        mul.lo.u32 %size, %t, 16; add.u32 %size, %size, 16; sub.u32 %size, 76, %size; max.s32 %size, %size, 0;
        min.u32 %size, %size, 16;""")  # fmt: skip
    memory = run(Program.from_ptx(text), given)
    np.testing.assert_array_equal(memory[16 : 16 * 65], [*given[16:76], *[0] * (64 * 16 - 60)])


#: Where the kernel computes the copy's source and destination.
FROM, TO = "add.u64 %l, %from, %w;", "mov.u32 %s, memory;\nmul"


@pytest.mark.parametrize(
    ("place", "instead", "said"),
    [
        (FROM, f"{FROM} add.u64 %l, %l, 1073741824;", "global load of 16 bytes"),
        (FROM, f"{FROM} add.u64 %l, %l, 8;", "misaligned"),
        (TO, "mov.u32 %s, 65536;\nmul", "shared store of 16 bytes"),
        (TO, "mov.u32 %s, 4;\nmul", "misaligned"),
    ],
)
@pytest.mark.parametrize("size", ["", "own"])
@pytest.mark.parametrize("source", ["neighbours", "table"])
def test_faults(place, instead, said, size, source):
    text = program(source, "neighbours", 16, size).ptx
    assert place in text
    with pytest.raises(tw.KernelError) as raised:
        run(Program.from_ptx(text.replace(place, instead, 1)), bytes_given())
    assert "cp.async.ca.shared.global" in str(raised.value)
    assert said in str(raised.value)


#: What the text has instead, and what the error says.
REFUSED = {
    ("], 16;", "], 2;"): "copies 4 or 8 or 16 bytes (got 2)",
    ("], 16;", "], %t;"): "copies 4 or 8 or 16 bytes (got %t)",
    ("cp.async.ca", "cp.async.cg"): "copies 16 bytes (got 8)",
    ("], 16;", "], 16, 17;"): "reads 0 to 16 bytes (got 17)",
    ("], 16;", "], 16, %l;"): "32 bits wide, or a predicate",
    ("cp.async.ca.shared.global", "cp.async.bulk.shared.global"): "is not implemented",
}


@pytest.mark.parametrize(("change", "said"), REFUSED.items())
def test_refused(change, said):
    text = program("neighbours", "neighbours", 8 if "cg" in change[1] else 16).ptx
    assert change[0] in text
    with pytest.raises(tw.TilewrightError) as raised:
        run(Program.from_ptx(text.replace(*change, 1)), bytes_given())
    assert said in str(raised.value)


def test_spaces_keep_their_order():
    assert table().find("cp.async.cg.global.shared") is None
    assert table().find("cp.async.ca.shared::cluster.global") is None


@pytest.mark.parametrize("line", ["cp.async.wait_group 1;", "cp.async.wait_all;", "cp.async.commit_group;", "COUNT"])
def test_groups_without_copies_are_checked(line):
    """The check keeps a table of copies in flight for them too."""
    counted = "mov.u32 %r, object; mbarrier.init.shared.b64 [%r], 256; cp.async.mbarrier.arrive.noinc.shared.b64 [%r];"
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
.shared .align 8 .b64 object; .reg .b32 %r;
{counted if line == "COUNT" else line}
ret;
}}
"""
    assert "TW101" not in {one.code for one in tw.check(Program.from_ptx(text), 64, 1024, (np.zeros(4, np.uint32),))}
