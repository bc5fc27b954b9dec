"""The script that verifies kernels on a GPU, run on the simulated one, and its report of a wrong kernel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import verify

from tilewright.multiply.backends import inventory
from tilewright.multiply.kernels import catalogue, functors
from tilewright.programs import Program

#: Recordings of real GPUs.
KEPT = sorted((Path(__file__).parent / "recordings" / "verified").glob("*.json"))


def test_it_runs_from_end_to_end_on_the_simulated_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    kernels = ["--kernel", "coalesced", "--kernel", "shared_memory_8"]
    status = verify.main(["--device", "simulated:a100", "--shape", "33,18,20", *kernels, "--out", str(out)])
    found = json.loads(out.read_text())
    assert status == 0
    assert "4 verified, 0 wrong" in capsys.readouterr().out
    assert found["compute_capability"] == [8, 0]
    assert [(one["name"], one["dtype"]) for one in found["kernels"]] == [
        ("shared_memory_8", "int32"), ("shared_memory_8", "float32"), ("shared_memory_8", "float64"),
        ("coalesced", "float32"),
    ]  # fmt: skip
    assert all((one["wrong_elements"], one["seconds"]) == (0, None) for one in found["kernels"])
    assert all(one["registers_per_thread"] > 0 for one in found["kernels"])


def test_a_wrong_kernel_is_reported() -> None:
    opened: Any = inventory.opened("simulated:a100")
    record = catalogue.find("coalesced")
    short = replace(record, tile=(64, 32))  # a grid of too few blocks
    right, wrong = (verify.verified(opened, one, "float32", (60, 18, 20), predict=False) for one in (record, short))
    assert verify.defects({"kernels": [right]}) == []
    (shown,) = verify.defects({"kernels": [wrong]})
    assert shown == f"coalesced float32 [60, 18, 20]: {28 * 18} wrong"


def test_products_of_a_launch_are_compared_with_those_alone() -> None:
    opened: Any = inventory.opened("simulated:a100")
    record, shape = catalogue.find("shared_memory_8"), (20, 18, 9)
    assert verify.batched(opened, record, "float32", shape)["wrong_elements"] == 0
    for name in ("inner_b", "outer_a"):  # kernels that go to a wrong matrix
        assert verify.batched(opened, replace(record, compiler=wrong(name)), "float32", shape)["wrong_elements"] > 0


def wrong(name: str) -> Any:
    """The compiler of a kernel that takes another distance of matrices."""

    def compiled(dtype: str, cc: tuple[int, int], batch: str = "") -> Program:
        folder = Path(catalogue.__file__).parent
        text = (folder / "finish.cuh").read_text().replace(f"of.{name}", "1") + (
            (folder / "shared_memory.cu").read_text().replace('#include "finish.cuh"', "")
        )
        types = ", ".join(functors.arguments(None, batch))
        return Program.from_cuda(text, f"shared_memory<8, float{', ' * bool(types)}{types}>", cc)

    return compiled


@pytest.mark.parametrize("file", KEPT or [None], ids=lambda file: file.stem if file else "none")
def test_a_kept_recording_has_no_defect(file: Path | None) -> None:
    if file is None:
        pytest.skip("not run: no recording of a real GPU yet; tests/hardware/verify.py makes one")
    assert verify.defects(json.loads(file.read_text())) == []
