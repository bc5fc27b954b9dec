"""A library's instructions and errors belong to the line that calls it; the library's own line is reported too."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import tilewright as tw
from tilewright.errors import MemoryAccessError
from tilewright.profiling import profile
from tilewright.programs import Program
from tilewright.show.report import profile as report, terminal
from tilewright.simt import launch

LIBRARY = "/env/site-packages/lib/random.py"
KERNEL = f"""
.version 8.0
.target sm_90
.address_size 64
.file 1 "mine.py"
.file 2 "{LIBRARY}"
.func (.param .b64 r) called (.param .b64 x) {{
    .reg .b64 %rd<4>;
    .loc 2 30 1
    ld.param.b64 %rd1, [x];
    ld.global.u64 %rd2, [%rd1+64];
    st.param.b64 [r], %rd2;
    ret;
}}
.visible .entry k(.param .u64 in, .param .u64 out) {{
    .reg .b64 %rd<9>;
    .loc 1 5 1
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    .loc 2 20 1, function_name $s, inlined_at 1 5 1
    .loc 2 9 1, function_name $s, inlined_at 2 20 1
    ld.global.u64 %rd3, [%rd1];
    .loc 2 7 1, function_name $s, inlined_at 2 20 1
    add.u64 %rd4, %rd3, 1;
    .loc 1 6 1
    {{ .param .b64 a; st.param.b64 [a], %rd1; .param .b64 b; call.uni (b), called, (a); ld.param.b64 %rd5, [b]; }}
    add.u64 %rd4, %rd4, %rd5;
    st.global.u64 [%rd2], %rd4;
    ret;
}}
"""


def test_a_profile_counts_a_library_s_instructions_at_the_caller_s_line() -> None:
    data = np.arange(16, dtype=np.uint64)
    seen = profile(Program.from_ptx(KERNEL), 1, 1, (data, np.zeros(1, np.uint64)))
    assert [(one.file, one.line, one.counts.global_loads.requests) for one in seen.lines] == [
        ("mine.py", 5, 1), ("mine.py", 6, 1)
    ]  # fmt: skip
    assert [one.inner for one in seen.lines] == [(f"{LIBRARY}:7", f"{LIBRARY}:9"), (f"{LIBRARY}:30",)]
    inner = {site.opcode: site.inner for site in seen.sites if site.source == "mine.py:5"}
    assert inner == {"ld.param.u64": "", "ld.global.u64": f"{LIBRARY}:9", "add.u64": f"{LIBRARY}:7"}
    text = io.StringIO()
    terminal.show(report.blocks(seen), Console(file=text, width=200))
    assert "line 5 includes lib/random.py:7, 9\nline 6 includes lib/random.py:30\n" in text.getvalue()


@pytest.mark.parametrize(
    ("near", "far", "line", "inner"),
    [("%rd3, [%rd1]", "%rd3, [%rd1+1073741824]", 5, 9), ("%rd1+64]", "%rd1+1073741824]", 6, 30)],
    ids=["inlined", "called"],
)
def test_an_error_names_the_caller_s_line_and_the_library_s(near: str, far: str, line: int, inner: int) -> None:
    assert KERNEL.count(near) == 1
    program = Program.from_ptx(KERNEL.replace(near, far))
    arguments = (np.zeros(16, np.uint64), np.zeros(1, np.uint64))
    with pytest.raises(MemoryAccessError) as raised:
        launch(program, 1, 1, arguments)
    assert (raised.value.line, raised.value.inner) == (f"mine.py:{line}", f"{LIBRARY}:{inner}")
    assert f"at mine.py:{line}, in lib/random.py:{inner} (1 lane" in str(raised.value)
    (found,) = tw.check(program, 1, 1, arguments)
    assert (found.code, found.where, found.details["inner"]) == ("TW101", f"mine.py:{line}", [f"{LIBRARY}:{inner}"])
    assert "mine.py" not in found.message
