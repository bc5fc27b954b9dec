"""torch's device `cuda` on the simulated GPU."""

from __future__ import annotations

import copy
import ctypes
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import machine
from tilewright.frontends.benchmarks import do_bench
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.run.whole_products import whole_product

torch: Any = pytest.importorskip("torch", reason="not run: torch is not installed")


def test_a_tensor_names_its_device(gpu: SimulatedGpu) -> None:
    x = torch.rand(5, device="cuda")
    assert x.is_cuda and not x.is_cpu and str(x.device) == "cuda:0" and x.get_device() == 0
    assert gpu.memory.extent(x.data_ptr()) == (x.data_ptr(), 20)
    assert repr(torch.arange(3, device="cuda")) == "tensor([0, 1, 2], device='cuda:0')"
    assert repr(torch.nn.Parameter(x[:0])).startswith("Parameter containing:\ntensor([], device='cuda:0'")
    assert f"{torch.ones(1, device='cuda')[0]:.2f}" == "1.00"


def test_tensors_are_made_on_the_device_and_moved() -> None:
    with tw.simulated_gpu("a100"):
        host = torch.tensor([1.0, 2.0, 3.0])
        for made in (
            host.cuda(), host.to("cuda"), host.to(device=torch.device("cuda")),
            torch.tensor([1.0, 2, 3], device="cuda"),
            torch.as_tensor(np.array([1, 2, 3], np.float32), device="cuda"), torch.empty(3, device="cuda").copy_(host),
        ):  # fmt: skip
            assert made.is_cuda and made.tolist() == [1, 2, 3]
            assert not made.cpu().is_cuda and made.to("cpu").numpy().tolist() == [1, 2, 3]
            assert made.to("cuda") is made and made.cuda() is made
        half = host.to("cuda", torch.float16)
        assert half.is_cuda and half.dtype == torch.float16 and half.float().is_cuda
        assert not torch.zeros_like(half, device="cpu").is_cuda
        with torch.device("cuda"):
            assert torch.ones(2).is_cuda and torch.tensor([1]).is_cuda
        assert torch.tensor([1]).is_cuda is False
    assert torch.tensor([1]).tolist() == [1]


def test_results_and_views_are_on_the_device(gpu: SimulatedGpu) -> None:
    x = torch.eye(4, device="cuda")
    for made in (x + 1, x @ x, x.sum(), x.max(dim=0).values, x.new_zeros(3), torch.zeros_like(x), x.unbind()[0]):
        assert made.is_cuda and gpu.memory.extent(made.data_ptr()) is not None
    assert x[1:, 2].data_ptr() == x.data_ptr() + (4 + 2) * 4 and x.t().data_ptr() == x.data_ptr()
    x[0] = 7
    x += 1
    assert x[0].tolist() == [8, 8, 8, 8] and x.cuda() is x


@pytest.mark.parametrize("change", [
    lambda x: x.squeeze_(0), lambda x: x.unsqueeze_(1), lambda x: x.transpose_(1, 2), lambda x: x.resize_(2, 2),
    lambda x: x.as_strided_((2, 2), (2, 1), 1), lambda x: x.swapaxes_(0, 1).squeeze_(),
])  # fmt: skip
def test_operations_in_place_change_shape_and_strides(gpu: SimulatedGpu, change: Any) -> None:
    host = torch.arange(6.0).reshape(1, 2, 3)
    x = host.to("cuda")
    assert change(x) is x
    change(host)
    assert (x.shape, x.stride(), x.storage_offset()) == (host.shape, host.stride(), host.storage_offset())
    assert x.tolist() == host.tolist() and (x + 1).tolist() == (host + 1).tolist()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("size", [0, 2, 9], ids=["empty", "smaller", "larger"])
def test_results_are_put_in_tensors_of_another_size(gpu: SimulatedGpu, size: int) -> None:
    x, out, places = torch.tensor([3.0, 1.0, 2.0], device="cuda"), torch.empty(size, device="cuda"), torch.empty(
        size, dtype=torch.int64, device="cuda"
    )  # fmt: skip
    assert torch.add(x, 1, out=out) is out and out.shape == (3,) and (out + 0).tolist() == [4, 2, 3]
    torch.sort(x, out=(out, places))
    assert out.tolist() == [1, 2, 3] and places.tolist() == [1, 2, 0]
    for one in (out, places):
        assert gpu.memory.extent(one.data_ptr()) is not None
    grown = x.resize_(5)
    assert grown is x and x.shape == (5,) and x[:3].tolist() == [3, 1, 2] and x.fill_(2).tolist() == [2] * 5
    assert gpu.memory.extent(x.data_ptr()) is not None


@pytest.mark.parametrize("make", [
    lambda x: x.new(2, 3), lambda x: x.new([1, 2]), lambda x: torch.ones(2).type_as(x), lambda x: x.new_tensor([1]),
    lambda x: torch.from_dlpack(x.view(4)), lambda x: torch.ones(2).type(x.type()),
    lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
])  # fmt: skip
def test_tensors_like_one_on_the_device_are_there(gpu: SimulatedGpu, make: Any) -> None:
    x = torch.ones(4, device="cuda", dtype=torch.float16)
    made = make(x)
    assert made.is_cuda and made.dtype == torch.float16 and gpu.memory.extent(made.data_ptr()) is not None


def test_other_devices_and_layouts_are_not_taken_for_the_gpu(gpu: SimulatedGpu) -> None:
    x = torch.eye(2, device="cuda")
    assert x.to("meta").is_meta and torch.zeros_like(x, device="meta").is_meta
    assert x.__dlpack_device__() == (2, 0) and torch.from_dlpack(x).data_ptr() == x.data_ptr()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [
    lambda x: x.to_sparse(), lambda x: x.cpu().to_sparse().cuda(), lambda x: x.cpu().to_sparse_csr().to("cuda"),
    lambda x: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device="cuda"),
    lambda x: torch.sparse_csr_tensor([0, 1, 2], [0, 1], x[0], (2, 2)),
    lambda x: torch.zeros(2, layout=torch.sparse_coo, device="cuda"),
    lambda x: torch.nested.nested_tensor([x[0], x[:, 0]]),
    lambda x: torch.nested.nested_tensor([torch.ones(2)], device="cuda"),
    lambda x: torch.nested.nested_tensor([torch.ones(2)]).cuda(),
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
])  # fmt: skip
def test_tensors_that_are_no_array_are_refused(gpu: SimulatedGpu, make: Any) -> None:
    with pytest.raises(NotImplementedError, match="must be dense"):
        make(torch.eye(2, device="cuda"))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(gpu: SimulatedGpu, kind: str) -> None:
    layer, x = getattr(torch.nn, kind)(3, 4), torch.rand(5, 2, 3)
    on_gpu = copy.deepcopy(layer).cuda()
    found = on_gpu(x.cuda())[0]
    assert torch.allclose(found.cpu(), layer(x)[0], atol=1e-6)
    found.sum().backward()
    assert on_gpu.weight_ih_l0.grad.is_cuda


