"""The choice of a kernel: which ones an order of sums allows, their ranking, and that bits do not depend on
the shape.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from family import gpu_of

import tilewright as tw
from tilewright import machine
from tilewright.errors import ArgumentValueError, DeviceError
from tilewright.ladder import operands
from tilewright.multiply.backends import ranking
from tilewright.multiply.backends.estimates import Candidate, estimate, splitting
from tilewright.multiply.backends.ranking import Choice, chosen
from tilewright.multiply.engine.promotion import ORDERS, types
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.algebra import semiring
from tilewright.multiply.problem.dtypes import DTYPES, dtype, element
from tilewright.multiply.problem.expression import identity
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical, same_bits
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.show.rates import tuner

GPUS = [record for record in machine.gpus().values() if record.compute_capability >= (7, 5)]


def choice(name: str, m: int, n: int, k: int, gpu: str = "h100", order: str = "canonical") -> Choice:
    record, of = machine.gpu(gpu), dtype(name)
    kind = Kind(name, name, of.product, of.accumulator, order=order)
    return chosen(kind, m, n, k, record, record.compute_capability)


def names(found: Choice) -> list[str]:
    return [one.record.name for one in found.candidates]


def test_the_kernel_depends_on_the_shape() -> None:
    assert names(choice("float32", 16, 16, 512))[0] == "shared_memory_16"
    assert names(choice("float32", 1500, 1500, 500))[0] in {"warp_tiled", "double_buffered"}
    assert names(choice("float64", 4096, 4096, 4096))[0] == "tensor_core_f64"
    assert names(choice("float64", 4096, 4096, 4096, "t4"))[0] != "tensor_core_f64"
    # 2**31 elements of A: only kernels of 64-bit indices are left.
    assert set(names(choice("float64", 2**16, 16, 2**16))) == {"tiled", "naive"}


def test_a_kernel_takes_the_requested_epilogue_and_algebra() -> None:
    h100, large = machine.gpu("h100"), (4096, 4096, 4096)
    for name, total, order in (
        ("float16", "float32", "fast"), ("float64", "float64", "canonical"), ("int8", "int8", "fast"),
    ):  # fmt: skip
        kind = Kind(name, name, "bfloat16", total, finish=identity(total, "bfloat16"), order=order)
        found = chosen(kind, *large, h100, (9, 0)).candidates
        assert found[0].record.source == ("SR" if name == "int8" else "TC"), name
        assert all("epilogue" in one.record.takes and one.record.sums(one.dtype) == total for one in found)
    least = Kind("float16", "float16", "float16", "float32", semiring("min-plus", "float32"), order="fast")
    assert names(chosen(least, *large, h100, (9, 0))) == ["semiring"]


def test_a_problem_that_no_kernel_takes_has_no_choice() -> None:
    with pytest.raises(DeviceError, match=r"must fit its grid \(got 65536, 16, 65536 in float32\)"):
        choice("float16", 2**16, 16, 2**16, order="fast")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["float32", "float64", "int32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("gpu", [record.key for record in GPUS])
def test_an_order_allows_what_its_bound_does(gpu: str, name: str, order: str) -> None:
    for m, n, k in itertools.product((16, 3000), repeat=3):
        found = choice(name, m, n, k, gpu, order)
        for one, reported in zip(found.candidates, found.ranking, strict=True):
            record = one.record
            if record.bound is None:
                assert record.order == "fma"
            else:
                assert order != "canonical"
                terms = record.bound.a_step * k + record.bound.more
                assert order == "fast" or terms <= k + 64
            assert (reported.name, reported.bound) == (record.name, "" if record.bound is None else str(record.bound))
            assert not record.published
            assert not record.unfit(machine.gpu(gpu).compute_capability)
        assert [one.seconds for one in found.ranking] == sorted(one.seconds for one in found.ranking)


@pytest.mark.parametrize(("columns", "first"), [
    ((False, False), "hopper"), ((True, False), "hopper_tn"), ((False, True), "hopper_nt"), ((True, True), "hopper_tt"),
])  # fmt: skip
def test_operands_are_read_in_their_layout(columns: tuple[bool, bool], first: str) -> None:
    gpu, kind = machine.gpu("h100"), Kind("float16", "float16", "float16", "float32", order="fast")
    found = chosen(kind, 4096, 4096, 4096, gpu, (9, 0), columns)
    several = {"hopper", "hopper_multicast", "hopper_tn", "hopper_nt", "hopper_tt"} & set(names(found))
    assert first in names(found)[:3]
    assert several <= {first, "hopper_multicast"}


@pytest.mark.volume
def test_a_plan_and_a_product_depend_on_the_layout_of_operands() -> None:
    a, b = operands(66, 40, 72, "float16")
    asked: Any = {"device": "simulated:h100", "order": "fast"}
    whole = tw.matmul(a, b, **asked)
    found = chosen(Kind("float16", "float16", "float16", "float32", order="fast"), 66, 40, 72, machine.gpu("h100"),
                   (9, 0), (False, True))  # fmt: skip
    assert same_bits(tw.matmul(a, np.asfortranarray(b), **asked), whole)
    assert "hopper_nt" in names(found)


def test_bytes_of_floats_go_to_warpgroups() -> None:
    bytes_ = Kind("float8_e4m3fn", "float8_e4m3fn", "float32", "float32", order="fast")
    assert names(chosen(bytes_, 4096, 4096, 4096, machine.gpu("h100"), (9, 0)))[0] == "hopper_fp8"
    assert names(chosen(bytes_, 4096, 4096, 4096, machine.gpu("rtx4090"), (8, 9)))[0] == "tensor_core_fp8"


#: Operands, result and order, and the first compute capability whose tensor cores make large products of them. Those
#: of float32 and float64 are not faster than other units everywhere.
BY_TENSOR_CORES = {
    ("float16", "float16", "float16", "fast"): (7, 5),
    ("float16", "float16", "float32", "tf32x3"): (7, 5),
    ("bfloat16", "bfloat16", "float32", "fast"): (8, 0),
    ("float8_e4m3fn", "float8_e4m3fn", "bfloat16", "fast"): (7, 5),  # in float16, which holds their values
    ("float8_e5m2", "float8_e5m2", "float32", "tf32x3"): (7, 5),
    ("int8", "int8", "int8", "canonical"): (7, 5),
    ("int8", "int8", "int32", "canonical"): (7, 5),
    ("uint8", "uint8", "uint8", "canonical"): (7, 5),
    ("uint8", "uint8", "int32", "canonical"): (7, 5),
    ("uint8", "int8", "int32", "canonical"): (8, 0),
    ("int16", "int16", "int16", "canonical"): (8, 0),
    ("uint16", "uint16", "uint32", "canonical"): (8, 0),
    ("int16", "int8", "int32", "canonical"): (8, 0),
    ("int32", "int32", "int32", "canonical"): (8, 0),
    ("uint32", "uint32", "uint32", "canonical"): (8, 0),
}


@pytest.mark.parametrize("asked", BY_TENSOR_CORES, ids="-".join)
def test_every_gpu_whose_tensor_cores_can_make_a_product_does(asked: tuple[str, str, str, Any]) -> None:
    *names_, order = asked
    a, b, out = (element(name).numpy for name in names_)
    kind = types(a, b, out, order=order, casting="unsafe").kind
    for gpu in GPUS:
        found = chosen(kind, 4096, 4096, 4096, gpu, gpu.compute_capability).best.record
        assert bool(found.tensor) == (gpu.compute_capability >= BY_TENSOR_CORES[asked]), (gpu.key, found.name)


def semiring_seconds(name: str, algebra: str | None = None, order: str = "canonical") -> float:
    kind = Kind(*[name] * 4, None if algebra is None else semiring(algebra, name))
    found = chosen(kind, 2048, 2048, 512, machine.gpu("h100"), (9, 0)).ranking
    return next(one.seconds for one in found if one.name == "semiring")


def test_steps_of_wide_integers_and_of_algebras_take_their_operations() -> None:
    assert 2.5 < semiring_seconds("int64") / semiring_seconds("int32") < 5
    assert semiring_seconds("float32", "min-plus") > 1.2 * semiring_seconds("float32")


@pytest.mark.volume
@pytest.mark.parametrize("name", ["float32", "int16", "int64", "float64"])
def test_the_estimate_of_a_semiring_is_near_its_predicted_time(name: str) -> None:
    found = predict_product(
        catalogue.find("semiring"), Product(2048, 2048, 512, name), machine.gpu("h100"), changes=False
    )
    assert 0.7 < semiring_seconds(name) / found.seconds < 1.4


def test_a_kernel_is_chosen_for_its_rate_and_its_bound() -> None:
    large = (4096, 4096, 4096)
    assert names(choice("float32", *large, order="fast")) == ["tensor_core_tf32"]
    assert names(choice("float32", *large, order="tf32x3")) == ["hopper_tf32x3"]
    assert names(choice("float32", *large, "a100", order="tf32x3")) == ["tensor_core_tf32x3"]
    for name, first in (("int32", "hopper_digits"), ("uint32", "hopper_digits"), ("int16", "hopper_digits16"),
                        ("int8", "hopper_s8"), ("uint8", "hopper_s8")):  # fmt: skip
        assert names(choice(name, *large))[0] == first
        assert not names(choice(name, *large, "a100"))[0].startswith("hopper")
    assert names(choice("float16", *large, order="tf32x3"))[0].startswith("hopper")
    assert names(choice("float16", *large, "t4", order="fast")) == ["turing"]
    assert names(choice("uint8", *large, "t4"))[0] == "turing_s8"
    assert choice("bfloat16", *large, "t4", order="fast").ranking[0].bound == "", "its tensor cores have no such format"


def test_times_of_kernels_of_planes_include_the_launches_that_split() -> None:
    gpu, one = machine.gpu("h100"), Candidate(catalogue.find("hopper_digits"), "int32")
    apart, busy = splitting(one, *(4096,) * 3, gpu), 10 * 4096**3 / (4096 * 132 * 1.98e9)
    assert 80e-6 < apart < 120e-6, "by bytes alone; two launches are predicted at 118"
    assert busy + apart < estimate(one, *(4096,) * 3, gpu).seconds < 1.1 * (busy + apart)
    product = predict_product(one.record, Product(256, 256, 256, "int32"), gpu, changes=False).seconds
    assert tuner.predicted(one, (256, 256, 256), gpu).seconds == product + splitting(one, 256, 256, 256, gpu)
    assert splitting(Candidate(catalogue.find("semiring"), "int32"), 9, 9, 9, gpu) == 0


@pytest.mark.volume
@pytest.mark.parametrize(("name", "dtype"), [
    ("hopper_digits", "int32"), ("hopper_digits16", "int16"), ("hopper_tf32x3", "float32"), ("hopper_s8", "int8"),
])  # fmt: skip
def test_estimates_of_planes_are_near_predicted_times(name: str, dtype: str) -> None:
    one, gpu, extents = Candidate(catalogue.find(name), dtype), machine.gpu("h100"), (4096, 2048, 4096)
    assert 0.8 < estimate(one, *extents, gpu).seconds / tuner.predicted(one, extents, gpu).seconds < 1.2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [one.name for one in DTYPES if one.kind != "complex" and one.accumulator])
def test_the_shape_changes_no_chain_of_sums(name: str, order: str) -> None:
    for gpu, k in itertools.product(GPUS, (8, 600, 20_000)):
        chains = {
            one.record.chain
            for m, n in ((1, 1), (1, 9000), (130, 130), (9000, 130), (9000, 9000))
            for one in choice(name, m, n, k, gpu.key, order).candidates
        }
        assert len(chains) == 1, (gpu.key, k)


@pytest.mark.parametrize(("device", "name", "order"), [
    ("simulated:a100", "float32", "fast"),
    pytest.param("simulated:a100", "float32", "tf32x3", marks=pytest.mark.volume),
    pytest.param("simulated:a100", "float16", "fast", marks=pytest.mark.volume),
    pytest.param("simulated:h100", "bfloat16", "tf32x3", marks=pytest.mark.volume),
])  # fmt: skip
def test_a_row_of_a_batch_has_the_bits_that_it_has_alone(device: str, name: str, order: Any) -> None:
    a, b = operands(2 * 66, 70, 40, name)
    whole = tw.matmul(a, b, device=device, order=order)
    plan = tw.plan(a.shape, b.shape, a.dtype, device=device, order=order)
    assert plan.order == order
    assert plan.bound
    assert plan.kernel.bound.outside(whole, a, b) == 0
    if name == "float32":  # a half has too few bits to tell
        assert not same_bits(whole, canonical(a, b)), "tensor cores were at work"
    for alone in (a[5:6], a[:66], a[66:]):
        row = int(np.flatnonzero((a == alone[0]).all(axis=1))[0])
        assert same_bits(tw.matmul(alone, b, device=device, order=order), whole[row : row + len(alone)])
    assert same_bits(tw.matmul(a.reshape(2, 66, 40), b, device=device, order=order).reshape(132, 70), whole)
    assert same_bits(tw.matmul(a, b[:, 3:9], device=device, order=order), whole[:, 3:9])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [one.name for one in DTYPES])
def test_on_the_cpu_too_an_element_has_the_bits_that_it_has_alone(name: str, order: Any) -> None:
    random, made = np.random.default_rng(3), element(name).numpy
    a, b = ((8 * random.standard_normal(shape)).astype(made) for shape in ((3, 70, 133), (3, 133, 66)))
    whole = tw.matmul(a, b, order=order)
    for rows, columns in itertools.product((1, 7, 33, 70), (1, 5, 66)):
        part = tw.matmul(a[1, :rows], b[1, :, :columns], order=order)
        assert same_bits(part, whole[1, :rows, :columns]), (rows, columns)
    assert same_bits(tw.matmul(a[2, 69], b[2, :, 4], order=order), whole[2, 69, 4])
    assert same_bits(tw.matmul(a[:, :9], b, order=order), whole[:, :9])


def chains() -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in catalogue.records():
        if record.backend == "gpu" and record.chain not in ("", "canonical") and not record.published:
            found.setdefault(record.chain, []).append(record)
    return {chain: alike for chain, alike in found.items() if len(alike) > 1}


@pytest.mark.volume
@pytest.mark.parametrize("chain", chains())
def test_kernels_of_a_chain_give_the_same_bits(chain: str) -> None:
    m, n, k = 34, 40, 1100  # so many steps are split between blocks, by a kernel that splits them
    dtype = chains()[chain][0].dtypes[0]
    a, b = operands(m, n, k, dtype)
    products = []
    for record in chains()[chain]:
        c, shape = record.blank(m, n, dtype), record.launch_rule(m, n, k)
        program = record.program(dtype, record.cc)
        gpu = gpu_of(record) if record.family else "a100"
        tw.simt.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes, gpu=gpu)
        products.append(c)
    assert all(same_bits(products[0], other) for other in products[1:])


def test_sums_in_float32_at_half_the_rate_take_twice_as_long_and_those_of_integers_do_not() -> None:
    """GeForce cards have that rate."""
    whole = machine.gpu("a6000")
    half = dataclasses.replace(whole, tensor_float32_share=0.5)
    for name, kind, times in (("tensor_core", "float16", 2), ("tensor_core_s8", "int8", 1)):
        one = Candidate(catalogue.find(name), kind)
        quick, slow = (estimate(one, 4096, 4096, 4096, gpu).seconds for gpu in (whole, half))
        assert slow / quick == pytest.approx(times, rel=0.1), name


def test_every_kernel_of_tensor_cores_says_its_format() -> None:
    formats = {name for gpu in GPUS for name in gpu.tensor_per_clock}
    for record in catalogue.records():
        assert (record.order == "tensor-core") <= bool(record.tensor), record.name
        assert not record.tensor or record.tensor in formats, record.name


def test_a_plan_says_why() -> None:
    plan = tw.plan((1024, 1024), (1024, 1024), "float32", device="simulated:h100")
    assert plan.ranking[0].name == plan.path == plan.kernel.name
    assert len(plan.ranking) > 20
    text = str(plan).splitlines()
    shown = [line for line in text if line.startswith("choice ")]
    assert [line.split()[2] for line in shown] == [one.name for one in plan.ranking[:5]]
    assert all(len(line) <= 80 for line in shown)
    assert f"{1e6 * plan.ranking[0].seconds:,.1f} us estimated: {plan.ranking[0].limiter}" in shown[0]
    fast = tw.plan((1024, 1024), (1024, 1024), "float16", device="simulated:a100", order="fast")
    assert "float32, fast order, within (k + 16) 2^-23 |A| |B| of the exact ones" in str(fast)


def test_a_missing_gpu_has_only_plans() -> None:
    plan = tw.plan((30, 40), (40, 50), "float32", device="t4")
    assert plan.ranking == tw.plan((30, 40), (40, 50), "float32", device="simulated:t4").ranking
    one = np.ones((30, 40), np.float32)
    for call in (lambda: plan(one, np.ones((40, 50), np.float32)), lambda: tw.matmul(one, one.T, device="t4")):
        with pytest.raises(ArgumentValueError, match=r"\(got 't4'\); tw.plan takes it, and simulated:t4 multiplies"):
            call()
    with pytest.raises(ArgumentValueError, match=r"\(got 'h200x'\); did you mean simulated:h200\?"):
        tw.matmul(one, one.T, device="h200x")


@pytest.mark.parametrize("order", ["tf32x3", "fast"])
@pytest.mark.parametrize("device", [None, "opencl"])
def test_a_problem_without_another_kernel_multiplies_canonically(
    device: str | None, order: Any, request: pytest.FixtureRequest
) -> None:
    if device:
        request.getfixturevalue("opencl_device")
    a, b = operands(20, 30, 40, "float32")
    assert tw.plan(a.shape, b.shape, "float32", device=device, order=order).order == "canonical"
    assert same_bits(tw.matmul(a, b, device=device, order=order), tw.matmul(a, b))


def test_the_record_of_a_real_gpu_is_the_most_similar_one() -> None:
    for record in GPUS:
        assert machine.nearest(record.name, record.compute_capability, record.multiprocessors) is record
    assert machine.nearest("NVIDIA H100 80GB HBM3", (9, 0), 132).key in {"h100", "h200"}
    assert machine.nearest("some GPU", (13, 0), 150).compute_capability == max(g.compute_capability for g in GPUS)


def test_sums_are_of_the_dtypes_that_every_gpu_adds() -> None:
    integers = ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
    assert ranking.dtypes_of_sums() == ("float32", "float64", "int32", *integers)
