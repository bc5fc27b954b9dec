"""A sweep's points: which kernels run where, in which blocks, in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.show.rates import plan
from tilewright.show.rates.plan import Asked, points, together

SMALL = ((8, 8, 8), (31, 33, 32))


def names(**asked: Any) -> list[tuple[str, str, int]]:
    return [(p.contender, p.device, p.block) for p in points(Asked(**{"sizes": SMALL[:1], **asked}))]


def test_matmul_beside_peers_is_the_default() -> None:
    assert names(against=("numpy",)) == [("matmul", "cpu", 0), ("numpy", "cpu", 0)]
    assert [p.m for p in points(Asked())] == [256, 512, 1024]


def test_blocks_choose_among_kernels_and_apply_to_kernels_that_take_any() -> None:
    assert names(kernels=("S9", "S6"), blocks=(8, 16), devices=("a6000",)) == [
        ("shared_memory_8", "a6000", 8), ("shared_memory_16", "a6000", 16),
        ("global_memory", "a6000", 8), ("global_memory", "a6000", 16),
    ] or names(kernels=("S9", "S6"), blocks=(8, 16), devices=("a6000",)) == [
        ("global_memory", "a6000", 8), ("global_memory", "a6000", 16),
        ("shared_memory_8", "a6000", 8), ("shared_memory_16", "a6000", 16),
    ]  # fmt: skip
    assert names(kernels=("S11",), results=(4, 32), devices=("v100",)) == [
        ("results_4", "v100", 32), ("results_32", "v100", 32),
    ]  # fmt: skip


def test_one_plan_has_measured_and_predicted_devices() -> None:
    asked = Asked(kernels=("matmul", "results_8"), sizes=SMALL, devices=("cpu", "v100"), against=("numpy",))
    found = points(asked)
    assert [(p.contender, p.m, p.caches) for p in found] == [
        ("matmul", 8, "warm"), ("numpy", 8, "warm"), ("results_8", 8, "cold"),
        ("matmul", 31, "warm"), ("numpy", 31, "warm"), ("results_8", 31, "cold"),
    ]  # fmt: skip
    assert [len(group) for group in together(found)] == [2, 1, 2, 1]


def test_both_states_of_the_caches_are_points_and_predictions_have_one() -> None:
    asked = Asked(kernels=("matmul", "S6"), sizes=SMALL[:1], devices=("cpu", "v100"), caches=("warm", "cold"))
    found = points(replace(asked, dtypes=("float32",)))
    assert [(p.contender, p.caches) for p in found] == [
        ("matmul", "warm"), ("matmul", "cold"), ("global_memory", "cold"),
    ]  # fmt: skip
    assert [len(group) for group in together(found)] == [1, 1, 1]


def test_each_kernel_has_its_source_s_dtype_and_others_on_request() -> None:
    asked = Asked(kernels=("S6", "S11"), sizes=SMALL[:1], devices=("v100",), results=(1,))
    assert [p.dtype for p in points(asked)] == ["int32", "float32"]
    assert [p.dtype for p in points(replace(asked, dtypes=("float64",)))] == ["float64", "float64"]
    own = points(Asked(kernels=("matmul", "S6"), sizes=SMALL[:1], devices=("cpu", "v100"), against=("numpy",)))
    assert {p.dtype for p in own} == {"int32"}


def test_every_gpu_s_default_is_all_trusted_kernels() -> None:
    found = {name for name, _, _ in names(devices=("h100",))}
    assert {"warp_tiled", "naive", "shared_memory_8"} <= found
    assert "tiled_published" not in found


def test_peers_are_measured_only_where_kernels_are() -> None:
    found = points(Asked(kernels=("matmul", "tiled"), dtypes=("float64",), devices=("cpu", "v100"), against=("numpy",)))
    assert [p.contender for p in found].count("numpy") == 3
    assert "numpy" not in [p.contender for p in points(Asked(kernels=("tiled",), devices=("v100",)))]


def test_peers_are_not_measured_alone() -> None:
    asked = Asked(kernels=("S5",), sizes=SMALL[:1], dtypes=("int8", "int32"), against=("numpy",))
    assert [(p.contender, p.dtype) for p in points(asked)] == [("three_loops", "int32"), ("numpy", "int32")]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"devices": ("a7000",)}, "`device` must be of `tilewright devices`"),
        ({"devices": ("simulated",)}, "a simulated launch takes the host's time"),
        ({"kernels": ("nonsense",)}, "must name records"),
        (
            {"kernels": ("S9",)},
            "must run on one of `device` .got shared_memory_8, shared_memory_16, shared_memory_32 for cpu",
        ),
        ({"kernels": ("matmul",), "devices": ("v100",)}, "must run on one of `device` .got matmul for v100"),
        ({"kernels": ("S9",), "devices": ("v100",), "blocks": (7,)}, "a sweep must have a point"),
        ({"kernels": ("S9",), "devices": ("v100",), "dtypes": ("int8",)}, "a sweep must have a point"),
        ({"dtypes": ("complex64",)}, "`dtypes` must be of"),
        ({"against": ("blas",)}, "`against` must be of numpy, torch, jax, cupy, or none"),
        ({"kernels": ("S9",), "devices": ("v100",), "against": ("numpy",)}, "must be measured beside a device"),
        ({"table": "S9"}, "`table` must be one of S8, S10, S12, S13"),
        ({"table": "S8"}, "must run on one of `device` .got global_memory for cpu"),
    ],
)
def test_a_plan_that_cannot_be_timed_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(TilewrightError, match=said):
        points(Asked(**asked))


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ArgumentValueError, match="pip install torch"):
        points(Asked(against=("torch",)))


@pytest.mark.parametrize(("name", "count"), [("S8", 27), ("S10", 27), ("S12", 6), ("S13", 30)])
def test_a_source_s_table_has_a_point_a_cell(name: str, count: int) -> None:
    found = points(Asked(table=name, devices=("v100",)))
    assert len(found) == len(set(found)) == count
    assert plan.document(Asked(table=name))["table"] == name


def test_points_know_their_kernels() -> None:
    (first, *_) = points(Asked(kernels=("S6",), blocks=(8,), devices=("v100",), sizes=SMALL[:1]))
    record = plan.record_of(first)
    assert record is not None
    assert (record.name, record.block) == ("global_memory", (8, 8))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"kernels": ("S9",), "devices": ("a6000",)}, []),
        ({"kernels": ("matmul", "S9"), "devices": ("cpu", "a6000"), "against": ("numpy",)}, []),
        ({"table": "S8", "devices": ("v100", "cpu")}, ["cpu: runs no kernel of S6"]),
        (
            {"kernels": ("S9", "S6"), "devices": ("a6000",), "blocks": (7,)},
            ["S9: takes none of these dtypes, sizes, blocks and results"],
        ),
        (
            {"kernels": ("S5", "S6"), "devices": ("cpu", "a6000"), "dtypes": ("int32",), "blocks": (40,)},
            [
                "a6000: no kernel of S5, S6 takes these dtypes, sizes, blocks and results there",
                "S6: takes none of these dtypes, sizes, blocks and results",
            ],
        ),
        (
            {"kernels": ("S9",), "devices": ("cpu", "a6000"), "against": ("numpy",)},
            ["cpu: runs no kernel of S9", "numpy: no product is measured that it could take turns with"],
        ),
    ],
    ids=["all-run", "each-on-its-own", "table", "kernel", "device-and-kernel", "device-and-peer"],
)
def test_a_kernel_without_a_point_is_named_with_the_reason(asked: dict[str, Any], said: list[str]) -> None:
    assert list(plan.without_rows(Asked(**{"sizes": SMALL[:1], **asked}))) == said


def test_a_shape_that_a_kernel_does_not_take_is_left_out_with_the_reason() -> None:
    wide, narrow = (70_000 * 16, 4, 4), (32, 32, 32)
    asked = Asked(kernels=("tiled*",), sizes=(wide, narrow), dtypes=("int32", "float32"), devices=("a6000",))
    found = [(point.contender, point.dtype, point.m, reason) for point, reason in plan.left_out(asked)]
    grid = "needs a grid of 70000 blocks in y, over the limit of 65535"
    assert found == [
        ("tiled_published", "int32", wide[0], "takes float32 only, not int32"),
        ("tiled", "int32", wide[0], grid),
        ("tiled_published", "int32", 32, "takes float32 only, not int32"),
        ("tiled", "float32", wide[0], grid),  # the specimen has its rows in x, which allows more blocks
    ]
    assert len(found) + len(points(asked)) == 2 * 2 * 2
    assert plan.left_out(Asked(table="S8", devices=("v100",))) == ()
