"""Types of products for type checkers: mypy reads this file with the package, and nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import tilewright as tw

singles: npt.NDArray[np.float32] = np.ones((2, 2), np.float32)
bytes_: npt.NDArray[np.int8] = np.ones((2, 2), np.int8)


class Tensor:
    """Looks like torch's, which need not be installed."""

    device = "cpu"


class Frame:
    """Looks like pandas'."""

    def to_numpy(self) -> npt.NDArray[Any]:
        """Values."""
        return singles


assert_type(tw.matmul(singles, singles), npt.NDArray[np.float32])
assert_type(tw.matmul(singles, singles, threads=1, alpha=2.0, algebra="min-plus"), npt.NDArray[np.float32])
assert_type(tw.matmul(bytes_, bytes_, dtype=np.int32), npt.NDArray[np.int32])
assert_type(tw.matmul(bytes_, bytes_, dtype=np.dtype(np.int64)), npt.NDArray[np.int64])
assert_type(tw.matmul(bytes_, bytes_, dtype="int32"), npt.NDArray[Any])
assert_type(tw.matmul(singles, [1.0, 2.0]), npt.NDArray[Any])
assert_type(tw.matmul(singles, bytes_), npt.NDArray[Any])
assert_type(tw.matmul(singles, singles, epilogue=lambda x: x > 0), npt.NDArray[Any])
assert_type(tw.matmul(singles, singles, singles), npt.NDArray[np.float32])
assert_type(tw.matmul(singles, bytes_, out=singles), npt.NDArray[np.float32])
assert_type(tw.matmul(Tensor(), Tensor()), Tensor)
assert_type(tw.matmul(Frame(), Frame()), Frame)
tw.matmul(singles, singles, thread=1)  # type: ignore[call-overload]
tw.matmul(singles, singles, casting="some")  # type: ignore[call-overload]
