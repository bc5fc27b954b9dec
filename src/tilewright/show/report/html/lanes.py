"""The source with its counters, and for each access the lanes of a warp over banks or sectors."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.observe.instruments.addresses import AddressesResult
from tilewright.observe.profiling.counts import Counts, Sectors, Wavefronts
from tilewright.observe.profiling.lanes import ideal_wavefronts, sectors, wavefronts
from tilewright.observe.profiling.record import Profile
from tilewright.observe.profiling.watching import Kept
from tilewright.show.report import figures
from tilewright.show.report.html.figures import Part
from tilewright.show.report.places import path
from tilewright.show.report.profile import Row, files
from tilewright.simulate.events import EventKind, Site

#: Most executions of an access in a page: the first of each warp.
_MOST_EXECUTIONS = 256


def part(seen: Kept) -> Part:
    """The listing, and the picture with its script's data."""
    accesses = [*_accesses(seen, seen.from_global), *_accesses(seen, seen.from_shared)]
    patterns: dict[tuple[Any, ...], int] = {}
    sites = [_site(site, runs, seen, patterns) for site, runs in accesses]
    values = {
        "sites": sites,
        "patterns": [list(pattern) for pattern in patterns],
        "operands": [[x.name, x.address, x.shape, x.strides, x.element_bytes] for x in seen.operands],
    }
    body = f'{_ABOVE}<div class="beside"><div class="listing">{_listing(seen.profile, sites)}</div>{_PICTURE}</div>'
    return Part("lanes", "Lines and lanes", body, values)


_ABOVE = """<p>The kernel's source with what its warps did, counted on the simulated GPU; the best possible value for a
request is in brackets. Choose a line to see how the lanes of one warp go to memory: over the 32 banks of shared memory,
of which each serves one word in a wavefront, or over the sectors of 32 bytes of global memory, which are moved whole.
Addresses are those of the launch's first block.</p>
"""
_PICTURE = """<div class="access">
<div class="controls">
<label>access <select data-do="site"></select></label>
<label>warp <select data-do="warp"></select></label>
<button type="button" data-do="back" aria-label="earlier execution">&#x25C0;</button>
<span class="which"></span>
<button type="button" data-do="on" aria-label="later execution">&#x25B6;</button>
</div>
<p class="status" aria-live="polite"></p>
<div class="picture" tabindex="0" role="application" aria-label="lanes over memory; arrow keys step"></div>
<p class="lane"></p>
<p class="quiet">arrow keys: &#x2190; &#x2192; executions, &#x2191; &#x2193; lanes</p>
</div>
"""


# -- accesses -----------------------------------------------------------------------------------------------------


def _accesses(seen: Kept, kept: AddressesResult) -> Iterator[tuple[Site, list[Any]]]:
    """Each access of the launch's first block to an array or shared memory, with its requests by warp."""
    for row, site in enumerate(kept.sites):
        if site.kind is not EventKind.ACCESS:
            continue
        mine = kept.records[(kept.records["row"] == row) & (kept.records["block"] == 0)]
        if len(mine) and (site.space == "shared" or any(map(seen.holds, _active(mine[0])))):
            yield site, sorted(mine, key=lambda record: int(record["warp"]))


def _active(record: Any) -> list[int]:
    """The addresses of the active lanes."""
    return [at for lane, at in enumerate(record["addresses"].tolist()) if int(record["mask"]) >> lane & 1]


