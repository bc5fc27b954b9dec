"""Reads C++ parameter types from a kernel's mangled name, so that a launch can check dtypes.

PTX only says that a parameter has eight bytes; the name says that it is a `const float *`. Types that are rare in
kernels (function pointers, expressions, non-empty pack expansions) are not read; then the whole signature is unknown
and unchecked.

Source: Itanium C++ ABI, 5.1 (External Names) and 5.1.10 (Compression).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

#: Code -> (C++ name, NumPy dtype). `char` has none: whether it is signed depends on the platform.
BUILTIN = {
    "v": ("void", ""),
    "b": ("bool", "|b1"),
    "c": ("char", ""),
    "a": ("signed char", "|i1"),
    "h": ("unsigned char", "|u1"),
    "s": ("short", "<i2"),
    "t": ("unsigned short", "<u2"),
    "i": ("int", "<i4"),
    "j": ("unsigned int", "<u4"),
    "l": ("long", "<i8"),
    "m": ("unsigned long", "<u8"),
    "x": ("long long", "<i8"),
    "y": ("unsigned long long", "<u8"),
    "f": ("float", "<f4"),
    "d": ("double", "<f8"),
}
#: Prefix of the names of members of namespaces and classes.
_NESTED = "_ZN"
#: Classes in CUDA's headers that correspond to one NumPy scalar.
_CLASSES = {"__half": "<f2"}


@dataclass(frozen=True, slots=True)
class CType:
    """A parameter's type."""

    name: str  #: In C++ syntax: `const float *`.
    dtype: str = ""  #: NumPy's dtype of the value, or of a pointer's target; empty if NumPy has none.
    pointer: bool = False
    const: bool = False  #: Whether a pointer's target is const.


class _UnreadError(Exception):
    """The name contains something that this reader does not support."""


def parameter_types(symbol: str) -> tuple[CType, ...] | None:
    """The parameter types of a mangled function name; None if the name does not have them.

    >>> [type_.name for type_ in parameter_types("_Z13global_memoryIfEvPKT_S2_PS0_iii")]
    ['const float *', 'const float *', 'float *', 'int', 'int', 'int']
    >>> parameter_types("saxpy") is None
    True
    """
    if not symbol.startswith("_Z"):
        return None
    try:
        return _Reader(symbol[2:]).parameters()
    except (_UnreadError, IndexError):
        return None


def nested_name(symbol: str) -> str:
    """The last part of a name in namespaces or classes, as in the source; "" for any other symbol.

    >>> nested_name("_ZN8__main__4fillB2v1B3abcEf"), nested_name("saxpy")
    ('fill', '')
    """
    reader, name = _Reader(symbol.removeprefix(_NESTED)), ""
    while symbol.startswith(_NESTED) and reader.take(r"L?(?=\d)"):
        name = reader.identifier()
    return name


def spoken_name(symbol: str) -> str:
    """A function's source name: the last part, with a template's arguments if they can be read.

    >>> [spoken_name(name) for name in ("_Z9vectorAddPKfS0_Pfi", "_Z6reduceIfLi256EEvPT_", "_ZN3cub4scanEv", "saxpy")]
    ['vectorAdd', 'reduce<float, 256>', 'scan', 'saxpy']
    """
    if not symbol.startswith("_Z") or symbol.startswith(_NESTED):
        return nested_name(symbol) or symbol
    reader, name = _Reader(symbol[2:]), ""
    try:
        reader.take("L")
        name = reader.identifier()
        if not reader.rest.startswith("I"):
            return name
        reader.seen.append(CType(name))
        return f"{name}<{', '.join(type_.name for type_ in reader.template_arguments())}>"
    except (_UnreadError, IndexError):
        return name or symbol


def mangled(name: str) -> str:
    """The symbol of a variable; a name in a namespace, `space::name`, is mangled.

    >>> mangled("here"), mangled("space::there")
    ('here', '_ZN5space5thereE')
    """
    parts = name.split("::")
    return f"{_NESTED}{''.join(f'{len(part)}{part}' for part in parts)}E" if len(parts) > 1 else name


