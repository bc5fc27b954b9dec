"""Which state spaces memory instructions take: the rows against the vendor's assembler, and samples that need none."""

from __future__ import annotations

import pytest
import vendor

from tilewright.simulate import isa

SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
#: Names with a place for the state space, and their operands.
TEMPLATES = {
    **{
        f"ld{order}.{{}}.u32": "%w32_1, [%w64_1]"
        for order in ("", ".weak", ".volatile", ".relaxed.gpu", ".acquire.cta")
    },
    **{
        f"st{order}.{{}}.u32": "[%w64_1], %w32_1"
        for order in ("", ".weak", ".volatile", ".relaxed.gpu", ".release.cta")
    },
    "ld.mmio.relaxed.sys.{}.u32": "%w32_1, [%w64_1]",
    "st.mmio.relaxed.sys.{}.u32": "[%w64_1], %w32_1",
    "ld.{}.nc.u32": "%w32_1, [%w64_1]",
    "ldu.{}.u32": "%w32_1, [%w64_1]",
    "atom.{}.add.u32": "%w32_1, [%w64_1], 1",
    "atom.{}.exch.b128": "%w128_1, [%w64_1], %w128_2",
    "atom.{}.cas.b16": "%w16_1, [%w64_1], %w16_2, %w16_3",
    "atom.{}.add.noftz.f16x2": "%w32_1, [%w64_1], %w32_2",
    "atom.{}.add.v2.f32": "{%w32_1, %w32_2}, [%w64_1], {%w32_1, %w32_2}",
    "red.{}.add.u32": "[%w64_1], 1",
    "red.{}.add.L2::cache_hint.u32": "[%w64_1], 1, %w64_2",
    "red.{}.min.noftz.v4.bf16": "[%w64_1], {%w16_1, %w16_2, %w16_3, %w16_4}",
    "prefetch.{}.L1": "[%w64_1]",
    "prefetch.{}.L2::evict_last": "[%w64_1]",
    "prefetch.{}.tensormap": "[%w64_1]",
    "discard.{}.L2": "[%w64_1], 128",
    "applypriority.{}.L2::evict_normal": "[%w64_1], 128",
    "cvta.{}.u64": "%w64_1, %w64_2",
    "cvta.to.{}.u64": "%w64_1, %w64_2",
    "isspacep.{}": "%p1, %w64_1",
}


@pytest.mark.skipif(not vendor.present(), reason="not run: the vendor's assembler is not installed")
def test_the_assembler_takes_the_same_spaces(tmp_path):
    names = [(template.format(space), operands) for template, operands in TEMPLATES.items() for space in SPACES]
    refused = vendor.refusals([f"{name} {operands};" for name, operands in names], tmp_path)
    differ = [
        f"{name}: {'a form here' if isa.table().find(name) else 'no form here'}; there: {refused.get(i, 'taken')}"
        for i, (name, _) in enumerate(names)
        if (isa.table().find(name) is None) != (i in refused)
    ]
    assert not differ, "\n".join(differ)


@pytest.mark.parametrize(
    "name",
    ["st.const.u32", "st.param::entry.u32", "st.relaxed.gpu.local.u32", "st.volatile.param.u32",
     "ld.acquire.gpu.const.u32",
     "ldu.shared.u32", "atom.local.add.u32", "atom.const.exch.b32", "red.param.add.u32", "ld.shared.nc.f32",
     "ld.relaxed.u32", "st.global.nc.u32", "prefetch.shared.L1"],
)  # fmt: skip
def test_refused_space(name):
    assert isa.table().find(name) is None


@pytest.mark.parametrize(
    "name",
    ["ld.const.u32", "ld.param::entry.u64", "st.param::func.b32", "st.param.f32", "ld.volatile.shared.f64",
     "ld.global.nc.L1::no_allocate.L2::256B.v4.f32", "ld.global.ca.nc.u8", "st.global.cs.v2.b64", "ld.relaxed.sys.u32",
     "atom.shared::cluster.add.u32", "red.add.f32"],
)  # fmt: skip
def test_accepted_space(name):
    assert isa.table().find(name) is not None
