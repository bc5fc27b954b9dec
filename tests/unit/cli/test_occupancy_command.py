"""`tilewright occupancy`: the same figures as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_text(tilewright: Run) -> None:
    done = tilewright("occupancy", "--registers", 48, "--shared", 8192, "--block", 256, "--gpu", "a100")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert " ".join(done.out.partition("\n\n")[0].split()) == (
        "NVIDIA A100 SXM4 80GB: 48 registers, 8 KiB of shared memory, 256 threads a block "
        "62 % occupancy: 5 blocks, 40 of 64 warps a multiprocessor "
        "limited by registers (blocks that each allows: warps 8, registers 5, shared memory 18, blocks 32) "
        "with 40 registers instead of 48: 62 % -> 75 %"
    )
    marked = [line.split()[1:4] for line in lines if line.startswith(">")]
    assert marked == [["256", "5", "40"], ["48", "5", "40"], ["32,512", "5", "40"]]
    assert "other shared memory, the rest as it is" in lines


def test_json_is_the_function_s_result(tilewright: Run) -> None:
    from tilewright import machine
    from tilewright.machine.occupancy import occupancy

    words = ("--registers", 64, "--shared", 4096, "--block", 128, "--gpu", "rtx5090", "--barriers", 8)
    (document,) = json.loads(tilewright("occupancy", *words, "--json").out)["rows"]
    found = occupancy(machine.gpu("rtx5090"), registers_per_thread=64, shared_bytes=4096, block_threads=128, barriers=8)
    assert document["occupancy"] == {
        "active_blocks": 3,
        "active_warps": 12,
        "fraction": 0.25,
        "limits": dict(found.limits),
        "limiters": ["barriers"],
        "limiting_factors": found.limiting_factors,
        "allocated_registers": 8192,
        "allocated_shared_bytes": 5120,
    }
    assert document["demand"]["barriers"] == 8
    assert len(document["blocks"]) == 32
    assert document["gpu"] == {"key": "rtx5090", "name": "NVIDIA GeForce RTX 5090"}


def test_columns_of_tensor_memory_limit_blocks(tilewright: Run) -> None:
    done = tilewright("occupancy", "--registers", 32, "--block", 128, "--gpu", "b200", "--columns", 128)
    assert "4 blocks, 16 of 64 warps" in done.out
    assert "limited by tensor memory" in done.out
    assert "128 threads a block, 128 columns of tensor memory" in " ".join(done.out.split())


def test_all_gpus_are_compared(tilewright: Run) -> None:
    from tilewright import machine
    from tilewright.machine.occupancy import occupancy

    words = ("--registers", 64, "--shared", 100_000, "--block", 256, "--gpu", "all")
    done = tilewright("occupancy", *words)
    assert (done.status, done.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:3] for line in done.out.splitlines()[1:] if line.split()}
    documents = json.loads(tilewright("occupancy", *words, "--json").out)["rows"]
    assert [document["gpu"]["key"] for document in documents] == list(machine.names())
    for name, document in zip(machine.names(), documents, strict=True):
        found = occupancy(machine.gpu(name), registers_per_thread=64, shared_bytes=100_000, block_threads=256)
        assert document["occupancy"]["active_blocks"] == found.active_blocks
        assert rows[name] == [str(found.active_blocks), str(found.active_warps)]
    assert (rows["t4"], rows["h100"]) == (["0", "0"], ["2", "16"])
    assert tilewright("occupancy", "--registers", 255, "--block", 1024, "--gpu", "all").status == 1


def test_a_kernel_that_cannot_run(tilewright: Run) -> None:
    done = tilewright("occupancy", "--registers", 255, "--block", 1024)
    assert done.status == 1
    assert "no block fits: such a launch fails, for its registers" in done.out
    assert "with 64 registers instead of 255: 0 % -> 50 %" in done.out


def test_nothing_helps(tilewright: Run) -> None:
    out = tilewright("occupancy", "--registers", 0, "--block", 1024, "--gpu", "rtx3090", "--shared", 0).out
    assert "with 768 threads a block instead of 1,024: 67 % -> 100 %" in out
    full = tilewright("occupancy", "--registers", 32, "--block", 256).out
    assert "100 % occupancy" in full
    assert "instead of" not in full


@pytest.mark.parametrize(("carveout", "blocks"), [("l1", 2), ("0", 2), ("equal", 33), ("50", 33), ("shared", 57)])
def test_carve_outs(tilewright: Run, carveout: str, blocks: int) -> None:
    words = ("--registers", 0, "--block", 32, "--shared", 3000, "--carveout", carveout, "--json")
    assert json.loads(tilewright("occupancy", *words).out)["rows"][0]["occupancy"]["limits"]["shared"] == blocks


def test_the_gpu_comes_from_the_settings(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_GPU", "t4")
    assert tilewright("occupancy", "--registers", 8, "--block", 32).out.startswith("NVIDIA T4:")