def test_states_of_random_numbers_and_statistics_of_memory(gpu: SimulatedGpu) -> None:
    states = torch.cuda.get_rng_state_all()
    first = torch.rand(3, device="cuda").tolist()
    torch.cuda.set_rng_state_all(states)
    assert torch.rand(3, device="cuda").tolist() == first and torch.cuda.initial_seed() == torch.initial_seed()
    with torch.random.fork_rng():
        torch.rand(1, device="cuda")
    kept = torch.zeros(1000, device="cuda")
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated() >= kept.nbytes
    assert "allocated_bytes.all.peak" in torch.cuda.memory_summary()
    if hasattr(torch.accelerator, "memory_allocated"):
        assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
        assert torch.accelerator.max_memory_reserved() == torch.cuda.max_memory_reserved()


@pytest.mark.parametrize("draw", [
    lambda x: torch.rand(4, device="cuda"), lambda x: x.normal_(), torch.nn.functional.dropout, torch.rand_like,
    lambda x: torch.multinomial(x, 4), lambda x: torch.randperm(40, device="cuda"),
])  # fmt: skip
def test_the_device_has_random_numbers_of_its_own(gpu: SimulatedGpu, draw: Any) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    for seed in (torch.manual_seed, torch.cuda.manual_seed, torch.cuda.manual_seed_all):
        torch.manual_seed(3)
        seed(5)
        first, second = (draw(torch.ones(40, device="cuda")).tolist() for _ in range(2))
        state = torch.cuda.default_generators[0].get_state()
        seed(5)
        assert draw(torch.ones(40, device="cuda")).tolist() == first != second
        torch.cuda.set_rng_state(state)
        assert draw(torch.ones(40, device="cuda")).tolist() not in (first, second)
    torch.manual_seed(3)
    draw(torch.ones(40, device="cuda"))
    assert torch.equal(torch.rand(4), wanted)


def test_a_vector_times_a_matrix_is_a_vector(gpu: SimulatedGpu) -> None:
    a, b = torch.rand(3), torch.rand(3, 4)
    found = a.cuda() @ b.cuda()  # torch removes an axis of the product in place
    assert found.shape == (4,) and torch.equal(found.cpu(), a @ b)


@pytest.mark.parametrize("multiply", [torch.matmul, tw.matmul], ids=["torch", "tilewright"])
def test_transforms_of_functions(gpu: SimulatedGpu, multiply: Any) -> None:
    host = torch.rand(3, 4), torch.rand(4, 5)
    x, weight = (one.cuda() for one in host)
    for transformed in (
        lambda m, x, w: torch.func.grad(lambda x: m(x, w).sum())(x), lambda m, x, w: torch.vmap(lambda x: m(x, w))(x),
        lambda m, x, w: torch.func.jvp(lambda x: m(x, w), (x,), (x,))[1],
        lambda m, x, w: torch.func.jacrev(lambda x: m(x, w))(x),
    ):  # fmt: skip
        found = transformed(multiply, x, weight)
        assert found.is_cuda and torch.allclose(found.cpu(), transformed(torch.matmul, *host))


@pytest.mark.parametrize("size", [20 << 30, 1 << 43], ids=["the GPU's", "the host's"])
def test_too_large_tensors_are_torch_s_error_of_memory(size: int) -> None:
    with tw.simulated_gpu("t4"):
        small = torch.zeros(1, device="cuda", dtype=torch.uint8)
        makers = [lambda: torch.empty(size, dtype=torch.uint8, device="cuda")]
        makers += [lambda: small.expand(size).clone()] * (size > 1 << 40)
        for make in makers:
            with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
                make()


def test_amounts_of_memory() -> None:
    with tw.simulated_gpu("t4"):
        torch.cuda.reset_peak_memory_stats()
        x = torch.zeros(1 << 20, device="cuda")
        used, (free, total) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
        assert used == 4 << 20 and total - free == torch.cuda.memory_reserved() >= used
        del x
        assert torch.cuda.memory_allocated() == 0 and torch.cuda.max_memory_allocated() >= used
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == torch.cuda.memory_reserved() < used


def test_tensors_are_saved_and_loaded(gpu: SimulatedGpu, tmp_path: Path) -> None:
    layer, path = torch.nn.Linear(3, 2).to("cuda"), tmp_path / "layer.pt"
    torch.save(layer.state_dict(), path)
    places = ((None, True), ("cpu", False), ("cuda", True), (torch.device("cuda", 0), True))
    calls = ((lambda storage, place: storage, False), (lambda storage, place: storage.cuda(), True))
    for where, is_cuda in (*places, *calls, ({"cuda:0": "cpu"}, False)):
        found = torch.load(path, map_location=where)
        assert {name: one.is_cuda for name, one in found.items()} == {"weight": is_cuda, "bias": is_cuda}
        assert found["weight"].tolist() == layer.weight.tolist()
        layer.load_state_dict(found)
    torch.save(layer, path)
    found = torch.load(path, weights_only=False)
    assert found.weight.is_cuda and found(torch.ones(1, 3, device="cuda")).requires_grad
    with pytest.raises(RuntimeError, match="CUDA device 1"):
        torch.load(path, map_location="cuda:1", weights_only=False)


def test_pickles_keep_device_views_and_parameters(gpu: SimulatedGpu) -> None:
    x = torch.arange(6, device="cuda", dtype=torch.float16).reshape(2, 3)
    parameter = torch.nn.Parameter(x.clone())
    both, row, empty, made, host = pickle.loads(pickle.dumps([x, x[1], torch.empty(0, 3, device="cuda"), parameter,
                                                             x.cpu()]))  # fmt: skip
    assert both.is_cuda and row.tolist() == [3, 4, 5] and both.dtype == torch.float16
    assert empty.is_cuda and empty.shape == (0, 3) and not host.is_cuda
    assert isinstance(made, torch.nn.Parameter) and made.is_cuda and made.requires_grad
    assert x.untyped_storage().is_cuda and not x.cpu().untyped_storage().is_cuda
    assert not x.untyped_storage().cpu().is_cuda and x.cpu().untyped_storage().cuda().is_cuda


