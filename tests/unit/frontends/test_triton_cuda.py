"""Triton on the simulated GPU."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends.imported import observing
from tilewright.frontends.triton.descriptors import parameters, tensor_map
from tilewright.ground import progress
from tilewright.observe.prediction.programs import Predictions
from tilewright.simulate.device.gpu import SimulatedGpu

torch: Any = pytest.importorskip("torch", reason="not run: torch is not installed")
triton: Any = pytest.importorskip("triton", reason="not run: Triton is not installed")
tl: Any = pytest.importorskip("triton.language")

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def scaled_sum(x, y, out, n, factor, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, factor * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def cast(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def without_mask(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n))


@triton.jit
def norm(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.sum(value * value) / n)


@triton.jit
def difference(a, b):  # type: ignore[no-untyped-def]
    return a - b


@triton.jit
def differences(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, BLOCK)), 0, difference))


@triton.jit
def racing(x, out):  # type: ignore[no-untyped-def]
    value = tl.load(x + tl.program_id(0))
    tl.store(out, tl.load(out) + value)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 512}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, 2 * tl.load(x + at))
    else:
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([column, k]).T, total)
    c.store([row, column], total.to(tl.float16))


def line_of(kernel: Any, text: str) -> str:
    """`file:line` of a line of a kernel."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


@pytest.mark.parametrize("n", [1, 1000])
def test_a_kernel_runs(gpu: SimulatedGpu, n: int) -> None:
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    compiled = scaled_sum[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 2.5, BLOCK=256)
    assert torch.allclose(out, 2.5 * x + y)
    assert ".target sm_90a" in compiled.asm["ptx"] and compiled.n_regs > 8
    assert triton.runtime.driver.active.get_current_target().arch == 90


def test_a_pointer_is_to_memory_that_the_gpu_reaches(gpu: SimulatedGpu) -> None:
    host, x, out = torch.ones(8), torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    for at, given in ((0, (host, x, out)), (1, (x, host, out)), (2, (x, x, host))):
        with pytest.raises(ValueError, match=rf"at {at}\) cannot be accessed from Triton \(cpu tensor\?\)"):
            scaled_sum[(1,)](*given, 8, 1.0, BLOCK=8)
    scaled_sum[(1,)](host.pin_memory(), x, out, 8, 3.0, BLOCK=8)
    assert out.tolist() == [4] * 8
    written = torch.zeros(8, dtype=torch.float64, pin_memory=True)
    scaled_sum[(1,)](x, x, written[4:], 4, 2.0, BLOCK=8)
    assert written.tolist() == [0] * 4 + [3] * 4


def test_an_operator_of_a_program_launches_a_kernel(gpu: SimulatedGpu) -> None:
    @torch.library.custom_op("test_triton::scaled", mutates_args=("out",))
    def scaled(x: torch.Tensor, out: torch.Tensor, factor: float) -> None:
        scaled_sum[(1,)](x, x, out, x.numel(), factor, BLOCK=16)

    out = torch.zeros(4, dtype=torch.float16, device="cuda")
    scaled(torch.ones(4, device="cuda"), out, 4.0)
    assert out.tolist() == [5] * 4


@pytest.mark.parametrize("name", ["a100", "h100"])
def test_float8_becomes_bfloat16(name: str) -> None:
    bits = torch.arange(256, dtype=torch.uint8)
    values = bits.view(torch.float8_e4m3fn if name == "h100" else torch.float8_e5m2)
    values = bits[values.float().isfinite()].view(values.dtype)
    with tw.simulated_gpu(name):
        found = torch.empty(len(values), dtype=torch.bfloat16, device="cuda")
        cast[(1,)](values.to("cuda"), found, len(values), BLOCK=256)
        assert torch.equal(found.cpu().view(torch.int16), values.to(torch.bfloat16).view(torch.int16))


@triton.jit
def read_at(x, out, offset, B: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at + offset))


@pytest.mark.parametrize("later", [
    lambda x, out: read_at[(1,)](x, out, 0, B=32), lambda x, out: out.cpu(), lambda x, out: x + out,
    lambda x, out: torch.zeros(3, device="cuda"), lambda x, out: torch.cuda.synchronize(),
], ids=["launch", "copy", "operation", "allocation", "synchronize"])  # fmt: skip
def test_nothing_runs_after_an_illegal_address(later: Any) -> None:
    with tw.simulated_gpu("a100"):
        x, out = torch.ones(32, device="cuda"), torch.zeros(32, device="cuda")
        with pytest.raises(RuntimeError, match="700"):
            read_at[(1,)](x, out, 1 << 28, B=32)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS: an earlier launch failed"):
                later(x, out)
        assert x[3:].shape == (29,) and x.is_cuda  # no work of the device
    with tw.simulated_gpu("a100"):
        x, out = torch.ones(32, device="cuda"), torch.zeros(32, device="cuda")
        with pytest.raises(ValueError, match="cpu tensor"):  # a launch that is refused breaks nothing
            read_at[(1,)](x.cpu(), out, 0, B=32)
        later(x, out)


