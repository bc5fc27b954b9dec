"""Pictures of a launch, drawn from the addresses that its lanes had: blocks of matrices, sectors, and banks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.observe.instruments.addresses import AddressesResult
from tilewright.observe.instruments.banks import BANK_BYTES
from tilewright.observe.profiling import lanes
from tilewright.observe.profiling.counts import LANES, SECTOR_BYTES
from tilewright.observe.profiling.steps import Rectangle, steps
from tilewright.observe.profiling.watching import Operand, Watched
from tilewright.show.report.charts import svg
from tilewright.show.report.charts.drawing import TITLE_SIZE, Drawing
from tilewright.simulate.events import EventKind, Site

_ELEMENT = 4.4  #: Pixels of a matrix's element.
_APART = 26  #: Between matrices.
_LANE, _ROW = 19, 22  #: Height of a lane, and of a row of banks.


def partition(seen: Watched, block: tuple[int, int, int], step: int) -> str:
    """Where one block's part of C is, and what it loads of A and B: in one step, and in all."""
    mine = next(one for one in steps(seen).blocks if one.block == block)
    a, b, c = seen.kept.operands
    now = mine.loaded[step]
    drawing = Drawing(round((a.shape[1] + b.shape[1]) * _ELEMENT) + _APART + 60)
    title = f"Block {block[:2]} of {seen.record.name}: step {step + 1} of {len(mine.loaded)}"
    drawing.paragraph(title, font_size=TITLE_SIZE, font_weight="bold")
    left, top = 20.0, drawing.height + 24
    right, below = left + a.shape[1] * _ELEMENT + _APART, top + b.shape[0] * _ELEMENT + _APART
    for which, matrix, x, y in ((0, a, left, below), (1, b, right, top)):
        _matrix(drawing, matrix, x, y)
        for number, pair in enumerate(mine.loaded):
            colour, opacity = ("line-1", 0.95) if number == step else ("line-0", 0.35)
            _rectangles(drawing, pair[which].rectangles, x, y, colour, opacity)
    _matrix(drawing, c, right, below)
    _rectangles(drawing, mine.stored.rectangles, right, below, "line-2", 0.9)
    drawing.height = below + c.shape[0] * _ELEMENT + 8
    _told(
        drawing,
        f"A is {a.shape[0]} x {a.shape[1]}, B {b.shape[0]} x {b.shape[1]}. In this step the block loads "
        f"{now[0].elements} elements of A and {now[1].elements} of B (orange); in its other steps it loads what is "
        f"blue. It stores its {mine.stored.elements} elements of C (green) once.",
    )
    return svg.element(drawing, title)


def _matrix(drawing: Drawing, matrix: Operand, x: float, y: float) -> None:
    drawing.text(x, y - 6, matrix.name, font_weight="bold")
    _box(drawing, x, y, matrix.shape[1] * _ELEMENT, matrix.shape[0] * _ELEMENT)


def _rectangles(drawing: Drawing, found: Sequence[Rectangle], x: float, y: float, colour: str, part: float) -> None:
    for row, column, rows, columns in found:
        place = x + column * _ELEMENT, y + row * _ELEMENT, columns * _ELEMENT, rows * _ELEMENT
        _box(drawing, *place, fill=f"var(--tw-{colour})", fill_opacity=part, stroke="var(--tw-ground)")


def _box(drawing: Drawing, x: float, y: float, width: float, height: float, **look: object) -> None:
    place = {"x": round(x, 1), "y": round(y, 1), "width": round(width, 1), "height": round(height, 1)}
    drawing.add("rect", **{**place, "fill": "var(--tw-panel)", "stroke": "var(--tw-quiet)", **look})


def _told(drawing: Drawing, words: str) -> None:
    drawing.paragraph(words, fill="var(--tw-quiet)", font_size=12)


# -- one request of a warp --------------------------------------------------------------------------------------------


def _requests(kept: AddressesResult, access: str) -> Iterator[tuple[Site, Any]]:
    """Each access of that kind with its first request of block 0."""
    for row, site in enumerate(kept.sites):
        mine = kept.records[(kept.records["row"] == row) & (kept.records["block"] == 0)]
        if site.kind is EventKind.ACCESS and site.access == access and len(mine):
            yield site, mine[0]


def _begun(seen: Watched, site: Site, title: str) -> Drawing:
    """A picture of one request, with its title and the line of the source that makes it."""
    source = next(one.source for one in seen.kept.profile.sites if one.ptx_line == site.ptx_line)
    file, _, number = source.rpartition(":")
    line = Path(file).read_text(encoding="utf-8").splitlines()[int(number) - 1].strip()
    drawing = Drawing(svg.WIDE)
    drawing.paragraph(title, font_size=TITLE_SIZE, font_weight="bold")
    _told(drawing, f"{Path(file).name}:{number}: {line}")
    return drawing


