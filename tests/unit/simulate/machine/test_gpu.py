import tomllib
from importlib import resources

import pytest

from tilewright import machine
from tilewright.errors import ArgumentValueError
from tilewright.machine import gpus, names
from tilewright.observe.profiling import cache
from tilewright.simulate.machine import gpu
from tilewright.simulate.machine.timing import timing

every = pytest.mark.parametrize("record", gpus().values(), ids=lambda record: record.key)


@every
def test_rates_add_up_to_the_data_sheet(record):
    """Multiprocessors x units x clock must give the printed rate to its printed digits."""
    printed = record.peak_fp32_tflops
    digits = 0 if isinstance(printed, int) else 1
    assert round(record.peak_gflops() / 1000, digits) == printed


#: Dense TFLOPS of tensor cores that data sheets and white papers print, bf16 and tf32 summed in float32; their clock.
TENSOR_TFLOPS = {
    ("v100", "f16"): (125, 1530), ("t4", "f16"): (65, 1590), ("a100", "bf16"): (312, 1410),
    ("a100", "tf32"): (156, 1410),
    ("a100", "f64"): (19.5, 1410), ("a100", "s8"): (624, 1410), ("rtx3090", "bf16"): (71, 1695),
    ("rtx3090", "tf32"): (35.6, 1695), ("a6000", "tf32"): (77.4, 1800), ("rtx4090", "bf16"): (165.2, 2520),
    ("l40s", "bf16"): (362, 2490), ("h100", "bf16"): (989.4, 1830), ("h100", "f64"): (67, 1980),
    ("rtx5090", "bf16"): (209.5, 2407),
}  # fmt: skip


@pytest.mark.parametrize(("key", "elements"), TENSOR_TFLOPS)
def test_tensor_cores_reach_the_printed_rate(key, elements):
    record, (printed, mhz) = gpu(key), TENSOR_TFLOPS[key, elements]
    share = record.tensor_float32_share if elements in ("bf16", "tf32") else 1.0
    found = 2 * record.multiprocessors * record.tensor_per_clock[elements] * share * mhz / 1e6
    assert found == pytest.approx(printed, rel=0.01)


@every
def test_limits_are_consistent(record):
    assert record.launch.shared_per_block_bytes <= record.shared_per_block_optin_bytes
    assert record.shared_per_block_optin_bytes + record.shared_reserved_bytes <= record.shared_per_multiprocessor_bytes
    assert record.warps_per_multiprocessor * 32 == record.threads_per_multiprocessor
    assert record.registers_per_multiprocessor % (record.register_unit * record.warp_unit) == 0
    assert list(record.shared_steps_kib) == sorted(set(record.shared_steps_kib))
    assert record.shared_steps_kib[-1] << 10 == record.shared_per_multiprocessor_bytes
    assert record.l2_bytes % 1024 == 0
    assert record.fp64_per_clock < record.fp32_per_clock


def test_limits_of_a_launch_are_the_same_everywhere():
    limits = machine.launch_limits()
    assert all(record.launch is limits for record in gpus().values())
    assert (limits.grid_extents, limits.block_extents) == ((2**31 - 1, 2**16 - 1, 2**16 - 1), (1024, 1024, 64))
    assert (limits.threads_per_block, limits.shared_per_block_bytes, limits.local_per_thread_bytes) == (
        1024,
        48 << 10,
        512 << 10,
    )


def test_every_number_has_a_source():
    text = resources.files("tilewright.machine").joinpath("gpus.toml").read_text()
    numbers = [line for line in text.splitlines() if "=" in line and not line.startswith(("name", "family", "#"))]
    tags = ("[guide]", "[rates]", "[occ]", "[sheet]", "[paper]", "[query]", "[ncu]", "[luo]", "[benches]")
    assert len(numbers) > 100
    assert [line for line in numbers if not any(tag in line.partition("#")[2] for tag in tags)] == []


def test_every_architecture_has_a_product():
    data = tomllib.loads(resources.files("tilewright.machine").joinpath("gpus.toml").read_text())
    used = {fields["compute_capability"] for fields in data["gpu"].values()}
    assert used == set(data["architecture"])


@every
def test_its_architecture_has_times(record):
    assert timing(record).dram > timing(record).l2


@pytest.mark.parametrize("name", ["h100", "H100", " h-100 ", "NVIDIA H100 SXM5 80GB", "nvidia h100 sxm5 80gb"])
def test_names_may_be_written_in_other_ways(name):
    assert gpu(name).key == "h100"


def test_package_names():
    assert machine.gpu is gpu
    assert machine.names() == names() == tuple(machine.gpus())
    assert {
        "t4",
        "v100",
        "a100",
        "a6000",
        "l4",
        "h100",
        "h100-pcie",
        "h200",
        "b200",
        "rtx5090",
        "l40s",
        "rtx2080ti",
    } <= set(names())
    assert machine.gpu("rtx4090").compute_capability == (8, 9)


def test_unknown_name():
    with pytest.raises(ArgumentValueError, match=r"must be one of .*h100.* \(got 'H10'\); did you mean h100\?"):
        gpu("H10")
    with pytest.raises(ArgumentValueError, match=r"v100, .*rtx5090"):
        gpu("??")


def test_unknown_rate():
    with pytest.raises(
        ArgumentValueError, match=r"RTX 5090: the peak rate is known for float32, float64, .*int32 \(got 'int8'\)"
    ):
        gpu("rtx5090").peak_gflops("int8")
    assert gpu("h100").peak_gflops("float64") * 2 == gpu("h100").peak_gflops("float32")


def test_bandwidths():
    """The rates that the white papers print: 2.3 times the L2 of V100, 219 GB/s of a multiprocessor's L1."""
    a100, v100, rtx3090 = gpu("a100"), gpu("v100"), gpu("rtx3090")
    assert round(a100.gb_per_s("l2") / v100.gb_per_s("l2"), 1) == 2.3
    assert round(v100.gb_per_s("l2"), 1) == 3133.4
    assert round(rtx3090.gb_per_s("l1") / rtx3090.multiprocessors * 1710 / rtx3090.boost_mhz) == 219
    assert a100.gb_per_s("dram") == 2039
    assert rtx3090.gb_per_s("l2") is None
    with pytest.raises(ArgumentValueError, match=r"one of shared, l1, l2, dram \(got 'l3'\)"):
        a100.gb_per_s("l3")


@every
def test_levels_are_faster_the_nearer_they_are(record):
    known = [rate for level in ("dram", "l2", "l1", "shared") if (rate := record.gb_per_s(level)) is not None]
    assert known == sorted(known)
    assert record.fp16_per_clock >= record.fp32_per_clock
    assert (record.line_bytes, record.sector_bytes) == (cache.LINE_BYTES, cache.SECTOR_BYTES)


def test_records_cannot_be_changed():
    with pytest.raises(TypeError):
        gpus()["mine"] = gpu("h100")