def test_a_program_of_several_blocks_runs_as_a_cluster(gpu: SimulatedGpu) -> None:
    x, y = torch.rand(2048, device="cuda"), torch.rand(2048, device="cuda")
    out = torch.zeros_like(x)
    compiled = scaled_sum[(2,)](x, y, out, 2048, 2.5, BLOCK=1024, num_ctas=2)
    assert torch.allclose(out, 2.5 * x + y) and "cluster" in compiled.asm["ptx"]


def test_each_gpu_has_its_own_code() -> None:
    for name, target in (("a100", ".target sm_80"), ("t4", ".target sm_75")):
        with tw.simulated_gpu(name):
            x = torch.ones(64, device="cuda")
            assert target in scaled_sum[(1,)](x, x, x, 64, 1.0, BLOCK=64).asm["ptx"]
            assert x.tolist() == [2] * 64


def test_a_finding_is_at_the_kernels_line() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        x = torch.ones(100, device="cuda")
        without_mask[(1,)](x, torch.empty_like(x), 100, BLOCK=128)
        found = [(one.code, f"{one.source}:{one.line}") for one in gpu.findings]
        assert ("TW101", line_of(without_mask, "tl.store")) in found
        assert "`out` of shape (100,)" in next(one.message for one in gpu.findings if one.code == "TW101")


def test_a_load_of_several_words_has_its_line() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        x, y = torch.empty(1024, device="cuda"), torch.empty(1024, device="cuda")
        compiled = scaled_sum[(1,)](x, y, torch.zeros_like(x), 1024, 2.5, BLOCK=1024)
        assert "ld.global.v4" in compiled.asm["ptx"]
        assert {f"{one.source}:{one.line}" for one in gpu.findings} == {line_of(scaled_sum, "tl.store")}


def test_a_race_between_blocks_is_found() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        racing[(8,)](torch.ones(8, device="cuda"), torch.zeros(1, device="cuda"))
        assert [(one.code, f"{one.source}:{one.line}") for one in gpu.findings] == [
            ("TW303", line_of(racing, "tl.store"))
        ]


def test_a_correct_kernel_has_no_findings() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        x = torch.ones(1000, device="cuda")
        scaled_sum[(4,)](x, x, torch.empty_like(x), 1000, 1.0, BLOCK=256)
        assert list(gpu.findings) == []


NUMBERS = np.random.default_rng(0).standard_normal(64).astype(np.float32)


def test_copies_of_a_sum_are_the_compilers() -> None:
    for strict, x, codes in ((True, np.ones_like(NUMBERS), []), (True, NUMBERS, ["TW312"]), (False, NUMBERS, [])):
        with tw.simulated_gpu(check=True, strict=strict) as gpu:
            norm[(1,)](torch.tensor(x, device="cuda"), torch.empty(1, device="cuda"), 64, BLOCK=64, num_warps=4)
            assert [one.code for one in gpu.findings] == codes
            assert all("num_warps" in one.remedy for one in gpu.findings)


def test_copies_that_depend_on_an_order_are_a_race() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        differences[(1,)](
            torch.tensor(NUMBERS, device="cuda"), torch.empty(1, device="cuda"), 64, BLOCK=64, num_warps=4
        )
        (found,) = gpu.findings
        assert (found.code, f"{found.source}:{found.line}") == ("TW301", line_of(differences, "tl.reduce"))
        assert "associative" in found.remedy and "another value" in found.message


def test_the_autotuner_chooses_by_predicted_times(gpu: SimulatedGpu) -> None:
    x = torch.ones(1 << 20, device="cuda")
    out = torch.empty_like(x)
    doubled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    assert bool((out == 2).all())
    assert doubled.best_config.kwargs["BLOCK"] == 512  # the other one, with 32,768 blocks of one warp, is slower


def test_the_autotuner_says_how_far_it_is(gpu: SimulatedGpu) -> None:
    seen: list[tuple[Any, ...]] = []

    class Watcher:
        def started(self, work: progress.Activity) -> None:
            seen.append((work.doing, work.what, work.parts, work.unit, work.done and work.done()))

        def ended(self, work: progress.Activity) -> None:
            seen.append((work.doing, "ended", work.done and work.done()))

    x = torch.ones(1 << 15, device="cuda")
    with progress.watched(Watcher()):
        for _ in range(2):  # the second launch knows the best configuration
            doubled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, x.numel() - 7)
    tuning = [one for one in seen if one[0] == "tuning"]
    assert tuning == [("tuning", "doubled", 2, "configurations", 0), ("tuning", "ended", 2)]
    assert seen.index(tuning[1]) < len(seen) - 1  # before the launch itself


