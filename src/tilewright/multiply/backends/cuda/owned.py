"""GPU memory for results that JAX gets. Tilewright allocates it, because JAX's own arrays cannot be written.

Source: DLPack, C API (`dlpack.h`) and Python specification; CUDA Driver API, "Memory Management".
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any

import numpy as np

from tilewright.multiply.backends.cuda import current
from tilewright.multiply.problem.dtypes import element

Shape = tuple[int, ...]
#: DLPack's number of an NVIDIA GPU.
CUDA = 2
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_PYTHON: Any = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _PYTHON)
)
_is_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _PYTHON))
_tensor_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _PYTHON))
_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", _PYTHON))
_drop = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", _PYTHON))


def _deleted(tensor: int) -> None:
    """The tensor's deleter, which the consumer calls when it no longer needs the tensor."""
    _drop(_Tensor.from_address(tensor).owner)


def _unused(capsule: int) -> None:
    """The capsule's destructor. It deletes the tensor unless a consumer took it, which renames the capsule."""
    if _is_named(capsule, _NAME):
        _deleted(_tensor_of(capsule, _NAME))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_deleted)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def capsule(owner: Any, address: int, device: tuple[int, int], shape: Shape, kind: np.dtype[Any]) -> Any:
    """A DLPack capsule of a row-major array; `owner` stays alive until the consumer no longer needs it.

    >>> x = np.arange(3, dtype=np.float32)
    >>> type(capsule(x, x.ctypes.data, (1, 0), x.shape, x.dtype)).__name__
    'PyCapsule'
    """
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    made = _Tensor(
        address,
        (ctypes.c_int32 * 2)(*device),
        len(shape),
        element(kind.name).dlpack_code,
        8 * kind.itemsize,
        1,
        extents,
        None,
        0,
        0,
        ctypes.cast(_DELETER, ctypes.c_void_p).value,
    )
    held = (owner, extents, made)
    _keep(held)
    made.owner = id(held)
    return _new(ctypes.addressof(made), _NAME, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p).value)


def _free(driver: Any, context: Any, address: int) -> None:
    """Free memory on any thread; the thread's current context is restored."""
    driver.cuCtxPushCurrent(context)
    driver.cuMemFree(address)
    driver.cuCtxPopCurrent()


class Owned:
    """A row-major array on the current GPU, which its consumers may read on any stream once it is written.

    Its memory is freed when no reference to it is left, a consumer's included. As no stream allocated it, `cuMemFree`
    waits for the work that uses it.
    """

    def __init__(self, shape: Shape, kind: np.dtype[Any]) -> None:
        driver, size = current.driver(), math.prod(shape) * kind.itemsize
        self.shape, self.kind, self.dtype = shape, kind, kind.name
        self._address = int(current.check(driver.cuMemAlloc(size), "allocating memory")) if size else 0
        if size:
            context = current.check(driver.cuCtxGetCurrent(), "reading the current context")
            weakref.finalize(self, _free, driver, context, self._address).atexit = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = self.kind.str if self.kind.isbuiltin == 1 else f"|V{self.kind.itemsize}"
        return {"data": (self._address, False), "shape": self.shape, "strides": None, "typestr": typestr, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, int(current.device().number)

    def __dlpack__(self, **_: Any) -> Any:
        return capsule(self, self._address, self.__dlpack_device__(), self.shape, self.kind)
