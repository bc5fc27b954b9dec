"""The types that adapters give and get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
#: Reads an operand of any library: (value, name) -> its NumPy array.
Read = Callable[[Any, str], Array]
#: Turns the product into an array of the operands' library.
Wrap = Callable[[Array], Any]