def over_sectors(seen: Watched, access: str, matrix: str) -> str:
    """The lanes of a warp over the sectors of global memory that its first access to a matrix asks for."""
    (holder,) = (one for one in seen.kept.operands if one.name == matrix)
    site, record = next(
        (site, record)
        for site, record in _requests(seen.kept.from_global, access)
        if holder.holds(int(record["addresses"][0]))
    )
    at, size = record["addresses"].tolist(), site.bytes_per_lane
    asked, enough = lanes.sectors(at, int(record["mask"]), size)
    title = f"{matrix} in {seen.record.name}: {asked} {'sector' if asked == 1 else 'sectors'} a request"
    drawing = _begun(seen, site, title)
    top = drawing.height + 12
    bottom, each = top + 110, drawing.width / LANES
    touched = sorted({address // SECTOR_BYTES for address in at})
    wide = min(150.0, drawing.width / len(touched))
    for place in range(len(touched)):
        _box(drawing, place * wide + 1, bottom, wide - 2, _ROW)
    for lane, address in enumerate(at):
        byte = wide * (touched.index(address // SECTOR_BYTES) + address % SECTOR_BYTES / SECTOR_BYTES)
        width = wide * size / SECTOR_BYTES
        if at.index(address) == lane:
            _box(drawing, byte + 1, bottom, width - 2, _ROW, fill="var(--tw-line-0)", stroke="none")
        drawing.line((lane + 0.5) * each, top + _LANE, byte + width / 2, bottom, "line-1")
        _box(drawing, lane * each + 1, top, each - 2, _LANE)
        drawing.text((lane + 0.5) * each, top + 14, str(lane), text_anchor="middle", font_size=11)
    drawing.height = bottom + _ROW + 8
    would = f"{enough} would hold what they read." if enough < asked else "Fewer would not hold it."
    words = "Above: the lanes of a warp. Below: sectors of 32 bytes, which are moved whole; blue is what lanes read."
    _told(drawing, f"{words} {would}")
    return svg.element(drawing, title)


def over_banks(seen: Watched, access: str, which: int = 0) -> str:
    """The lanes of a warp over the banks of shared memory, at one of the accesses with most wavefronts."""

    def served(request: tuple[Site, Any]) -> list[int | None]:
        site, record = request
        return lanes.wavefronts(record["addresses"].tolist(), int(record["mask"]), site.bytes_per_lane)

    def rows(request: tuple[Site, Any]) -> int:
        return 1 + max(wavefront for wavefront in served(request) if wavefront is not None)

    requests = [*_requests(seen.kept.from_shared, access)]
    many = max(map(rows, requests))
    worst = [one for one in requests if rows(one) == many][which]
    site, record = worst
    cells: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for lane, wavefront in enumerate(served(worst)):
        for word in range(max(1, site.bytes_per_lane // BANK_BYTES)):
            if wavefront is not None:
                cells[wavefront, (int(record["addresses"][lane]) // BANK_BYTES + word) % lanes.BANKS].append(lane)
    title = f"Shared memory in {seen.record.name}: {many} {'wavefront' if many == 1 else 'wavefronts'} a request"
    drawing = _begun(seen, site, title)
    _grid(drawing, many, cells)
    ideal = lanes.ideal_wavefronts(int(record["mask"]), site.bytes_per_lane)
    _told(
        drawing,
        "Columns: the 32 banks. Rows: wavefronts, in each of which a bank serves one word, to the lane named or to so "
        f"many lanes (4x). Without conflicts there would be {ideal}.",
    )
    return svg.element(drawing, title)


def _grid(drawing: Drawing, rows: int, cells: dict[tuple[int, int], list[int]]) -> None:
    left, top = 24.0, drawing.height + 22
    each = (drawing.width - left) / lanes.BANKS
    quiet = {"fill": "var(--tw-quiet)", "font_size": 10}
    for bank in range(lanes.BANKS):
        middle = left + (bank + 0.5) * each
        drawing.text(middle, top - 5, str(bank), text_anchor="middle", **quiet)
        for row in range(rows):
            mine = cells.get((row, bank), [])
            ground = "var(--tw-line-0)" if mine else "var(--tw-panel)"
            place = middle - each / 2 + 1, top + row * _ROW + 1, each - 2, _ROW - 2
            _box(drawing, *place, fill=ground, stroke="var(--tw-grid)")
            if mine:
                words = str(mine[0]) if len(mine) == 1 else f"{len(mine)}x"
                ink = {"fill": "var(--tw-ground)", "font_size": 11}
                drawing.text(middle, top + row * _ROW + 15, words, text_anchor="middle", **ink)
    for row in range(rows):
        drawing.text(left - 8, top + row * _ROW + 15, str(row + 1), text_anchor="end", **quiet)
    drawing.height = top + rows * _ROW + 6
