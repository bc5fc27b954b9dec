"""Arrays in memory shared by host and device that report the host's reads and writes of their elements.

numba-cuda gives the program such arrays as NumPy arrays. If observers look for races with the host, these arrays have
the classes below: they behave the same, but each use is compared with the pending work of streams. Uses outside Python
are not seen: C code that takes the buffer, and views from `np.asarray`, which are plain arrays.
"""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.memo import memo
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import installed_gpu
from tilewright.simulate.device.internal_code import line_of, users_frame
from tilewright.simulate.device.pending_work import Bytes, used_by
from tilewright.simulate.observer import HostRace

Array = npt.NDArray[Any]

#: Methods that read all elements; reductions and arithmetic come as ufuncs.
_READING = (
    "tolist tobytes astype copy flatten argmax argmin argsort argpartition cumsum cumprod dot nonzero repeat choose "
    "searchsorted byteswap tofile dump dumps round trace __repr__ __str__ __format__ __bool__ __int__ __float__ "
    "__complex__ __index__ __contains__ __copy__ __deepcopy__ __reduce__ __reduce_ex__"
).split()
#: Methods that read the selected elements.
_CHOOSING = "item take compress".split()
#: Methods that write all elements.
_WRITING = "fill sort partition".split()
#: NumPy functions that return views.
_VIEWING = frozenset(
    "reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims atleast_1d "
    "atleast_2d atleast_3d split array_split hsplit vsplit dsplit flip fliplr flipud rot90 diagonal real imag".split()
)
#: NumPy functions that use only shapes, types and addresses.
_ASKING = frozenset(
    "shape ndim size result_type can_cast min_scalar_type common_type may_share_memory shares_memory empty_like "
    "zeros_like ones_like full_like iscomplexobj isrealobj byte_bounds broadcast_to broadcast_arrays".split()
)
#: NumPy functions that write their first argument.
_FILLING = frozenset("copyto fill_diagonal put place putmask put_along_axis".split())


class Watched(np.ndarray[Any, Any]):
    """Pinned memory, as an array that reports its uses."""

    #: The class of the same array when uses are not watched.
    _plain_class: type[Array] = np.ndarray

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, np.ndarray):
            if np.may_share_memory(found, self):
                return found  # a view: nothing is read
            found = np.ndarray.view(found, type=self._plain_class)
        if (gpu := _racing()) is not None:
            _used(gpu, *_part(self, key), writes=False, whole=self)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if (gpu := _racing()) is not None:
            _read(gpu, value)
            _used(gpu, *_part(self, key), writes=True, whole=self)
        super().__setitem__(key, _plain(value))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if (gpu := _racing()) is not None:
            _read(gpu, inputs, *(value for name, value in named.items() if name != "out"))
            _written(gpu, named.get("out"))
            if method == "at":
                _used(gpu, *_part(inputs[0], inputs[1]), writes=True, whole=inputs[0])
        return _as_plain(getattr(ufunc, method), inputs, named)

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name in _VIEWING:
            return super().__array_function__(function, types, arguments, named)
        if name not in _ASKING and (gpu := _racing()) is not None:
            filled = arguments[:1] if name in _FILLING else ()
            _read(gpu, arguments[len(filled) :], *(value for key, value in named.items() if key != "out"))
            _written(gpu, filled, named.get("out"))
        return _as_plain(function, arguments, named)

    def reshape(self, *shape: Any, **named: Any) -> Any:
        """A view, if there is one."""
        return self._view_or_copy(super().reshape(*shape, **named))

    def ravel(self, *order: Any, **named: Any) -> Any:
        """A view, if there is one."""
        return self._view_or_copy(super().ravel(*order, **named))

    @property
    def flat(self) -> Any:
        """NumPy's iterator, which is not followed: it counts as a read of all elements."""
        if (gpu := _racing()) is not None:
            _read(gpu, self)
        return super().flat

    def _view_or_copy(self, found: Array) -> Array:
        if np.may_share_memory(found, self):
            return found
        if (gpu := _racing()) is not None:
            _read(gpu, self)
        return np.ndarray.view(found, type=self._plain_class)


def _reads(gpu: SimulatedGpu, array: Watched, name: str, arguments: tuple[Any, ...]) -> None:
    _read(gpu, array, arguments)


def _chooses(gpu: SimulatedGpu, array: Watched, name: str, arguments: tuple[Any, ...]) -> None:
    selected = np.zeros(array.size, np.bool_)
    selected[getattr(np.arange(array.size).reshape(array.shape), name)(*_plain(arguments))] = True
    _used(gpu, array, selected.reshape(array.shape), writes=False, whole=array)


