"""The parser, against texts whose tree is known."""

from __future__ import annotations

import pytest

from tilewright.simulate.ptx import parse, tree

HEADER = ".version 8.4\n.target sm_90a, debug\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .shared .align 8 .b32 tile[16];"
    " .global .v2 .u16 pair[4];"
)


def kernel(body: str, before: str = "") -> tree.Function:
    module = parse(f"{HEADER}{before}\n.visible .entry k(.param .u64 a) {{ {REGISTERS}\n{body}\n}}")
    return module.functions["k"]


def one(text: str, before: str = "") -> tree.Instruction:
    (found,) = kernel(text, before).body
    assert isinstance(found, tree.Instruction)
    return found


R1, R2, P1, P2, RD1 = (tree.Register(name) for name in ("%r1", "%r2", "%p1", "%p2", "%rd1"))


@pytest.mark.parametrize(
    ("text", "name", "operands"),
    [
        ("add.s32 %r1, %r1, -7;", "add.s32", (R1, R1, tree.Immediate(-7))),
        ("mov.u32 %r1, %tid.x;", "mov.u32", (R1, tree.Register("%tid.x"))),
        ("mov .u32 %r1, %tid .x;", "mov.u32", (R1, tree.Register("%tid.x"))),
        ("mov.u32 %r1, WARP_SZ*2;", "mov.u32", (R1, tree.Immediate(64))),
        ("mov.u64 %rd1, tile;", "mov.u64", (RD1, tree.Symbol("tile"))),
        ("mov.u64 %rd1, tile+16;", "mov.u64", (RD1, tree.Symbol("tile", 16))),
        ("mov.u64 %rd1, tile[3];", "mov.u64", (RD1, tree.Symbol("tile", 12))),
        ("mov.u64 %rd1, pair[2];", "mov.u64", (RD1, tree.Symbol("pair", 8))),
        ("ld.shared.u32 %r1, tile[1+1];", "ld.shared.u32", (R1, tree.Address(tree.Symbol("tile"), 8))),
        ("ld.shared.u32 %r1, [tile+4];", "ld.shared.u32", (R1, tree.Address(tree.Symbol("tile"), 4))),
        ("ld.shared.u32 %r1, [tile+4-8];", "ld.shared.u32", (R1, tree.Address(tree.Symbol("tile"), -4))),
        ("ld.u32 %r1, [%rd1];", "ld.u32", (R1, tree.Address(RD1))),
        ("ld.u32 %r1, [%rd1+-4];", "ld.u32", (R1, tree.Address(RD1, -4))),
        ("ld.u32 %r1, [%rd1-0x10];", "ld.u32", (R1, tree.Address(RD1, -16))),
        ("ld.local.u32 %r1, [8+4];", "ld.local.u32", (R1, tree.Address(None, 12))),
        ("ld.v2.b32 {%r1, %r2}, [%rd1];", "ld.v2.b32", (tree.Vector((R1, R2)), tree.Address(RD1))),
        ("mov.b64 {%r1, _}, %rd1;", "mov.b64", (tree.Vector((R1, tree.Register("_"))), RD1)),
        ("mov.b64 %rd1, {%r1, 0};", "mov.b64", (RD1, tree.Vector((R1, tree.Immediate(0))))),
        ("setp.lt.and.s32 %p1|%p2, %r1, 3, !%p2;", "setp.lt.and.s32",
         (tree.Pair(P1, P2), R1, tree.Immediate(3), tree.Negated(P2))),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;", "shfl.sync.idx.b32",
         (tree.Pair(R1, P1), R2, tree.Immediate(0), tree.Immediate(31), tree.Immediate(-1))),
        ("setp.eq.b32 _|%p1, %r1, !0;", "setp.eq.b32", (tree.Pair(tree.Register("_"), P1), R1, tree.Immediate(1))),
        ("ld.global.L1::evict_last.L2::128B.v2.f32 {%f1,%f2}, [%rd1];", "ld.global.L1::evict_last.L2::128B.v2.f32",
         (tree.Vector((tree.Register("%f1"), tree.Register("%f2"))), tree.Address(RD1))),
        ("mov.f32 %f1, 0f3F800000;", "mov.f32", (tree.Register("%f1"), tree.Immediate(0x3F800000, "f32"))),
        ("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}];", "tex.1d.v4.f32.s32",
         (tree.Vector(tuple(tree.Register(f"%f{i}") for i in range(1, 5))),
          tree.Address(RD1, 0, (tree.Vector((R1,)),)))),
        ("barrier.sync 0;", "barrier.sync", (tree.Immediate(0),)),
        ("ret;", "ret", ()),
    ],
)  # fmt: skip
def test_operands(text: str, name: str, operands: tuple[object, ...]) -> None:
    found = one(text)
    assert (found.name, found.operands) == (name, operands)