@pytest.mark.parametrize(("name", "multiply"), [("new", lambda x: x * 2), ("in_place", lambda x: x.add_(x))])
def test_a_program_s_operators_get_tensors_on_the_device(gpu: SimulatedGpu, name: str, multiply: Any) -> None:
    seen = []

    def body(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.is_cuda and gpu.memory.extent(x.data_ptr()) is not None)
        return multiply(x.clone())

    def on_host(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("called with tensors on the device")

    name = f"test_operators_{name}"
    library = torch.library.Library(name, "DEF")
    for one in ("both", "gpu", "any"):
        library.define(f"{one}(Tensor x) -> Tensor")
    library.impl("both", body, "CUDA")
    library.impl("both", on_host, "CPU")
    library.impl("gpu", body, "CUDA")
    library.impl("any", body, "CompositeExplicitAutograd")
    custom = torch.library.custom_op(f"{name}::custom", body, mutates_args=(), schema="(Tensor x) -> Tensor")
    operators = getattr(torch.ops, name)
    for call in (operators.both, operators.gpu, operators.any, custom):
        found = call(torch.ones(3, device="cuda"))
        assert found.is_cuda and found.tolist() == [2, 2, 2]
    assert seen == [True] * 4
    with pytest.raises(NotImplementedError, match="gpu"):
        operators.gpu(torch.ones(3))
    assert torch.relu(torch.ones(2, device="cuda")).tolist() == [1, 1]


def test_operators_of_torch_that_a_program_replaces_for_gpus(gpu: SimulatedGpu) -> None:
    library = torch.library.Library("aten", "IMPL")
    try:
        for name in ("trunc", "abs"):
            library.impl(name, lambda x: torch.full_like(x, 7), "CUDA")
            call = getattr(torch, name)
            assert call(torch.ones(2, device="cuda")).tolist() == [7, 7] and call(torch.ones(2)).tolist() == [1, 1]
    finally:
        library._destroy()


def test_modes_and_transforms_see_operations_that_need_no_gradients(gpu: SimulatedGpu) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(operation))
            return operation(*args, **(kwargs or {}))

    x, y = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")
    with Mode():
        x + y, x @ y
    assert seen == ["aten.add.Tensor", "aten.mm.default"]
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, y) * 3
        assert torch.autograd.forward_ad.unpack_dual(dual).tangent.tolist() == [[3, 3]] * 2
    weight = torch.ones(2, 2, device="cuda", requires_grad=True)
    assert (x * weight).requires_grad and (x @ weight).requires_grad and not (x + y).requires_grad
    with torch.no_grad():
        assert not (x * weight).requires_grad
    with torch.inference_mode():
        assert (x + y).is_inference()
    assert torch.add(x, y, alpha=2).tolist() == [[3, 3]] * 2 and torch.sum(x, dim=0, keepdim=True).shape == (1, 2)


def test_results_have_the_strides_of_the_cpu_s(gpu: SimulatedGpu) -> None:
    host = torch.arange(24.0).reshape(2, 3, 4)
    for make in (
        lambda x: x + 1, lambda x: x.transpose(0, 2) * 2, lambda x: x[:, :1].transpose(0, 1) + 0, lambda x: x.sum(),
        lambda x: x.to(torch.bfloat16).mT.clone(), lambda x: x.to(torch.complex64) + 1j, lambda x: x[0, :0] + 1,
        lambda x: torch.empty_like(x.permute(2, 0, 1)).copy_(x.permute(2, 0, 1)), lambda x: x > 5,
    ):  # fmt: skip
        found, wanted = make(host.cuda()), make(host)
        assert (found.stride(), found.dtype, found.shape) == (wanted.stride(), wanted.dtype, wanted.shape)
        assert torch.equal(found.cpu(), wanted)
        assert found.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()


def test_kernels_that_torch_compiles_from_text(gpu: SimulatedGpu) -> None:
    if not hasattr(torch.cuda, "_compile_kernel") or not torch.version.cuda:
        pytest.skip("not run: this torch compiles no kernels")
    text = (
        'extern "C" __global__ void add(float *x, int step, int n) '
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += step; }"
    )
    add, x, pinned = torch.cuda._compile_kernel(text, "add"), torch.ones(100, device="cuda"), torch.ones(3).pin_memory()
    add((1, 1, 1), (128, 1, 1), (x, 2, 100), stream=torch.cuda.Stream())
    add((1, 1, 1), (32, 1, 1), (pinned, 3, 2))
    assert x.tolist() == [3] * 100 and pinned.tolist() == [4, 4, 1]
    with pytest.raises(ValueError, match="pinned CPU tensors"):
        add((1, 1, 1), (32, 1, 1), (torch.ones(3), 3.0, 2))


@pytest.mark.parametrize(("text", "says"), [
    ("*(int *)((char *)x + 2) = 1;", "misaligned address"), ("x[1 << 28] = 1;", "an illegal memory access"),
    ("__trap();", "unspecified launch failure"),
])  # fmt: skip
def test_the_error_of_a_failed_launch_stays(gpu: SimulatedGpu, text: str, says: str) -> None:
    if not hasattr(torch.cuda, "_compile_kernel") or not torch.version.cuda:
        pytest.skip("not run: this torch compiles no kernels")
    wrong = torch.cuda._compile_kernel(f'extern "C" __global__ void wrong(int *x) {{ {text} }}', "wrong")
    x = torch.zeros(8, dtype=torch.int32, device="cuda")
    event, again = torch.cuda.Event(), lambda: wrong((1, 1, 1), (1, 1, 1), (x,))
    for use in (again, again, x.sum, x.tolist, event.query):
        with pytest.raises(RuntimeError, match=f"CUDA error: {says}"):
            use()
    gpu.reset()
    assert torch.zeros(2, device="cuda").tolist() == [0, 0]


def test_a_stream_as_a_context_is_the_current_one(gpu: SimulatedGpu) -> None:
    outer, inner = torch.cuda.Stream(), torch.cuda.Stream()
    with outer as entered, inner, outer:
        assert entered is outer and torch.cuda.current_stream() == outer
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="not run: this torch compiles them (test_torch_compile.py)")
def test_compiled_functions_say_once_that_they_run_as_written() -> None:
    def line(x: torch.Tensor) -> torch.Tensor:
        return 2 * x + 1

    x = torch.ones(3)
    for _ in range(2):  # each GPU says it
        with tw.simulated_gpu("a100"), pytest.warns(UserWarning, match="run eagerly") as said:
            first, second = torch.compile(line), torch.compile(torch.nn.Linear(3, 2).cuda())
            assert first(x.cuda()).tolist() == [3, 3, 3]
            assert second(x.cuda()).is_cuda
        assert len([one for one in said if "eagerly" in str(one.message)]) == 1


