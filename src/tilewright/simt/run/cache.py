"""Translations on disk: machine code and the data to launch it, one entry of `native.store` each."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tilewright.native import store as entries
from tilewright.simt.events import EventKind, Site
from tilewright.simt.translate.layout import Layout
from tilewright.simt.translate.translation import Translation

_SITE_FIELDS = tuple(field.name for field in dataclasses.fields(Site))[1:]  # `steps` is the last


def load(folder: Path | None, key: str) -> tuple[Translation, bytes] | None:
    """The translation and machine code stored under a key, or None."""
    return entries.read(folder, key, _translation)


def store(folder: Path | None, key: str, translation: Translation, code: bytes) -> None:
    """Store a translation; a folder that cannot be written is not an error."""
    entries.write(folder, key, _header(translation), code)


def fingerprint() -> str:
    """A digest of the machine's and its compiler's files, so that an edited checkout keeps no stale entries."""
    return entries.fingerprint("simt", "ptx", "programs", "native")


def _header(translation: Translation) -> dict[str, Any]:
    return {
        "symbol": translation.symbol,
        "warp_bytes": translation.warp_bytes,
        "points": translation.points,
        "spins": translation.spins,
        "waits_for_blocks": translation.waits_for_blocks,
        "prints": translation.prints,
        "slowness": translation.slowness,
        "sites": [[s.kind.value, *(getattr(s, name) for name in _SITE_FIELDS)] for s in translation.sites],
        "counter_rows": translation.counter_rows,
        "tallies": translation.tallies,
        "multiples": translation.multiples,
        "layout": dataclasses.asdict(translation.layout),
        "digest": translation.digest,
        "parts": translation.parts,
    }


def _translation(header: dict[str, Any]) -> Translation:
    layout = header["layout"]
    layout["places"] = {name: (space, offset) for name, (space, offset) in layout["places"].items()}
    return Translation(
        ir="",
        symbol=header["symbol"],
        warp_bytes=header["warp_bytes"],
        points=header["points"],
        spins=header["spins"],
        waits_for_blocks=header["waits_for_blocks"],
        prints=header["prints"],
        slowness=header["slowness"],
        sites=[_site(*row) for row in header["sites"]],
        counter_rows=header["counter_rows"],
        tallies=header["tallies"],
        multiples=header["multiples"],
        layout=Layout(**layout),
        digest=header["digest"],
        parts=header["parts"],
    )


def _site(kind: str, *rest: Any) -> Site:
    """A site; JSON knows no tuples."""
    *plain, steps = rest
    site = Site(EventKind(kind), *plain)
    return dataclasses.replace(site, steps=tuple((line, opcode, source) for line, opcode, source in steps))
