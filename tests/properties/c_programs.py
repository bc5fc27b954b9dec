"""Random C functions that NVRTC and the host's C compiler both read, with one meaning.

A program is `f(in, out)`: it reads `INPUTS` 64-bit words and writes `OUTPUTS`. Arithmetic is on unsigned integers,
or operands are brought into range first, so nothing is undefined. All NaNs become one before a float's bits become
an integer.

Source: ISO C17 and the CUDA C++ Programming Guide (device functions, mathematical functions).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

INPUTS, OUTPUTS = 6, 8  # 64-bit words a thread

#: Text that both compilers read before a program.
COMMON = """
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64;
typedef struct { u64 a; float x; u16 h[3]; s8 c; double y; } S;
typedef union { float f; u32 u; } F32; typedef union { double f; u64 u; } F64;
FN u32 bits_f(float x) { F32 v; v.f = x; return x != x ? 0x7fc00000u : v.u; }
FN u64 bits_d(double x) { F64 v; v.f = x; return x != x ? 0x7ff8000000000000ull : v.u; }
FN float as_f(u32 x) { F32 v; v.u = x; return v.f; }
FN double as_d(u64 x) { F64 v; v.u = x; return v.f; }
FN s32 to_i(float x) { return x > -2e9f && x < 2e9f ? (s32)x : 77; }
FN u32 to_u(float x) { return x > -1.0f && x < 4e9f ? (u32)x : 78u; }
FN s64 to_l(double x) { return x > -9e18 && x < 9e18 ? (s64)x : 79; }
FN u64 to_ul(double x) { return x > -1.0 && x < 1.8e19 ? (u64)x : 80u; }
NOINLINE float modf_(float x, float y) { return fmodf(x, y); }
NOINLINE double mod_(double x, double y) { return fmod(x, y); }
NOINLINE float scalef_(float x, int n) { return ldexpf(x, n); }
NOINLINE double scale_(double x, int n) { return ldexp(x, n); }
NOINLINE S exchange(S s, u32 k) { u16 t = s.h[0]; s.h[0] = s.h[k % 3u]; s.h[1] = t; s.a += k; s.y = s.x; return s; }
"""
HOST = "#include <math.h>\n#define FN static inline\n#define NOINLINE static __attribute__((noinline))\n"
DEVICE = "#define FN static __device__ inline\n#define NOINLINE static __device__ __noinline__\n"

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("float", "double")
_TYPES = (*_INTEGERS, *_FLOATS)
_F1 = ("floor", "ceil", "trunc", "rint", "fabs", "sqrt", "round", "nearbyint")


class Function:
    """Writes one function's statements."""

    def __init__(self, draw: random.Random, calls: tuple[str, ...], *, library: bool) -> None:
        self.draw = draw
        self.calls = calls
        self.library = library  # whether to call the remainder and scaling functions, which are long
        self.most = 3 if library else 1  # how deep expressions go
        self.lines: list[str] = []
        self.variables: list[dict[str, str]] = [{}]  # name -> type, innermost scope last
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * len(self.variables) + text)

    def fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def declare(self, type_: str, value: str) -> str:
        name = self.fresh()
        self.line(f"{type_} {name} = {value};")
        self.variables[-1][name] = type_
        return name

    # -- expressions -------------------------------------------------------------------------------------------

    def leaf(self, depth: int, types: Sequence[str], likely: float, literal: Callable[[], str]) -> str | None:
        """A recent variable of these types, or a literal; None if the expression continues."""
        names = [n for scope in self.variables for n, t in scope.items() if t in types]
        if depth > 0 and self.draw.random() >= 0.15:
            return None
        if names and self.draw.random() < likely:
            return self.draw.choice(names[-8:])
        return literal()

    def edge(self) -> str:
        edges = (0, 1, 2, 7, 31, 255, 65535, 0x80000000, 0x123456789, self.draw.getrandbits(32))
        return f"{self.draw.choice(edges)}ull"

    def integer(self, depth: int) -> str:
        """An expression of type u64, u32, or narrower, unsigned where it can overflow."""
        depth = min(depth, self.most)
        if leaf := self.leaf(depth, _INTEGERS, 0.75, self.edge):
            return leaf
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        width = self.draw.choice(("u32", "u64"))
        to_integer = ("to_i((float)", "to_u((float)", "to_l((double)", "to_ul((double)")
        forms = (
            lambda: f"(({width}){a} {self.draw.choice('+-*&|^')} ({width}){b})",
            lambda: f"(({width}){a} {self.draw.choice('/%')} (({width}){b} | 1u))",
            lambda: f"(({width}){a} {self.draw.choice(('<<', '>>'))} (({b}) & {31 if width == 'u32' else 63}))",
            lambda: f"((s{width[1:]})({width}){a} >> (({b}) & 15))",
            lambda: f"(u64)((s64)(s32){a} {self.draw.choice('+-*')} (s64)(s16){b})",
            lambda: f"(u32)((s32)((u32){a} >> 1) {self.draw.choice('/%')} (s32)(((u32){b} >> 2) | 1u))",
            lambda: f"(u64)({self.draw.choice(_INTEGERS)})({a})",
            lambda: f"({self.condition(depth - 1)} ? (u64)({a}) : (u64)({b}))",
            lambda: f"(u64)({self.condition(depth - 1)})",
            lambda: f"{self.draw.choice(('bits_f((float)', 'bits_d((double)'))}({self.floating(depth - 1)}))",
            lambda: f"(u64){self.draw.choice(to_integer)}({self.floating(depth - 1)}))",
            lambda: f"own[({a}) & 15]",
            lambda: f"s.h[(u32)({a}) % 3u]",
            lambda: f"(u64)table[({a}) & 7]",
            lambda: self.call(depth),
        )
        return self.draw.choice(forms)()

    def call(self, depth: int) -> str:
        if not self.calls:
            return "(u64)s.c"
        arguments = f"(u32)({self.integer(depth - 1)}), (u64)({self.integer(depth - 1)})"
        return f"{self.draw.choice(self.calls)}({arguments}, (float)({self.floating(depth - 1)}))"

    def floating(self, depth: int) -> str:
        """An expression of type float or double."""
        depth = min(depth, self.most)
        literals = ("0.0f", "1.0f", "-2.5f", "3.0", "0.1", "1e30f", "1e-40f", "s.x", "s.y")
        if leaf := self.leaf(depth, _FLOATS, 0.8, lambda: self.draw.choice(literals)):
            return leaf
        a, b = self.floating(depth - 1), self.floating(depth - 1)
        kind = self.draw.choice(_FLOATS)
        end = "f" if kind == "float" else ""
        forms = (
            lambda: f"(({kind})({a}) {self.draw.choice('+-*/')} ({kind})({b}))",
            lambda: f"(({kind})({a}) * ({kind})({b}) + ({kind})({self.floating(0)}))",
            lambda: f"{self.draw.choice(_F1)}{end}(({kind})({a}))",
            lambda: f"fma{end}(({kind})({a}), ({kind})({b}), ({kind})({self.floating(0)}))",
            lambda: f"(-({kind})({a}))",
            lambda: f"({kind})({self.draw.choice(_INTEGERS)})({self.integer(depth - 1)})",
            lambda: f"({self.condition(depth - 1)} ? ({kind})({a}) : ({kind})({b}))",
            lambda: "as_f((u32)(" + self.integer(depth - 1) + "))",
            lambda: "as_d((u64)(" + self.integer(depth - 1) + "))",
            lambda: f"mod{end}_(({kind})({a}), ({kind})({b}))",
            lambda: f"scale{end}_(({kind})({a}), (int)(({self.integer(depth - 1)}) & 127) - 60)",
        )
        return self.draw.choice(forms if self.library and self.draw.random() < 0.4 else forms[:-2])()

    def condition(self, depth: int) -> str:
        compare = self.draw.choice(("<", "<=", ">", ">=", "==", "!="))
        if self.draw.random() < 0.35:
            kind = self.draw.choice(_FLOATS)
            return f"(({kind})({self.floating(depth)}) {compare} ({kind})({self.floating(depth)}))"
        kind = self.draw.choice(_INTEGERS)
        plain = f"(({kind})({self.integer(depth)}) {compare} ({kind})({self.integer(depth)}))"
        if depth > 0 and self.draw.random() < 0.3:
            return f"({plain} {self.draw.choice(('&&', '||'))} {self.condition(depth - 1)})"
        return f"(!{plain})" if self.draw.random() < 0.1 else plain

    # -- statements --------------------------------------------------------------------------------------------

    def statement(self, depth: int, in_loop: bool) -> None:
        choice = self.draw.random()
        if depth > 0 and choice < 0.3:
            self.draw.choice((self.branch, self.loop, self.switch))(depth - 1, in_loop)
        elif choice < 0.5:
            self.assign()
        elif choice < 0.6:
            self.line(f"own[({self.integer(1)}) & 15] = {self.integer(2)};")
        elif choice < 0.7:
            self.structure()
        elif in_loop and choice < 0.76:
            self.line(f"if {self.condition(1)} {self.draw.choice(('break', 'continue'))};")
        else:
            type_ = self.draw.choice(_TYPES)
            self.declare(type_, f"({type_})({self.floating(2) if type_ in _FLOATS else self.integer(2)})")

    def structure(self) -> None:
        self.line(self.draw.choice((
            f"s.a ^= {self.integer(2)};",
            f"s.x = (float)({self.floating(2)});",
            f"s.h[(u32)({self.integer(1)}) % 3u] = (u16)({self.integer(1)});",
            "s = exchange(s, (u32)(" + self.integer(1) + "));",
            f"s.c = (s8)({self.integer(2)});",
        )))  # fmt: skip

    def assign(self) -> None:
        names = [(n, t) for scope in self.variables for n, t in scope.items() if not n.startswith("i")]
        if not names:
            return
        name, type_ = self.draw.choice(names)
        value = self.floating(2) if type_ in _FLOATS else self.integer(2)
        self.line(f"{name} = ({type_})({value});")

    def block(self, count: int, depth: int, in_loop: bool) -> None:
        self.variables.append({})
        for _ in range(count):
            self.statement(depth, in_loop)
        self.variables.pop()

    def branch(self, depth: int, in_loop: bool) -> None:
        self.line(f"if {self.condition(2)} {{")
        self.block(self.draw.randrange(1, 4), depth, in_loop)
        if self.draw.random() < 0.6:
            self.line("} else {")
            self.block(self.draw.randrange(1, 4), depth, in_loop)
        self.line("}")

    def loop(self, depth: int, in_loop: bool) -> None:
        del in_loop
        counter = f"i{self.fresh()}"
        bound = f"(u32)(({self.integer(1)}) & {self.draw.choice((3, 7))})"
        form = self.draw.choice(
            ("for (u32 {c} = 0; {c} < n{c}; {c}++) {{", "u32 {c} = 0; do {{", "u32 {c} = 0; while ({c}++ < n{c}) {{")
        )
        self.line(f"{{ u32 n{counter} = {bound};")
        self.line(form.format(c=counter))
        self.variables.append({counter: "u32"})
        self.block(self.draw.randrange(1, 5), depth, True)
        self.variables.pop()
        self.line(f"}} while ({counter}++ < n{counter}); }}" if "do" in form else "} }")

    def switch(self, depth: int, in_loop: bool) -> None:
        del in_loop
        cases = self.draw.choice((3, 6, 12))
        self.line(f"switch ((u32)({self.integer(2)}) % {cases + 1}u) {{")
        for case in range(cases):
            self.line(f"case {case}: {{")
            self.block(self.draw.randrange(0, 3), depth, False)
            self.line("}" if self.draw.random() < 0.25 else "} break;")
        self.line("default: {")
        self.block(1, depth, False)
        self.line("} }")


