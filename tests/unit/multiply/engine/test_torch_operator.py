"""`tilewright.torch.matmul`: an operator of torch's, with gradients, traced by `torch.compile`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.cuda import current

torch: Any = pytest.importorskip("torch", reason="not run: torch is not installed")
from tilewright.torch import matmul  # noqa: E402  # torch may be missing

SHAPES = [((5, 4), (4, 3)), ((4,), (4, 3)), ((5, 4), (4,)), ((4,), (4,)), ((2, 1, 5, 4), (3, 4, 2))]


def drawn(*shape: int, **asked: Any) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), **asked)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_the_bits_are_those_of_arrays(shapes: Any) -> None:
    a, b = (drawn(*shape) for shape in shapes)
    found = matmul(a, b)
    assert isinstance(found, torch.Tensor) and found.is_contiguous()
    np.testing.assert_array_equal(found.numpy(), tw.matmul(a.numpy(), b.numpy()))
    assert matmul(a.double(), b).dtype == torch.float64 and matmul(a, b, dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_torchs_own_check_of_operators_passes(shapes: Any) -> None:
    a, b = (drawn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    torch.library.opcheck(torch.ops.tilewright.matmul.default, (a, b), {"order": "fast"})


def test_gradients_are_those_of_differences_and_of_torchs_product() -> None:
    a, b = (drawn(*shape, dtype=torch.float64, requires_grad=True) for shape in SHAPES[-1])
    assert torch.autograd.gradcheck(matmul, (a, b)) and torch.autograd.gradgradcheck(matmul, (a, b))
    weights = drawn(2, 3, 5, 2, dtype=torch.float64)
    ours = torch.autograd.grad((matmul(a, b) * weights).sum(), (a, b))
    theirs = torch.autograd.grad((torch.matmul(a, b) * weights).sum(), (a, b))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_compile_traces_it_whole_and_for_any_extents() -> None:
    def layer(x: Any, w: Any) -> Any:
        return matmul(x, w).relu() * 2

    traced = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (7, 9):
        x, w = drawn(rows, 4, requires_grad=True), drawn(4, 3, requires_grad=True)
        found = traced(x, w)
        torch.testing.assert_close(found, layer(x, w), rtol=0, atol=0)
        ours, plain = (torch.autograd.grad(y.sum(), (x, w)) for y in (found, layer(x, w)))
        assert all(torch.equal(one, other) for one, other in zip(ours, plain, strict=True))
    with pytest.raises(Exception, match=r"must equal `a.shape\[-1\]`"):
        traced(drawn(7, 5), drawn(4, 3))


def test_compile_breaks_its_graph_once_at_a_disabled_product() -> None:
    from torch._dynamo.utils import counters

    left = torch.compiler.disable(tw.matmul)
    traced = torch.compile(lambda x, w: left(x + 1, w) * 2, backend="aot_eager")
    counters.clear()
    x, w = torch.ones(3, 4), torch.ones(4, 5)
    assert (traced(x, w) == 16).all() and sum(counters["graph_break"].values()) == 1


def test_fake_tensors_have_the_dtypes_of_products() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for kinds in [("float32", "int64"), ("bfloat16", "bfloat16"), ("uint8", "int8"), ("bool", "bool")]:
            a, b = (torch.empty(2, 3, 3, dtype=getattr(torch, kind)) for kind in kinds)
            assert matmul(a, b).shape == (2, 3, 3)
            fake = matmul(a, b).dtype
            with pytest.raises(ArgumentValueError, match="`order` must be one of"):
                matmul(a, b, order="quick")
            assert str(fake) == f"torch.{tw.matmul(*(np.zeros((3, 3), _numpy(kind)) for kind in kinds)).dtype}"


def test_it_is_traced_for_tensors_on_a_gpu_that_is_not_there() -> None:
    """`torch.compile` traces with such tensors on a machine with a GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        x, w = (torch.empty(*shape, device="cuda", dtype=torch.float16) for shape in ((2, 3, 4), (4, 5)))
        traced = make_fx(lambda x, w: matmul(x, w, dtype=torch.float32).relu())(x, w)
    made = {node.target: node.meta["val"] for node in traced.graph.nodes if node.op == "call_function"}
    product = made[torch.ops.tilewright.matmul.default]
    assert (product.device.type, product.shape, product.dtype) == ("cuda", (2, 3, 5), torch.float32)
    assert len(made) == 2, "one node for the product, one for what follows it"