def test_opcode_and_modifiers() -> None:
    found = one("ld.volatile.shared::cta.u32 %r1, [%rd1];")
    assert (found.opcode, found.modifiers) == ("ld", (".volatile", ".shared::cta", ".u32"))


def test_guards() -> None:
    assert one("@%p1 add.s32 %r1,%r1,1;").guard == tree.Guard(P1, False)
    assert one("@!%p1 add.s32 %r1,%r1,1;").guard == tree.Guard(P1, True)
    assert one("add.s32 %r1,%r1,1;").guard is None


F = ".func (.param .b32 r) f(.param .b32 x, .param .b64 y);\n"
CALL = "{.param .b32 p; .param .b64 q; .param .b32 s; "


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("call f;", tree.CallArguments((), tree.Symbol("f"), ())),
        ("call.uni f, ();", tree.CallArguments((), tree.Symbol("f"), ())),
        (CALL + "call.uni (s), f, (p, q);}",
         tree.CallArguments((tree.Symbol("s"),), tree.Symbol("f"), (tree.Symbol("p"), tree.Symbol("q")))),
        ("call (%r1), f, (%r2, 3);", tree.CallArguments((R1,), tree.Symbol("f"), (R2, tree.Immediate(3)))),
        ("proto: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;" + CALL + "call (s), %rd1, (q), proto;}",
         tree.CallArguments((tree.Symbol("s"),), RD1, (tree.Symbol("q"),), "proto")),
        ("list: .calltargets f; call %rd1, list;", tree.CallArguments((), RD1, (), "list")),
    ],
)  # fmt: skip
def test_calls(text: str, call: tree.CallArguments) -> None:
    assert one(text, F).operands == (call,)


def test_prototypes_and_targets() -> None:
    found = kernel(
        "p: .callprototype (.param .align 8 .b8 _[16]) _ (.param .b64 _, .reg .b32 _);\n"
        "t: .branchtargets L0, L1;\nc: .calltargets f;\nL0: L1: brx.idx %r1, t;",
        F,
    )
    returns, params = found.prototypes["p"]
    assert [(v.size, v.align) for v in returns] == [(16, 8)]
    assert [type(p).__name__ for p in params] == ["Variable", "Register"]
    assert found.targets == {"t": ("L0", "L1"), "c": ("f",)}
    assert [label.name for label in found.body if isinstance(label, tree.Label)] == ["L0", "L1"]


def test_scopes_get_their_own_names() -> None:
    found = kernel("""
        { .reg .b32 t; .param .b32 q; mov.u32 t, 1; st.param.b32 [q], t; L: bra L; }
        { .reg .f32 t; .param .b64 q; mov.f32 t, 1.0; st.param.f32 [q], t; bra L; L: }
        { .reg .b32 %r1; mov.u32 %r1, 1; { mov.u32 %r1, 2; } }
        mov.u32 %r1, 3;
    """)
    used = [item.operands[0] if isinstance(item, tree.Instruction) else item.name for item in found.body]
    assert used[:8] == [
        tree.Register("t"), tree.Address(tree.Symbol("q")), "L", tree.Symbol("L"),
        tree.Register("t$1"), tree.Address(tree.Symbol("q$1")), tree.Symbol("L$1"), "L$1",
    ]  # fmt: skip
    first, second, outer = used[8:]
    assert first == second != outer
    assert found.registers["t"] == ".b32"
    assert found.registers["t$1"] == ".f32"
    assert {v.name: v.size for v in found.variables if v.space == "param"} == {"q": 4, "q$1": 8}


