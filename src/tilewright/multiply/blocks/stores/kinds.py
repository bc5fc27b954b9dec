"""Which store an operand or a result is: a path by its suffix, an array by its type."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError, StorageError
from tilewright.multiply.blocks.stores import arrays, disk, mapped
from tilewright.multiply.blocks.stores.formats import place_of
from tilewright.multiply.blocks.stores.lines import LinesStore
from tilewright.multiply.blocks.stores.places import Place
from tilewright.multiply.blocks.stores.store import Store, numbers


@dataclass(frozen=True, slots=True)
class _Library:
    """A package with arrays outside memory."""

    name: str
    type: str  #: Of its arrays.
    module: str  #: With `of_array`.

    def owns(self, value: Any) -> bool:
        """Whether a value is one of its arrays; imports nothing."""
        found = sys.modules.get(self.name)
        return found is not None and isinstance(value, getattr(found, self.type, ()))

    def store(self, value: Any, name: str, writable: bool) -> Store:
        """The store of one of its arrays."""
        with disk.reading(name, self.name):
            made: Store = importlib.import_module(self.module).of_array(value, name, writable=writable)
        return made


_LIBRARIES = (
    _Library("zarr", "Array", "tilewright.multiply.blocks.stores.zarr_arrays"),
    _Library("h5py", "Dataset", "tilewright.multiply.blocks.stores.hdf5"),
)
#: What is a store in this process, the first that fits: (whether a value is it, its store).
_OBJECTS: tuple[tuple[Callable[[Any], bool], Callable[[Any, str, bool], Store]], ...] = (
    *((library.owns, library.store) for library in _LIBRARIES),
    (lambda value: isinstance(value, LinesStore), lambda value, _name, _writable: value.again()),
    (lambda value: isinstance(value, np.memmap), mapped.of_array),
    (lambda value: isinstance(value, np.ndarray), arrays.in_memory),
    (arrays.is_sliced, arrays.sliced),
)


def is_outside(value: Any) -> bool:
    """Whether a value is a path, or an array of a library whose arrays are outside memory; cheap."""
    if isinstance(value, np.ndarray):
        return False
    return isinstance(value, str | os.PathLike) or any(library.owns(value) for library in _LIBRARIES)


def opened(value: Any, name: str, dtype: npt.DTypeLike | None = None) -> Store:
    """An operand, to be read.

    `value`: a path's suffix says what it is: .npy; .zarr, the folder of an array or group, or one in it; .h5 or .hdf5,
    with `:/name` where it holds more than one dataset. Arrays of zarr, of h5py and of NumPy, mapped files too; anything
    else that has a shape, a dtype and slices. `name`: what it is called in messages. `dtype`: of elements of which the
    file says only how wide they are: NumPy's format does so for bfloat16 and float8.

    Raises ArgumentTypeError, ArgumentValueError: it is no array of numbers, or of no known format; MissingExtraError:
    what reads the format is not installed; StorageError: it cannot be read, or is cut short.
    """
    return _found(value, name, dtype, writable=False)


def existing(value: Any, name: str = "out", dtype: npt.DTypeLike | None = None) -> Store:
    """A result that is there, to be written: a path, or an array; `dtype` as for :func:`opened`.

    Raises as :func:`opened`; ArgumentValueError: it may not be written.
    """
    return _found(value, name, dtype, writable=True)


def created(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: npt.DTypeLike, *, chunks_hint: tuple[int, int]
) -> Store:
    """A new array on disk, to be written; its room is taken now, where its format permits.

    `path`: its suffix says the format; `.part` may follow it. `shape`, `dtype`: of the array. `chunks_hint`: rows and
    columns that are written at once.

    Raises ArgumentValueError: the file exists, or its format is not known; ArgumentTypeError: the format has no such
    dtype; MissingExtraError, StorageError: it cannot be made.
    """
    place = place_of(path, "out")
    if os.path.lexists(place.file):
        raise ArgumentValueError(f"{place.file}: the output must be a new file (got one that exists); name another")
    elements = numbers(np.dtype(dtype), place.text)
    disk.check_room(place.file.absolute().parent, math.prod(shape) * elements.itemsize, place.text)
    made: Store = _module(place).create(place, tuple(shape), elements, chunks_hint)
    return made


def load(place: Place) -> None:
    """Import what reads and writes a place, so that it counts among what the process holds already.

    Raises MissingExtraError: it is not installed.
    """
    _module(place).load()


def beside(place: Place) -> list[str]:
    """The things that a path holds beside the array that it names, and would lose if a result took its place.

    Raises MissingExtraError, StorageError: it cannot be looked into.
    """
    found: list[str] = _module(place).beside(place)
    return found


def _module(place: Place) -> Any:
    return importlib.import_module(place.format.module)


def _found(value: Any, name: str, dtype: npt.DTypeLike | None, *, writable: bool) -> Store:
    if not isinstance(value, str | os.PathLike):
        return _checked(_of_object(value, name, writable=writable), name)
    place, wanted = place_of(value, name), None if dtype is None else np.dtype(dtype)
    with disk.reading(place.text, place.format.title):
        return _checked(_module(place).of_path(place, wanted, writable=writable), name)


def _of_object(value: Any, name: str, *, writable: bool) -> Store:
    for fits, store in _OBJECTS:
        if fits(value):
            return store(value, name, writable)
    raise ArgumentTypeError(
        f"`{name}` must be a path, or an array with a shape, a dtype and slices (got {type(value).__name__}); pass one"
    )


def _checked(found: Store, name: str) -> Store:
    if not found.shape:
        found.close()
        raise ArgumentValueError(f"`{name}` must have at least one axis (got a single number); multiply by it instead")
    for what, extents in (("shape", found.shape), ("chunks", found.chunks)):
        most = math.prod(max(extent, 1) for extent in extents) * found.dtype.itemsize
        wrong = min(extents) < 0 or any(n > 0 == chunk for n, chunk in zip(found.shape, found.chunks, strict=False))
        if wrong or most > sys.maxsize:
            found.close()
            raise StorageError(
                f"{found.name}: must have {what} that memory could have (got {extents!s:.200}); it is damaged: save "
                "it again"
            )
    return found