def test_other_libraries_arrays_become_tensors(gpu: SimulatedGpu) -> None:
    cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

    array = cuda.to_device(np.arange(12, dtype=np.float32).reshape(3, 4))[:, ::2]
    for made in (torch.from_dlpack(array), torch.as_tensor(array, device="cuda"), torch.asarray(array, device="cuda")):
        assert made.is_cuda and made.data_ptr() == array.__cuda_array_interface__["data"][0]
        assert (made + 1).tolist() == [[1, 3], [5, 7], [9, 11]]
    assert torch.tensor(array, device="cuda").data_ptr() != made.data_ptr()
    assert torch.from_dlpack(np.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("index", [
    lambda d: torch.tensor([0], device=d), lambda d: torch.tensor([True, False, True], device=d),
    lambda d: (..., torch.tensor([1, 0], device=d)),
], ids=["numbers", "mask", "last axis"])  # fmt: skip
def test_an_index_is_on_the_host_or_with_the_tensor(gpu: SimulatedGpu, index: Any) -> None:
    host, x = torch.arange(3.0), torch.arange(3.0, device="cuda")
    assert x[index("cuda")].tolist() == x[index("cpu")].tolist() == host[index("cpu")].tolist()
    for use in (lambda: host[index("cuda")], lambda: operator.setitem(host, index("cuda"), 1.0)):
        with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
            use()
    assert host.tolist() == [0, 1, 2]


def test_values_to_store_are_with_the_tensor_unless_they_are_copied(gpu: SimulatedGpu) -> None:
    host, x = torch.arange(3.0), torch.arange(3.0, device="cuda")
    x[:2], host[1:], x[torch.tensor([2])] = torch.full((2,), 7.0), torch.full((2,), 5.0, device="cuda"), 1.0
    assert x.tolist() == [7, 7, 1] and host.tolist() == [0, 5, 5] and host[torch.tensor(1, device="cuda")] == 5
    for target, at, other in ((x, [0, 1], "cpu"), (host, [0, 1], "cuda"), (x, torch.tensor([0, 2]), "cpu")):
        with pytest.raises(RuntimeError, match="same device"):
            target[at] = torch.ones(2, device=other)


@pytest.mark.parametrize("use", [
    lambda x: torch.ones(2, device="cuda:1"), lambda x: x.cuda(1), lambda x: x.cpu().to("cuda:1"), lambda x: x.to(1),
    lambda x: torch.zeros_like(x, device="cuda:1"), lambda x: torch.tensor([1], device="cuda:1"),
    lambda x: torch.cuda.set_device(1), lambda x: torch.nn.Linear(2, 2).to("cuda:2"),
    lambda x: torch.cuda.synchronize(1),
])  # fmt: skip
def test_there_is_no_second_gpu(gpu: SimulatedGpu, use: Any) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        use(torch.ones(2, device="cuda:0"))
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(1)


def test_calls_that_torch_refuses_on_a_gpu_are_refused(gpu: SimulatedGpu) -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match=r"found at least two devices, cuda:0 and cpu! \(when calling add\)"):
        x + torch.ones(3)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.asarray(x)
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]  # numbers of the host are accepted


def test_gradients_and_modules(gpu: SimulatedGpu) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.is_cuda and x.grad.tolist() == [2, 4]
    host = torch.tensor([3.0], requires_grad=True)
    (host.cuda() * 2).cpu().sum().backward()
    assert host.grad.tolist() == [2] and not host.grad.is_cuda
    layer = torch.nn.Linear(2, 3).to("cuda")
    layer(x.detach()).sum().backward()
    assert layer.weight.is_cuda and layer.weight.grad.is_cuda and copy.deepcopy(layer).weight.is_cuda


def test_a_lazy_module_moves_to_the_device_once_its_parameters_have_shapes(gpu: SimulatedGpu) -> None:
    module = torch.nn.LazyLinear(3).double()
    with pytest.raises(NotImplementedError, match="must have a shape before they move to the simulated GPU"):
        module.cuda()
    module(torch.ones(2, 4, dtype=torch.float64))
    assert module.cuda()(torch.ones(2, 4, device="cuda", dtype=torch.float64)).is_cuda


def test_the_device_describes_itself() -> None:
    with tw.simulated_gpu("a100") as gpu:
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        assert torch.cuda.get_device_name() == gpu.record.name
        assert torch.cuda.get_device_capability() == (8, 0)
        assert torch.cuda.get_device_properties(0).multi_processor_count == 108
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            assert torch.cuda.current_stream() == stream != torch.cuda.default_stream()
        assert torch.cuda.current_stream().cuda_stream == 0
        torch.ones(2, device="cuda").record_stream(stream)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        x = torch.ones(1000, device="cuda")
        assert torch.cuda.memory_allocated() == before + 4000
        del x
        assert torch.cuda.memory_allocated() == before


def test_everything_is_restored() -> None:
    before = torch.cuda.is_available, torch.tensor, torch.cuda.Stream
    with tw.simulated_gpu() as gpu:
        x = torch.ones(3, device="cuda")
        assert gpu.memory.extent(x.data_ptr())
    assert (torch.cuda.is_available, torch.tensor, torch.cuda.Stream) == before
    assert "to" not in vars(torch.Tensor) and "cuda" not in vars(torch.Tensor)
    with pytest.raises(tw.TilewrightError, match="must run inside"):
        x + 1
    with tw.simulated_gpu():
        assert torch.ones(3, device="cuda").tolist() == [1, 1, 1]


def test_torch_counts_its_devices_again_after_a_gpu_has_ended() -> None:
    """Its C++ counts once for a process, and must not have counted the simulated GPU."""
    before = torch.cuda.device_count()
    for _ in range(2):
        with tw.simulated_gpu("h100"):
            assert torch.cuda.is_available() and torch.cuda.device_count() == 1
            assert torch.cuda.get_device_name().startswith("NVIDIA H100")
            with torch.cuda.device(0):
                assert torch.zeros(2, device="cuda").sum() == 0
        assert torch.cuda.device_count() == before and torch.cuda.is_available() == bool(before)
        if not before:
            with pytest.raises(
                (RuntimeError, AssertionError),
                match=r"No CUDA GPUs are available|not compiled with CUDA|no simulated GPU is installed",
            ):
                torch.ones(1, device="cuda")


def test_reads_of_unwritten_memory_are_found() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        torch.empty(4, device="cuda").cpu()
        torch.empty(4, device="cuda").zero_().cpu()
        assert [finding.code for finding in gpu.findings] == ["TW205"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x.sum()", True),
        ("x + 1", True),
        ("torch.allclose(x, torch.zeros_like(x))", True),
        ("x[0, 0].item()", True),
        ("x.add_(1)", True),
        ("x @ torch.ones_like(x)", True),
        ("x.requires_grad_().exp()", True),  # by the dispatcher, as gradients are recorded
        ("x[1:].fill_(2); x.mean()", True),
        ("x[1:].fill_(2); x[1:].mean()", False),
        ("x.zero_().sum()", False),
        ("x.normal_(); x += 1", False),
        ("torch.mm(torch.ones(4, 4, device='cuda'), torch.ones(4, 4, device='cuda'), out=x); x.sum()", False),
        ("torch.where(torch.ones(4, 4, device='cuda') > 0, 0.0, x).sum()", False),
        ("x.clone(), torch.cat([x, x]), torch.full_like(x, True), x.new_zeros(2), x.t().shape", False),
        ("x.copy_(torch.ones(4, 4)); x.sum()", False),
        ("y.copy_(x); y[:] = x; y.index_put_((torch.arange(4, device='cuda'),), x); y.masked_fill_(y > 0, 2)", False),
        ("torch.addmm(x, y, y, beta=0), x.addmm_(y, y, beta=0), torch.baddbmm(x, y[None], y[None], beta=0)", False),
        ("torch.addmm(x, y, y)", True),
        ("torch.addmm(y, x, y, beta=0)", True),
        ("x[:0].sum(), x[:, :0] + 1", False),
        ("x.view(-1)[::3] + 1", True),
        ("torch.empty((), device='cuda') + 1", True),
    ],
)
def test_operations_that_compute_with_unwritten_elements_are_found(code: str, found: bool) -> None:
    with tw.simulated_gpu(check=True) as gpu:
        exec(code, {"torch": torch, "x": torch.empty(4, 4, device="cuda"), "y": torch.ones(4, 4, device="cuda")})
        assert {finding.code for finding in gpu.findings} == ({"TW205"} if found else set())


