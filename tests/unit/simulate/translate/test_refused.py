"""Programs that mutation found: text that no compiler writes is refused with its line, not by a crash in a pass."""

from __future__ import annotations

import pytest
from ptx_kernels import kernel, words

from tilewright.errors import PtxError

VPRINTF = ".extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);"
RECURSIVE = """.func (.param .b32 result) f(.param .b32 x) { .reg .b32 %r<4>; ld.param.u32 %r1, [x];
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); } st.param.b32 [result], %r1; ret; }
.global .u32 g;"""


def line(body: str, module: str = "") -> int:
    """The line that a kernel's body is at."""
    return kernel("exit;", module=module).ptx.splitlines().index("exit;") + 1


@pytest.mark.parametrize(
    ("body", "module", "message"),
    [
        ("call vprintf, (%d1);", VPRINTF, "'vprintf' takes the address of a format .* [(]got 1 arguments[)]"),
        ("call vprintf;", VPRINTF, "'vprintf' takes the address of a format .* [(]got 0 arguments[)]"),
        ("call vprintf, (%d1, %d2, %d3);", VPRINTF, "'vprintf' takes the address .* [(]got 3 arguments[)]"),
        ("call vprintf, (%d1, vprintf);", VPRINTF, "a call must pass registers.*got 'vprintf' in .nowhere"),
        ("call (%r1), f, (g);", RECURSIVE, "a call must pass registers, literals or .param variables.*got 'g'"),
        ("call;", "", "expected .*, got ';'"),
        ("mov.u32 %r1, LABEL; LABEL:", "", "an operand must be a register, .*got 'LABEL'.; only branches take a label"),
        ("add.u32 %r1, %r2, [%d1+4];", "", "operand b of 'add.u32' must be a register or a literal [(]got .%d1[+]4"),
        ("add.u32 %r1, %r2, %r3|%r1;", "", "an operand must be a value to be read as .u32 [(]got '%r3.%r1'"),
        ("add.u32 5, %r2, %r3;", "", "'add.u32' must write to a register [(]got 5[)]"),
        ("mov.u32 %laneid, %r1;", "", ".*%laneid"),
        ("{ .param .b32 a; st.param.b32 [a]; }", "", "'st.param.b32' takes 2 operands [(]got 1[)]"),
        ("{ .param .b32 a; ld.param.b32 [a]; }", "", "'ld.param.b32' takes 2 operands [(]got 1[)]"),
        ("{ .param .b32 a; ld.param.b32 %r1, %r2, [a]; }", "", "'ld.param.b32' takes 2 operands [(]got 3[)]"),
    ],
)
def test_each_is_refused_at_its_line(body: str, module: str, message: str) -> None:
    # an inlined call rewrites the .param variables of its caller
    caller = ".func nothing() { ret; }"
    with pytest.raises(PtxError, match=rf"kernel\.ptx:{line(body, module + caller)}: {message}"):
        words(body + "\ncall nothing;", 32, module=module + caller)
