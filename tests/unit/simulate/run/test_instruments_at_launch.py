"""Instruments through a launch: counts against brute force over the same addresses, no code without them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.instruments import Banks, Coalescing, Mix
from tilewright.multiply.kernels import catalogue
from tilewright.simt import launch
from tilewright.simulate.events import Instrument
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.translation import translate

#: Byte offset of a thread's access: PTX that computes %d10 (64 bits), and Python.
PATTERNS = {
    "unit stride": ("mul.wide.u32 %d10, %tid, {s};", lambda t, s: t * s),
    "same": ("mov.u64 %d10, {s};", lambda t, s: s),
    "stride 2": ("mul.wide.u32 %d10, %tid, {s2};", lambda t, s: t * s * 2),
    "stride 33": ("mul.wide.u32 %d10, %tid, {s33};", lambda t, s: t * s * 33),
    "reversed": ("sub.u32 %r1, 255, %tid; mul.wide.u32 %d10, %r1, {s};", lambda t, s: (255 - t) * s),
    "scattered": (
        "mul.lo.u32 %r1, %tid, 89; and.b32 %r1, %r1, 1023; xor.b32 %r1, %r1, 77; mul.wide.u32 %d10, %r1, {s};",
        lambda t, s: ((t * 89 & 1023) ^ 77) * s,
    ),
    "by halves": ("shr.u32 %r1, %tid, 4; mul.wide.u32 %d10, %r1, {s};", lambda t, s: (t >> 4) * s),
}
FORMS = {
    "u8 %h1": 1,
    "u16 %h1": 2,
    "u32 %r9": 4,
    "u64 %d9": 8,
    "v2.u32 {{%r8, %r9}}": 8,
    "v4.u32 {{%r6, %r7, %r8, %r9}}": 16,
}
GUARDS = {"all": ("", lambda t: True), "odd": ("@%p1 ", lambda t: t % 2 == 1), "few": ("@%p2 ", lambda t: t < 5)}
SET_GUARDS = "and.b32 %r2, %tid, 1; setp.ne.u32 %p1, %r2, 0; setp.lt.u32 %p2, %tid, 5;"
BLOCK = 72


def access_text(space: str, pattern: str, form: str, guard: str, store: bool) -> str:
    size = FORMS[form]
    code = PATTERNS[pattern][0].format(s=size, s2=2 * size, s33=33 * size)
    type_, target = form.replace("{{", "{").replace("}}", "}").split(" ", 1)
    operands = f"[%d11], {target}" if store else f"{target}, [%d11]"
    base = {"global": "%a1", "shared": "%d12"}[space]
    return f"""{SET_GUARDS} {code} mov.u64 %d12, s; add.u64 %d11, {base}, %d10;
        {GUARDS[guard][0]}{"st" if store else "ld"}.{space}.{type_} {operands};"""


def warps_of(pattern: str, form: str, guard: str) -> list[list[int]]:
    """Addresses of active lanes, one list a warp; the base is aligned to more than any counted unit."""
    size, holds = FORMS[form], GUARDS[guard][1]
    return [
        [PATTERNS[pattern][1](t, size) for t in range(first, min(first + 32, BLOCK)) if holds(t)]
        for first in range(0, BLOCK, 32)
    ]


def sectors(addresses: list[int], size: int) -> int:
    return len({(a + b) // 32 for a in addresses for b in range(size)})


@pytest.mark.parametrize(("guard", "store"), [("all", False), ("odd", False), ("few", True), ("all", True)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_sectors(pattern, guard, store):
    """Every form in one kernel."""
    data = np.zeros(1 << 17, np.uint8)
    text = "\n".join(access_text("global", pattern, form, guard, store) for form in FORMS)
    program = kernel(text, 2, declarations=".shared .b8 s[16];")
    result = run(program, np.zeros(4), data, block=BLOCK, instruments=[Coalescing()]).results["coalescing"]
    rows = sorted(result.rows, key=lambda row: row.site.ptx_line)
    for row, (form, size) in zip(rows, FORMS.items(), strict=True):
        warps = [w for w in warps_of(pattern, form, guard) if w]
        assert row.requests == len(warps), form
        assert row.lanes == sum(map(len, warps)), form
        assert row.sectors == sum(sectors(w, size) for w in warps), form
        assert row.bytes_used == sum(len({a + b for a in w for b in range(size)}) for w in warps), form
        assert (row.site.access, row.site.space, row.site.bytes_per_lane) == (
            "store" if store else "load", "global", size,
        )  # fmt: skip


def wavefronts(addresses: dict[int, int], size: int) -> int:
    """Groups of lanes go one after another: all of them up to 4 bytes, halves at 8, quarters at 16.

    In a group, a bank serves one word a cycle. Source: CUDA C++ Programming Guide, shared memory.
    """
    lanes = 32 * 4 // max(size, 4)
    total = 0
    for first in range(0, 32, lanes):
        words: dict[int, set[int]] = {}
        for lane in range(first, first + lanes):
            if lane in addresses:
                for word in {(addresses[lane] + b) // 4 for b in range(size)}:
                    words.setdefault(word % 32, set()).add(word)
        total += max((len(w) for w in words.values()), default=0)
    return total


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_wavefronts(pattern, store):
    """Every form in one kernel."""
    text = "\n".join(access_text("shared", pattern, form, "all", store) for form in FORMS)
    program = kernel(text, 2, declarations=".shared .align 128 .b8 s[65536];")
    result = run(program, np.zeros(4), np.zeros(4), block=BLOCK, instruments=[Banks()]).results["banks"]
    rows = sorted(result.rows, key=lambda row: row.site.ptx_line)
    for row, (form, size) in zip(rows, FORMS.items(), strict=True):
        wanted = 0
        for first in range(0, BLOCK, 32):
            lanes = {t - first: PATTERNS[pattern][1](t, size) for t in range(first, min(first + 32, BLOCK))}
            wanted += wavefronts(lanes, size)
        assert (row.wavefronts, row.site.access) == (wanted, "store" if store else "load"), form
    assert result.total("load" if store else "store", "wavefronts") == 0


def test_generic_accesses_count_in_the_space_they_reach():
    program = kernel(
        """mov.u64 %d1, s; cvta.shared.u64 %d1, %d1; setp.lt.u32 %p1, %tid, 16; mul.wide.u32 %d2, %tid, 4;
        add.u64 %d1, %d1, %d2; add.u64 %d3, %out, %d2; selp.b64 %d1, %d1, %d3, %p1; ld.u32 %r1, [%d1];""",
        declarations=".shared .align 128 .b8 s[256];",
    )
    results = run(program, np.zeros(32, np.uint32), instruments=[Coalescing(), Banks()]).results
    assert results["coalescing"].total("load", "sectors") == 2
    assert results["banks"].total("load", "wavefronts") == 1


def test_atomics_count_as_atomics():
    program = kernel("red.global.add.u32 [%at], 1; atom.global.add.u32 %r1, [%out], 1;")
    result = run(program, np.zeros(64, np.uint32), block=64, instruments=[Coalescing()]).results["coalescing"]
    assert result.total("atomic", "requests") == 4
    assert result.total("atomic", "sectors") == 8 + 2
    assert (result.total("load", "requests"), result.total("store", "requests")) == (0, 0)


def test_s7_exactly():
    """The claim of the source: width 32, one block of (32, 32): 5,120 load and 128 store transactions."""
    record = catalogue.find("global_memory")
    shape = record.launch_rule(32, 32, 32)
    assert (shape.grid, shape.block) == ((1, 1, 1), (32, 32, 1))
    random = np.random.default_rng(1)
    a, b = (random.integers(-5, 5, (32, 32)).astype(np.float32) for _ in "ab")
    c = np.zeros((32, 32), np.float32)
    run_ = launch(
        record.program("float32"), shape.grid, shape.block, record.arguments(a, b, c), instruments=[Coalescing()]
    )
    counted = run_.results["coalescing"]
    assert counted.total("load", "sectors") == 5120
    assert counted.total("store", "sectors") == 128
    assert np.array_equal(c, a @ b)


def test_mix_agrees_with_the_machine_s_own_count_and_counts_lanes():
    program = kernel(
        """mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %lane; @%p1 bra L;
        setp.gt.u32 %p2, %tid, 3; @%p2 bra END; st.global.u32 [%at], 1; END:"""
    )
    done = run(program, np.zeros(128, np.uint32), grid=2, block=50, instruments=[Mix()])
    mix = done.results["mix"]
    assert mix.warp_instructions == done.warp_instructions
    rounds = sum(3 * max(t % 32, 1) for t in range(50)) * 2
    loop = [row for row in mix.rows if row.site.instructions == 3 and row.site.opcode == "add.u32"]
    assert sum(row.thread_instructions for row in loop) == rounds
    stores = [row for row in mix.rows if row.site.opcode.startswith("st.global")]
    assert [(row.executions, row.lanes) for row in stores] == [(2, 8)]


def text_of(instruments) -> str:
    program = kernel("ld.global.u32 %r1, [%at]; bar.sync 0; st.shared.u32 [s], %r1; st.global.u32 [%at], %r1;",
                     declarations=".shared .u32 s;")  # fmt: skip
    return translate(parse(program.ptx), "k", LaunchClass((64, 1, 1)), instruments).ir


@pytest.mark.parametrize("instrument", [Coalescing, Banks, Mix])
def test_code_for_events_exists_only_on_request(instrument):
    plain, observed = text_of([]), text_of([instrument()])
    call = re.compile(rf"call void @tw[._]{instrument().name}[._]")
    assert call.search(plain) is None
    assert call.search(observed) is not None
    from tilewright.simulate.state import CONTEXT

    place = f"getelementptr i8, ptr %context, i64 {CONTEXT['counters']}\n"
    assert place not in plain + "\n"
    assert place in observed


class Nobody(Instrument):
    """An instrument that wants no site."""

    name = "nobody"
    slots = 1

    def handler(self, site, offsets=None):
        return None

    def collect(self, sites, counters):
        return sites, counters.shape


def test_an_instrument_that_wants_nothing_gets_nothing():
    assert "call void @tw.nobody" not in text_of([Nobody()])
    done = run(kernel("st.global.u32 [%at], 1;"), np.zeros(32, np.uint32), instruments=[Nobody()])
    assert done.results["nobody"] == ([], (0, 1))


def test_instruments_do_not_change_results_and_see_every_host_thread():
    body = """mad.lo.u32 %r1, %gid, 17, 5; and.b32 %r2, %lane, 3; mov.u32 %r3, 0;
        L: mad.lo.u32 %r1, %r1, 3, %r3; add.u32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r2; @%p1 bra L;
        st.global.u32 [%at], %r1; ld.global.u32 %r4, [%at]; add.u32 %r4, %r4, 1; st.global.u32 [%at], %r4;"""
    plain, observed = np.zeros(6400, np.uint32), np.zeros(6400, np.uint32)
    first = run(kernel(body), plain, grid=100, block=64)
    second = run(kernel(body), observed, grid=100, block=64, instruments=[Mix(), Banks(), Coalescing()])
    assert observed.tolist() == plain.tolist()
    assert second.warp_instructions == first.warp_instructions == second.results["mix"].warp_instructions
    assert second.results["coalescing"].total("store", "requests") == 400
    assert first.results == {}
