"""Instruction forms run through PTX text: many in one kernel, under a guard or in a branch, with some inactive lanes.

`harness` runs only a row's meaning; this module runs all that a user runs: parser, shapes, masks, machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from harness import array_type, from_array, signature, to_array

from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.code import element_type
from tilewright.simulate.isa.table import Form

#: The earlier value of a destination, which an inactive lane must keep.
SENTINEL = 0x5A5A5A5A5A5A5A5A
_REGISTER = {
    "i1": "%p",
    "i16": "%h",
    "half": "%h",
    "bfloat": "%h",
    "i32": "%r",
    "i64": "%l",
    "float": "%f",
    "double": "%d",
}
_TYPE = {"%p": "b8", "%h": "b16", "%r": "b32", "%l": "b64", "%f": "f32", "%d": "f64"}
_FLOAT_LITERAL = {"%f": "0f{:08X}", "%d": "0d{:016X}"}


def register_kind(ptx_type: str) -> tuple[str, str]:
    """Prefix of the registers that hold a type, and the type that loads and stores them."""
    if element_type(ptx_type) == "i128":
        return "%q", "b128"
    prefix = _REGISTER[element_type(ptx_type)]
    return prefix, _TYPE[prefix]


@dataclass
class Case:
    """A form with its operands' patterns, 32 a warp; operands in `uniform` are equal within a warp.

    `literals` maps a source's index to the literal in its place.
    """

    form: Form
    columns: Sequence[Sequence[int]]
    uniform: frozenset[int] = frozenset()
    literals: dict[int, int] = field(default_factory=dict)
    results: list[list[int]] = field(default_factory=list)


#: How a register and memory at %at exchange a value: of any type but a predicate, and a predicate.
_LOAD = (
    "ld.global.{type} {register}, [%at+{offset}];",
    "ld.global.u8 %byte, [%at+{offset}]; setp.ne.u16 {register}, %byte, 0;",
)
_STORE = (
    "st.global.{type} [%at+{offset}], {register};",
    "selp.u16 %byte, 1, 0, {register}; st.global.u8 [%at+{offset}], %byte;",
)


class _Kernel:
    """PTX text under construction, and the bytes it reads and writes."""

    def __init__(self, warps: int) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.warps = warps
        self.inputs: list[bytes] = []
        self.in_bytes = self.out_bytes = 0

    def register(self, ptx_type: str) -> str:
        self.count += 1
        return f"{_REGISTER[element_type(ptx_type)]}{self.count}"

    def read(self, pattern: Sequence[int], ptx_type: str, *, uniform: bool) -> str:
        """Load one operand; a uniform one from an address that all lanes share."""
        array = to_array(pattern[::32] if uniform else pattern, ptx_type)
        size = array.itemsize
        self.in_bytes += -self.in_bytes % 16
        offset = self.in_bytes
        self.inputs.append(array.tobytes() + b"\0" * (-array.nbytes % 16))
        self.in_bytes += array.nbytes + (-array.nbytes % 16)
        register = self.register(ptx_type)
        index = "%warp" if uniform else "%thread"
        self.lines.append(f"mad.wide.u32 %at, {index}, {size}, %in;")
        self._move(_LOAD, register, offset)
        return register

    def destination(self, ptx_type: str) -> str:
        register = self.register(ptx_type)
        kind = register[:2]
        if kind == "%p":
            self.lines.append(f"setp.ne.u32 {register}, 0, 0;")
            return register
        bits = SENTINEL & (1 << array_type(ptx_type).itemsize * 8) - 1
        literal = _FLOAT_LITERAL.get(kind, "{}").format(bits)
        self.lines.append(f"mov.{_TYPE[kind]} {register}, {literal};")
        return register

    def write(self, register: str, ptx_type: str) -> int:
        size = array_type(ptx_type).itemsize
        offset = self.out_bytes
        self.out_bytes += size * 32 * self.warps
        self.lines.append(f"mad.wide.u32 %at, %thread, {size}, %out;")
        self._move(_STORE, register, offset)
        return offset

    def _move(self, forms: tuple[str, str], register: str, offset: int) -> None:
        form = forms[register.startswith("%p")]
        self.lines.append(form.format(register=register, offset=offset, type=_TYPE[register[:2]]))

    def text(self) -> str:
        kinds = {"%p": "pred", "%h": "b16", "%r": "b32", "%l": "b64", "%f": "f32", "%d": "f64"}
        registers = " ".join(f".reg .{kinds[k]} {k}<{self.count + 1}>;" for k in kinds)
        body = "\n".join(self.lines)
        return f""".version 8.7
