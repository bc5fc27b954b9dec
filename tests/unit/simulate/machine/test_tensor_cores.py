"""The rules of tensor cores: complete for every GPU, each with a source, and printed in docs/fidelity.md."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import oracle_matrix
import pytest

from tilewright import machine
from tilewright.simulate.machine.tensor_cores import WAYS, rule

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "src" / "tilewright" / "simulate" / "machine" / "tensor_cores.toml").read_text("utf-8")
FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "m8n8k4", "wgmma8", "f8f6f4", "mxf8f6f4", "mxf4")


def sources() -> dict[tuple[str, str], str]:
    """The text in brackets after each record."""
    found, capability = {}, ""
    for line in TEXT.splitlines():
        if begin := re.fullmatch(r'\["(.*)"\]', line):
            capability = begin[1]
        elif record := re.fullmatch(r"(\w+) = \{.*\} +# (.*)", line):
            found[capability, record[1]] = ", ".join(re.findall(r"\[([^\]]+)\]", record[2]))
    return found


def _cell(record: dict[str, object], source: str) -> str:
    rule = record["way"] if "way" in record else f"{record['group']}, {record['fraction']}"
    return f"{rule} [{source}]"


def table() -> str:
    """The rules as the page has them."""
    data, of = tomllib.loads(TEXT), sources()
    del data["every"]
    plain = "| | f16 | bf16 | tf32 | e4m3, e5m2 | m8n8k4 | `wgmma` of e4m3, e5m2 | e3m2, e2m3, e2m1"
    lines = [f"{plain} | mxf8f6f4 | mxf4, mxf4nvf4 |"]
    lines.append("|---" * 10 + "|")
    for capability, records in data.items():
        cells = [_cell(records[name], of[capability, name]) for name in FORMATS if name != "e5m2"]
        lines.append(f"| {capability} | {' | '.join(cells)} |")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("capability", "before"), [((8, 7), (8, 6)), ((11, 0), (10, 0)), ((12, 1), (12, 0)), ((6, 1), (7, 0))]
)
def test_a_capability_without_records_has_those_before_it(capability, before):
    """A user's own record file may have any."""
    one, other = (replace(machine.gpu("a100"), compute_capability=x) for x in (capability, before))
    assert [rule(one, name) for name in FORMATS] == [rule(other, name) for name in FORMATS]


def test_the_page_has_the_rules():
    assert table() in (ROOT / "docs" / "fidelity.md").read_text("utf-8"), f"put into the page:\n{table()}"


@pytest.mark.parametrize("gpu", machine.names())
@pytest.mark.parametrize("name", FORMATS)
def test_every_gpu_has_a_rule_with_a_source(gpu, name):
    found = rule(machine.gpu(gpu), name)
    assert found.way in WAYS
    assert (found.way == "fused") == (found.group > 0 and found.fraction > 0)
    assert 13 <= found.kept <= 23
    assert sources()["{}.{}".format(*machine.gpu(gpu).compute_capability), name]


def test_both_formats_of_8_bits_have_one_rule():
    for gpu in map(machine.gpu, machine.names()):
        assert rule(gpu, "e4m3") == rule(gpu, "e5m2")


@pytest.mark.parametrize("capability", oracle_matrix.RULES)
def test_rules_are_those_that_the_oracle_took_from_the_papers(capability):
    gpu = next(g for g in map(machine.gpu, machine.names()) if "{}.{}".format(*g.compute_capability) == capability)
    for name, (group, fraction, kept) in oracle_matrix.RULES[capability].items():
        found = rule(gpu, "e4m3" if name == "fp8" else name)
        assert (found.group, found.fraction, found.kept) == (group, fraction, kept)
