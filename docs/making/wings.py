"""The picture of the package: a wing a row, each standing on those that it imports."""

from __future__ import annotations

from html import escape

#: The wings from the last to the first, with what each has for a reader.
WINGS = {
    "cli": "the commands, the pytest plugin, the notebook extension",
    "show": "ladder, rates, report: measures and shows, computes no product itself",
    "frontends": "other people's programs: numba, torch, triton, cupy, cute, cuda_python, libcuda, programs",
    "observe": "what happened: instruments, checking, profiling, prediction",
    "multiply": "the product: problem, engine, backends, kernels, blocks",
    "simulate": "the GPU: ptx, isa, translate, runtime (C), run, device, programs, machine",
    "ground": "the host: machine code and its cache, processes, configuration, progress",
}
_WIDTH, _HEIGHT, _GAP, _LEFT = 760, 46, 8, 10
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b1f24 } .name { font-weight: 600 }
  rect { fill: #dbe7f5; stroke: #5b7fa6 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #1f3147; stroke: #5b7fa6 } }
"""


def chart() -> str:
    """The picture as SVG."""
    height = len(WINGS) * (_HEIGHT + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="The seven wings of the package">',
        f"<style>{_STYLE}</style>",
    ]
    for at, (wing, what) in enumerate(WINGS.items()):
        y = _GAP + at * (_HEIGHT + _GAP)
        parts += [
            f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH - 2 * _LEFT}" height="{_HEIGHT}" rx="6"/>',
            f'<text class="name" x="{_LEFT + 12}" y="{y + 19}">{wing}/</text>',
            f'<text x="{_LEFT + 12}" y="{y + 37}">{escape(what)}</text>',
        ]
    return "\n".join([*parts, "</svg>"])
