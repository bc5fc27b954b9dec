"""Instructions of an inlined function that has no line table count for the line that calls it."""

from __future__ import annotations

import pytest

from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.translate.analysis.inline import inline_calls

TEXT = """.version 8.0
.target sm_90
.address_size 64
.func inner() {{
  bar.sync 0;
  {line}
  bar.sync 1;
  ret;
}}
.func outer() {{ call inner; ret; }}
.visible .entry k() {{
  .loc 1 7 3
  bar.sync 2;
  .loc 1 8 3
  call outer;
  ret;
}}
.file 1 "k.py"
"""


@pytest.mark.parametrize(("line", "second"), [("", 8), (".loc 1 3 1", 3), (".loc 1 0 0", 8)])
def test_an_own_line_stays_and_a_missing_one_is_the_callers(line: str, second: int) -> None:
    module = parse(TEXT.format(line=line))
    body = inline_calls(module, module.functions["k"]).body
    found = [
        item.location.line if item.location else 0
        for item in body
        if isinstance(item, tree.Instruction) and item.opcode == "bar"
    ]
    assert found == [7, 8, second]