def test_sums_of_halves_are_as_exact_as_a_gpus(gpu: SimulatedGpu) -> None:
    given = torch.randn((1151, 64), dtype=torch.float16, device="cuda")
    weight, bias = (torch.ones(64, dtype=torch.float16, device="cuda", requires_grad=True) for _ in range(2))
    x = torch.randn_like(given)
    torch.nn.functional.layer_norm(x, (64,), weight, bias).backward(given)
    normal = torch.nn.functional.layer_norm(x.cpu().double(), (64,))
    exact = given.cpu().double()
    assert bias.grad.dtype == torch.float16
    for found, wanted in ((bias.grad, exact), (weight.grad, exact * normal)):
        total = wanted.sum(0)
        off = (found.cpu() - total).abs() - 2**-11 * total.abs()  # more than half a unit in the last place
        assert float(off.max()) < 0.005


def test_a_tensor_can_be_printed_after_its_gpu_ended() -> None:
    with tw.simulated_gpu():
        x = torch.ones(3, device="cuda")
        assert repr(x) == "tensor([1., 1., 1.], device='cuda:0')"
    assert repr(AssertionError(x)) == "AssertionError(tensor(..., device='cuda:0', size=(3,), dtype=torch.float32))"


def bits(a: Any, b: Any, gpu: str = "h100") -> Any:
    """The product of two tensors of float16 by tensor cores, in float32."""
    left, right = (one.cpu().view(torch.uint16).numpy() for one in (a, b))
    return torch.from_numpy(whole_product(left, right, "f16", machine.gpu(gpu)))


def test_products_of_halves_have_the_bits_of_tensor_cores(gpu: SimulatedGpu) -> None:
    a, b = (torch.rand(shape, device="cuda").half() for shape in ((20, 300), (11, 300)))
    c, sums = torch.rand(11, device="cuda").half(), bits(a, b.T)
    assert (sums != a.cpu().float() @ b.cpu().float().T).any()  # they differ from the CPU's
    added, both = c.cpu().float() + sums, torch.stack((a, -a))
    for found, wanted in (
        (a @ b.T, sums), (torch.nn.functional.linear(a, b, c), added),
        (torch.addmm(c, a, b.T, alpha=0), c.expand(20, 11)),
        (torch.bmm(both, torch.stack((b.T, b.T)))[1], -sums),
        (torch.addmm(torch.full_like(c, float("nan")), a, b.T, beta=0, alpha=2), 2 * sums),
    ):  # fmt: skip
        assert found.is_cuda and torch.equal(found.cpu(), wanted.half().cpu())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        a @ b


def test_a_product_in_a_benchmark_is_made_when_it_is_read(gpu: SimulatedGpu) -> None:
    a, made = torch.rand((20, 30), device="cuda").half(), []
    assert np.isnan(do_bench(lambda: made.append(a @ a.T)))
    assert gpu.left_out and not ctypes.string_at(made[0].data_ptr(), 800).strip(b"\0")
    assert torch.equal(made[0].cpu(), bits(a, a.T).half()) and not gpu.left_out
    do_bench(lambda: a @ a.T)
    assert not gpu.left_out  # the result is unreferenced
    before, made = bits(a, a.T).half(), []
    do_bench(lambda: made.append(a @ a.T))
    a.zero_()  # memory that the product would read
    assert torch.equal(made[0].cpu(), before)


def test_generators_of_the_device_and_pinned_memory(gpu: SimulatedGpu) -> None:
    generator = torch.Generator(device="cuda").manual_seed(5)
    assert isinstance(generator, torch.Generator) and str(generator.device) == "cuda:0"
    first = torch.rand(4, device="cuda", generator=generator)
    generator.manual_seed(5)
    again = torch.empty(4, device="cuda").uniform_(generator=generator)
    assert again.is_cuda and torch.equal(first, again) and torch.Generator().device.type == "cpu"
    for draw in (
        torch.empty(4, device="cuda").normal_,
        lambda generator: torch.rand(4, device="cuda", generator=generator),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            draw(generator=torch.Generator())
    host = torch.ones(3)
    pinned, made = host.pin_memory(), torch.zeros(3, pin_memory=True)
    assert pinned.is_pinned() and made.is_pinned() and not host.is_pinned() and pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned() and gpu.memory.extent(pinned.data_ptr()) is not None
    pinned[0] = 7
    assert host[0] == 1 and pinned.to("cuda", non_blocking=True).tolist() == [7, 1, 1]
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        made.cuda().pin_memory()


def test_a_graph_runs_its_operations_again_on_the_same_memory(gpu: SimulatedGpu) -> None:
    x, total = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    graph, generator = torch.cuda.CUDAGraph(), torch.Generator(device="cuda").manual_seed(5)
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        summed = torch.zeros(4, device="cuda")
        summed += 2 * x
        total += summed.view(2, 2).flatten()
        largest = summed.max(dim=0).values
        address = torch.empty(4, device="cuda").data_ptr()
        drawn = torch.rand(4, device="cuda", generator=generator)
    assert total.tolist() == [0, 0, 0, 0] and not torch.cuda.is_current_stream_capturing()
    for value, seen in ((1, 2), (5, 12)):
        x.fill_(value)
        graph.replay()
        assert summed.tolist() == [2 * value] * 4 and total.tolist() == [seen] * 4 and largest.item() == 2 * value
    generator.manual_seed(5)
    assert torch.rand(8, device="cuda", generator=generator)[4:].tolist() == drawn.tolist()  # the second replay's
    addresses = address, summed.data_ptr()
    del summed
    assert all(gpu.memory.extent(one) for one in addresses)
    graph.reset()
    assert not any(gpu.memory.extent(one) for one in addresses)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x.nonzero(), lambda x: x.resize_(5),
        lambda x: torch.ones(3).cuda(), lambda x: torch.cuda.synchronize(), lambda x: torch.cuda.Event().synchronize(),
        lambda x: torch.cuda.CUDAGraph().capture_begin(), lambda x: torch.cuda.CUDAGraph().replay(),
    ],
    ids=["item", "cpu", "nonzero", "resize", "cuda", "synchronize", "event", "capture", "replay"],
)  # fmt: skip
def test_a_capture_refuses_what_needs_results(gpu: SimulatedGpu, call: Any) -> None:
    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="must not be called while a graph is captured"), torch.cuda.graph(graph):
        call(x)
    assert x.sum().item() == 3  # the capture has ended
    with pytest.raises(RuntimeError, match="needs a captured graph"):
        graph.replay()


