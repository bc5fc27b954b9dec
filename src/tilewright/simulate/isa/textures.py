"""Reads of textures, and reads and writes of surfaces (PTX ISA 9.7.10, 9.7.11).

A handle is the 64-bit number of a texture object or a surface object; the coordinates are in its brackets, after it. A
texture has one level, so neither a level nor gradients select one.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Form, Table

rows = Table()

#: The assembler crashes on other orders of these names.
_ALL = 8
#: Axes of each geometry, in the manual's names: `a2d` has layers.
AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}
#: Coordinates of each geometry, including the layer and padding to two or four.
COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4}
_GEOMETRIES = "1d 2d 3d a1d a2d cube acube"
_FLAT = "1d 2d 3d a1d a2d"


def _four(form: Form) -> dict[str, int]:
    """Four values; a gradient has one element for each axis, and four for three axes."""
    axes = AXES.get(form["geom"], 0)
    gradient = axes + (axes == 3)
    return {"d": 4} | (dict.fromkeys(("dx", "dy"), gradient) if form.has("grad") and gradient > 1 else {})


_read = functools.partial(
    rows.placed,
    section="9.7.10",
    kind="texture",
    cost="memory",
    fixed=_ALL,
    counts=_four,
    dtype="u32 s32 f32",
    types={"texture": "b64", "d": "dtype", "lod": "f32", "dx": "f32", "dy": "f32"},
    note="texture objects only; a texture has one level",
)
_read("tex.geom.v4.dtype.ctype d, [texture];", geom=_FLAT, ctype="s32 f32")
_read("tex.geom.v4.dtype.f32 d, [texture];", geom="cube acube")
_read("tex.level.geom.v4.dtype.f32 d, [texture], lod;", geom=_GEOMETRIES)
_read("tex.grad.geom.v4.dtype.f32 d, [texture], dx, dy;", geom=_FLAT)
_read("tld4.component.geom.v4.dtype.f32 d, [texture];", geom="2d", component="r g b a")

_surface = functools.partial(
    rows.placed,
    section="9.7.11",
    kind="surface",
    cost="memory",
    fixed=_ALL,
    geom=_FLAT,
    vec="v2 v4",
    type="b8 b16 b32 b64",
    types={"surface": "b64"},
    clamp="trap clamp zero",
    note="surface objects only",
)
_surface("suld.b.geom{.vec}.type.clamp d, [surface];")
_surface("sust.b.geom{.vec}.type.clamp [surface], b;")
