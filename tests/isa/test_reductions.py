"""Bulk copies that combine memory with what they copy, against exact fractions and NumPy's integers."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from boxes import HEAD, SHARED_BYTES, store_text

import tilewright as tw
from tilewright.errors import KernelError
from tilewright.gpu.tensor_maps import ImageMap, TensorMap
from tilewright.programs import Program
from tilewright.simt import launch

DTYPES = {
    "u32": "u4", "b32": "u4", "s32": "i4", "u64": "u8", "b64": "u8", "s64": "i8", "f16": "f2", "f32": "f4", "f64": "f8",
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
GLOBAL = [
    *(f"add.{t}" for t in "u32 s32 u64 f32 f64".split()), "add.noftz.f16", "add.noftz.bf16",
    *(f"{op}.{t}" for op in ("min", "max") for t in "u32 s32 u64 s64 f16 bf16".split()), "inc.u32", "dec.u32",
    *(f"{op}.{t}" for op in ("and", "or", "xor") for t in ("b32", "b64")),
]  # fmt: skip
SHARED = [f"{op}.{t}" for op, of in (("add", "u32 s32 u64"), ("min", "u32 s32"), ("xor", "b32"), ("inc", "u32"))
          for t in of.split()]  # fmt: skip


def text(name: str, size: int, *, to_global: bool) -> str:
    """A kernel that combines `size` bytes of `p_to`, or of a copy of it in shared memory, with those of `p_in`."""
    copy = "for %s"
    head = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%to], [%s], {size};"
    own = f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%o], {size};
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{name} [%d], [%s], {size}, [%o];"""
    copy = f"""{head}
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""" if to_global else own  # fmt: skip
    return f"""{HEAD}
.visible .entry k(.param .u64 p_to, .param .u64 p_in) {{
.shared .align 16 .b8 source[{size}]; .shared .align 16 .b8 target[{size}]; .shared .align 8 .b64 object;
.reg .b32 %t, %s, %d, %o, %v, %a, %b; .reg .b64 %to, %in, %x, %y; .reg .pred %more, %done;
ld.param.u64 %to, [p_to]; ld.param.u64 %in, [p_in]; mov.u32 %s, source; mov.u32 %d, target; mov.u32 %o, object;
mbarrier.init.shared::cta.b64 [%o], 1; mov.u32 %t, 0;
again: cvt.u64.u32 %x, %t; add.u64 %y, %in, %x; ld.global.b32 %v, [%y]; add.u32 %a, %s, %t; st.shared.b32 [%a], %v;
add.u64 %y, %to, %x; ld.global.b32 %v, [%y]; add.u32 %b, %d, %t; st.shared.b32 [%b], %v;
add.u32 %t, %t, 4; setp.lt.u32 %more, %t, {size}; @%more bra again;
fence.proxy.async.shared::cta;
{copy}
{"bra over;" if to_global else ""}
wait: mbarrier.try_wait.parity.shared::cta.b64 %done, [%o], 0; @!%done bra wait;
mov.u32 %t, 0;
back: cvt.u64.u32 %x, %t; add.u64 %y, %to, %x; add.u32 %b, %d, %t; ld.shared.b32 %v, [%b]; st.global.b32 [%y], %v;
add.u32 %t, %t, 4; setp.lt.u32 %more, %t, {size}; @%more bra back;
over: ret;
}}
"""