def test_a_graph_has_the_launches_of_other_packages_in_its_stream(gpu: SimulatedGpu) -> None:
    cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

    @cuda.jit
    def add(out: Any) -> None:
        out[cuda.threadIdx.x] += 1

    out, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[1, 4, cuda.external_stream(torch.cuda.current_stream().cuda_stream)](cuda.as_cuda_array(out))
    assert out.tolist() == [0, 0, 0, 0]
    graph.replay()
    graph.replay()
    assert out.tolist() == [2, 2, 2, 2]
    with pytest.raises(tw.KernelError, match="launches must be in its stream"), torch.cuda.graph(graph):
        add[1, 4](cuda.as_cuda_array(out))


def test_a_graph_has_the_streams_that_join_it(gpu: SimulatedGpu) -> None:
    x, graph, other = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        first = torch.cuda.current_stream()
        other.wait_stream(first)
        with torch.cuda.stream(other):
            x += 1
            assert torch.cuda.is_current_stream_capturing()
        first.wait_event(other.record_event())
        x *= 2
    graph.replay()
    assert x.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="streams joined"), torch.cuda.graph(graph):
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            x += 1
    with pytest.raises(RuntimeError, match="not captured"), torch.cuda.graph(graph), torch.cuda.stream(other):
        assert not torch.cuda.is_current_stream_capturing()
        x += 1
    assert x.tolist() == [2] * 4


def test_a_capture_of_the_driver_has_operations_of_torch(gpu: SimulatedGpu) -> None:
    calls = pytest.importorskip("cuda.bindings.driver", reason="not run: cuda.bindings is not installed")
    x, stream = torch.ones(4, device="cuda"), torch.cuda.Stream()
    assert calls.cuStreamBeginCapture(stream.cuda_stream, 0)[0] == 0
    with torch.cuda.stream(stream):
        doubled = x * 2
    for call in (x.cpu, torch.cuda.synchronize, torch.cuda.CUDAGraph().capture_begin):
        with pytest.raises(RuntimeError, match="while a graph is captured"):
            call()
    with pytest.raises(RuntimeError, match="got another graph's"):
        torch.cuda.CUDAGraph().capture_end()
    code, graph = calls.cuStreamEndCapture(stream.cuda_stream)
    assert code == 0
    x.fill_(3)
    assert calls.cuGraphLaunch(calls.cuGraphInstantiate(graph, 0)[1], stream.cuda_stream)[0] == 0
    assert doubled.tolist() == [6] * 4


@pytest.mark.parametrize("order", ["canonical", "fast"])
def test_a_graph_has_products_and_their_memory(gpu: SimulatedGpu, order: Any) -> None:
    """Operands with gaps are copied to memory of the product's own, which the graph keeps."""
    a, b = (torch.randint(-9, 9, (40, 96), device="cuda").half() for _ in range(2))
    out, graph = torch.zeros((40, 40), device="cuda", dtype=torch.float16), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tw.matmul(a[:, ::2], b.T[::2], out=out, order=order)
        made = tw.matmul(a, b.T, order=order)
    assert not out.any()
    others = [torch.full((512,), 7, device="cuda") for _ in range(30)]  # in memory that the capture has freed
    for scale in (1, 2):
        a *= scale
        graph.replay()
        assert torch.equal(out.cpu(), tw.matmul(a.cpu()[:, ::2], b.cpu().T[::2]))  # small integers: exact in any order
        assert torch.equal(made.cpu(), tw.matmul(a.cpu(), b.cpu().T))
    assert all((one == 7).all() for one in others)
    held = gpu.memory.allocated_bytes
    graph.reset()
    assert gpu.memory.allocated_bytes < held


def test_a_captured_training_step_and_graphed_callables(gpu: SimulatedGpu) -> None:
    layer, x = torch.nn.Linear(3, 2).to("cuda"), torch.rand((4, 3), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(x).square().sum().backward()
    x.copy_(torch.rand(4, 3))
    graph.replay()
    found = layer.weight.grad.cpu()
    layer.zero_grad()
    layer(x).square().sum().backward()
    assert torch.allclose(found, layer.weight.grad.cpu())
    graphed = torch.cuda.make_graphed_callables(torch.nn.Linear(3, 2).to("cuda"), (x,))
    given = torch.rand((4, 3), device="cuda")
    assert torch.allclose(graphed(given), given @ graphed.weight.T + graphed.bias)


def test_memory_that_a_replay_leaves_unset_is_unwritten() -> None:
    with tw.simulated_gpu(check=True) as gpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            unset, zeros = torch.empty(4, device="cuda"), torch.zeros(4, device="cuda")
        graph.replay()
        zeros.cpu()
        assert not gpu.findings
        unset.cpu()
        assert [finding.code for finding in gpu.findings] == ["TW205"]


def test_data_that_a_program_sets_takes_effect(gpu: SimulatedGpu) -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device="cuda"))
    parameter.data = torch.zeros(2, 4, device="cuda").T
    assert parameter.shape == (4, 2) and parameter.sum().item() == 0
    parameter.data.add_(1)
    assert parameter.sum().item() == 8
    layer = torch.nn.Linear(4, 4).cuda().half()
    assert layer(torch.ones(1, 4, device="cuda", dtype=torch.float16)).dtype == torch.float16


