"""`torch.compile` on the simulated GPU: inductor's Triton kernels."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.frontends.session import ProgramGpu
from tilewright.simulate.observer import Launch, Observer

torch: Any = pytest.importorskip("torch", reason="not run: torch is not installed")
triton: Any = pytest.importorskip("triton", reason="not run: Triton is not installed")
tl: Any = pytest.importorskip("triton.language")
pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="not run: this torch is built for the CPU alone"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]


class Seen(Observer):
    """Keeps the launches."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def launching(self, launch: Launch, alone: Any) -> bool:
        self.launches.append(launch)
        return False


@pytest.fixture
def checked() -> Iterator[ProgramGpu]:
    with tw.simulated_gpu("h100", check=True) as gpu:
        yield gpu


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).cuda()


def agrees(function: Callable[..., Any], *given: Any, **options: Any) -> None:
    found, expected = torch.compile(function, fullgraph=True, **options)(*given), function(*given)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


FUNCTIONS = {
    "triton_poi": lambda x, w, b: torch.relu(x + b) * 2,
    "triton_per": lambda x, w, b: torch.softmax(x, -1),
    "triton_red": lambda x, w, b: x.repeat(1, 90).sum(1),
    "triton_per_fused_native_layer_norm": lambda x, w, b: torch.nn.functional.layer_norm(x, b.shape, b, b),
    "triton_poi_fused_addmm": lambda x, w, b: torch.nn.functional.gelu(torch.addmm(b, x, w)),
    "triton_poi_fused_add_arange_index": lambda x, w, b: x[torch.arange(4, device="cuda") * 2] + 1.5,
}


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_kernels_agree_with_the_function_and_have_no_findings(checked: ProgramGpu, kernel: str) -> None:
    agrees(FUNCTIONS[kernel], drawn(33, 20), drawn(20, 20), drawn(20))
    assert any(name.startswith(kernel) for name in checked.kernels), checked.kernels
    assert not checked.findings, checked.findings


def test_gradients_agree(checked: ProgramGpu) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.LayerNorm(30)).cuda()
    x, found = drawn(16, 20).requires_grad_(), []
    for loss in (lambda x: model(x).square().mean(), torch.compile(lambda x: model(x).square().mean(), fullgraph=True)):
        loss(x).backward()
        found.append([x.grad, *(one.grad for one in model.parameters())])
        x.grad = None
        model.zero_grad()
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
    assert any("backward" in name for name in checked.kernels) and not checked.findings, checked.findings


def test_a_launch_has_the_functions_line_and_code_for_the_gpu_in_place() -> None:
    def shifted(x: Any) -> Any:
        return x.cos() + 1

    for gpu, target in (("a100", "sm_80"), ("h100", "sm_90")):
        seen = Seen()
        with tw.simulated_gpu(gpu, observers=[seen]):
            torch.compile(shifted)(drawn(20))
        (launch,) = seen.launches
        line = inspect.getsourcelines(shifted)[1]
        assert launch.name == "triton_poi_fused_add_cos_0" and launch.source_line == f"{__file__}:{line}"
        assert f".target {target}" in launch.program.ptx


