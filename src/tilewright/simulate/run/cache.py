"""Translations on disk: machine code and the data to launch it, one entry of `native.store` each."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tilewright.ground.native import store as entries
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.translate.analysis.layout import Layout
from tilewright.simulate.translate.translation import Translation

_SITE_FIELDS = tuple(field.name for field in dataclasses.fields(Site))[1:]  # `steps` is the last


def load(folder: Path | None, key: str) -> tuple[Translation, bytes] | None:
    """The translation and machine code stored under a key, or None."""
    return entries.read(folder, key, _translation)


def store(folder: Path | None, key: str, translation: Translation, code: bytes) -> None:
    """Store a translation; a folder that cannot be written is not an error."""
    entries.write(folder, key, _header(translation), code)


#: Fields of a translation that JSON keeps as they are.
_PLAIN_FIELDS = tuple(
    "symbol warp_bytes points spins waits_for_blocks waits_in_calls prints addresses_params slowness "
    "counter_rows tallies multiples digest parts".split()
)


def fingerprint() -> str:
    """A digest of the machine's and its compiler's files, so that an edited checkout keeps no stale entries."""
    return entries.fingerprint("simulate", "ground/native")


def _header(translation: Translation) -> dict[str, Any]:
    sites = [[s.kind.value, *(getattr(s, name) for name in _SITE_FIELDS)] for s in translation.sites]
    plain = {name: getattr(translation, name) for name in _PLAIN_FIELDS}
    return plain | {"sites": sites, "layout": dataclasses.asdict(translation.layout)}


def _translation(header: dict[str, Any]) -> Translation:
    layout = header["layout"]
    layout["places"] = {name: (space, offset) for name, (space, offset) in layout["places"].items()}
    plain = {name: header[name] for name in _PLAIN_FIELDS}
    sites = [_site(*row) for row in header["sites"]]
    return Translation(ir="", sites=sites, layout=Layout(**layout), **plain)


def _site(kind: str, *rest: Any) -> Site:
    """A site; JSON knows no tuples."""
    *plain, steps = rest
    site = Site(EventKind(kind), *plain)
    return dataclasses.replace(site, steps=tuple((line, opcode, source) for line, opcode, source in steps))
