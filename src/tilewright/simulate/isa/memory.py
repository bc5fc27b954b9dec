"""Loads, stores, prefetches: rows that the translator places (PTX ISA 9.7.9).

Cache operators and eviction hints change no value; they are accepted and have no effect here.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

#: State spaces, by the kind of access. Source: PTX ISA, 9.7.9.8 (ld), 9.7.9.10 (ldu), 9.7.9.11 (st).
_READ = "global shared shared::cta shared::cluster local const param param::entry param::func"
_WRITTEN = "global shared shared::cta shared::cluster local param param::func"
_VOLATILE = "global shared shared::cta shared::cluster local"
_ORDERED = "global shared shared::cta shared::cluster"

_TYPE = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_VECTOR = "v2 v4 v8"
_SCOPES = "cta cluster gpu sys"
_EVICT = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
_EVICT_2 = "L2::evict_normal L2::evict_first L2::evict_last"
_PREFETCH = "L2::64B L2::128B L2::256B"

_access = functools.partial(
    rows.placed,
    kind="memory",
    cost="memory",
    types={"policy": "b64"},
    scope=_SCOPES,
    os=_ORDERED,
    vs=_VOLATILE,
    evict=_EVICT,
    evict2=_EVICT_2,
    prefetch=_PREFETCH,
    vec=_VECTOR,
    type=_TYPE,
)
_load = functools.partial(_access, section="9.7.9.8")
_store = functools.partial(_access, section="9.7.9.11")


#: The syntaxes, by how accesses are ordered; with a cache hint, each has a policy as one more operand.
for _hint, _policy in ("", ""), (".L2::cache_hint", ", policy"):
    _cached = f"{{.evict}}{{.evict2}}{_hint}"
    _load(
        f"ld{{.weak}}{{.ss}}{{.cop}}{_cached}{{.prefetch}}{{.vec}}.type d, [a]{_policy};",
        f"ld{{.weak}}.global{{.cop}}.nc{_cached}{{.prefetch}}{{.vec}}.type d, [a]{_policy};",
        f"ld.sem.scope{{.os}}{_cached}{{.prefetch}}{{.vec}}.type d, [a]{_policy};",
        ss=_READ,
        cop="ca cg cs lu cv",
        sem="relaxed acquire",
        note="b128, and vectors up to 256 bits; cache operators have no effect",
    )
    _store(
        f"st{{.weak}}{{.ss}}{{.cop}}{_cached}{{.vec}}.type [a], b{_policy};",
        f"st.sem.scope{{.os}}{_cached}{{.vec}}.type [a], b{_policy};",
        ss=_WRITTEN,
        cop="wb cg cs wt",
        sem="relaxed release",
    )

_store(
    "st.async.release.scope{.ss}.type [a], b;",
    "st.async.mmio.release.sys{.ss}.type [a], b;",
    section="9.7.9.12",
    fixed=1,
    scope="gpu sys",
    ss="global",
    type="b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
    note="stored at once",
)

_load("ld.volatile{.vs}{.prefetch}{.vec}.type d, [a];", "ld.mmio.relaxed.sys{.global}.type d, [a];")

_access("ldu{.global}{.vec}.type d, [a];", section="9.7.9.10", vec="v2 v4")

_store("st.volatile{.vs}{.vec}.type [a], b;", "st.mmio.relaxed.sys{.global}.type [a], b;")

rows.placed(
    "createpolicy.fractional.primary{.secondary}.type policy{, fraction};",
    "createpolicy.range{.global}.primary{.secondary}.type policy, [a], size, total;",
    "createpolicy.cvt.L2.type policy, b;",
    section="9.7.9.18",
    kind="policy",
    cost="memory",
    fixed=1,
    types={"fraction": "f32", "size": "u32", "total": "u32"},
    primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
    secondary="L2::evict_first L2::evict_unchanged",
    type="b64",
    note="loads and stores accept it and ignore it",
)

rows.placed(
    "prefetch{.ps}.level [a];",
    "prefetch{.global}.evict [a];",
    "prefetch{.ts}.tensormap [a];",
    "prefetchu.L1 [a];",
    "discard{.global}.L2 [a], size;",
    "applypriority{.global}.L2::evict_normal [a], size;",
    section="9.7.9.15",
    kind="nothing",
    cost="memory",
    ps="global local",
    ts="const param",
    evict="L2::evict_last L2::evict_normal",
    level="L1 L2",
    note="a hint: it reads nothing here",
)
