"""The devices of arrays, by DLPack."""

from __future__ import annotations

from typing import Any

#: DLPack's numbers of NVIDIA GPUs: kDLCUDA and kDLCUDAManaged.
CUDA_DEVICES = (2, 13)


def dlpack_device(value: Any) -> int | None:
    """DLPack's device type of an array; None if the array does not tell."""
    ask = getattr(value, "__dlpack_device__", None)
    try:
        return None if ask is None else int(ask()[0])
    except Exception:  # whatever a library raises for an array that it does not share, as torch does on `meta`
        return None
