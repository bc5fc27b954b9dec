"""Shared memory of a block: as much as the chosen GPU has, for every way to choose it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.errors import LaunchError, TargetError, TilewrightError
from tilewright.multiply.kernels import catalogue
from tilewright.programs import Program
from tilewright.show.ladder.climber import Climber
from tilewright.simt import launch
from tilewright.simulate.device.launching import kernel_error

OUT = np.zeros(64, np.uint32)


def storing(declarations: str = "", body: str = "") -> Program:
    return Program.from_ptx(
        f".version 8.7\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n{declarations}\n"
        f".reg .b32 %r<2>;\n{body}\nret;\n}}\n"
    )


@pytest.mark.parametrize(
    ("gpu", "most"), [("v100", 98_304), ("t4", 65_536), ("a100", 166_912), ("rtx4090", 101_376), ("h100", 232_448)]
)
def test_shared_memory_is_the_chosen_gpus(gpu: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = storing(".shared .align 4 .b8 s[40000];", "st.shared.u32 [s], 1;")
    launch(program, 1, 32, (OUT,), shared_bytes=most - 40_000, gpu=gpu)
    launch(storing(), 1, 32, (OUT,), shared_bytes=np.int64(most), gpu=gpu)
    monkeypatch.setenv("TILEWRIGHT_GPU", gpu)  # the setting has the argument's effect
    for chosen in (gpu, None):
        with pytest.raises(
            LaunchError, match=rf"at most {most:,} bytes together on the NVIDIA .*got 0 static.*; use smaller tiles"
        ):
            launch(storing(), 1, 32, (OUT,), shared_bytes=most + 1, gpu=chosen)
        with pytest.raises(LaunchError, match=rf" at most {most:,} bytes .*got 40,000 static .*--gpu"):
            launch(program, 1, 32, (OUT,), shared_bytes=most - 40_000 + 16, gpu=chosen)


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(TilewrightError, match=r"one of v100.*got 'v101'\); did you mean v100"):
        launch(storing(), 1, 32, (OUT,), gpu="v101")


@pytest.mark.parametrize("shared_bytes", [True, None, 1.0, -1])
def test_shared_bytes_are_a_whole_number(shared_bytes: object) -> None:
    with pytest.raises(LaunchError, match=r"`shared_bytes` must be a whole number from 0 on \(got .*\)"):
        launch(storing(), 1, 32, (OUT,), shared_bytes=shared_bytes)  # type: ignore[arg-type]


def test_a_climb_on_a_gpu_keeps_its_limits() -> None:
    """What fits the shared memory of an H100 is refused on a T4, although the assembler accepts it for both."""
    text = (
        ".version 8.7\n.target sm_75\n.address_size 64\n.extern .shared .align 4 .b8 s[];\n"
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {\n ret;\n}\n"
    )
    program = Program.from_ptx(text)
    large = replace(catalogue.find("global_memory"), compiler=lambda dtype, cc: program, operands="abc")
    a, large_shared = np.ones((4, 4), np.float32), {"shared_bytes": 100_000}
    for gpu, refused in (("t4", True), ("h100", False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "tilewright.simt.launch", lambda *args, **options: launch(*args[:4], **options | large_shared)
            )
            climber = Climber.on("simulated", gpu, None)
            if refused:
                with pytest.raises(LaunchError, match="at most 65,536 bytes together on the NVIDIA T4"):
                    climber.launch(large, program, a, a)
            else:
                climber.launch(large, program, a, a)


#: Targets of PTX and GPUs, with what the error says of where it runs; empty if it runs there.
RUNS_ALONE_ON = {
    "sm_90a a100": "9.0 alone (got the NVIDIA A100", "sm_90a b200": "9.0 alone", "sm_100a h100": "10.0 alone",
    "sm_100f rtx5090": "10.0 and later ones of 10.x alone", "sm_90a h100": "", "sm_100f b200": "", "sm_90 b200": "",
}  # fmt: skip


@pytest.mark.parametrize(("on", "alone"), RUNS_ALONE_ON.items())
def test_ptx_for_one_architecture_runs_on_no_other(on: str, alone: str) -> None:
    target, gpu = on.split()
    program = Program.from_ptx(storing().ptx.replace("sm_70", target))
    if not alone:
        launch(program, 1, 32, (OUT,), gpu=gpu)
        return
    with pytest.raises(TargetError, match=rf"^k: PTX of target {target} runs on .*; compile it for") as raised:
        launch(program, 1, 32, (OUT,), gpu=gpu)
    assert alone in str(raised.value)
    assert kernel_error(raised.value).code.name == "CUDA_ERROR_NO_BINARY_FOR_GPU"


def test_numbas_kernels_are_compiled_for_the_chosen_gpu() -> None:
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def doubled(x):  # type: ignore[no-untyped-def]
        x[cuda.grid(1)] *= 2

    x = np.ones(32, np.int32)
    made = [launch(doubled, 1, 32, (x,), gpu=gpu).program.cc for gpu in ("t4", "h100", "b200")]
    assert (made, set(x)) == ([(7, 5), (9, 0), (10, 0)], {8})