def test_a_scoped_name_does_not_take_a_name_of_the_module() -> None:
    found = kernel("{ .local .b32 x; mov.u64 %rd1, x; } mov.u64 %rd1, x;", ".global .u32 x;")
    inner, outer = (item.operands[1] for item in found.body if isinstance(item, tree.Instruction))
    assert inner != outer == tree.Symbol("x")


def test_register_ranges_hold_what_is_used() -> None:
    found = kernel("mov.u32 %r7, %r19;")
    assert found.registers == {"%r7": ".b32", "%r19": ".b32"}
    assert one("mov.u32 %r1, %r20;").operands[1] == tree.Register("%r20")  # %r<20> ends at %r19
    assert kernel(".reg .b32 a1<5>; .reg .f32 a<2>; mov.b32 a14, a1;").registers == {"a14": ".b32", "a1": ".f32"}


def test_registers_need_no_percent_sign() -> None:
    assert one(".reg .b32 x, add; add.u32 add, x, x;").operands == (
        tree.Register("add"),
        tree.Register("x"),
        tree.Register("x"),
    )


def test_vector_registers_become_their_components() -> None:
    found = kernel(".reg .v4 .f32 v<2>; ld.v4.f32 v1, [%rd1]; add.f32 v1.x, v1.w, v1.g;")
    load, add = found.body
    assert isinstance(load, tree.Instruction)
    assert isinstance(add, tree.Instruction)
    parts = load.operands[0]
    assert isinstance(parts, tree.Vector)
    assert len(set(parts.items)) == 4
    assert add.operands == (parts.items[0], parts.items[3], parts.items[1])
    assert {found.registers[part.name] for part in parts.items if isinstance(part, tree.Register)} == {".f32"}


def test_locations() -> None:
    module = parse(f"""{HEADER}
        .file 1 "a.py", 1700000000, 12
        .file 2 "b.py"
        .entry k() {{
        ret;
        .loc 1 6 2
        ret;
        .loc 2 9 1, function_name $L__info_string0, inlined_at 1 20 3
        ret;
        .loc 2 9 1, function_name $L__info_string0+4, inlined_at 1 20 3
        L: ret; }}
        .section .debug_str {{ $L__info_string0: .b8 102 .b64 k+4 }}""")
    assert module.files == {1: "a.py", 2: "b.py"}
    found = [item.location for item in module.functions["k"].body if isinstance(item, tree.Instruction)]
    inlined = tree.Location(2, 9, 1, tree.Location(1, 20, 3))
    assert found == [None, tree.Location(1, 6, 2), inlined, inlined]


def test_lines_are_those_of_the_text() -> None:
    text = HEADER + "\n/* a\ncomment */ .entry k() // x\n{\n\n L:\n ret; trap;\n}"
    found = parse(text).functions["k"]
    assert found.ptx_line == 6
    assert [item.ptx_line for item in found.body] == [9, 10, 10]


def variables(text: str) -> tree.Module:
    return parse(HEADER + text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 x;", ("global", ".u32", 1, 1, 0, ())),
        (".visible .shared .align 4 .b8 x[1024];", ("shared", ".b8", 1024, 1, 4, ())),
        (".extern .shared .align 16 .b8 x[];", ("shared", ".b8", 0, 1, 16, ())),
        (".const[2] .f32 x[3] = {0f3F800000, 2.0};", ("const", ".f32", 3, 1, 0, (0x3F800000, 0x40000000))),
        (".weak .global .align 8 .v4 .f32 x[2];", ("global", ".f32", 2, 4, 8, ())),
        (".common .global .attribute(.managed) .u64 x;", ("global", ".u64", 1, 1, 0, ())),
        (".global .s32 x[][2] = {{-1, 0}, {5}, {1, 2}};", ("global", ".s32", 6, 1, 0, (-1, 0, 5, 0, 1, 2))),
        (".global .s32 x[2][2][2] = {{{1}, {2}}, {{3, 4}}};", ("global", ".s32", 8, 1, 0, (1, 0, 2, 0, 3, 4))),
        (".global .s32 x[4][3] = {{1}, {2}};", ("global", ".s32", 12, 1, 0, (1, 0, 0, 2))),
        (".global .v2 .s32 x[2] = {{1, 2}, {3}};", ("global", ".s32", 2, 2, 0, (1, 2, 3))),
        (".global .v2 .s32 x = {1, 2};", ("global", ".s32", 1, 2, 0, (1, 2))),
    ],
)
def test_variables(text: str, expected: tuple[object, ...]) -> None:
    x = variables(text).variables["x"]
    assert (x.space, x.type, x.count, x.vector, x.align, x.initial) == expected
    assert x.is_extern == text.startswith(".extern")


