"""Barriers and fences: rows that the translator places (PTX ISA 9.7.13)."""

from __future__ import annotations

from typing import Any

from tilewright.simt.isa.table import Table

rows = Table()


def _placed(*_: Any) -> Any:
    """Barriers are placed by `translate.flow` and released by the scheduler."""
    raise NotImplementedError("placed by the translator")


rows.row(
    "bar{.cta}.sync a{, b};",
    "barrier{.cta}.sync{.aligned} a{, b};",
    section="9.7.13.1",
    fixed=1,
    kind="barrier",
    cost="control",
    types={"a": "u32", "b": "u32"},
    note="(id, count); the count may be left out",
)(_placed)
rows.row(
    "bar{.cta}.arrive a, b;",
    "barrier{.cta}.arrive{.aligned} a, b;",
    section="9.7.13.1",
    fixed=3,
    kind="barrier",
    cost="control",
    types={"a": "u32", "b": "u32"},
)(_placed)
rows.row(
    "bar{.cta}.red.popc.u32 d, a{, b}, c;",
    "barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, c;",
    section="9.7.13.1",
    fixed=2,
    kind="barrier",
    cost="control",
    types={"d": "u32", "a": "u32", "b": "u32", "c": "pred"},
)(_placed)
rows.row(
    "bar{.cta}.red.op.pred d, a{, b}, c;",
    "barrier{.cta}.red.op{.aligned}.pred d, a{, b}, c;",
    section="9.7.13.1",
    fixed=2,
    kind="barrier",
    cost="control",
    op="and or",
    types={"d": "pred", "a": "u32", "b": "u32", "c": "pred"},
)(_placed)
rows.row("bar.warp.sync a;", section="9.7.13.2", fixed=2, kind="barrier", cost="control", types={"a": "b32"})(_placed)
rows.row(
    "membar.level;",
    "fence{.sem}.scope;",
    "fence.mbarrier_init.release.cluster;",
    section="9.7.13.4",
    kind="fence",
    cost="control",
    level="cta gl sys",
    sem="sc acq_rel acquire release",
    scope="cta cluster gpu sys",
    note="a fence of the host",
)(_placed)
rows.row(
    "membar.proxy.alias;",
    "membar.proxy.async{.space};",
    "fence.proxy.alias;",
    "fence.proxy.async{.space};",
    section="9.7.13.4",
    fixed=1,
    kind="fence",
    cost="control",
    space="global shared::cta",
    note="a fence of the host",
)(_placed)