def _writes(gpu: SimulatedGpu, array: Watched, name: str, arguments: tuple[Any, ...]) -> None:
    _read(gpu, arguments)
    _written(gpu, array)


def _noting(name: str, note: Callable[[SimulatedGpu, Watched, str, tuple[Any, ...]], None]) -> Callable[..., Any]:
    def method(self: Watched, *arguments: Any, **named: Any) -> Any:
        if (gpu := _racing()) is not None:
            note(gpu, self, name, arguments)
        return _as_plain(getattr(_plain(self), name), arguments, named)

    return method


for _note, _names in ((_reads, _READING), (_chooses, _CHOOSING), (_writes, _WRITING)):
    for _name in _names:
        setattr(Watched, _name, _noting(_name, _note))


class WatchedNumPy:
    """Replaces NumPy where numba-cuda makes arrays of pinned memory: its arrays are watched."""

    ndarray = Watched

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@memo
def classes() -> dict[str, Any]:
    """numba-cuda's classes of mapped and managed arrays by name, each in a watched version."""
    module = importlib.import_module("numba.cuda.cudadrv.devicearray")
    originals = {name: getattr(module, name) for name in ("MappedNDArray", "ManagedNDArray")}
    return {
        name: type(name, (Watched, original), {"_plain_class": original, "__module__": original.__module__})
        for name, original in originals.items()
    }


# -- the bytes of a use ---------------------------------------------------------------------------------------------


def _racing() -> SimulatedGpu | None:
    """The GPU with pending work, if any."""
    gpu = installed_gpu()
    return gpu if gpu is not None and gpu.outstanding.pending else None


def _plain(value: Any) -> Any:
    """A value with its watched arrays replaced by plain ones."""
    if isinstance(value, Watched):
        return np.ndarray.view(value, type=value._plain_class)
    if type(value) in (tuple, list):
        return type(value)(_plain(item) for item in value)
    return value


def _as_plain(function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    """Call with plain arrays; a returned argument is the program's own array again."""
    out = named.get("out")
    plain = {name: _plain(value) for name, value in named.items()}
    result = function(*_plain(tuple(arguments)), **plain)
    given = out if isinstance(out, tuple) else (out,)
    outputs = plain.get("out") if isinstance(out, tuple) else (plain.get("out"),)
    own = {id(its): one for one, its in zip(given, outputs or (), strict=False) if isinstance(one, Watched)}
    if isinstance(result, tuple) and type(result) is tuple:
        return tuple(own.get(id(one), one) for one in result)
    return own.get(id(result), result)


def _watched_in(values: Any) -> Iterator[Watched]:
    if isinstance(values, Watched):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _watched_in(value)


def _read(gpu: SimulatedGpu, *values: Any) -> None:
    for array in _watched_in(values):
        _used(gpu, array, None, writes=False, whole=array)


def _written(gpu: SimulatedGpu, *values: Any) -> None:
    for array in _watched_in(values):
        _used(gpu, array, None, writes=True, whole=array)


def _part(array: Array, key: Any) -> tuple[Array, Bytes | None]:
    """The part of an array that a key selects: a view, or the array and a mask of its elements."""
    keys = key if isinstance(key, tuple) else (key,)
    plain = np.ndarray.view(array, type=np.ndarray)
    simple = (numbers.Integral, slice, type(None), type(Ellipsis), str)
    if all(isinstance(one, simple) and not isinstance(one, bool) for one in keys):
        whole = any(one is Ellipsis or isinstance(one, str) for one in keys)
        return plain[key if whole else (*keys, ...)], None
    selected = np.zeros(plain.shape, np.bool_)
    selected[_plain(key)] = True
    return plain, selected


def _used(gpu: SimulatedGpu, array: Array, selected: Bytes | None, *, writes: bool, whole: Array) -> None:
    """The host uses elements: report each race to observers, once for a line and a task."""
    plain = np.ndarray.view(array, type=np.ndarray)
    if not plain.size:
        return
    for task, task_writes in gpu.outstanding.races(used_by(plain, selected), writes=writes):
        frame = users_frame()
        line = line_of(frame)
        if line in task.reported:
            continue
        task.reported.add(line)
        name = _called(frame, whole) or f"an array of {whole.size:,} {whole.dtype}"
        race = HostRace(name, writes, line, task.what, task.kernel, task.line, task_writes)
        for observer in gpu.observers:
            observer.raced(race)


def _called(frame: FrameType | None, array: Array) -> str:
    """The program's name for an array, or for the base of a view."""
    known = [] if frame is None else [(n, v) for n, v in frame.f_locals.items() if isinstance(v, Watched)]
    same = [name for name, value in known if value is array]
    around = [name for name, value in known if np.may_share_memory(value, array)]
    return next((f"`{name}`" for name in (*same, *around)), "")