def _numpy(kind: str) -> Any:
    import ml_dtypes

    return getattr(ml_dtypes, kind, kind)


def test_arguments_are_checked_before_torch_prints_them() -> None:
    a = torch.ones(2, 3)
    with pytest.raises(TypeError, match=r"^`b` must be a tensor .got ndarray.; pass torch.as_tensor.b.*matmul$"):
        matmul(a, np.ones((3, 2), np.float32))
    assert matmul(a, a.T, dtype="float64", acc_dtype="float64").dtype == torch.float64


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    with tw.simulated_gpu("a100") as device:
        yield device


def test_compiled_functions_take_the_tensors_of_a_simulated_gpu() -> None:
    """They are compiled for each GPU, or run as written where torch is for the CPU, and compiled again without one."""
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    compiled = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=backend)  # type: ignore[untyped-decorator]
    def layer(x: Any, w: Any) -> Any:
        return matmul(x, w).relu() * 2

    a, b = drawn(8, 16), drawn(16, 4)
    for number in (1, 2):
        with tw.simulated_gpu("a100") as gpu:
            x, w = a.cuda().requires_grad_(), b.cuda()
            before = gpu.launches
            found = layer(x, w)
            graphs = number if torch.backends.cuda.is_built() else 0
            assert (gpu.launches, found.device.type, len(compiled)) == (before + 1, "cuda", graphs)
            assert torch.equal(found.detach().cpu(), matmul(a, b).relu() * 2)
            found.sum().backward()
            assert x.grad.device.type == "cuda"
            module = torch.compile(torch.nn.Linear(16, 4).cuda(), fullgraph=True)
            assert module(x).device.type == "cuda"
    layer(a, b)
    assert len(compiled) == graphs + 1


