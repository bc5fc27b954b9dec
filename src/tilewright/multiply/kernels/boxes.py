"""Records of kernels whose A and B are copied by boxes: of Hopper's warpgroups, of Blackwell's tensor memory."""

from __future__ import annotations

import functools
from typing import Any

from tilewright.multiply.kernels.compiling import cuda
from tilewright.multiply.kernels.planes import Planes
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.dtypes import DTYPES, element

#: Compute capability of the GPUs with products of warpgroups, and their multiprocessors.
_HOPPER, RESIDENT = (9, 0), 132
#: The same of GPUs with tensor memory.
_BLACKWELL, _RESIDENT_THERE = (10, 0), 148
#: Floats of two bytes, which tensor cores sum in float32.
HALVES = tuple(x.name for x in DTYPES if x.bytes == 2 and x.is_float and x.cuda)
#: The bound for halves, with all steps of k in one sum.
IN_ONE = Bound(1, 16)


def stated(bound: Bound | None) -> str:
    """A record's `limits` of a bound."""
    return "" if bound is None else f"within {bound} of the exact product"


def _of_boxes(
    name: str, title: str, dtypes: tuple[str, ...], bound: Bound | None, file: str, entry: str, **more: Any
) -> Record:
    """A record of these kernels, with the fields that all of them have."""
    return Record(
        name,
        f"CUDA C++: {title}",
        "TC",
        "gpu",
        dtypes,
        order="tensor-core" if bound else "fma",
        bound=bound,
        limits=stated(bound),
        family=True,
        operands="boxes",
        group=16,
        compiler=functools.partial(cuda, file, entry, family=True),
        **more,
    )


def hopper(
    name: str,
    title: str,
    notes: str,
    dtypes: tuple[str, ...] = HALVES,
    bound: Bound | None = IN_ONE,
    width: int = 256,
    cluster: int = 1,
    columns: tuple[bool, bool] = (False, False),
    by_boxes: bool = False,
) -> Record:
    """A kernel of warpgroups, two that multiply and one that copies, with a ring of four stages of 128 bytes of k."""
    rows, stages, line_bytes = 128, 4, 128
    file = "hopper_stores" if by_boxes else "hopper" if cluster == 1 else "hopper_multicast"
    turned, size = ", ".join(str(one).lower() for one in columns), element(dtypes[0]).bytes
    tensor = f"f{8 * size}" if element(dtypes[0]).is_float else "s8"
    return _of_boxes(
        name,
        title,
        dtypes,
        bound,
        f"{file}.cu",
        f"{file}<TYPE, 2, {width}, {stages}, {turned}>",
        cc=_HOPPER,
        notes=notes,
        tile=(rows, width),
        block=(384, 1),
        columns=columns,
        results=(2, width // 4),
        resident=RESIDENT,
        tensor=tensor,
        depth=line_bytes // size,
        stages=stages,
        alike="hopper" if size == 2 else name,
        takes=("epilogue",) if cluster > 1 else ("epilogue", "batch"),  # a cluster's would spill registers
        shared_bytes=(stages * (rows + width) + by_boxes * 2 * rows) * line_bytes + 64,
        cluster=cluster,
        boxes_of_c=by_boxes,
    )


def blackwell(
    name: str,
    title: str,
    notes: str,
    dtypes: tuple[str, ...] = HALVES,
    tensor: str = "f16",
    columns: tuple[bool, bool] = (False, False),
    blocks: int = 2,
) -> Record:
    """A kernel of products in tensor memory of a block, or of a pair, with a ring of stages of 128 bytes of k.

    Floats of a byte are summed like halves, with 25 fraction bits (arXiv 2511.10909): all steps of k in one sum.
    """
    rows, width, stages, line_bytes, size = 128, 256, 4 if blocks == 1 else 6, 128, element(dtypes[0]).bytes
    file, turned = "blackwell" if blocks == 1 else "blackwell_pairs", ", ".join(str(one).lower() for one in columns)
    bound = Bound(1, 2**14 + 32) if tensor == "tf32" else IN_ONE if element(dtypes[0]).is_float else None
    return _of_boxes(
        name,
        title,
        dtypes,
        bound,
        f"{file}.cu",
        f"{file}<TYPE, {width}, {stages}, {turned}>",
        cc=_BLACKWELL,
        notes=notes,
        tile=(rows, width),
        block=(320, 1),
        columns=columns,
        results=(1, 32),
        resident=_RESIDENT_THERE,
        cluster=blocks,
        tensor=tensor,
        depth=line_bytes // size,
        stages=stages,
        takes=("epilogue", "batch"),
        alike="" if bound is None else "blackwell" if size == 2 else f"blackwell_{tensor}",
        # tiles, parts of sums that are turned, mbarriers, and the address of columns
        shared_bytes=stages * (rows + width // blocks) * line_bytes + 8 * 32 * 32 * 4 + (2 * stages + 4) * 8 + 8,
    )


def of_planes(
    name: str,
    title: str,
    notes: str,
    dtypes: tuple[str, ...],
    planes: Planes,
    tensor: str,
    bound: Bound | None = None,
    *,
    epilogue: bool = True,
) -> Record:
    """A kernel of warpgroups for sums of planes, in clusters of two blocks."""
    rows, line_bytes, size = 128, 128, element(planes.dtype).bytes
    (width, stages), together = (128, 3) if planes.together else (256, 4), planes.count if planes.together else 1
    entry = f"hopper_planes<{element(planes.dtype).cuda}, {planes.parts}, 2, {width}, {stages}, TYPE>"
    return _of_boxes(
        name,
        title,
        dtypes,
        bound,
        "hopper_planes.cu",
        entry,
        cc=_HOPPER,
        notes=notes,
        tile=(rows, width),
        block=(384, 1),
        columns=(False, True),
        planes=planes,
        results=(2, width // 4),
        resident=RESIDENT,
        tensor=tensor,
        passes=planes.products,
        depth=line_bytes // size,
        stages=stages,
        takes=("epilogue",) if epilogue else (),
        cluster=2,
        shared_bytes=stages * (together * (rows + width) * line_bytes + 16),
    )