_START = """  u64 own[16]; S s;
  for (u32 j = 0; j < 16; j++) own[j] = {data} * (j + 1);
  s.a = {data}; s.x = 1.5f; s.c = (s8){data}; s.y = 0.25;
  for (u32 j = 0; j < 3; j++) s.h[j] = (u16)({data} >> (8 * j));"""


def program(seed: int, *, small: bool = False) -> str:
    """The functions of a program; `FN`, `NOINLINE` and `TABLE` are left to the text that includes it."""
    draw = random.Random(seed)
    table = ", ".join(str(draw.getrandbits(31) - (1 << 30)) for _ in range(8))
    parts = [
        f"TABLE s32 table[8] = {{{table}}};",
    ]
    helper = Function(draw, (), library=not small)
    helper.variables[0] = {"p": "u32", "q": "u64", "r": "float"}
    helper.lines.append(_START.format(data="q"))
    helper.line("u32 deep = p & 7u;")
    for _ in range(draw.choice((1, 3, 6))):
        helper.statement(1, False)
    helper.line(f"u64 result = {helper.integer(2)};")
    again = f"g(deep - 1u, result, r) ^ g(deep - 2u, q, (float)({helper.floating(2)}))"
    helper.line(f"if (deep > 1u) result += {again};")
    helper.line("return result;")
    parts.append("NOINLINE u64 g(u32 p, u64 q, float r) {\n" + "\n".join(helper.lines) + "\n}")
    main = Function(draw, ("g",), library=not small)
    main.lines.append(_START.format(data="in[0]"))
    for word, type_ in enumerate(("u64", "u32", "s16", "float", "double", "s64")):
        value = {"float": f"as_f((u32)in[{word}])", "double": f"as_d(in[{word}])"}.get(type_, f"({type_})in[{word}]")
        main.declare(type_, value)
    for _ in range(draw.choice((2, 4) if small else (3, 6, 10))):
        main.statement(draw.choice((0, 1) if small else (0, 1, 2, 2)), False)
    for word in range(OUTPUTS - 2):
        main.line(f"out[{word}] = {main.integer(1 if small else 2)};")
    main.line(f"out[{OUTPUTS - 2}] = bits_f(s.x) ^ s.a ^ bits_d(s.y) ^ (u64)s.h[1];")
    main.line(f"u64 sum = 0; for (u32 j = 0; j < 16; j++) sum = sum * 31 + own[j]; out[{OUTPUTS - 1}] = sum;")
    parts.append("FN void f(const u64 *in, u64 *out) {\n" + "\n".join(main.lines) + "\n}")
    return "\n".join(parts)


def for_device(text: str) -> str:
    """CUDA C++ with a kernel `k` that runs the program once a thread."""
    kernel = f"""
extern "C" __global__ void k(const u64 *in, u64 *out) {{
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  f(in + i * {INPUTS}, out + i * {OUTPUTS});
}}"""
    return DEVICE + "#define TABLE __device__ const\n" + COMMON + text + kernel


def for_host(text: str) -> str:
    """C with a function `run(in, out, n)` that runs the program n times."""
    run = f"""
void run(const u64 *in, u64 *out, u64 n) {{
  for (u64 i = 0; i < n; i++) f(in + i * {INPUTS}, out + i * {OUTPUTS});
}}"""
    return HOST + "#define TABLE static const\n" + COMMON + text + run