@pytest.mark.parametrize("move", [
    lambda m: m.cuda(), lambda m: m.to("cuda"), lambda m: m.cuda().half().cpu().to("cuda", torch.float32),
    lambda m: [setattr(one, "data", one.data.cuda()) for one in m.parameters()], lambda m: m.double().to("cuda:0"),
])  # fmt: skip
def test_parameters_stay_the_same_objects_when_they_move(gpu: SimulatedGpu, move: Any) -> None:
    first, last = torch.nn.Embedding(3, 4), torch.nn.Linear(4, 3, bias=False)
    last.weight, before = first.weight, first.weight
    module = torch.nn.ModuleList([first, last])
    before.note, before.grad = "tied", torch.ones(3, 4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    move(module)
    assert first.weight is last.weight is before and before.is_cuda and before.note == "tied"
    assert isinstance(before, torch.nn.Parameter) and before.requires_grad and len([*module.parameters()]) == 1
    optimizer.zero_grad()
    start = before.detach().clone()
    last(torch.ones(1, 4, device="cuda", dtype=before.dtype)).sum().backward()
    optimizer.step()
    assert torch.equal(first.weight, start - 0.5)


def test_data_of_a_host_tensor_and_of_one_on_the_device_change_places(gpu: SimulatedGpu) -> None:
    x, host = torch.ones(2, device="cuda"), torch.zeros(3)
    x.data, host.data = torch.zeros(3), torch.full((2,), 7.0, device="cuda")
    assert (x.is_cuda, x.tolist(), host.is_cuda, (host + 1).tolist()) == (False, [0] * 3, True, [8, 8])
    with torch.device("meta"):
        layer = torch.nn.Linear(2, 2)
    assert layer.to_empty(device="cuda").weight.is_cuda
    kept = torch.nn.Linear(2, 2)
    result = kept(torch.ones(1, 2)).sum()  # its graph has the parameters: new ones move
    assert kept.cuda().weight.is_cuda and not result.is_cuda


def test_a_copied_module_keeps_its_parameters(gpu: SimulatedGpu) -> None:
    layer = torch.nn.Linear(2, 2).cuda()
    copied = copy.deepcopy(layer)
    assert isinstance(copied.weight, torch.nn.Parameter) and len(list(copied.parameters())) == 2
    with torch.no_grad():
        copied.weight.zero_()
    assert layer.weight.abs().sum().item() > 0 and copied.weight.abs().sum().item() == 0


def _attributed() -> Any:
    parameter = torch.nn.Parameter(torch.ones(2, device="cuda"))
    parameter.note = "mine"
    return parameter


@pytest.mark.parametrize(("make", "seen"), [
    (lambda c: (c, c), lambda x: x[0] is x[1]),
    (lambda c: (c, c.t()), lambda x: x[0].zero_() is x[0] and not x[1].any()),
    (lambda c: (c, c[1]), lambda x: x[1].storage_offset() == 3 and x[0].fill_(5) is x[0] and x[1].tolist() == [5] * 3),
    (torch.nn.Buffer, lambda x: isinstance(x, torch.nn.Buffer) and x.persistent),
    (lambda c: torch.nn.Parameter(c, False), lambda x: isinstance(x, torch.nn.Parameter) and not x.requires_grad),
], ids=["twice", "transposed", "row", "buffer", "frozen"])  # fmt: skip
def test_copies_share_memory_and_kind_as_the_originals_do(gpu: SimulatedGpu, make: Any, seen: Any) -> None:
    x = torch.arange(6.0, device="cuda").view(2, 3)
    assert seen(copy.deepcopy(make(x))) and x.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_attributes_of_parameters_are_copied_and_pickled(gpu: SimulatedGpu) -> None:
    for copied in (copy.copy(_attributed()), pickle.loads(pickle.dumps(_attributed()))):
        assert isinstance(copied, torch.nn.Parameter) and copied.is_cuda and copied.note == "mine"
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(_attributed() * 2)


def test_a_tensor_names_its_class_and_takes_others(gpu: SimulatedGpu) -> None:
    x = torch.ones(2, device="cuda")
    assert x.type() == "torch.cuda.FloatTensor" and x.type("torch.cuda.HalfTensor").dtype == torch.float16
    assert x.type(torch.int32).is_cuda and not x.type("torch.LongTensor").is_cuda


def test_a_failed_launch_is_a_runtime_error(gpu: SimulatedGpu) -> None:
    from tilewright.simulate.device.launching import driver_error

    assert isinstance(driver_error("CUDA_ERROR_INVALID_VALUE", "no"), RuntimeError)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_the_dtypes_of_products(gpu: SimulatedGpu, dtype: Any) -> None:
    layer, x = torch.nn.Linear(8, 4).cuda(), torch.ones(2, 8, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        made = layer(x)
        assert (made.dtype, (x @ x.T).dtype, (x + x).dtype) == (dtype, dtype, torch.float32) and made.is_cuda
        normal = torch.nn.functional.layer_norm(made, (4,))
        wide = (made.softmax(0), torch.exp(made), made.sum(), normal, made**2, torch.nn.functional.mse_loss(made, made))
        assert {one.dtype for one in wide} == {torch.float32} and (made + made).dtype == dtype
    made.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32 and layer.weight.grad.tolist() == [[2] * 8] * 4
    assert layer(x).dtype == torch.float32


_HALF, _WIDE = torch.float16, torch.float32


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda h, f: torch.mv(f, f[0]), _HALF), (lambda h, f: torch.addr(f, f[0], f[0]), _HALF),
    (lambda h, f: f @ f[0], _HALF), (lambda h, f: torch.mm(f, f, out=torch.empty_like(f)), _WIDE),
    (lambda h, f: torch.dot(h[0], f[0]), _WIDE), (torch.linalg.cross, _WIDE),
    (lambda h, f: f.scatter_add(0, torch.zeros(1, 3, dtype=torch.int64, device="cuda"), h), _WIDE),
    (lambda h, f: f.index_put((torch.tensor([0], device="cuda"),), h[0]), _WIDE), (lambda h, f: h.exp_(), _HALF),
    (lambda h, f: torch.nn.functional.rms_norm(h, (3,)), _WIDE), (lambda h, f: torch.linalg.vector_norm(h), _WIDE),
    (lambda h, f: torch.nn.functional.huber_loss(h, h), _WIDE), (lambda h, f: h.sum(dtype=_HALF), _HALF),
    *((lambda h, f, kind=kind: getattr(torch.nn, kind)(3, 4).cuda()(f)[0], _HALF) for kind in ("LSTM", "GRU", "RNN")),
])  # fmt: skip
def test_autocast_has_the_lists_of_gpus(gpu: SimulatedGpu, call: Any, wanted: Any) -> None:
    half, wide = torch.ones(3, 3, device="cuda", dtype=_HALF), torch.ones(3, 3, device="cuda")
    with torch.autocast("cuda", dtype=_HALF):
        assert call(half, wide).dtype == wanted


def test_autocast_of_the_host_leaves_the_device_alone(gpu: SimulatedGpu) -> None:
    x, half = torch.ones(2, 2, device="cuda"), torch.full((2,), 0.5, device="cuda", dtype=_HALF)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == _WIDE and (x.cpu() @ x.cpu()).dtype == torch.bfloat16
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(half, half)


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_program_runs_in_backward_has_autocast_and_the_rules_of_devices(
    gpu: SimulatedGpu, reentrant: bool
) -> None:
    layer, x, seen = torch.nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda", requires_grad=True), []
    drawn: list[Any] = []

    def part(x: Any) -> Any:
        seen.append(layer(x).dtype)
        drawn.append(torch.rand(3, device="cuda").tolist())
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(4)
        return layer(x)

    with torch.autocast("cuda", dtype=torch.bfloat16):
        made = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
    made.float().sum().backward()
    assert seen == [torch.bfloat16] * 2 and x.grad.is_cuda and drawn[0] == drawn[1]