def test_heads_are_multiplied_in_one_launch_and_so_are_their_gradients(gpu: Any) -> None:
    """Each is a launch for the batch, and one for each operand whose rows have gaps."""
    a, b = drawn(2, 9, 3, 8).transpose(1, 2), drawn(8, 5).expand(2, 3, 8, 5)
    x, y = a.cuda().requires_grad_(), b.cuda().requires_grad_()
    expected = [one.clone().requires_grad_() for one in (a, b)]
    torch.matmul(*expected).square().sum().backward()
    before = gpu.launches
    found = matmul(x, y)
    assert gpu.launches - before <= 2
    assert torch.equal(found.detach().cpu(), matmul(a, b))
    of_x, of_y = torch.autograd.grad(found.square().sum(), (x, y))
    for one, wanted in ((of_x, expected[0]), (of_y, expected[1])):
        assert torch.allclose(one.cpu(), wanted.grad, atol=1e-4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        made = matmul(x, y)
    with torch.no_grad():
        x.mul_(2)
    before = gpu.launches
    graph.replay()
    assert gpu.launches - before <= 2
    assert torch.equal(made.cpu(), matmul(a * 2, b))


@pytest.mark.parametrize("multiply", [matmul, tw.matmul], ids=["operator", "plain"])
def test_tensors_of_a_simulated_gpu_are_multiplied_by_it(gpu: Any, multiply: Any) -> None:
    a, b = drawn(20, 30), drawn(30, 9)
    x, y = a.cuda().requires_grad_(), b.cuda().requires_grad_()
    before = gpu.launches
    found = multiply(x, y)
    assert found.is_cuda and gpu.launches == before + 1
    assert torch.equal(found.detach().cpu(), matmul(a, b))
    of_x, of_y = torch.autograd.grad(found.sum(), (x, y))
    assert of_x.is_cuda and of_y.is_cuda and gpu.launches > before + 2
    of_ones = torch.ones(20, 9)
    assert torch.equal(of_x.cpu(), matmul(of_ones, b.T)) and torch.equal(of_y.cpu(), matmul(a.T, of_ones))
    with torch.no_grad():
        unrecorded = tw.matmul(x, y)
    assert not unrecorded.requires_grad and torch.equal(unrecorded.cpu(), matmul(a, b))
    with pytest.raises(ArgumentTypeError, match="`out` must be left out for tensors that require a gradient"):
        tw.matmul(x, y, torch.zeros(20, 9).cuda())


@pytest.mark.parametrize("multiply", [matmul, tw.matmul], ids=["operator", "plain"])
def test_gradients_on_a_gpu_are_those_of_differences(gpu: Any, multiply: Any) -> None:
    a, b = (drawn(*shape, dtype=torch.float64).cuda().requires_grad_() for shape in ((3, 4), (4, 2)))
    assert torch.autograd.gradcheck(multiply, (a, b))


@pytest.mark.parametrize("order", ["canonical", "tf32x3"])
@pytest.mark.parametrize("kind", ["bfloat16", "float8_e5m2", "int64", "uint16", "bool"])
def test_dtypes_of_tensors_on_a_gpu(gpu: Any, kind: str, order: Any) -> None:
    values = np.random.default_rng(0).integers(0, 4, (2, 20, 20))  # sums of them are bfloat16 numbers
    a, b = (torch.as_tensor(x).to(getattr(torch, kind)) for x in values)
    found = matmul(a.cuda(), b.cuda(), order=order)
    assert found.is_cuda and found.dtype == matmul(a, b).dtype
    expected = values[0] @ values[1]
    np.testing.assert_array_equal(found.cpu().to(torch.int64), expected != 0 if kind == "bool" else expected)


def test_tangents_follow_products_of_known_layouts(gpu: Any) -> None:
    from torch.autograd import forward_ad

    x, y, tangent = (drawn(6, 6).cuda() + place for place in range(3))
    tw.matmul(x, y)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(tw.matmul(forward_ad.make_dual(x, tangent), y))
        assert torch.equal(found.tangent.cpu(), tw.matmul(tangent, y).cpu())


def test_weights_are_multiplied_past_the_rules_where_nothing_is_recorded(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = drawn(6, 6).cuda(), torch.nn.Parameter(drawn(6, 6).cuda())
    with torch.no_grad():
        expected = tw.matmul(x, weight).cpu()
        monkeypatch.setattr("tilewright.multiply.engine.device_arrays._by_rules", None)
        assert torch.equal(tw.matmul(x, weight).cpu(), expected)


def test_torchs_stream_has_the_launch(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, asked = torch.eye(8).cuda(), []
    core = current.names()
    original = core.launch
    monkeypatch.setattr(core, "launch", lambda to, *rest: (asked.append(int(to.handle)), original(to, *rest)))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tw.matmul(x, x)
        matmul(x, x)
    tw.matmul(x, x)
    assert asked == [stream.cuda_stream, stream.cuda_stream, torch.cuda.default_stream().cuda_stream]
    assert asked[0] != asked[2]


def test_signs_that_torch_changes_lazily_are_changed(gpu: Any) -> None:
    a, b = (np.random.default_rng(seed).integers(-9, 9, (6, 6)).astype("f4") for seed in (0, 1))
    x, y = torch.as_tensor(a).cuda(), torch.as_tensor(b).cuda()
    tw.matmul(x, y)  # the layouts are known
    assert ((-a) @ b == tw.matmul(torch._neg_view(x), y).cpu().numpy()).all()
    assert (a @ (-b) == tw.matmul(x, torch._neg_view(y)).cpu().numpy()).all()
    fused = tw.matmul(x, y, epilogue=lambda total, z: total + z, epilogue_args=(torch._neg_view(x),))
    assert (a @ b - a == fused.cpu().numpy()).all()
    out = torch.zeros(6, 6).cuda()
    for options in ({}, {"alpha": 2}):
        with pytest.raises(ArgumentValueError, match="`out` must hold its elements' own signs"):
            tw.matmul(x, y, torch._neg_view(out), **options)
    assert not out.cpu().any()


@pytest.mark.parametrize("kind", ["float8_e4m3fnuz", "float8_e8m0fnu"])
def test_dtypes_that_no_kernel_reads_are_refused_by_name(gpu: Any, kind: str) -> None:
    x = torch.ones(4, 4).to(getattr(torch, kind)).cuda()
    with pytest.raises(ArgumentTypeError, match=f"`a` must be of numbers that kernels read .got torch.{kind}"):
        tw.matmul(x, x)


def test_torch_compile_may_be_loaded_while_a_simulated_gpu_is_in_place() -> None:
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    script = """
import torch, tilewright as tw
with tw.simulated_gpu("a100"):
    from tilewright.torch import matmul
    traced = torch.compile(lambda x: matmul(x, x) + 1, fullgraph=True, backend="aot_eager")
    state, found = torch.cuda.get_rng_state(), traced(torch.eye(3))
    assert (found == torch.eye(3) + 1).all() and (torch.cuda.get_rng_state() == state).all()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