.target sm_100
.address_size 64
.visible .entry batch(.param .u64 p_masks, .param .u64 p_in, .param .u64 p_out) {{
{registers}
.reg .pred %exec; .reg .b16 %byte; .reg .b32 %warp, %thread, %mask, %lane, %bit, %carry_in, %carry_out;
.reg .b64 %in, %out, %at, %masks;
ld.param.u64 %masks, [p_masks]; ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];
mov.u32 %warp, %ctaid.x; mov.u32 %lane, %tid.x; mad.lo.u32 %thread, %warp, 32, %lane;
mad.wide.u32 %at, %warp, 4, %masks; ld.global.u32 %mask, [%at];
shr.u32 %bit, %mask, %lane; and.b32 %bit, %bit, 1; setp.ne.u32 %exec, %bit, 0;
{body}
ret;
}}
"""


def _literal(bits: int, ptx_type: str) -> str:
    kind = _REGISTER[element_type(ptx_type)]
    return _FLOAT_LITERAL.get(kind, "{}").format(bits)


def _add_case(kernel: _Kernel, case: Case, placed: str) -> list[tuple[int, str]]:
    """Emit one case; the offsets and types of its results."""
    form, types = case.form, signature(case.form)
    sources = []
    for i, t in enumerate(types.source_types):
        if i in case.literals:
            sources.append(_literal(case.literals[i], t))
        else:
            sources.append(kernel.read(case.columns[i], t, uniform=i in case.uniform))
    carry = form.row.kind == "carry"
    visible = types.destination_types[:-1] if carry else types.destination_types
    destinations = [kernel.destination(t) for t in visible]
    operands = ", ".join(["|".join(destinations), *(sources[:-1] if carry else sources)])
    code = [f"{form.name} {operands};"]
    if carry:
        kernel.lines.append("mov.u32 %carry_out, 0;")
        code = [
            f"selp.u32 %carry_in, 1, 0, {sources[-1]};",
            "add.cc.u32 %carry_in, %carry_in, 0xffffffff;",
            *code,
            "addc.u32 %carry_out, 0, 0;",
        ]
    if placed == "guard":
        kernel.lines += [f"@%exec {line}" for line in code]
    else:
        kernel.count += 1
        label = f"after{kernel.count}"
        kernel.lines += [f"@!%exec bra {label};", *code, f"{label}:"]
    places = [(kernel.write(r, t), t) for r, t in zip(destinations, visible, strict=True)]
    if carry:
        places.append((kernel.write("%r_carry", "u32"), "u32"))
        kernel.lines[-1] = kernel.lines[-1].replace("%r_carry", "%carry_out")
    return places


def run(cases: Sequence[Case], masks: Sequence[int], placed: str) -> str:
    """Run all cases in one kernel, a block of one warp for each mask, and fill in their results. Returns the PTX."""
    kernel = _Kernel(len(masks))
    places = [_add_case(kernel, case, placed) for case in cases]
    text = kernel.text()
    out = np.zeros(kernel.out_bytes, np.uint8)
    inputs = np.frombuffer(b"".join(kernel.inputs) or bytes(16), np.uint8)
    launch(Program.from_ptx(text), len(masks), 32, (np.array(masks, np.uint32), inputs, out))
    for case, offsets in zip(cases, places, strict=True):
        case.results = []
        for offset, t in offsets:
            kind = array_type(t)
            piece = out[offset : offset + 32 * len(masks) * kind.itemsize]
            case.results.append(from_array(piece.view(kind)))
    return text