def test_one_compilation_serves_sizes_and_arguments_are_changed_in_place(checked: ProgramGpu) -> None:
    from torch._inductor.compile_fx import compile_fx  # the GPU's, so within it

    graphs = []

    def counted(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return compile_fx(graph, inputs)

    @torch.compile(backend=counted, dynamic=True)  # type: ignore[untyped-decorator]
    def halved(x: Any) -> Any:
        x.mul_(0.5)
        return x[1:] + x[:-1]

    for size in (10, 33, 700):
        x = torch.arange(size, dtype=torch.float32, device="cuda")
        assert halved(x).tolist() == [(a + b) / 2 for a, b in pairwise(range(size))]
        assert x[:3].tolist() == [0, 0.5, 1]
    assert len(graphs) == 1 and not checked.findings, checked.findings


@pytest.mark.filterwarnings("error:Dynamo:UserWarning")  # the class of the tensors is not traced
def test_a_function_that_looks_at_values_is_compiled_in_parts(checked: ProgramGpu) -> None:
    @torch.compile  # type: ignore[untyped-decorator]
    def shifted(x: Any) -> Any:
        y = x.sin() + 1
        return y - y.sum() if float(y[0]) > 0.5 else y

    x = drawn(30) * 0
    assert shifted(x).tolist() == [-29.0] * 30
    assert {name.rpartition("_fused_")[2] for name in checked.kernels} == {"add_sin_0", "sub_sum_0"}
    assert not checked.findings, checked.findings


@triton.jit
def running(x, out, n, SIZE: tl.constexpr, TOTAL: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    total = tl.sum(tl.load(x + at, mask=at < n, other=0), 0)
    if TOTAL:
        tl.store(out, tl.load(out) + total)  # blocks race
    else:
        tl.atomic_add(out, total)


@pytest.mark.parametrize("defect", [False, True])
def test_a_programs_own_kernel_is_checked_in_a_graph(checked: ProgramGpu, defect: bool) -> None:
    def summed(x: Any) -> Any:
        out = torch.zeros(1, device="cuda")
        running[(2,)](x * 2, out, x.numel(), 64, defect)
        return out + 1

    x = torch.ones(100, device="cuda")
    found = torch.compile(summed, fullgraph=True)(x).tolist()
    assert "running" in checked.kernels and len(checked.kernels) > 1
    assert defect or found == [201]
    codes = {(one.code, one.kernel) for one in checked.findings}
    assert codes == ({("TW303", "running")} if defect else set())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "reduce-overhead"}, "not as CUDA graphs"),
        ({"backend": "cudagraphs"}, "not as CUDA graphs"),
        ({"options": {"cpp_wrapper": True}}, "`cpp_wrapper` is ignored"),
    ],
    ids=["reduce-overhead", "cudagraphs", "cpp_wrapper"],
)
def test_what_is_served_otherwise_is_said_once(checked: ProgramGpu, options: dict[str, Any], says: str) -> None:
    with pytest.warns(UserWarning, match="torch.compile") as said:
        for shift in (1, 2):
            agrees(lambda x, shift=shift: x.sin() + shift, drawn(20), **options)
    assert [says in str(one.message) for one in said if "torch.compile" in str(one.message)] == [True]


def test_a_graph_that_cannot_be_compiled_runs_as_written_and_says_why(checked: ProgramGpu) -> None:
    def refuse(graph: Any) -> None:
        raise RuntimeError("planted")

    options = {"post_grad_custom_post_pass": refuse}
    with pytest.warns(UserWarning, match="run eagerly on the simulated GPU.*planted") as said:
        for shift in (1, 2):
            agrees(lambda x, shift=shift: x.sin() + shift, drawn(20), options=options)
    assert len([one for one in said if "planted" in str(one.message)]) == 1 and not checked.kernels
    agrees(lambda x: x.sin() + 3, drawn(20))
    assert len(checked.kernels) == 1


def test_the_quickest_predicted_choice_is_taken(checked: ProgramGpu) -> None:
    """A product of torch has no predicted time, so that a kernel of Triton is chosen, by its time."""
    a, b = drawn(32, 32).half(), drawn(32, 32).half()
    with torch._inductor.config.patch(max_autotune_gemm_search_space="DEFAULT", max_autotune_gemm=True):
        agrees(lambda a, b: (a @ b).relu(), a, b)
    assert any(name.startswith("triton_tem") for name in checked.kernels), checked.kernels


def test_moves_between_devices_are_traced(checked: ProgramGpu) -> None:
    def moved(x: Any) -> Any:
        y = torch.ones(3).cuda() + x.type_as(x.half()) + torch.tensor([1.0, 2.0, 3.0], device="cuda")
        return y.cpu() + 1, y.to("cuda", torch.float64)

    agrees(moved, drawn(3))
    assert not checked.findings, checked.findings


_BETWEEN = """
import gc, sys, torch, triton, tilewright as tw
from triton import language as tl
seen = torch.cuda.is_available()  # torch's C++ keeps the number
@triton.jit
def add(x, out, n: tl.constexpr):
    tl.atomic_add(out, tl.sum(tl.load(x + tl.arange(0, n)), 0))
def summed(x):
    out = torch.zeros(1, device="cuda")
    add[(1,)](x, out, 8)
    return out
def loss(x):
    return (x * 3).cos().sum()
if sys.argv[1:]:
    torch.compile(loss)(torch.zeros(3))
for gpu in ("a100", "h100"):
    with tw.simulated_gpu(gpu) as device:
        torch.compile(loss)(torch.ones(5, device="cuda", requires_grad=True)).backward()
        print(len(device.kernels))
        assert torch.compile(summed, fullgraph=True)(torch.ones(8, device="cuda")).tolist() == [8]
    gc.collect()
    assert torch.cuda.is_available() == seen and torch.compile(loss)(torch.zeros(3)) == 3
"""


@pytest.mark.parametrize("early", [[], ["early"]], ids=["GPU first", "host first"])
def test_a_process_compiles_for_the_host_too_and_its_kernels_outlive_the_gpu(early: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_BETWEEN)
    done = subprocess.run([sys.executable, program, *early], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr and "eagerly" not in done.stderr, done.stderr
    assert done.stdout.split() == ["2", "2"]
