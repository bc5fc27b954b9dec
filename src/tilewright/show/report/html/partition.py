"""S3's picture: A, B and C cut into blocks, and the elements that each thread block loads, step by step."""

from __future__ import annotations

import html
import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tilewright.observe.profiling.steps import BlockSteps, Rectangle, Steps, Touched, steps
from tilewright.observe.profiling.watching import Watched
from tilewright.show.report import figures
from tilewright.show.report.html.figures import Part

#: Most letters of the steps of all blocks in the page; further blocks are left out.
_MOST_LETTERS = 600_000


def part(seen: Watched) -> Part:
    """The picture of a launch, with its script's data."""
    found = steps(seen)
    m, n, k = seen.extents
    values = {"extents": [m, n, k], "tile": [*seen.record.tile, _depth(found)], **_blocks(seen, found)}
    how = "between two barriers" if found.by_barriers else "in one turn of each warp's loop: there are no barriers"
    idle = sum(_place(seen, one) is None for one in found.blocks)
    left_out = math.prod(seen.kept.profile.grid) - len(values["blocks"]) - idle
    note = f" {figures.amount(left_out, 'block')} more ran; what they loaded is not kept." if left_out else ""
    return Part("partition", "Blocks", _BODY.format(how=html.escape(how + "."), note=html.escape(note)), values)


_BODY = """<div class="beside">
<div class="picture" tabindex="0" role="application" aria-label="A, B and C in blocks; arrow keys step"></div>
<div>
<p>Each block of threads computes one block of C, of a row of blocks of A and a column of blocks of B: one term a step.
A step is what a block loads {how} Which elements those are was seen as the launch ran on the simulated GPU, by the
addresses of its lanes.{note}</p>
<div class="controls">
<button type="button" data-do="first">start</button>
<button type="button" data-do="back" aria-label="step back">&#x25C0;&#xFE0E;</button>
<button type="button" data-do="on" aria-label="step on">&#x25B6;&#xFE0E;</button>
<button type="button" data-do="play">play</button>
<label>thread block <select data-do="block"></select></label>
</div>
<p class="formula" aria-live="polite"></p>
<p class="status"></p>
<p class="quiet">In the picture, arrow keys: &#x2190; &#x2192; steps, &#x2191; &#x2193; blocks of threads.</p>
</div>
</div>
"""


def _depth(found: Steps) -> int:
    """The most common extent along k of the steps' loads of A, by which its columns are cut."""
    widths: Counter[int] = Counter()
    for one in found.blocks:
        for a, _ in one.loaded:
            if a.rectangles:
                widths[max(c + w for _, c, _, w in a.rectangles) - min(c for _, c, _, _ in a.rectangles)] += 1
    return widths.most_common(1)[0][0] if widths else 1


def _blocks(seen: Watched, found: Steps) -> dict[str, Any]:
    """The blocks that fit in the page, each with its place in C and its steps."""
    kept: list[dict[str, Any]] = []
    letters = 0
    for one in found.blocks:
        at = _place(seen, one)
        if at is None:
            continue
        document = {
            "at": at,
            "steps": [[_touched(a), _touched(b)] for a, b in one.loaded],
            "stored": _touched(one.stored),
        }
        letters += len(json.dumps(document))
        if kept and letters > _MOST_LETTERS:
            break
        kept.append(document)
    return {"blocks": kept}


def _place(seen: Watched, one: BlockSteps) -> list[int] | None:
    """Row and column of its first block of C, from its stores, or from its rows of A and columns of B.

    None for a block of threads that has nothing to do. The numbers of a block of threads do not say where it works: a
    kernel may deal blocks of C, or parts of their sums, in an order of its own.
    """
    high, wide = seen.record.tile
    rows, columns = [r for r, *_ in one.stored.rectangles], [c for _, c, *_ in one.stored.rectangles]
    for a, b in () if rows else one.loaded:
        rows += [r for r, *_ in a.rectangles]
        columns += [c for _, c, *_ in b.rectangles]
    return [min(rows) // high, min(columns) // wide] if rows and columns else None


def _touched(touched: Touched) -> dict[str, Any]:
    return {"rectangles": list(_listed(touched.rectangles)), "elements": touched.elements, "asked": touched.asked}


def _listed(rectangles: tuple[Rectangle, ...]) -> Iterator[list[int]]:
    return (list(one) for one in rectangles)