def test_initialisers_with_addresses() -> None:
    module = variables("""
        .global .u32 a[4]; .func f();
        .global .u64 x[4] = {a, a+4, generic(a)+8, generic(a+8)};
        .global .u8 y[3] = {0xFF(a), 0xFF00(generic(a)+4), 7};
        .global .u64 z = f;""")
    assert module.variables["x"].initial == (
        tree.Symbol("a"), tree.Symbol("a", 4), tree.Symbol("a", 8, generic=True), tree.Symbol("a", 8, generic=True),
    )  # fmt: skip
    assert module.variables["y"].initial == (
        tree.Symbol("a", mask=0xFF), tree.Symbol("a", 4, generic=True, mask=0xFF00), 7,
    )  # fmt: skip
    assert module.variables["z"].initial == (tree.Symbol("f"),)


def test_several_variables_in_one_declaration() -> None:
    assert list(variables(".global .u32 a, b[2], c<3>;").variables) == ["a", "b", "c0", "c1", "c2"]


def test_a_definition_replaces_an_extern_declaration() -> None:
    assert not variables(".extern .global .u32 a; .global .u32 a = 3;").variables["a"].is_extern
    assert not variables(".global .u32 a = 3; .extern .global .u32 a;").variables["a"].is_extern


def test_function_headers() -> None:
    module = parse(f"""{HEADER}
        .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
        .weak .func (.param .align 8 .b8 r[24]) g (.param .align 4 .b8 s[12], .param .b8 rest[]) .noreturn;
        .func (.reg .u32 rv) h(.reg .u32 a, .reg .u32 b) {{ add.u32 rv, a, b; ret; }}
        .visible .func other(); .alias other, h;
        .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .u64 .ptr .align 1 q, .param .u32 n)
        .maxntid 256, 1, 1
        .minnctapersm 2
        .maxnreg 64 .pragma "nounroll"; .explicitcluster .reqnctapercluster 2, 1, 1
        {{ .pragma "used_bytes_mask 0xf"; ret; }}""")
    assert list(module.functions) == ["vprintf", "g", "h", "other", "k"]
    vprintf, g, h, k = (module.functions[name] for name in ("vprintf", "g", "h", "k"))
    assert [f.is_declaration for f in (vprintf, g, h, k)] == [True, True, False, False]
    assert [p.size for p in g.params] == [12, 0]
    assert (g.returns[0].size, g.returns[0].align) == (24, 8)
    assert g.directives == {".noreturn": ()}
    assert h.returns == (tree.Register("rv"),)
    assert h.registers == {"rv": ".u32", "a": ".u32", "b": ".u32"}
    assert h.body[0].operands == (tree.Register("rv"), tree.Register("a"), tree.Register("b"))
    assert module.functions["other"].body == h.body
    assert [p.name for p in k.params] == ["p", "q", "n"]
    assert k.directives == {
        ".maxntid": (256, 1, 1), ".minnctapersm": (2,), ".maxnreg": (64,),
        ".explicitcluster": (), ".reqnctapercluster": (2, 1, 1),
    }  # fmt: skip
    assert module.entries == [k]


def test_header_without_address_size() -> None:
    module = parse(".version 9.4 .target debug, sm_100a")
    assert (module.version, module.target, module.address_size) == ((9, 4), "sm_100a", 64)


def test_comments_and_white_space_are_skipped() -> None:
    text = (
        HEADER.replace("\n", "\r\n") + '#line 3 "x"\n# 4 "y"\n@@DWARF .byte 0x1\n/* { // */ // } /*\n.entry k(){ret;}\0'
    )
    assert len(parse(text).functions["k"].body) == 1
