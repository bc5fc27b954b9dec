"""Tensors on the simulated GPU: torch's CPU kernels compute them, and their elements are in simulated memory.

To torch's C++ they are CPU tensors whose operations go to `__torch_dispatch__`; in Python their device is `cuda:0`. The
result of an operation is copied into simulated memory, where kernels find it.

Source: PyTorch, "Extending PyTorch", sections on `__torch_function__` and `__torch_dispatch__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import torch

from tilewright.frontends.torch import autocast, operators, reads, shortcuts
from tilewright.frontends.torch.captured import UNSET, captured
from tilewright.frontends.torch.composed import COMPOSED
from tilewright.frontends.torch.devices import (
    CUDA,
    LEAVES,
    PLAIN,
    is_traced,
    marked,
    refuse_mixed,
    require_only_gpu,
    require_working,
    tensors_of,
    with_tensors,
)
from tilewright.frontends.torch.generators import drawing, require_of
from tilewright.frontends.torch.memory import allocated, copied, extent_bytes
from tilewright.frontends.torch.products import PRODUCTS, Product
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import current_gpu, installed_gpu
from tilewright.simulate.observer import ArgumentFact

#: Operations that the CPU accumulates in half precision for half inputs, and how many results are halves again.
_SUMMED_IN_FLOAT = MappingProxyType({"native_layer_norm": 1, "native_layer_norm_backward": 3})
#: The operation whose second result, the lengths, stays on the host.
_PACKS = "_pack_padded_sequence"
#: Its inverse, which torch makes of operations that start with a tensor on the host.
_PADS = "_pad_packed_sequence"
#: Attributes of a tensor that are not the program's.
OWN_ATTRIBUTES = frozenset({"elements", "_is_param"})


class DeviceTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor on the simulated GPU; `elements` is a CPU tensor that views its memory."""

    elements: torch.Tensor

    @property
    def device(self) -> torch.device:
        """The device of the tensor."""
        return CUDA

    @property
    def elem(self) -> torch.Tensor:
        """Its elements, which torch's check of an operator's schema (`opcheck`) compares before and after a call."""
        return self.elements

    @property
    def is_cuda(self) -> bool:
        """True, as for tensors on a GPU."""
        return True

    @property
    def is_cpu(self) -> bool:
        """False, as for tensors on a GPU."""
        return False

    def get_device(self) -> int:
        """The device's number."""
        return 0

    def record_stream(self, stream: Any) -> None:
        """Keep its memory until a stream's work is done, which it already is."""

    def cpu(self, memory_format: Any = torch.preserve_format) -> torch.Tensor:
        """A copy on the host."""
        return _ToHost.apply(self)

    def type(self, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        """The name of its class, or its elements in another dtype or class, as `torch.Tensor.type`."""
        if dtype is None:
            return str(super().type()).replace("torch.", "torch.cuda.", 1)
        if isinstance(dtype, torch.dtype):
            return self.to(dtype, non_blocking=non_blocking)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        host = torch.empty(0, device="cpu").type(name.replace("torch.cuda.", "torch."))
        return (self if name.startswith("torch.cuda.") else self.cpu()).to(host.dtype)

    def new(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A tensor of its dtype, as `torch.Tensor.new`."""
        return to_device(self.elements.new(*args, **kwargs))

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        """A tensor of data, of its dtype and on its device unless others are given, as `torch.Tensor.new_tensor`."""
        return torch.tensor(data, dtype=dtype or self.dtype, device=device or CUDA, requires_grad=requires_grad)

    def tolist(self) -> Any:
        """The elements as Python numbers."""
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Raises TypeError unless forced, as torch does for tensors on any GPU."""
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            f"can't convert {CUDA} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    def __coerce_same_metadata_as_tangent__(self, *_: Any) -> DeviceTensor:
        """Itself: compiled code that expects the gradient to be a plain tensor of a GPU takes it."""
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        """Its device for other libraries: number 0 of CUDA's kind, 2."""
        return 2, 0

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def __repr__(self, **options: Any) -> str:
        """The elements in torch's format, while the GPU exists; an exception may hold a tensor longer."""
        if installed_gpu() is None:
            return f"tensor(..., device='{CUDA}', size={tuple(self.shape)}, dtype={self.dtype})"
        text = str(super().__repr__(**options))
        return text.replace("Parameter(", "Parameter containing:\n", 1)[:-1] if text.startswith("Parameter(") else text

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if not isinstance(self, torch.nn.Parameter):
            copied: torch.Tensor = super().__deepcopy__(memo)
            return copied
        if id(self) not in memo:
            memo[id(self)] = torch.nn.Parameter(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __getstate__(self) -> dict[str, Any]:
        """The attributes that a program gave it."""
        return {name: value for name, value in vars(self).items() if name not in OWN_ATTRIBUTES}

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Its elements and device, as torch pickles tensors of any GPU."""
        if isinstance(self, torch.nn.Parameter):
            return torch.nn.Parameter.__reduce_ex__(self, protocol)
        _read_by_host(self)
        elements = self.elements.detach()
        if not elements.untyped_storage().nbytes():
            nothing = marked(torch.UntypedStorage(0))
            elements.set_(nothing, elements.storage_offset(), elements.size(), elements.stride())
        return elements.requires_grad_(self.requires_grad).__reduce_ex__(protocol)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
                "var.detach() to get Variable that doesn't require grad."
            )
        size = self.element_size()
        return {
            "shape": tuple(self.shape), "strides": tuple(step * size for step in self.stride()), "version": 2,
            "typestr": numpy_dtype(self.dtype).str, "data": (self.data_ptr(), False),
        }  # fmt: skip

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Reject mixed devices; then do what torch does."""
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if name == "__get__":
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args)
        casts, on_host = torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")
        if not (_all_there(args) and _all_there(kwargs.values())):
            refuse_mixed(function, args, kwargs)
        elif name in shortcuts.NAMES and not (casts or on_host):
            made = _made(function, args, kwargs)
            if made is not None:
                return made
        if name in COMPOSED:
            return COMPOSED[name](*args, **kwargs)
        require_of(CUDA, kwargs.get("generator"))
        own = operators.own(function, args, kwargs, ("AutocastCUDA", "AutogradCUDA") if casts else ("AutogradCUDA",))
        if own is not None:
            return own(*args, **kwargs)
        to_host = "device" in kwargs and kwargs["device"] is not None and torch.device(kwargs["device"]).type == "cpu"
        with torch._C.DisableTorchFunctionSubclass():
            if casts and name != "__set__":
                found = autocast.called(function, args, kwargs)
            elif on_host:
                found = autocast.plain(function, args, kwargs)
            else:
                found = function(*args, **kwargs)
        if name == _PADS:
            return to_device(found[0]), found[1]
        return found.cpu() if to_host and isinstance(found, DeviceTensor) else found

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation on the CPU, with its results on the device."""
        kwargs, gpu, known = kwargs or {}, current_gpu(), operators.facts(operation)
        if operators.is_programs_own(known):
            return operators.run(operation, args, kwargs)
        operators.refuse_host_alone(known)
        if known.captured and gpu.capturing is not None:
            return captured(gpu.capturing, operation, args, kwargs, _unset)
        given: dict[int, DeviceTensor] = {}
        plain_args, plain_kwargs = _elements(args, given), kwargs
        if kwargs:
            plain_kwargs = dict(zip(kwargs, _elements(kwargs.values(), given), strict=True))
            if kwargs.get("device") is not None and kwargs["device"].type != "meta":
                require_only_gpu(kwargs["device"])
                plain_kwargs["device"] = torch.device("cpu")
        product = Product.of(operation, plain_args, plain_kwargs, gpu.record) if known.name in PRODUCTS else None
        if product is not None and any(observer.leaves_out for observer in gpu.observers):
            return _left_out(gpu, product)
        if not known.is_view:
            if gpu.broken:
                require_working(gpu)
            if gpu.left_out:
                gpu.used(one.data_ptr() for one in given.values())
        written = [one for at, name in known.written for one in _at(args, kwargs, at, name)]
        if gpu.observers and known.reads:
            kept = set() if known.updates else set(map(id, written))
            if kwargs.get("beta") == 0:  # such products ignore what they would add to (torch.addmm)
                kept.add(id(args[0]))
            reads.report(gpu, (fact("", one) for one in given.values() if id(one) not in kept))
        if product is not None:
            return on_gpu(product.made(gpu.record))
        if written:
            results = _changed(gpu, operation, (args, kwargs), (plain_args, plain_kwargs), written, given)
            if known.in_place:
                _lay_out_again(args[0])
        else:
            results = _done(known, operation, plain_args, plain_kwargs)

        def on_device(one: Any) -> Any:
            found = given.get(id(one))
            if found is not None:
                return found
            if isinstance(one, DeviceTensor) or one.is_meta:
                return one
            return _seen(one) if known.is_view else on_gpu(one, unset=known.unset)

        if known.name == _PACKS:
            return on_device(results[0]), results[1]
        return with_tensors(on_device, results)


def _at(args: Sequence[Any], kwargs: dict[str, Any], at: int, name: str) -> list[DeviceTensor]:
    """The device tensors in an argument."""
    one = args[at] if at < len(args) else kwargs.get(name)
    return [one] if type(one) is DeviceTensor else [x for x in tensors_of(one) if isinstance(x, DeviceTensor)]


def _changed(
    gpu: SimulatedGpu,
    operation: Any,
    called: tuple[Sequence[Any], dict[str, Any]],
    plain: tuple[Sequence[Any], dict[str, Any]],
    written: Sequence[DeviceTensor],
    given: dict[int, DeviceTensor],
) -> Any:
    """The CPU's results of an operation that changes tensors on the device."""
    if gpu.left_out:
        gpu.changes(one.elements.data_ptr() for one in written)
    try:
        results = _done(operators.facts(operation), operation, *plain)
    except RuntimeError as error:
        if "resize storage that is not resizable" not in str(error):
            raise
        for one in written:
            one.elements = one.elements.clone()  # in memory of the host, which can grow
            given[id(one.elements)] = one
        results = _done(operators.facts(operation), operation, *with_tensors(_element, called))
    for one in written:
        _follow(one)
        if gpu.observers:
            report_written(gpu, one.elements)
    return results


def _made(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> DeviceTensor | None:
    """The new tensor of a function, from the CPU's kernel at once; None if the dispatcher has more to do."""
    gpu, kernels = current_gpu(), shortcuts.kernels(function)
    if kernels is None or not kernels.isdisjoint(torch.library._impls) or "out" in kwargs:
        return None
    if gpu.broken or gpu.left_out.launches or gpu.graphs.captures or not shortcuts.is_plain():
        return None
    given: dict[int, DeviceTensor] = {}
    plain = _elements(args, given)
    named = dict(zip(kwargs, _elements(kwargs.values(), given), strict=True)) if kwargs else kwargs
    if function.__name__ in shortcuts.PRODUCTS and any(one.dim() != 2 or one.dtype in autocast.HALVES for one in plain):
        return None
    with torch._C.DisableTorchFunctionSubclass():
        if torch.is_grad_enabled():
            for one in given.values():
                if one.requires_grad:
                    return None
        if gpu.observers and reads.are_read(function.__name__):
            reads.report(gpu, (fact("", one) for one in given.values()))
        return on_gpu(_on_host(function, plain, named))


#: Its name in torch's messages, as for tensors on any GPU.
DeviceTensor.__name__ = "tensor"


def _read_by_host(tensor: DeviceTensor) -> None:
    """Tell observers that the host reads a tensor."""
    gpu = current_gpu()
    require_working(gpu)
    gpu.used([tensor.data_ptr()])
    reads.report(gpu, [fact("", tensor)])


class _ToHost(torch.autograd.Function):  # type: ignore[misc]
    """Copies to the host; gradients go the other way."""

    @staticmethod
    def forward(context: Any, tensor: DeviceTensor) -> torch.Tensor:
        capturing = current_gpu().capturing
        if capturing is not None:
            capturing.refuse("cpu()")
        _read_by_host(tensor)
        return tensor.elements.clone()

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return on_gpu(gradients[0])


class _ToDevice(torch.autograd.Function):  # type: ignore[misc]
    """Copies to the device; gradients go the other way."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        capturing = current_gpu().capturing
        if capturing is not None:
            capturing.refuse("cuda()", "the host's memory is not pinned")
        return on_gpu(tensor.clone() if is_pinned(current_gpu(), tensor) else tensor)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return getattr(gradients[0], "elements", gradients[0]).clone()


def _unset(tensor: torch.Tensor) -> DeviceTensor:
    """A tensor on the device like one of the CPU, unwritten."""
    return on_gpu(tensor, unset=True)


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor copied to the device; a device tensor unchanged.

    Raises NotImplementedError: it is a parameter of a lazy module, and has no shape yet.
    """
    if isinstance(tensor, DeviceTensor):
        return tensor
    if torch.nn.parameter.is_lazy(tensor):
        raise NotImplementedError(
            f"parameters must have a shape before they move to the simulated GPU (got {type(tensor).__name__} of a "
            "lazy module); call the module on the host first"
        )
    _require_dense(tensor)
    moved: torch.Tensor = _ToDevice.apply(tensor)
    return moved


def on_gpu(tensor: torch.Tensor, *, unset: bool = False) -> DeviceTensor:
    """The device tensor of a CPU result: a view of simulated memory unchanged, anything else copied there.

    With `unset`, observers learn that nobody wrote its elements.
    """
    _require_dense(tensor)
    gpu, storage = current_gpu(), tensor.untyped_storage()
    if storage.nbytes() and gpu.memory.extent(storage.data_ptr()) is None:
        tensor = copied(gpu, tensor, unset=unset)
    return _seen(tensor)


def _require_dense(tensor: torch.Tensor) -> None:
    """Reject a tensor whose elements are not one array: a sparse, nested or quantized one."""
    kind = "nested" if tensor.is_nested else tensor.dtype if tensor.is_quantized else tensor.layout
    if kind != torch.strided:
        refuse_kind(kind)


def refuse_kind(kind: Any) -> NoReturn:
    """Reject a tensor of another kind.

    Raises NotImplementedError.
    """
    raise NotImplementedError(
        f"tensors on the simulated GPU must be dense, not sparse, nested or quantized (got {kind}); work with those on "
        "the host"
    )


def _seen(elements: torch.Tensor) -> DeviceTensor:
    """The device tensor of a view of simulated memory."""
    made: DeviceTensor = torch.Tensor._make_subclass(DeviceTensor, elements, elements.requires_grad)
    made.elements = elements
    return made


def _lay_out_again(tensor: DeviceTensor) -> None:
    """Give a tensor the shape and strides that an operation in place gave its elements."""
    elements = tensor.elements
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        tensor.set_(elements.untyped_storage(), elements.storage_offset(), elements.size(), elements.stride())


def is_pinned(gpu: SimulatedGpu, tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements are in pinned memory, which the GPU reaches."""
    extent = None if isinstance(tensor, DeviceTensor) or is_traced(tensor) else gpu.memory.extent(tensor.data_ptr())
    return extent is not None and extent[0] in gpu.pinned


def pinned(gpu: SimulatedGpu, tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a host tensor in pinned memory."""
    copy = torch.empty_like(tensor)
    storage = copy.untyped_storage()
    if storage.nbytes():
        memory = allocated(gpu, storage.nbytes(), pinned=True)
        copy.set_(memory.untyped_storage(), copy.storage_offset(), copy.size(), copy.stride())
    return copy.copy_(tensor)


def _follow(tensor: DeviceTensor) -> None:
    """Give a tensor what an operation made of its elements, if that has another size or left simulated memory."""
    elements = tensor.elements
    with torch._C.DisableTorchFunctionSubclass():
        if tensor.size() == elements.size() and tensor.data_ptr() == elements.data_ptr():
            return
    tensor.elements = on_gpu(elements).elements
    _lay_out_again(tensor)


def _left_out(gpu: SimulatedGpu, product: Product) -> DeviceTensor:
    """The result of a product that has not been computed yet."""
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        made = on_gpu(torch.zeros(product.shape, dtype=product.operands[-1].dtype))
    if made.elements.numel():
        product.leave_out(gpu, made.elements)
    return made


def report_written(gpu: SimulatedGpu, elements: torch.Tensor) -> None:
    """Report to observers that the host wrote a tensor's elements."""
    size = extent_bytes(elements)
    if size:
        gpu.wrote(elements.data_ptr(), size)


def fact(name: str, tensor: DeviceTensor) -> ArgumentFact:
    """The facts of a tensor that a kernel gets or the host reads."""
    size = tensor.element_size()
    strides = tuple(step * size for step in tensor.stride())
    return ArgumentFact(name, numpy_dtype(tensor.dtype), tuple(tensor.shape), strides, tensor.data_ptr())


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """NumPy's element type; bytes if it has none."""
    try:
        found: np.dtype[Any] = torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return np.dtype((np.void, dtype.itemsize))
    return found


def _element(one: Any) -> Any:
    return one.elements if isinstance(one, DeviceTensor) else one


def _elements(arguments: Iterable[Any], given: dict[int, DeviceTensor]) -> list[Any]:
    """Arguments with the elements of tensors on the device, which are added to `given` by the numbers of those."""

    def element(one: Any) -> Any:
        if isinstance(one, DeviceTensor):
            given[id(one.elements)] = one
            return one.elements
        return one

    return [one if type(one) in LEAVES else with_tensors(element, one) for one in arguments]


def _all_there(given: Iterable[Any]) -> bool:
    """Whether arguments have no tensors but those on the device, as far as that is quickly said."""
    for one in given:
        kind = type(one)
        if kind is not DeviceTensor and kind not in LEAVES and not (kind in PLAIN and _all_there(one)):
            return False
    return True


def _done(known: operators.Facts, operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The CPU's result of an operation, in float32 if a GPU accumulates in float32 and the CPU does not."""
    if known.draws:
        with drawing((*args, *kwargs.values())):
            return _on_host(operation, args, kwargs)
    again = _SUMMED_IN_FLOAT.get(known.name, 0)
    halves = [one.dtype for one in tensors_of(args) if one.dtype in autocast.HALVES] if again else []
    if not halves:
        return _on_host(operation, args, kwargs)
    made = operation(*with_tensors(autocast.widened, args), **kwargs)
    return tuple(one.to(halves[0]) if at < again and one is not None else one for at, one in enumerate(made))


def _on_host(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The CPU's result of an operation.

    Raises OutOfMemoryError, torch's: the host has no memory for it.
    """
    try:
        return operation(*args, **kwargs)
    except RuntimeError as error:
        if "DefaultCPUAllocator: can't allocate memory" not in str(error):
            raise
        wanted = str(error).partition("allocate ")[2].partition(" bytes")[0].split()[-1]
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {wanted} bytes, which the host of the simulated GPU does not have."
        ) from error


def factory(name: str) -> Callable[..., DeviceTensor]:
    """The replacement for a factory of `torch.ops.aten` on the device `cuda`."""
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def make(*args: Any, **kwargs: Any) -> DeviceTensor:
        require_only_gpu(kwargs["device"])
        capturing = current_gpu().capturing
        if capturing is not None:
            recorded: DeviceTensor = captured(capturing, operation, args, {**kwargs, "device": CUDA}, _unset)
            return recorded
        made = _done(operators.facts(operation), operation, args, {**kwargs, "device": torch.device("cpu")})
        return on_gpu(made, unset=packet in UNSET)

    return make
