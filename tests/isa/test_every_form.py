"""Every form that the vendor's assembler takes for sm_50 to sm_75 has a row, or a line with the reason why it has none.

Of what is new with later targets, so have those around its rows.

Forms are made from those of the table: a part is exchanged for another that the instruction has somewhere, left out, or
added, with operands as wide as the types then say. Those that the assembler takes must be found.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
import vendor
from test_operand_widths import WITHOUT_REGISTERS, line_of, names_of

from tilewright.errors import PtxError
from tilewright.simulate import isa
from tilewright.simulate.isa import Form
from tilewright.simulate.isa.absent import ABSENT, why_absent
from tilewright.simulate.ptx import parse
from tilewright.simulate.translate.analysis.graph import make_op

EDITIONS = (("9.1", "sm_75"), ("6.3", "sm_75"), ("6.3", "sm_50"))
#: Opcodes that these targets lack; newer targets are asked.
NEWER = ("cp", "ldmatrix", "stmatrix", "movmatrix", "wmma")
TYPES = (
    "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f32x2 f64 pred u16x2 s16x2 tf32 u4 s4 "
    "e4m3x2 "
).split()
_TYPE = re.compile(r"[usb]\d+(x2)?|b?f\d+(x2)?|tf32|pred|e\dm\d(x2)?")
#: Parts that are tried everywhere. Some end the assembler where it does not expect them, so these stand last.
PARTS = (
    "sat ftz relu cc rn rz rm rp rna rni rzi NaN xorsign abs noftz uni aligned sync volatile relaxed weak nc shiftamt "
    "satfinite lo hi wide cta gpu sys full approx"
).split()
#: Names of the assembler's instructions, and what it has besides the manual's.
NAMES = (
    "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx.idx "
    "call clz cnot copysign cos cp.async cp.async.bulk cp.reduce.async.bulk createpolicy.fractional cvt cvt.pack "
    "cvta cvta.to discard div dp2a.lo dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep "
    "ld ldmatrix ldu lg2 lop3 mad.lo mad24.lo madc.lo mapa match max mbarrier.init mbarrier.test_wait membar min "
    "mma mov movmatrix mul.lo mul24.lo multimem.red nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp "
    "red redux rem ret rsqrt sad selp set setmaxnreg.inc setp shf.l shfl shl shr sin slct sqrt st stackrestore "
    "stacksave stmatrix sub subc suld.b suq sured.b sured.p sust.b sust.p szext tanh tcgen05.ld tensormap.replace "
    "testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin "
    "vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma.fence wmma.load.a wmma.load.b wmma.load.c "
    "wmma.store.d wmma.mma xor barrier.cluster.arrive clusterlaunchcontrol.try_cancel.async st.bulk cctl cctlu "
    "spdecompress clmad.lo fabric.wait trace.mark "
).split()

VECTORS = ("v2", "v4", "v8")

needs_assembler = pytest.mark.skipif(not vendor.present(), reason="not run: the vendor's assembler is not installed")


def seeds(rows: Sequence[isa.Row], forms_a_row: int) -> list[Form]:
    """`forms_a_row` forms of each row."""
    found = []
    for row in rows:
        names = list(itertools.islice(names_of(row, 200), 200))
        random.Random(5).shuffle(names)
        found += [form for name in names if (form := isa.table().find(name)) and form.row is row][:forms_a_row]
    return found


def neighbours(form: Form, parts: Sequence[str]) -> Iterator[Form]:
    """Forms that differ in one part."""
    row = form.row
    bound = [(name, form.bound[name]) for part, _ in row.parts for name in part if name in form.bound]

    def made(pairs: list[tuple[str, str]], *more: str) -> Form:
        return Form(row, ".".join([row.opcode, *(value for _, value in pairs), *more]), dict(pairs))

    for index, (name, value) in enumerate(bound):
        before, after = bound[:index], bound[index + 1 :]
        yield made([*before, *after])
        for other in TYPES if _TYPE.fullmatch(value) else parts:
            yield made([*before, (name, other), *after])
    for other in dict.fromkeys([*parts, *PARTS]):
        if other not in VECTORS:  # at the end of a name the assembler takes and forgets these
            yield made(bound, other)


def unknown_neighbours(forms: Sequence[Form]) -> dict[str, str]:
    """Instructions with names that no row has, and their lines; a part that stands twice is left out."""
    parts: dict[str, dict[str, None]] = defaultdict(dict)
    for row in isa.table().rows:
        values = (value for part, _ in row.parts for values in part.values() for value in values)
        parts[row.opcode].update(dict.fromkeys(value for value in values if not _TYPE.fullmatch(value)))
    found: dict[str, str] = {}
    for form in forms:
        for other in neighbours(form, list(parts[form.row.opcode])):
            words = [word for word in other.name.split(".") if not _TYPE.fullmatch(word)]
            vector = not other["vec"] or other["vec"] in VECTORS
            if vector and isa.table().find(other.name) is None and len(set(words)) == len(words):
                with contextlib.suppress(
                    ValueError, IndexError, KeyError
                ):  # nothing is twice as wide as a predicate, no tensor flat, no texture without a geometry
                    found[line_of(other)] = other.name
    return found


@needs_assembler
@pytest.mark.parametrize("share", [12, pytest.param(1, marks=pytest.mark.volume)])
def test_what_the_assembler_takes_is_a_row_or_has_a_reason(share, tmp_path):
    rows = [row for row in isa.table().rows if row.opcode not in WITHOUT_REGISTERS]
    lines = unknown_neighbours(seeds(rows[::share], 1 if share > 1 else 6))
    missing = set()
    for edition in EDITIONS[: 1 if share > 1 else None]:
        texts = list(lines)
        missing |= {texts[i] for i in vendor.taken(texts, tmp_path, edition) if not why_absent(lines[texts[i]])}
    assert not missing, "\n".join(sorted(missing)[:60])
    assert len(lines) > 1000


@needs_assembler
@pytest.mark.parametrize(
    ("edition", "forms"),
    [
        (("7.0", "sm_80"), 1),  # many of them end the assembler, which is started again
        *(pytest.param((version, target), 6, marks=pytest.mark.volume) for version, target in (
            ("7.0", "sm_80"), ("9.1", "sm_90"), ("9.1", "sm_100a"),
        )),
    ],
)  # fmt: skip
def test_what_the_assembler_takes_of_moves_is_a_row_or_has_a_reason(edition, forms, tmp_path):
    rows = [row for row in isa.table().rows if row.opcode in NEWER]
    lines = unknown_neighbours(seeds(rows, forms))
    texts = list(lines)
    found = [texts[i] for i in vendor.taken(texts, tmp_path, edition) if not why_absent(lines[texts[i]])]
    assert found == []
    assert len(lines) > 100


@needs_assembler
def test_every_name_of_the_assembler_is_a_row_or_has_a_reason(tmp_path):
    refused = vendor.refusals([f"{name} {vendor.register(32, 1)};" for name in NAMES], tmp_path)
    unknown = [name for index, name in enumerate(NAMES) if "Not a name" in refused.get(index, "")]
    assert not unknown, "the assembler does not know these: correct the list"
    opcodes = {row.opcode for row in isa.table().rows}
    assert [name for name in NAMES if name.split(".")[0] not in opcodes and not why_absent(name)] == []


#: Of tensor memory: what is refused, with its reason, and what has rows.
REFUSED = {
    "tcgen05.shift.cta_group::1.down [%w32_0]": "what happens to the last row",
    "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale [%w32_0], %w64_0, %w64_1, [%w32_2], %w32_1, [%w32_3], "
    "[%w32_4], %p0": "which elements",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%w32_0], [%w32_2], %w64_1, %w32_1, %p0": "which rows of A",
    "tcgen05.cp.cta_group::1.4x256b [%w32_0], %w64_0": "the lanes of four lines",
    "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%w32_0], %w64_0": "the lanes of four lines",
}
TAKEN = (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%w32_0], 32",
    "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %w32_0, 32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%w32_0}, [%w32_1]",
    "tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%w32_1], 16, {%w32_0}",
    "tcgen05.wait::ld.sync.aligned", "tcgen05.fence::before_thread_sync",
    "tcgen05.cp.cta_group::1.128x256b [%w32_0], %w64_0",
    "tcgen05.mma.cta_group::1.kind::f16 [%w32_0], %w64_0, %w64_1, %w32_1, %p0",
    "tcgen05.mma.cta_group::1.kind::f16 [%w32_0], [%w32_2], %w64_1, %w32_1, %p0, 3",
    "tcgen05.mma.cta_group::1.kind::i8 [%w32_0], %w64_0, %w64_1, %w32_1, {%w32_2, %w32_3, %w32_4, %w32_5}, %p0",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%w32_0], %w64_0, %w64_1, %w32_1, [%w32_2], [%w32_3], %p0",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%w32_0], %w64_0, %w64_1, [%w32_2], %w32_1, %p0",
    "tcgen05.mma.sp.cta_group::2.kind::tf32.collector::a::use [%w32_0], [%w32_3], %w64_1, [%w32_2], %w32_1, %p0, 3",
    "tcgen05.mma.ws.sp.cta_group::1.kind::i8 [%w32_0], %w64_0, %w64_1, [%w32_2], %w32_1, %p0, %w64_2",
    "tcgen05.mma.ws.cta_group::1.kind::f16 [%w32_0], %w64_0, %w64_1, %w32_1, %p0, %w64_2",
    "tcgen05.cp.cta_group::2.32x128b.warpx4 [%w32_0], %w64_0",
    "tcgen05.mma.ws.cta_group::1.kind::f8f6f4.collector::b2::fill [%w32_0], %w64_0, %w64_1, %w32_1, %p0",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%w32_0], %w16_0",
)  # fmt: skip


@pytest.mark.parametrize("instruction", [*REFUSED, *TAKEN])
def test_what_of_tensor_memory_is_refused_has_a_reason(instruction):
    function = parse(vendor.kernel(["mov.b32 %w32_0, 0;", f"{instruction};"])).functions["k"]
    name = instruction.split(" ")[0]
    if instruction in TAKEN:
        make_op(function.body[1], function.registers, "k.ptx")
        return
    with pytest.raises(PtxError, match=rf"^k\.ptx:7: '{re.escape(name)}' .*{REFUSED[instruction]}"):
        make_op(function.body[1], function.registers, "k.ptx")


@needs_assembler
def test_those_instructions_are_the_assemblers(tmp_path):
    listed = [*REFUSED, *TAKEN]
    assert vendor.taken([f"{x};" for x in listed], tmp_path, vendor.NEWEST) == list(range(len(listed)))


def test_no_row_is_listed_as_absent():
    words = [name for absent in ABSENT for name in absent.names.split()]
    assert len(words) == len(set(words))
    assert not {row.opcode for row in isa.table().rows} & set(words)
    assert [name for name in words if isa.table().find(name)] == []
