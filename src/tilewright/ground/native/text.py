"""LLVM text under construction: names, blocks, declarations. Text, because llvmlite.ir lacks vector intrinsics.

Source: LLVM Language Reference.
"""

from __future__ import annotations


class Text:
    """Functions' text under construction, with what their module must declare or define for them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._count = 0

    def label(self, hint: str = "b") -> str:
        """A fresh name of a block, or (after a percent sign) of a value."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """Append one line."""
        self.lines.append(text)

    def assign(self, text: str) -> str:
        """Append an instruction; returns its result's name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def place(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")

    def branch(self, label: str) -> None:
        """Jump."""
        self.lines.append(f"br label %{label}")

    def declare(self, symbol: str, text: str) -> None:
        """Add a module-level declaration or definition once."""
        self.declarations.setdefault(symbol, text)

    def invoke(self, symbol: str, result: str, *arguments: object) -> str:
        """Call a function, declared from its typed arguments; returns its result's name, "" if it returns nothing."""
        given = [str(argument) for argument in arguments]
        if symbol not in self.declarations:
            self.declarations[symbol] = f"declare {result} @{symbol}({', '.join(map(_type_of, given))})"
        text = f"call {result} @{symbol}({', '.join(given)})"
        if result == "void":
            self.line(text)
            return ""
        return self.assign(text)


def _type_of(argument: str) -> str:
    """The type of a typed argument such as `<8 x float> %v3` or `ptr align 1 %p`."""
    return argument[: argument.index(">") + 1] if argument.startswith("<") else argument.split(" ", 1)[0]


def mangle(type_: str, lanes: int = 1) -> str:
    """A type as part of an intrinsic's name: `v32f32`, `i64`."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}.get(type_, type_)
    return short if lanes == 1 else f"v{lanes}{short}"
