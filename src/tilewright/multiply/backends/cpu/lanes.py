"""Few results of a long sum, in vector lanes: what `order="fast"` allows for vectors.

The canonical order is one chain of additions, and each waits for the one before it. Here a segment of k is summed in
many chains at once: element p is added to chain p modulo their number, from zero, each step fused. Then the upper half
of the chains is added to the lower half until one is left, and the segments' sums are added in ascending order. The
number of chains and the length of a segment depend on the accumulator alone, so bits do not depend on the host, on
strides and on threads.
"""

from __future__ import annotations

from tilewright.multiply.backends.cpu.contexts import REGISTER_BYTES, KernelKey
from tilewright.multiply.backends.cpu.elements import vector
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.loops import batches, clear_sums, finish_rows, module
from tilewright.multiply.backends.cpu.microkernel.families import family_of
from tilewright.multiply.backends.cpu.packing import STEPS, emit_pack, packed_rows
from tilewright.multiply.problem.dtypes import element

#: Most rows and columns of C, and least steps along k.
EXTENT_MAX, STEPS_MIN = 8, 1024
#: Bytes of the chains' sums: four registers of 64 bytes hide the latency of a fused step.
CHAIN_BYTES = 256


def fits_lanes(m: int, n: int, k: int) -> bool:
    """Whether `order="fast"` sums real products of these extents in lanes."""
    return max(m, n) <= EXTENT_MAX and k >= STEPS_MIN


def lanes_text(key: KernelKey) -> str:
    """The LLVM module that defines `void kernel` (see `loops.SIGNATURE`) for a key of the family `lanes`."""
    ir, type_, size = Ir(), key.register, REGISTER_BYTES[key.register]
    width = key.vector_bytes // size
    for operand, name in (("a", key.a), ("b", key.b)):
        emit_pack(ir, f"pack_{operand}", element(name), type_, size, width)

    def declare() -> None:
        for v in range(CHAIN_BYTES // key.vector_bytes):
            ir.line(f"%sum.{v} = alloca {vector(type_, width)}, align 64")

    with batches(ir, key, declare):
        with ir.when(ir.compare("eq", "%continues", "0")):
            clear_sums(ir, type_, "0.0")
        with ir.loop("0", "%k", str(STEPS)) as start:
            steps = start, ir.least(ir.sub("%k", start), str(STEPS))
            a, a_pitch = packed_rows(ir, "a", ("%a_rs", "%a_cs", "%m"), steps, element(key.a).memory == type_, size)
            b, b_pitch = packed_rows(ir, "b", ("%b_cs", "%b_rs", "%n"), steps, element(key.b).memory == type_, size)
            with ir.loop("0", "%m") as i, ir.loop("0", "%n") as j:
                rows = ir.at(a, ir.mul(i, a_pitch)), ir.at(b, ir.mul(j, b_pitch))
                where = ir.at(ir.at("%sums", ir.mul(i, "%sums_rs")), ir.mul(j, str(size)))
                total = _segment(ir, key, rows, steps[1])
                ir.store(type_, ir.op(f"fadd {type_} {ir.load(type_, where)}, {total}"), where)
        finish_rows(ir, key)
    return module(ir, key)


def _segment(ir: Ir, key: KernelKey, rows: tuple[str, str], taken: str) -> str:
    """The sum of the products of two rows, of `taken` elements each."""
    type_, size, step = key.register, REGISTER_BYTES[key.register], family_of(key).step
    width, vectors = key.vector_bytes // size, CHAIN_BYTES // key.vector_bytes
    full, chains = vector(type_, width), CHAIN_BYTES // size
    for v in range(vectors):
        ir.store(full, "zeroinitializer", f"%sum.{v}")

    def add(p: str, masks: list[str | None]) -> None:
        """One step of every chain; of chains beyond a mask a product of zeros."""
        for v, mask in enumerate(masks):
            there = ir.mul(ir.add(p, str(v * width)), str(size))
            a, b = (ir.masked_load(type_, width, ir.at(row, there), mask) for row in rows)
            ir.store(full, step(ir, type_, width, ir.load(full, f"%sum.{v}"), a, b), f"%sum.{v}")

    whole = ir.op(f"and i64 {taken}, -{chains}")
    with ir.loop("0", whole, str(chains)) as p:
        add(p, [None] * vectors)
    with ir.loop(whole, taken, str(chains)) as p:
        left = ir.sub(taken, p)
        add(p, [ir.lanes_below(width, ir.sub(left, str(v * width))) for v in range(vectors)])
    sums = [ir.load(full, f"%sum.{v}") for v in range(vectors)]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [ir.op(f"fadd {full} {low}, {high}") for low, high in zip(sums[:half], sums[half:], strict=True)]
    return _across(ir, type_, width, sums[0])


def _across(ir: Ir, type_: str, width: int, value: str) -> str:
    """The lanes' sum: the upper half is added to the lower half until one lane is left."""
    full = vector(type_, width)
    half = width // 2
    while half:
        moved = ", ".join(f"i32 {lane + half if lane < half else 0}" for lane in range(width))
        upper = ir.op(f"shufflevector {full} {value}, {full} poison, <{width} x i32> <{moved}>")
        value = ir.op(f"fadd {full} {value}, {upper}")
        half //= 2
    return ir.op(f"extractelement {full} {value}, i64 0")