def operands(type_: str, count: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Random bits, and pairs that are equal, subnormal, of opposite signs, infinite or NaN."""
    rng, dtype = np.random.default_rng(len(type_)), np.dtype(DTYPES[type_])
    x, y = (np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy() for _ in range(2))
    x[:8], y[:4] = y[:8], 0
    if type_ in ("f16", "f32", "f64", "bf16"):
        x[8:16], y[8:12], y[12:16] = -y[8:16], -np.inf, np.nan
        x[16:100] = (rng.random(84) * float(ml_dtypes.finfo(dtype).tiny) * 2).astype(dtype)
        y[16:60] = (rng.random(44) * float(ml_dtypes.finfo(dtype).tiny) * -2).astype(dtype)
        x[100:104], y[100:104] = (0.0, -0.0, 0.0, -0.0), (0.0, 0.0, -0.0, -0.0)
        x[200:300], y[200:300] = (rng.standard_normal(100).astype(dtype) for _ in range(2))
    return x, y


def flushed(x: float) -> Fraction:
    return Fraction(0) if abs(x) < 2.0**-126 else Fraction(x)


def rounded(exact: Fraction, dtype: np.dtype) -> float:
    """The nearest number of a format, ties to even, found among the neighbours of a first guess."""
    if not exact:
        return 0.0
    largest = Fraction(float(ml_dtypes.finfo(dtype).max))
    with np.errstate(over="ignore"):
        unit = largest - Fraction(float(np.nextafter(dtype.type(float(largest)), dtype.type(0))))
        guess = np.array(min(max(exact, -largest), largest), object).astype(float).astype(dtype)
        near = {float(np.nextafter(guess, dtype.type(s * np.inf))) for s in (-1, 1)} | {float(guess)}
    finite = [x for x in near if np.isfinite(x)]
    if abs(exact) >= largest + unit / 2:
        return float(np.copysign(np.inf, float(exact)))
    best = min(abs(Fraction(x) - exact) for x in finite)
    ties = [x for x in finite if abs(Fraction(x) - exact) == best]
    return next((x for x in ties if not int(np.array(x).astype(dtype).view(f"u{dtype.itemsize}")) & 1), ties[0])


def with_sign(x: float) -> tuple[float, bool]:
    """By which -0 is below +0."""
    return x, not np.signbit(x)


def combined(operation: str, type_: str, x: np.generic, y: np.generic) -> float | int | None:
    """One element; None for NaN."""
    if type_ in ("f16", "f32", "f64", "bf16"):
        a, b = float(x), float(y)
        if operation != "add":
            if np.isnan(a) or np.isnan(b):
                return None if np.isnan(a) and np.isnan(b) else b if np.isnan(a) else a
            return (min if operation == "min" else max)(a, b, key=with_sign)
        if not np.isfinite(a) or not np.isfinite(b):
            return None if np.isnan(a + b) else a + b
        exact = flushed(a) + flushed(b) if type_ == "f32" else Fraction(a) + Fraction(b)
        found = rounded(exact, np.dtype(DTYPES[type_]))
        return 0.0 if type_ == "f32" and abs(found) < 2.0**-126 else found
    a, b, bits = int(x), int(y), 8 * x.itemsize
    made = {
        "add": a + b, "min": min(a, b), "max": max(a, b), "inc": 0 if a >= b else a + 1,
        "dec": b if a == 0 or a > b else a - 1, "and": a & b, "or": a | b, "xor": a ^ b,
    }[operation] & (1 << bits) - 1  # fmt: skip
    return made - (1 << bits) if type_[0] == "s" and made >> (bits - 1) else made


def same(found: np.generic, wanted: float | int | None) -> bool:
    if wanted is None:
        return bool(np.isnan(float(found)))
    if isinstance(wanted, float) and wanted:
        return float(found) == wanted
    return found == wanted


def agree(name: str, before: np.ndarray, other: np.ndarray, after: np.ndarray) -> None:
    operation, type_ = name.split(".", maxsplit=1)[0], name.rsplit(".", maxsplit=1)[-1]
    for x, y, z in zip(before, other, after, strict=True):
        wanted = combined(operation, type_, x, y)
        assert same(z, wanted), (name, x, y, z, wanted)
        if operation in ("min", "max") and wanted == 0 and type_ in ("f16", "bf16"):
            assert np.signbit(float(z)) == np.signbit(wanted)


@pytest.mark.parametrize("name", GLOBAL)
def test_global_memory_is_combined_with_shared(name):
    before, other = operands(name.split(".")[-1])
    after = before.copy()
    program = Program.from_ptx(text(name, before.nbytes, to_global=True))
    launch(program, 1, 1, (after.view(np.uint8), other.view(np.uint8)))
    agree(name, before, other, after)


@pytest.mark.parametrize("name", SHARED)
def test_shared_memory_is_combined_with_shared(name):
    before, other = operands(name.split(".")[-1])
    after = before.copy()
    program = Program.from_ptx(text(name, before.nbytes, to_global=False))
    assert tw.check(program, 1, 1, (after.view(np.uint8), other.view(np.uint8))) == ()
    agree(name, before, other, after)


def test_blocks_may_reduce_into_one_address_at_once():
    """And none may store it meanwhile."""
    before, other = operands("u32")
    after, reduce = before.copy(), text("add.u32", before.nbytes, to_global=True)
    # each block reads the target too, to fill its shared memory: that would race
    alone = reduce.replace("add.u64 %y, %to, %x; ld.global.b32 %v, [%y];", "")
    assert tw.check(Program.from_ptx(alone), 40, 1, (after.view(np.uint8), other.view(np.uint8))) == ()
    assert np.array_equal(after, before + np.uint32(40) * other)
    found = tw.check(Program.from_ptx(reduce), 2, 1, (after.view(np.uint8), other.view(np.uint8)))
    assert {one.code for one in found} == {"TW303"}


def test_missing_fences_and_early_writes_are_found():
    before, other = operands("u32")
    whole = text("add.u32", before.nbytes, to_global=True)
    for gone, code in (("fence.proxy.async.shared::cta;", "TW412"), ("cp.async.bulk.wait_group 0;", "TW306")):
        source = whole.replace(gone, "").replace("over: ret;", "over: st.shared.b32 [%s], %v; ret;")
        found = tw.check(Program.from_ptx(source), 1, 1, (before.view(np.uint8), other.view(np.uint8)))
        assert {one.code for one in found} == {code}
    clean = Program.from_ptx(whole.replace("over: ret;", "over: st.shared.b32 [%s], %v; ret;"))
    assert tw.check(clean, 1, 1, (before.view(np.uint8), other.view(np.uint8))) == ()


@pytest.mark.parametrize("name", ["add.f16", "add.f32", "min.s32", "max.u64", "xor.u32", "dec.u32"])
def test_a_box_is_combined_with_the_tensor(name):
    operation, type_ = name.split(".")
    x, y = operands(type_, 20 * 32)
    before, given = x.reshape(20, 32), y[: 8 * 16].reshape(8, 16)
    after = before.copy()
    source = store_text((-2, 24), 2048).replace("cp.async.bulk", "cp.reduce.async.bulk")
    source = source.replace("shared::cta.bulk_group", f"shared::cta.{operation}.bulk_group")
    raw = np.zeros(2048, np.uint8)
    raw[: given.nbytes] = given.reshape(-1).view(np.uint8)
    assert tw.check(Program.from_ptx(source), 1, 64, (TensorMap(after, (8, 16)), raw)) == ()
    agree(name, before[:6, 24:].reshape(-1), given[2:, :8].reshape(-1), after[:6, 24:].reshape(-1))
    after[:6, 24:] = before[:6, 24:]
    assert np.array_equal(after.view(np.uint8), before.view(np.uint8))


def test_pixels_are_combined_with_images():
    source = store_text((0, 0, 0), 64).replace("cp.async.bulk", "cp.reduce.async.bulk")
    source = source.replace("shared::cta.bulk_group", "shared::cta.add.im2col_no_offs.bulk_group")
    images, given = np.ones((2, 4, 4), np.int32), np.arange(16, dtype=np.int32)
    launch(Program.from_ptx(source), 1, 64, (ImageMap(images, 4, 4, (0,), (-2,)), given))
    wanted = np.ones((2, 4, 4), np.int32)
    wanted[:, :2] += given.reshape(2, 2, 4)
    assert np.array_equal(images, wanted)


def test_an_operation_that_the_type_does_not_have_is_a_fault():
    source = store_text((0, 0), 1024).replace("cp.async.bulk", "cp.reduce.async.bulk")
    source = source.replace("shared::cta.bulk_group", "shared::cta.and.bulk_group")
    with pytest.raises(KernelError, match=r"\(got elements of a type without the operation\)"):
        launch(Program.from_ptx(source), 1, 64, (TensorMap(np.zeros((8, 8), np.float32), (8, 8)),
                                                 np.zeros(SHARED_BYTES, np.uint8)))  # fmt: skip