class _Reader:
    """Reads a mangled name from left to right; `seen` is the table for `S_`, `S0_` ..."""

    def __init__(self, rest: str) -> None:
        self.rest = rest
        self.seen: list[CType] = []
        self.arguments: list[CType] = []
        self.empty_pack = False  # the template's arguments include an empty pack

    def parameters(self) -> tuple[CType, ...]:
        self.name()
        types: list[CType] = []
        if self.arguments:
            self.type()  # templates give their return type first
        while self.rest:
            if not (self.empty_pack and self.take("DpT")):
                types.append(self.type())
            else:
                self.need(r"\d*_")
        return () if [type_.name for type_ in types] == ["void"] else tuple(types)

    def take(self, pattern: str) -> re.Match[str] | None:
        """Consume a match at the front."""
        match = re.match(pattern, self.rest)
        if match:
            self.rest = self.rest[match.end() :]
        return match

    def need(self, pattern: str) -> re.Match[str]:
        match = self.take(pattern)
        if match is None:
            raise _UnreadError(self.rest)
        return match

    def identifier(self) -> str:
        length = int(self.need(r"\d{1,9}")[0])
        name, self.rest = self.rest[:length], self.rest[length:]
        return name

    def name(self) -> None:
        """The function's own name. Substitutions may refer to every prefix of it, but not to its last instance."""
        if not self.take("N"):
            self.take("L")  # internal linkage
            name = self.identifier()
            if self.rest.startswith("I"):
                self.seen.append(CType(name))
                self.arguments = self.template_arguments()
            return
        while not self.take("E"):
            if self.rest.startswith("I"):
                self.arguments = self.template_arguments()
                if self.rest.startswith("E"):
                    continue
                self.seen.append(CType("instance"))
                continue
            self.arguments = []
            name = self.identifier()
            if not self.rest.startswith("E"):
                self.seen.append(CType(name))

    def template_arguments(self) -> list[CType]:
        self.need("I")
        found: list[CType] = []
        while not self.take("E"):
            if self.take("JE"):
                self.empty_pack = True
            elif self.take("L"):
                self.type()
                found.append(CType(self.need(r"n?\d+E")[0][:-1]))
            else:
                found.append(self.type())
        return found

    def type(self) -> CType:
        """One type; all types except plain builtins enter the table."""
        if builtin := self.take("[" + "".join(BUILTIN) + "]"):
            return CType(*BUILTIN[builtin[0]])
        if reference := self.take(r"S([0-9A-Z]*)_"):
            return self.seen[_number(reference[1], 36)]
        if parameter := self.take(r"T(\d*)_"):
            found = self.arguments[_number(parameter[1], 10)]
        elif self.take("P"):
            target = self.type()
            found = replace(target, name=f"{target.name} *", pointer=True, dtype="" if target.pointer else target.dtype)
        elif qualifiers := self.take("(?=[rVK])r?V?(K?)"):
            inner = self.type()
            # A top-level const or restrict of a pointer makes no difference to callers.
            is_const = bool(qualifiers[1]) and not inner.pointer
            found = replace(inner, name=f"const {inner.name}", const=True) if is_const else inner
        elif self.take("N"):
            found = self.nested_class()
        elif re.match(r"\d", self.rest):
            name = self.identifier()
            found = CType(name, _CLASSES.get(name, ""))
            if self.rest.startswith("I"):
                self.seen.append(found)
                self.template_arguments()
        else:
            raise _UnreadError(self.rest)
        self.seen.append(found)
        return found

    def nested_class(self) -> CType:
        """A class inside namespaces or classes, identified by its last name."""
        found = CType("")
        while not self.take("E"):
            if reference := self.take(r"S([0-9A-Z]*)_"):
                found = self.seen[_number(reference[1], 36)]
                continue
            if self.rest.startswith("I"):
                self.template_arguments()
            else:
                found = CType(self.identifier())
            if not self.rest.startswith("E"):
                self.seen.append(found)
        return found


def _number(digits: str, base: int) -> int:
    """`_` is 0, `0_` is 1, and so on."""
    return int(digits, base) + 1 if digits else 0


def variable(symbol: str) -> str:
    """The source's name of a variable of a function or of a file, from its mangled name; "" if it is not read.

    >>> variable("_ZZ6matmulPKfS0_PfiE6tile_a"), variable("_ZZN5space1kEvE1s_0"), variable("dynamic")
    ('tile_a', 's', 'dynamic')
    >>> variable("_ZZ5mE3xyvE5sE2ab"), variable("_ZN5spaceL5tableE")
    ('sE2ab', 'table')
    """
    if not symbol.startswith("_Z"):
        return symbol
    if not symbol.startswith("_ZZ"):
        return nested_name(symbol) or nested_name(f"{_NESTED}{symbol[2:]}E")
    for name in re.finditer(r"E(\d+)(?=(.+))", symbol):
        length, rest = int(name[1]), name[2]
        if re.fullmatch(r"[A-Za-z_]\w*", rest[:length]) and re.fullmatch(r"(_\d+|__\d+_)?", rest[length:]):
            return rest[:length]
    return ""
