"""Operands as sums of planes: matrices of a type that tensor cores multiply.

The product of two sums is a sum of products of planes; those of planes i and j with i + j below the number of planes
are enough. A kernel of its own splits operands on a GPU (`rearranged.cu`); the same is here for arrays of the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.dtypes import element

Array = npt.NDArray[Any]
#: Bits of a float32 that a tf32 number lacks.
_CUT = 13
#: Most lines below each other: the line at which a box begins is a signed number of 32 bits.
MOST_LINES = 2**31
#: Lines by which the tiles of a cluster may hang over a plane's end.
_OVERHANG = 256
#: Rows of planes begin at multiples of this, as boxes need.
ROWS_APART = 16


@dataclass(frozen=True, slots=True)
class Planes:
    """How a kernel takes its operands."""

    count: int
    dtype: str  #: Of a plane: "uint8" for the bytes of an integer, the lowest first; "float32" for tf32 and its rests.
    together: bool  #: Whether a stage has all planes, or those of one product.

    @property
    def parts(self) -> str:
        """The classes of this name in `hopper_planes.cu`, and in `rearranged.cu`, which writes the parts of elements.

        >>> Planes(2, "float32", True).parts
        'Rests<2>'
        """
        return f"{'Rests' if element(self.dtype).is_float else 'Digits'}<{self.count}>"

    @property
    def products(self) -> int:
        """Products of planes for each product of C.

        >>> Planes(4, "uint8", False).products, Planes(2, "float32", True).products
        (10, 3)
        """
        return self.count * (self.count + 1) // 2

    @property
    def most_lines(self) -> int:
        """Most lines of a plane, which are rows or columns of C.

        >>> Planes(4, "uint8", False).most_lines
        536870656
        """
        return MOST_LINES // self.count - _OVERHANG

    @property
    def bytes(self) -> int:
        """Bytes of all planes of an element."""
        return self.count * element(self.dtype).bytes

    @property
    def copied(self) -> int:
        """Bytes of an element that a tile's products copy: a plane is copied again for each unless all are together."""
        return self.bytes if self.together else self.products * element(self.dtype).bytes

    def split(self, x: Array) -> Array:
        """The planes of a matrix, (count, rows, columns), whose rows begin at multiples of 16 bytes.

        >>> [int(plane[0, 0]) for plane in Planes(4, "uint8", False).split(np.array([[0x01020304]], np.int32))]
        [4, 3, 2, 1]
        >>> big, small = Planes(2, "float32", True).split(np.array([[0.1]], np.float32))
        >>> [float(one[0, 0]) for one in (big, small)]
        [0.0999755859375, 2.442300319671631e-05]
        """
        kind, (rows, columns) = element(self.dtype).numpy, x.shape
        unit = ROWS_APART // kind.itemsize
        made: Array = np.zeros((self.count, rows, -(-columns // unit) * unit), kind)[..., :columns]
        for plane in made:
            if kind.kind == "f":
                plane[...] = as_tf32(x)
                with np.errstate(invalid="ignore"):  # an infinity's rest is NaN
                    x = x - plane
            else:
                plane[...] = x.astype(kind)  # modulo 256
                x = x >> 8
        return made


def as_tf32(x: Array) -> Array:
    """The nearest finite tf32 numbers, of two the larger one, as `cvt.rna.tf32.f32` rounds; infinities stay.

    >>> as_tf32(np.array([1 + 2**-11, -1 - 2**-12, np.inf, 3.4028e38], np.float32)).tolist()
    [1.0009765625, -1.0, inf, 3.4011621342146535e+38]
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(1 << (_CUT - 1))) & np.uint32(-1 << _CUT & 0xFFFFFFFF)
    finite = np.where(np.isinf(nearest.view(np.float32)), bits & np.uint32(-1 << _CUT & 0xFFFFFFFF), nearest)
    return np.where(np.isfinite(x), finite.view(np.float32), x)