def test_do_bench_gives_a_predicted_time(gpu: SimulatedGpu, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(1 << 14, device="cuda")
    before = gpu.launches
    time = triton.testing.do_bench(lambda: scaled_sum[(16,)](x, x, x, x.numel(), 1.0, BLOCK=1024))
    assert 1e-3 < time < 1e-2 and gpu.launches == before + 1  # a launch takes microseconds
    y = torch.ones(1, device="cuda", requires_grad=True)
    y.sum().backward()
    quantiles = triton.testing.do_bench(lambda: x + 1, quantiles=[0.5, 0.2, 0.8], grad_to_none=[y])
    assert y.grad is None
    assert [str(one) for one in quantiles] == ["nan"] * 3
    assert "what libraries do is not predicted" in capsys.readouterr().err


def launched_between_events(launches: int) -> float:
    """Milliseconds between two events around launches of one kernel."""
    x = torch.ones(1 << 14, device="cuda")
    out = torch.empty_like(x)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(launches):
        scaled_sum[(16,)](x, x, out, x.numel(), 1.0, BLOCK=1024)
    end.record()
    scaled_sum[(16,)](x, x, out, x.numel(), 1.0, BLOCK=1024)  # after the second event
    torch.cuda.synchronize()
    assert bool((out == 2).all())
    return float(start.elapsed_time(end))


def test_the_time_between_events_is_that_of_the_launches(gpu: SimulatedGpu, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(1 << 14, device="cuda")
    out = torch.empty_like(x)
    one = triton.testing.do_bench(lambda: scaled_sum[(16,)](x, x, out, x.numel(), 1.0, BLOCK=1024))
    assert 1e-3 < one < 1e-2 and launched_between_events(1) == one
    assert launched_between_events(3) == pytest.approx(3 * one) and len(gpu.observers) == 1
    assert not capsys.readouterr().err
    assert str([launched_between_events(0) for _ in range(2)]) == "[nan, nan]"
    assert capsys.readouterr().err.count("what libraries do is not predicted") == 1


def test_events_use_the_profile_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Predictions(gpu="h100")
    with tw.simulated_gpu(observers=(seen,)) as gpu:
        time = launched_between_events(2)
        assert time == pytest.approx(2e3 * seen.predicted(seen.counted[0]).seconds) and gpu.observers == (seen,)
        later = Predictions(gpu="h100")
        with observing(gpu, later):
            assert launched_between_events(2) == time and len(later.counted) == 3 and gpu.observers == (later,)
    with tw.simulated_gpu(observers=(Predictions(gpu="h100", kernel="other"),)):
        assert str(launched_between_events(1)) == "nan"
    assert "for some launches only" in capsys.readouterr().err


def test_a_benchmark_runs_some_blocks_until_results_are_read(gpu: SimulatedGpu) -> None:
    n = 1 << 16
    x, out = torch.ones(n, device="cuda"), torch.zeros(n, device="cuda")

    def add() -> None:
        scaled_sum[(n // 256,)](x, x, out, n, 2.0, BLOCK=256)

    time = triton.testing.do_bench(add)
    assert 1e-3 < time < 1e-2 and gpu.left_out and bool((out.elements == 0).all())  # its own memory, never read
    x = None  # a pending launch keeps its inputs
    assert bool((out == 3).all()) and not gpu.left_out
    x = torch.ones(n, device="cuda")
    triton.testing.do_bench(add)
    add()  # the same launch again
    assert not gpu.left_out and bool((out.elements == 3).all())
    triton.testing.do_bench(lambda: scaled_sum[(n // 256,)](x, x, torch.empty_like(x), n, 2.0, BLOCK=256))
    assert not gpu.left_out  # its results are unreachable


@pytest.mark.parametrize("name", ["h100", "a100"])  # copies of boxes, and ordinary loads
def test_tensor_descriptors(name: str) -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    with tw.simulated_gpu(name, check=True) as gpu:
        a = torch.rand((128, 64), device="cuda", dtype=torch.float16) - 0.5
        b = torch.rand((64, 64), device="cuda", dtype=torch.float16) - 0.5
        c = torch.empty((128, 64), device="cuda", dtype=torch.float16)
        compiled = product[(2, 1)](
            *(descriptor(one, one.shape, one.stride(), [64, 64 if one is c else 32]) for one in (a, b, c)),
            64, M=64, N=64, BK=32,
        )  # fmt: skip
        assert torch.allclose(c, a @ b.T, atol=1e-2, rtol=0)
        assert ("cp.async.bulk.tensor" in compiled.asm["ptx"]) == (name == "h100")
        assert list(gpu.findings) == []


def test_a_descriptor_that_the_driver_refuses(gpu: SimulatedGpu) -> None:
    with pytest.raises(tw.KernelError, match="the address must be a multiple of 16 bytes"):
        tensor_map("FLOAT32", 0x7001, 0, 4, [16], [64], [1], nan=False)


@pytest.mark.parametrize(("number", "name"), [(13, "b4x16"), (14, "b4x16_p64"), (15, "b6x16_p32")])
def test_a_descriptor_of_packed_elements_is_refused_by_name(gpu: SimulatedGpu, number: int, name: str) -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    x = torch.zeros((128, 64), device="cuda", dtype=torch.uint8)
    packed = {"elem_type": number, "elem_size": 1, "swizzle": 3, "block_size": [128, 128], "fp4_padded": True}
    with pytest.raises(NotImplementedError, match=rf"element type \.{name} are not implemented"):
        list(parameters(descriptor(x, x.shape, x.stride(), [128, 64]), packed))
    plain = {**packed, "elem_type": 0, "block_size": [128, 64], "fp4_padded": False, "swizzle": 0}
    assert next(parameters(descriptor(x, x.shape, x.stride(), [128, 64]), plain))[0] == "nvTmaDesc"


def test_gradients_through_a_kernel(gpu: SimulatedGpu) -> None:
    class Doubled(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            out = torch.empty_like(x)
            scaled_sum[(1,)](x, torch.zeros_like(x), out, x.numel(), 2.0, BLOCK=128)
            return out

        backward = forward

    x = torch.randn(100, device="cuda", requires_grad=True)
    Doubled.apply(x).backward(torch.ones_like(x))
    assert x.grad.is_cuda and x.grad.tolist() == [2] * 100


PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def copied(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)

x = torch.arange(100, device="cuda")
out = torch.empty_like(x)
copied[(1,)](x, out, 100, BLOCK=128)
torch.cuda.synchronize()
assert torch.equal(x, out)
print(out.device, int(out.sum()))
"""


def test_a_child_process_has_a_gpu_too(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(PROGRAM)
    parent = tmp_path / "parent.py"
    parent.write_text("import subprocess, sys\nsubprocess.run([sys.executable, sys.argv[1]], check=True)\n")
    command = [sys.executable, "-m", "tilewright", "run", str(parent), str(tmp_path / "child.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "cuda:0 4950\n", ran.stdout + ran.stderr


@pytest.mark.parametrize(("command", "says"), [
    ("check", "no findings in 1 launch"), ("profile", "tl.store(out + at,"),
])  # fmt: skip
def test_a_script_runs_unchanged(tmp_path: Path, command: str, says: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    words = [sys.executable, "-m", "tilewright", command, str(script)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("cuda:0 4950\n") and says in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 0


def test_a_graph_launches_kernels_between_operations(gpu: SimulatedGpu) -> None:
    x, graph = torch.zeros(50, device="cuda"), torch.cuda.CUDAGraph()

    def scaled() -> Any:
        out = torch.empty_like(x)
        scaled_sum[(1,)](x + 1, x, out, 50, 3.0, BLOCK=64)
        return out * 2

    scaled()
    before = gpu.launches
    with torch.cuda.graph(graph):
        result = scaled()
        assert triton.runtime.driver.active.utils.is_stream_capturing(torch.cuda.current_stream().cuda_stream)
    assert gpu.launches == before
    for value in (1, 4):
        x.copy_(torch.full((50,), float(value)))
        graph.replay()
        assert torch.equal(result.cpu(), torch.full((50,), 2.0 * (3 * (value + 1) + value)))
    assert gpu.launches == before + 2


def test_a_graph_has_launches_in_its_streams_alone(gpu: SimulatedGpu) -> None:
    x, graph, other = torch.zeros(50, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    out = torch.empty_like(x)

    def launch_in_the_other() -> None:
        with torch.cuda.stream(other):
            scaled_sum[(1,)](x, x, out, 50, 3.0, BLOCK=64)

    launch_in_the_other()
    with pytest.raises(RuntimeError, match="not captured"), torch.cuda.graph(graph):
        launch_in_the_other()
    with pytest.raises(RuntimeError, match="streams joined"), torch.cuda.graph(graph):
        first = torch.cuda.current_stream()
        other.wait_stream(first)
        joined = other.record_event()
        launch_in_the_other()  # after the event
        first.wait_event(joined)


def test_a_changed_file_of_triton_changes_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.frontends.triton import names

    key = inspect.unwrap(names._of_installed_files)
    (tmp_path / "compiler").mkdir()
    for name in ("__init__.py", "compiler/passes.py"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(triton, "__file__", str(tmp_path / "__init__.py"))
    before = key()
    assert key() == before
    file = tmp_path / "compiler" / "passes.py"
    status = file.stat()
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as installers give one time to every release
    assert key() != before
