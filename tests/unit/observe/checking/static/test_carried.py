"""Loads of local memory whose value is only copied."""

from __future__ import annotations

import pytest

from tilewright.observe.checking.static.carried import SLOTS_MAX, Part, of
from tilewright.observe.checking.static.values import of_kernel

_KERNEL = """.version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 x) {{ .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; {variables}
ld.param.u64 %rd1, [x]; mov.u64 %rd2, a; cvta.local.u64 %rd3, %rd2;
{load}
{body}
ret; }}"""
_LOCAL = ".local .align 16 .b8 a[64];"


def _carried(load: str, body: str, variables: str = _LOCAL) -> tuple[Part, ...]:
    """What the first store of the body takes of the load."""
    loads, stores = of(of_kernel(_KERNEL.format(variables=variables, load=load, body=body), "k"))
    assert set(loads) <= {4} and set(stores) <= {5}
    return stores.get(5, ())


@pytest.mark.parametrize(
    ("load", "body", "parts"),
    [
        ("ld.local.u32 %r1, [a];", "st.local.u32 [a+8], %r1;", [(0, 0, 0, 15, 15)]),
        ("ld.u64 %rd4, [%rd3];", "mov.b64 %rd5, %rd4; st.u64 [%rd1], %rd5;", [(0, 0, 0, 255, 255)]),
        (
            "ld.local.v2.u32 {%r1, %r2}, [a];",
            "st.local.v2.u32 [a+8], {%r2, %r1};",
            [(0, 0, 4, 15, 15), (0, 4, 0, 240, 240)],
        ),
        # one half is set by something else
        ("ld.local.u16 %h1, [a];", "st.local.v2.u16 [a+8], {%h2, %h1};", [(0, 0, 2, 3, 3)]),
        # bit fields: the bytes that get a bit are written
        (
            "ld.u32 %r1, [%rd3];",
            "and.b32 %r2, %r1, -255; or.b32 %r3, %r2, %r4; st.u32 [%rd3], %r3;",
            [(0, 0, 0, 14, 15)],
        ),
        ("ld.local.u8 %h1, [a];", "and.b16 %h2, %h1, 254; st.local.u8 [a], %h2;", [(0, 0, 0, 0, 1)]),
    ],
)
def test_copies_and_bit_fields_are_no_use(load: str, body: str, parts: list[tuple[int, ...]]) -> None:
    assert sorted(_carried(load, body)) == [Part(*part) for part in parts]


@pytest.mark.parametrize(
    "body",
    [
        "add.u32 %r2, %r1, 1; st.local.u32 [a+8], %r2;",  # it is computed with,
        "st.global.u32 [%rd1], %r1;",  # leaves the thread,
        "st.local.u32 [a+8], %r1; st.global.u32 [%rd1], %r1;",  # beside a copy too,
        "st.local.u32 [a+8], %r1; setp.eq.u32 %p1, %r1, 0; @%p1 bra E; E:",  # decides,
        "cvt.u64.u32 %rd4, %r1; st.local.u32 [%rd4], %r2;",  # is an address,
        "and.b32 %r2, %r1, 7; st.local.u32 [a+8], %r2;",  # is a number of its own,
        "or.b32 %r2, %r1, 7; st.local.u32 [a], %r2;",
        "mov.u32 %r1, 5; st.local.u32 [a+8], %r1;",  # may be another value,
        "@%p1 st.local.u32 [a+8], %r1;",  # may not be stored,
        "",  # or reaches nothing
    ],
)
def test_anything_else_is_a_use(body: str) -> None:
    assert _carried("ld.local.u32 %r1, [a];", body) == ()


def test_only_weak_loads_of_what_may_be_local_memory_count() -> None:
    copy = "st.u32 [%rd3], %r1;"
    assert _carried("ld.u32 %r1, [%rd1];", copy)
    assert not _carried("ld.global.u32 %r1, [%rd1];", copy)
    assert not _carried("ld.volatile.u32 %r1, [%rd1];", copy)
    assert not _carried("ld.u32 %r1, [%rd1];", copy, variables=".shared .b32 a;")


def test_loads_beyond_the_limit_of_slots_count_as_uses() -> None:
    count = SLOTS_MAX // 2 + 2
    copies = "\n".join(
        f"ld.local.u32 %c{i}, [a];\nst.local.u32 [a+8], %c{i};\nst.local.u32 [a+12], %c{i};" for i in range(count)
    )
    registers = f"{_LOCAL} .reg .b32 %c<{count}>;"
    loads, stores = of(of_kernel(_KERNEL.format(variables=registers, load="", body=copies), "k"))
    assert len(loads) == SLOTS_MAX // 2
    assert max(slot for slots in loads.values() for slot in slots) == SLOTS_MAX - 1
    assert sum(map(len, stores.values())) == SLOTS_MAX