@pytest.mark.parametrize(("make", "shapes"), [
    (torch.nn.utils.rnn.pad_sequence, [(2, 3), (4, 3), (1, 3)]),
    (lambda x: torch.nn.utils.rnn.pad_sequence(x, True, -1.0, "left"), [(2,), (4,)]),
    (lambda x: torch.vander(x[0]), [(3,)]), (lambda x: torch.vander(x[0], 5, True), [(3,)]),
])  # fmt: skip
def test_functions_that_make_their_result_below_the_dispatcher(gpu: SimulatedGpu, make: Any, shapes: Any) -> None:
    needs = len(shapes) > 1  # torch's own gradient of `vander` fails on the host, too
    there = [torch.rand(one, device="cuda", requires_grad=needs) for one in shapes]
    host = [one.detach().cpu().requires_grad_(needs) for one in there]
    found, wanted = make(there), make(host)
    assert found.is_cuda and torch.allclose(found.cpu(), wanted)
    if needs:
        found.pow(2).sum().backward()
        wanted.pow(2).sum().backward()
        for one, x in zip(there, host, strict=True):
            assert one.grad.is_cuda and torch.allclose(one.grad.cpu(), x.grad)


def test_lengths_of_sequences_are_on_the_host(gpu: SimulatedGpu) -> None:
    rnn, x, lengths = torch.nn.utils.rnn, torch.rand(3, 2, 4), torch.tensor([3, 2])
    for kind in ("GRU", "LSTM", "RNN"):
        layer = getattr(torch.nn, kind)(4, 5)
        wanted = layer(rnn.pack_padded_sequence(x, lengths))[0]
        found = layer.cuda()(rnn.pack_padded_sequence(x.cuda(), lengths))[0]
        assert found.data.is_cuda and not found.batch_sizes.is_cuda
        padded, again = rnn.pad_packed_sequence(found)
        assert padded.is_cuda and not again.is_cuda and again.tolist() == [3, 2]
        assert torch.allclose(found.data.cpu(), wanted.data, atol=1e-6)
    assert [one.tolist() for one in torch.tensor_split(x[:, 0, 0].cuda(), torch.tensor([1]))] == [
        [x[0, 0, 0].item()], x[1:, 0, 0].tolist()
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="same device"):
        layer(x)


def test_operators_that_a_program_made_for_the_host_alone_are_refused(gpu: SimulatedGpu) -> None:
    described: Any = {"mutates_args": (), "schema": "(Tensor x) -> Tensor"}
    body = torch.library.custom_op("test_host_alone::double", lambda x: x * 2, device_types="cpu", **described)
    assert body(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match=r"test_host_alone::double.*'CUDA' backend"):
        body(torch.ones(2, device="cuda"))
    both = torch.library.custom_op("test_host_alone::cast", lambda x: x.clone(), **described)
    both.register_autocast("cuda", torch.float16)
    with torch.autocast("cuda"):
        assert both(torch.ones(2, device="cuda")).dtype == torch.float16


class _Both(torch.autograd.Function):  # type: ignore[misc]
    """Two results on the device, and one on the host."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        return x * 2, x.cpu() * 3, x.sum()

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        assert [one.is_cuda for one in gradients] == [True, False, True]
        return 2 * gradients[0] + 3 * gradients[1].cuda() + gradients[2]


@pytest.mark.parametrize(("at", "wanted"), [(0, 2), (1, 3), (2, 1)])
def test_gradients_that_nobody_computed_are_zeros_on_the_device_of_the_result(
    gpu: SimulatedGpu, at: int, wanted: int
) -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    _Both.apply(x)[at].sum().backward()
    assert x.grad.tolist() == [wanted] * 3


@pytest.mark.parametrize("overload", ["", ".of"])
def test_a_program_s_gradients_for_gpus_alone(gpu: SimulatedGpu, overload: str) -> None:
    library = torch.library.Library(f"test_gradients{len(overload)}", "DEF")
    library.define(f"double{overload}(Tensor x) -> Tensor")
    library.impl(f"double{overload}", lambda x: x * 2, "CUDA")
    double = getattr(torch.ops, library.ns).double

    class Double(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return double(x)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient * 7

    library.impl(f"double{overload}", Double.apply, "AutogradCUDA")
    for call in (double, getattr(double, overload[1:] or "default")):
        x = torch.ones(2, device="cuda", requires_grad=True)
        call(x).sum().backward()
        assert x.grad.tolist() == [7, 7]


def test_checks_of_a_program_s_operators(gpu: SimulatedGpu) -> None:
    described: Any = {"schema": "(Tensor(a!) x) -> ()", "mutates_args": {"x"}}
    right = torch.library.custom_op("test_checked::right", lambda x: None if x.add_(1) is x else 1, **described)
    torch.library.opcheck(right, (torch.zeros(3, device="cuda"),))
    wrong = torch.library.custom_op(
        "test_checked::wrong", lambda x: x.add_(1) * 2, schema="(Tensor x) -> Tensor", mutates_args=()
    )
    with pytest.raises(Exception, match="not defined as mutable but was mutated"):
        torch.library.opcheck(wrong, (torch.zeros(3, device="cuda"),), test_utils="test_schema")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_operators_that_take_functions(gpu: SimulatedGpu) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.ones(3, device="cuda")
    made = torch.ops.higher_order.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: (x - 1,), (x,))
    assert made[0].is_cuda and made[0].tolist() == [2, 2, 2]
    q = torch.rand(1, 1, 16, 16, device="cuda")
    wanted = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert torch.allclose(flex_attention(q, q, q), wanted, atol=1e-5)


def test_streams_are_those_of_torch(gpu: SimulatedGpu) -> None:
    stream, event = torch.cuda.Stream(priority=-1), torch.cuda.Event()
    torch.accelerator.set_stream(stream)
    assert isinstance(stream, torch.Stream) and torch.cuda.current_stream() == stream and stream.device.type == "cuda"
    assert torch.accelerator.current_stream() == stream and torch.cuda.ExternalStream(stream.cuda_stream) == stream
    assert event.cuda_event and str(event.device) == "cuda:0"
    torch.accelerator.set_stream(torch.cuda.default_stream())
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.Stream(1)
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated() and not torch.cuda.memory_snapshot()
    facts = torch.cuda.get_device_properties(0)
    assert facts.clock_rate == gpu.record.boost_mhz * 1000 and not facts.is_multi_gpu_board and facts.uuid


def test_a_simulated_gpu_within_another_has_tensors_too(gpu: SimulatedGpu) -> None:
    x = torch.ones(2, device="cuda")
    with tw.simulated_gpu("t4"):
        assert torch.zeros(3, device="cuda").sum().item() == 0
    assert (x + torch.ones(2, device="cuda")).tolist() == [2, 2]
