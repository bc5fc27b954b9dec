"""Copies of boxes of a tensor between global and shared memory, complete when they are issued.

Source: PTX ISA, section 9.7.9.27 (cp.async.bulk.tensor). The coordinates are in the tensor map's brackets, after it.
Pixels of images (im2col) are shifted by offsets, which are the same for all pixels.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Form, Table

rows = Table()


def _offsets(form: Form) -> dict[str, int]:
    """One offset for each axis between the channels and the image number."""
    return {"offsets": int(form["dim"][0]) - 2}


_placed = functools.partial(rows.placed, section="9.7.9.27", kind="tensor", cost="memory", fixed=3)
_TYPES = {"mask": "b16", "policy": "b64"}
_copy = functools.partial(
    _placed, dim="1d 2d 3d 4d 5d", types=_TYPES, note="the coordinates are in the brackets of the tensor map"
)
_images = functools.partial(
    _placed,
    dim="3d 4d 5d",
    types=_TYPES | {"offsets": "b16"},
    counts=_offsets,
    note="needs a tensor map of images, not one of boxes",
)
_PLACES = "shared::cluster shared::cta"

for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
    for _multicast, _mask in ("", ""), (".multicast::cluster", ", mask"):
        _head, _tail = "cp.async.bulk.tensor.dim.place.global", f".mbarrier::complete_tx::bytes{_multicast}{_hint}"
        _copy(f"{_head}{{.tile}}{_tail} [to], [tensor], [object]{_mask}{_policy};", place=_PLACES)
        _images(f"{_head}.im2col{_tail} [to], [tensor], [object], offsets{_mask}{_policy};", place=_PLACES)
    _copy(f"cp.async.bulk.tensor.dim.global.shared::cta{{.tile}}.bulk_group{_hint} [tensor], [from]{_policy};")
    _copy(
        f"cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs.bulk_group{_hint} [tensor], [from]{_policy};",
        dim="3d 4d 5d",
    )
    _copy(f"cp.async.bulk.prefetch.tensor.dim.L2.global{{.tile}}{_hint} [tensor]{_policy};", fixed=4)
    _images(f"cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{_hint} [tensor], offsets{_policy};", fixed=4)
