"""Launches that no GPU accepts, and kernels that are no PTX."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError, LaunchError, PtxError, TilewrightError
from tilewright.instruments import Banks
from tilewright.programs import Program
from tilewright.simt import Memory, launch

PLAIN = ".version 8.7\n.target sm_90\n.address_size 64\n"


def plain(body: str, declarations: str = "", module: str = "") -> Program:
    return Program.from_ptx(
        f"{PLAIN}{module}\n.visible .entry k(.param .u64 p) {{\n{declarations}\n.reg .b32 %r<9>; .reg .b64 %d<9>; "
        f".reg .pred %p<9>;\n{body}\nret;\n}}\n"
    )


OUT = np.zeros(64, np.uint32)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (1, 1025, r"1,?025"),
        (1, (32, 33), r"1,?056"),
        (1, (1, 1, 65), "64"),
        (1, 0, "0"),
        (0, 32, "0"),
        ((1, 0), 32, "0"),
        (-1, 32, "-1"),
        ((1, 65536), 32, r"65,?535"),
        ((1, 1, 65536), 32, r"65,?535"),
        (1 << 31, 32, r"2,?147,?483,?647"),
        ((1, 1, 1, 1), 32, "k"),
        ((), 32, "k"),
        (1.5, 32, "1.5"),
        ("2", 32, "2"),
        (1, None, "None"),
    ],
)
def test_extents(grid, block, message):
    with pytest.raises((LaunchError, ArgumentTypeError), match=message) as raised:
        launch(plain(""), grid, block, (OUT,))
    assert isinstance(raised.value, ValueError | TypeError)


@pytest.mark.parametrize("shared_bytes", [-1, 233_000, 1 << 40, 1.5, "16"])
def test_shared_bytes(shared_bytes):
    rule = r"at most 232,448 bytes together" if shared_bytes in (233_000, 1 << 40) else "whole number from 0 on"
    with pytest.raises(LaunchError, match=rule) as raised:
        launch(plain(""), 1, 32, (OUT,), shared_bytes=shared_bytes)
    assert (f"{shared_bytes:,}" if isinstance(shared_bytes, int) else repr(shared_bytes)) in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": 5}, r"`limits` must be a tilewright.simt.Limits \(got 5\)"),
        ({"memory": 5}, "`memory` must be a tilewright.simt.Memory"),
        ({"seed": -1}, r"`seed` must be a whole number from 0 on \(got -1\)"),
        ({"seed": 1.5}, "`seed` must be"),
        ({"instruments": Banks()}, "`instruments` must be a sequence"),
        ({"instruments": [5]}, r"`instruments\[0\]` must be an instrument \(got 5\)"),
        ({"instruments": [Banks]}, r"`instruments\[0\]` must be an instrument .*, as tilewright"),
    ],
)
def test_options_of_another_kind(options, message):
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=message):
        launch(kernel(""), 1, 32, (OUT,), **options)


@pytest.mark.parametrize("call", [tw.check, tw.profile, tw.predict])
def test_unknown_options(call):
    with pytest.raises(TypeError, match=rf"^{call.__name__}\(\) got an unexpected keyword argument 'shared'"):
        call(kernel("ret;"), 1, 32, (), shared=4)


def test_arrays_on_the_device_are_read_by_numpy():
    held = Memory().array(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert (np.asarray(held) == np.arange(6).reshape(2, 3)).all() and np.asarray(held, np.float32).dtype == np.float32
    with pytest.raises(ArgumentValueError, match="no extent below 0"):
        Memory().empty((-3,))


@pytest.mark.parametrize("text", [3, b".version 8.7", "", " "])
def test_text_that_is_no_ptx(text):
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match="`text_or_path` must be PTX text or a path"):
        Program.from_ptx(text)


def test_static_and_dynamic_shared_memory_together():
    program = plain("st.shared.u32 [s], 1;", ".shared .align 4 .b8 s[40000];")
    launch(program, 1, 32, (OUT,), shared_bytes=232_448 - 40_000)
    with pytest.raises(LaunchError, match=r"232,448 bytes together .*\(got 40,000 static and 192,464 dynamic\)"):
        launch(program, 1, 32, (OUT,), shared_bytes=232_448 - 40_000 + 16)


@pytest.mark.parametrize("args", [(), (OUT, OUT), (OUT, 3)])
def test_number_of_arguments(args):
    with pytest.raises(LaunchError, match=r"k.*1 argument"):
        launch(plain(""), 1, 32, args)


@pytest.mark.parametrize("argument", ["text", 1 + 2j, [1, 2], np.array([object()])])
def test_types_of_arguments(argument):
    with pytest.raises(TilewrightError) as raised:
        launch(plain(""), 1, 32, (argument,))
    assert isinstance(raised.value, ValueError | TypeError)


def test_dtypes_of_a_compiled_kernel():
    program = Program.from_cuda('extern "C" __global__ void k(float *x, int n) { x[0] = n; }', "k")
    float_program = Program.from_python(lambda x: None, "void(float32[:])")
    with pytest.raises(ArgumentTypeError, match="float64"):
        launch(float_program, 1, 1, (np.zeros(4),))
    with pytest.raises((LaunchError, ArgumentTypeError), match=str(1 << 40)):
        launch(program, 1, 1, (np.zeros(4, np.float32), 1 << 40))


def test_memory_that_is_full():
    with pytest.raises(
        LaunchError, match=r"global memory holds 4,096 bytes .*make `Memory\(capacity_bytes=...\)` larger"
    ):
        launch(plain(""), 1, 32, (np.zeros(5000, np.uint8),), memory=Memory(4096))


def test_something_that_is_no_kernel():
    with pytest.raises(ArgumentTypeError):
        launch(42, 1, 32, (OUT,))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("shf.l.clamp.b16 %r1, %r1, %r2, %r3;", r"'shf\.l\.clamp\.b16' is not implemented; known forms: .*shf\.l"),
        ("add.u33 %r1, %r1, %r2;", r"'add\.u33' is not implemented; known forms: .*add\.u32"),
        ("frobnicate.u32 %r1;", r"'frobnicate\.u32' is not implemented; known forms: none with this opcode"),
        ("add.u32 %r1, %nope, 1;", r":8: register '%nope' is not declared"),
        ("add.u32 %nope, %r1, 1;", r":8: register '%nope' is not declared"),
        ("@%q bra END; END:", r"register '%q' is not declared"),
        ("bra NOWHERE;", r":8: 'NOWHERE' is not declared here"),
        ("A: add.u32 %r1, %r1, 1; A: ret;", r"'A' is declared twice"),
        ("brx.idx %r1, LIST;", r"'LIST' is not declared here"),
        ("add.u32 %r1, %r2;", r"'add\.u32' takes 3 operands \(got 2\)"),
        ("setp.eq.u32 %q, %r1, %r2, 7;", r"'setp\.eq\.u32' takes 3 operands \(got 4\)"),
        ("add.u32 5, %r2, 1;", r"must write to a register"),
        ("ld.global.u32 %r1, [nope];", r"'nope' is not declared"),
        ("st.shared.u32 [g], %r1;", r"names 'g', which is in \.global"),
        ("ld.param.u64 %d1, [p+8];", r"reads bytes 8 to 16 of 8 parameter bytes"),
        ("ld.global.v4.u32 {%r1, %r2}, [g];", r"operand d of .* must be 4 registers in braces \(got 2 in braces\)"),
        ("st.global.v2.u32 [g], {%r1, %r2, %r3};", r"operand b of .* must be 2 registers in braces \(got 3"),
        ("bra;", r"bra"),
        ("call missing, (%r1);", r"missing"),
    ],
)  # fmt: skip
def test_kernels_that_are_no_ptx(body, message):
    with pytest.raises(PtxError, match=message) as raised:
        launch(plain(body, module=".global .u32 g;"), 1, 32, (OUT,))
    assert isinstance(raised.value, ValueError)


def test_a_kernel_that_reads_y_and_z_runs_in_one_dimension():
    out = np.zeros(40, np.int32)
    launch(kernel("mov.u32 %r1, %tid.z; mov.u32 %r2, %nctaid.y; add.u32 %r1, %r1, %r2; st.global.u32 [%at], %r1;"),
           1, 32, (out,))  # fmt: skip
    assert out.tolist() == [1] * 32 + [0] * 8


@pytest.mark.parametrize(
    ("directive", "block", "message"),
    [
        (".maxntid 64, 1, 1", 96, r"at most 64 threads a block, as its .maxntid says \(got 96\)"),
        (".maxntid 8, 8", (33, 2), "at most 64 threads"),
        (".reqntid 32, 2", 64, r"blocks of \(32, 2, 1\) threads, as its .reqntid says \(got \(64, 1, 1\)\)"),
        (".explicitcluster\n.reqnctapercluster 2, 1, 1", 32, "the grid must be a multiple of the cluster"),
    ],
)
def test_blocks_that_a_kernel_is_not_made_for(directive, block, message):
    text = plain("").ptx
    head, brace, body = text.partition("{")
    with pytest.raises((LaunchError, PtxError), match=message):
        launch(Program.from_ptx(f"{head}{directive}\n{brace}{body}"), 1, block, (OUT,))
    allowed = {".maxntid 64, 1, 1": 64, ".maxntid 8, 8": (32, 2), ".reqntid 32, 2": (32, 2)}.get(directive)
    if allowed:
        launch(Program.from_ptx(f"{head}{directive}\n{brace}{body}"), 1, allowed, (OUT,))
