"""Loads, stores, prefetches: rows that the translator places (PTX ISA 9.7.9).

Cache operators and eviction hints change no value; they are accepted and have no effect here.
"""

from __future__ import annotations

from typing import Any

from tilewright.simt.isa.table import Table

rows = Table()

_SPACE = "global shared shared::cta local const param param::entry param::func"
_WRITABLE = "global shared shared::cta local param param::func"
_TYPE = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_COP = "ca cg cs lu cv wb wt nc"
_EVICT = (
    "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal L2::evict_first L2::evict_last"
)
_PREFETCH = "L2::64B L2::128B L2::256B"


def _placed(*_: Any) -> Any:
    """Memory instructions are placed by `translate.access`, which knows addresses and masks."""
    raise NotImplementedError("placed by the translator")


rows.row(
    "ld{.weak, .volatile}{.ss}{.cop}{.evict}{.evict2}{.L2::cache_hint}{.prefetch}{.vec}.type d, [a];",
    "ld{.sem}{.scope}{.ss}{.cop}{.evict}{.evict2}{.L2::cache_hint}{.prefetch}{.vec}.type d, [a];",
    "ldu{.ss}{.vec}.type d, [a];",
    section="9.7.9.8",
    kind="memory",
    cost="memory",
    ss=_SPACE,
    sem="relaxed acquire mmio.relaxed",
    scope="cta cluster gpu sys",
    cop=_COP,
    evict=_EVICT,
    evict2=_EVICT,
    prefetch=_PREFETCH,
    vec="v2 v4 v8",
    type=_TYPE,
    note="b128, and vectors up to 256 bits; cache operators have no effect",
)(_placed)

rows.row(
    "ld.mmio.relaxed{.scope}{.ss}.type d, [a];",
    section="9.7.9.8",
    kind="memory",
    cost="memory",
    ss=_SPACE,
    scope="cta cluster gpu sys",
    type=_TYPE,
)(_placed)

rows.row(
    "st{.weak, .volatile}{.ss}{.cop}{.evict}{.evict2}{.L2::cache_hint}{.vec}.type [a], b;",
    "st{.sem}{.scope}{.ss}{.cop}{.evict}{.evict2}{.L2::cache_hint}{.vec}.type [a], b;",
    "st.mmio.relaxed{.scope}{.ss}.type [a], b;",
    section="9.7.9.11",
    kind="memory",
    cost="memory",
    ss=_WRITABLE,
    sem="relaxed release",
    scope="cta cluster gpu sys",
    cop=_COP,
    evict=_EVICT,
    evict2=_EVICT,
    vec="v2 v4 v8",
    type=_TYPE,
)(_placed)

rows.row(
    "prefetch{.ss}{.evict}{.level} [a];",
    "prefetchu.L1 [a];",
    "prefetch{.tensormap} [a];",
    "discard{.ss}.L2 [a], size;",
    "applypriority{.ss}{.evict} [a], size;",
    section="9.7.9.15",
    kind="nothing",
    cost="memory",
    ss=_SPACE,
    evict=_EVICT,
    level="L1 L2",
    note="a hint: it reads nothing here",
)(_placed)