def _site(site: Site, records: list[Any], seen: Kept, patterns: dict[tuple[Any, ...], int]) -> dict[str, Any]:
    """An access: what it is, and per execution warp, number, lowest address and which pattern its lanes have."""
    number: Counter[int] = Counter()
    of_warp = max(1, _MOST_EXECUTIONS // len({int(record["warp"]) for record in records}))
    runs = []
    for record in records:
        warp, mask = int(record["warp"]), int(record["mask"])
        number[warp] += 1
        if number[warp] > of_warp:
            continue
        addresses = record["addresses"].tolist()
        base = min(_active(record))
        offsets = tuple(at - base if mask >> lane & 1 else -1 for lane, at in enumerate(addresses))
        served, most, ideal = _served(site, addresses, mask)
        pattern = patterns.setdefault((offsets, served), len(patterns))
        runs.append([warp, base, pattern, most, ideal])
    counted = next(one for one in seen.profile.sites if one.ptx_line == site.ptx_line)
    totals = counted.counts.in_shared if site.space == "shared" else counted.counts.in_global
    return {
        "at": path(counted.source) or f"PTX:{site.ptx_line}",
        "opcode": site.opcode,
        "ptx": site.ptx_line,
        "access": site.access,
        "space": site.space,
        "bytes": site.bytes_per_lane,
        "runs": runs,
        "left": len(records) - len(runs),
        "all": _totals(totals),
    }


def _served(site: Site, addresses: list[int], mask: int) -> tuple[tuple[int | None, ...], int, int]:
    """Of shared memory each lane's wavefront; and how many wavefronts or sectors, and how few would do."""
    size = site.bytes_per_lane
    if site.space != "shared":
        return (), *sectors(addresses, mask, size)
    served = tuple(wavefronts(addresses, mask, size))
    return served, 1 + max(x for x in served if x is not None), ideal_wavefronts(mask, size)


def _totals(counted: Sectors | Wavefronts) -> list[int]:
    """Requests of the launch, with their cost and the best possible cost."""
    if isinstance(counted, Sectors):
        return [counted.requests, counted.sectors, counted.ideal_sectors]
    return [counted.requests, counted.wavefronts, counted.ideal_wavefronts]


# -- the listing --------------------------------------------------------------------------------------------------


def _listing(profile: Profile, sites: list[dict[str, Any]]) -> str:
    """The source's lines as a table; one with accesses has a button."""
    shown = {site["at"] for site in sites}
    rows = [row for file, lines in files(profile.lines) for row in _file(file, lines, shown)]
    return f"<table><thead><tr>{_HEAD}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


_HEAD = (
    "<th>line</th><th>warp<br>instr.</th><th>sectors<br>a req.</th><th>wave-<br>fronts<br>a req.</th>"
    '<th class="left">source</th>'
)


def _file(file: str, rows: Sequence[Row], shown: set[str]) -> Iterator[str]:
    named = path(file) or "PTX"
    yield f'<tr class="file"><td class="left" colspan="5">{html.escape(named)}</td></tr>'
    for row in rows:
        if not row.line:
            yield '<tr><td>&hellip;</td><td colspan="4"></td></tr>'
            continue
        at = f"{named}:{row.line}"
        yield _row(row, at if at in shown else "")


def _row(row: Row, at: str) -> str:
    code = html.escape(row.text.expandtabs(4))
    where = str(row.line)
    if at:
        where = f'<button type="button" data-at="{html.escape(at)}" aria-label="line {where}">{where}</button>'
    cells = [("", "")] * 3 if row.counts is None else _cells(row.counts)
    counted = "".join(f"<td{style}>{words}</td>" for style, words in cells)
    return f'<tr><td>{where}</td>{counted}<td class="left code">{code}</td></tr>'


def _cells(counts: Counts) -> list[tuple[str, str]]:
    instructions = figures.count(counts.warp_instructions) if counts.warp_instructions else ""
    return [("", instructions), _beside(counts.in_global), _beside(counts.in_shared)]


def _beside(counted: Sectors | Wavefronts) -> tuple[str, str]:
    """The cost of a request, and in brackets the best possible; marked if it is a quarter more."""
    requests, whole, ideal = _totals(counted)
    if not requests:
        return "", ""
    seen, enough = (f"{amount / requests:.1f}".removesuffix(".0") for amount in (whole, ideal))
    wasteful = ' class="bad"' if 4 * (whole - ideal) > whole else ""
    return wasteful, seen if seen == enough else f"{seen} ({enough})"
