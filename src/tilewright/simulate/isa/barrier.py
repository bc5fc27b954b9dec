"""Barriers and fences: rows that the translator places (PTX ISA 9.7.13)."""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

_TYPES = {"d": "u32", "a": "u32", "b": "u32", "c": "pred"}
_barrier = functools.partial(rows.placed, section="9.7.13.1", kind="barrier", cost="control", types=_TYPES)
_fence = functools.partial(rows.placed, section="9.7.13.4", kind="fence", cost="control", note="a fence of the host")


_barrier(
    "bar{.cta}.sync a{, b};",
    "barrier{.cta}.sync{.aligned} a{, b};",
    fixed=1,
    note="(id, count); the count may be left out",
)
_barrier("bar{.cta}.arrive a, b;", "barrier{.cta}.arrive{.aligned} a, b;", fixed=3)
_barrier("bar{.cta}.red.popc.u32 d, a{, b}, c;", "barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, c;", fixed=2)
_barrier(
    "bar{.cta}.red.op.pred d, a{, b}, c;",
    "barrier{.cta}.red.op{.aligned}.pred d, a{, b}, c;",
    fixed=2,
    op="and or",
    types=_TYPES | {"d": "pred"},
)
rows.placed(
    "bar.warp.sync membermask;",
    section="9.7.13.2",
    fixed=2,
    kind="barrier",
    cost="control",
    types={"membermask": "b32"},
)
rows.placed(
    "barrier.cluster.wait{.acquire}{.aligned};",
    section="9.7.13.3",
    kind="barrier",
    cost="control",
    fixed=2,
)
rows.placed(
    "barrier.cluster.arrive{.sem}{.aligned};",
    section="9.7.13.3",
    kind="cluster",
    cost="control",
    fixed=2,
    sem="release relaxed",
)
_fence(
    "membar.level;",
    "fence{.sem}.scope;",
    "fence.mbarrier_init.release.cluster;",
    level="cta gl sys",
    sem="sc acq_rel acquire release",
    scope="cta cluster gpu sys",
)
_fence(
    "membar.proxy.alias;",
    "membar.proxy.async{.space};",
    "fence.proxy.alias;",
    "fence.proxy.async{.space};",
    fixed=1,
    space="global shared::cta shared::cluster",
)
_fence(
    "fence.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.tensormap::generic.release.scope;",
    "fence.proxy.tensormap::generic.acquire.scope [a], size;",
    fixed=9,
    scope="cta cluster gpu sys",
)
