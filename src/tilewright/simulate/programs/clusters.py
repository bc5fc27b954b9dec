"""The clusters of a launch: their size by the kernel's directives and the launch, and the limits of a GPU.

Source: PTX ISA, 11.6 (cluster dimension directives); CUDA C++ Programming Guide, "Thread Block Clusters".
"""

from __future__ import annotations

import math

from tilewright.errors import LaunchError
from tilewright.simulate.machine.gpu import Gpu
from tilewright.simulate.programs.launch_rules import Extents
from tilewright.simulate.programs.program import Program

#: The first compute capability that has clusters.
_SINCE = (9, 0)


def cluster_of(program: Program, asked: Extents | None, grid: Extents, gpu: Gpu) -> Extents | None:
    """Blocks of a cluster along each axis; None if neither the kernel nor the launch (`asked`) gives any.

    Raises LaunchError: the kernel's directives, the grid or the GPU do not allow such clusters.
    """
    function = program.module.functions.get(program.entry)
    directives = function.directives if function is not None else {}
    required = directives.get(".reqnctapercluster", ())
    x, y, z = (*required, 1, 1)[:3] if required else asked or (0, 0, 0)
    if asked not in (None, (x, y, z)):
        raise LaunchError(
            f"{program.name}: `cluster` must be {_text((x, y, z))}, as the kernel's __cluster_dims__ says (got "
            f"{_text(asked or (0, 0, 0))}); leave it out"
        )
    if not required and asked is None:
        if ".explicitcluster" in directives:
            raise LaunchError(
                f"{program.name}: `cluster` must be given, because the kernel has .explicitcluster; write "
                "cluster=(2, 1, 1), say"
            )
        return None
    _check(program.name, (x, y, z), grid, gpu, (*directives.get(".maxclusterrank", ()), gpu.launch.cluster_blocks)[0])
    return x, y, z


def _check(name: str, size: Extents, grid: Extents, gpu: Gpu, most: int) -> None:
    """Reject clusters that are too large, that do not divide the grid, or that the GPU does not support."""
    blocks = math.prod(size)
    if min(size) < 1 or blocks > min(most, gpu.launch.cluster_blocks):
        raise LaunchError(
            f"{name}: a cluster must have 1 to {min(most, gpu.launch.cluster_blocks)} blocks (got {blocks:,}, "
            f"{_text(size)}); make clusters smaller"
        )
    if any(extent % part for extent, part in zip(grid, size, strict=True)):
        raise LaunchError(
            f"{name}: the grid must be a multiple of the cluster along each axis (got {_text(grid)} blocks in clusters "
            f"of {_text(size)}); add blocks to the grid, and let those without work return"
        )
    if blocks > 1 and gpu.compute_capability < _SINCE:
        raise LaunchError(
            f"{name}: clusters of {blocks} blocks need a GPU of compute capability 9.0 or more (got the {gpu.name} of "
            f"{gpu.compute_capability[0]}.{gpu.compute_capability[1]}); choose another (`gpu`, TILEWRIGHT_GPU)"
        )


def _text(extents: Extents) -> str:
    return " x ".join(map(str, extents))
