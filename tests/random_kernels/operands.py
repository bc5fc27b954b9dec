"""Operands of random statements: registers in scope, constants, and indices within an array."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from kernel_tree import Access, Constant, Group, Op, Operand, Place, Statement
from meanings import CLASSES, MEANINGS, bits_of

#: Registers of each class; all of them are written before anything else, and again by later statements.
POOLS = {"r": 10, "d": 6, "f": 4, "e": 3, "h": 3, "g": 3, "p": 4}
SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 255, 1023]
EDGES = [-1, -2, -3, -4, -8, -32, 0x7F, 0x80, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0]
EDGES += [0x9E3779B1, 0x01010101, 1 << 32, (1 << 63) - 1, 1 << 63, 0xFFFFFFFF00000000]
FLOATS = {
    "f32": [0, 0x80000000, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x807FFFFF,
            0x7F7FFFFF, 0x4F000000, 0x3EAAAAAB, 0x4B800000],
    "f64": [0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0x7FF8 << 48, 1, 0x41E << 52, 0x3FD5555555555555,
            0x36A << 52, 0x47EFFFFFF0000000, 0x433 << 52],
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """Registers and places that statements may use."""

    pools: dict[str, list[str]]
    fixed: dict[str, tuple[int, int]]  #: 32-bit registers that are not written again, with their bounds
    inputs: str  #: register with the address of `inp`
    taken: frozenset[str] = frozenset()  #: registers of the pools that must not be written
    counters: tuple[tuple[str, int, int], ...] = ()  #: counters of the loops around, with their bounds
    mask: Operand | None = None  #: the lanes that are certainly converged here
    blockwide: bool = False  #: whether all threads of the block come here
    jumps: bool = False  #: whether a loop may be left from here
    leaves: bool = False  #: whether the function or kernel may be left from here
    in_function: bool = False
    tile: bool = False  #: whether shared memory may be read
    depth: int = 0
    trips: int = 1

    def inside(self, **changes: object) -> Scope:
        return replace(self, depth=self.depth + 1, **changes)  # type: ignore[arg-type]

    def protecting(self, *registers: str) -> Scope:
        return replace(self, taken=self.taken | set(registers))


@dataclass
class Draw:
    """Random operands."""

    rng: random.Random

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def free(self, scope: Scope, class_: str) -> list[str]:
        """Registers of a class that may be written."""
        return [x for x in scope.pools[class_] if x not in scope.taken]

    def target(self, scope: Scope, class_: str, count: int = 1) -> list[str]:
        return self.rng.sample(self.free(scope, class_), count)

    def constant(self, type_: str) -> Constant:
        if type_ in FLOATS:
            return Constant(self.rng.choice(FLOATS[type_]))
        bits = bits_of(type_)
        value = self.rng.choice(SMALL if self.chance(0.6) else EDGES)
        if self.chance(0.1):
            value = self.rng.getrandbits(bits)
        return Constant(value & ((1 << bits) - 1))

    def source(self, scope: Scope, type_: str) -> Operand:
        """A register or constant for a source of a type."""
        if type_ == "lut":
            return Constant(self.rng.randrange(256))
        if type_ == "pos":
            return (
                "%lane"
                if not scope.in_function and self.chance(0.3)
                else Constant(self.rng.choice([*range(34), 40, 63, 255]))
            )
        if type_.startswith("odd."):
            return Constant(self.rng.choice([1, 2, 3, 5, 7, 8, 10, 16, 48, 100, 1 << 20, 0x7FFFFFFF]))
        class_ = CLASSES[type_]
        if class_ not in "pg" and self.chance(0.2):
            return self.constant(type_)
        if class_ == "r" and scope.fixed and self.chance(0.3):
            return self.rng.choice(list(scope.fixed) + [c for c, _, _ in scope.counters if c[1] == "r"])
        return self.rng.choice(scope.pools[class_])

    def guard(self, scope: Scope, share: float) -> str:
        return self.rng.choice(["", "!"]) + self.rng.choice(scope.pools["p"]) if self.chance(share) else ""

    def op(self, scope: Scope, name: str, guard: float = 0.15) -> Op:
        meaning = MEANINGS[name]
        results: list[str] = []
        for type_ in meaning.results:
            results += self.target(replace(scope, taken=scope.taken | set(results)), CLASSES[type_])
        return Op(name, results, [self.source(scope, t) for t in meaning.sources], self.guard(scope, guard))

    # -- indices: statements that leave a number in [0, n) plus a distance, which the access takes off again

    def index(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        ways = [self._masked, self._affine, self._affine, self._affine, self._loaded, self._clamped, self._chosen]
        statements, register, distance = self.rng.choice(ways)(scope, n)
        if not distance and self.chance(0.1):
            register = self._again(statements, scope, register, n)
        return statements, register, distance

    def _again(self, statements: list[Statement], scope: Scope, register: str, n: int) -> str:
        """The index turned round, or copied under the name of another register."""
        (target,) = self.target(scope, "r")
        statements.append(
            Op("sub.s32", [target], [Constant(n - 1), register])
            if self.chance(0.5)
            else Op("mov.b32", [target], [register])
        )
        return target

    def _masked(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        """Any number, multiplied or not, cut to the range."""
        (target,) = self.target(scope, "r")
        source = self.source(scope, "u32")
        before: list[Statement] = []
        if self.chance(0.5):
            name = self.rng.choice(
                ["mul.lo.u32", "mul.lo.s32", "add.u32", "mad.lo.s32", "xor.b32", "sub.s32", "shr.u32"]
            )
            before = [replace(self.op(scope, name, 0), results=[target])]
            source = target
        bits = n.bit_length() - 1
        if n != 1 << bits or self.chance(0.15):
            return [*before, Op("rem.u32", [target], [source, Constant(n)])], target, 0
        cut = self.rng.choice([
            Op("and.b32", [target], [source, Constant(n - 1)]),
            Op("and.b32", [target], [source, Constant(n - 1)]),
            Op("shr.u32", [target], [source, Constant(32 - bits)]),
            Op("bfe.u32", [target], [source, Constant(self.rng.randrange(0, 33 - bits)), Constant(bits)]),
        ])  # fmt: skip
        return [*before, cut], target, 0

    def _affine(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        """A sum of multiples of indices, counters and parameters, whose bounds are known here."""
        (target,) = self.target(scope, "r")
        known = [(name, *bounds) for name, bounds in scope.fixed.items()] + [
            c for c in scope.counters if c[0][1] == "r"
        ]
        statements: list[Statement] = []
        low = high = 0
        for name, lo, hi in self.rng.sample(known, min(len(known), self.rng.randrange(1, 4))):
            factors: list[tuple[Operand, int, int]] = [
                (Constant(k), k, k) for k in (1, 2, 3, 4, 5, 8, 16, 32, 33, -1, -2, -4, -7)
            ]
            factors += [(other, a, b) for other, a, b in known if other != name and b < 16]
            self.rng.shuffle(factors)
            for factor, least, most in factors:
                corners = [x * y for x in (lo, hi) for y in (least, most)]
                if high + max(corners) - low - min(corners) < n:
                    low, high = low + min(corners), high + max(corners)
                    statements += self._term(scope, target, name, factor, first=not statements)
                    break
        begin = -low + self.rng.choice([0, n - 1 - (high - low), self.rng.randrange(n - (high - low))])
        distance = self.rng.choice([0, 0, begin, -begin, 4]) if abs(begin) < 1 << 20 else 0
        if not statements:
            return [Op("mov.b32", [target], [Constant(begin)])], target, 0
        return (
            [*statements, Op("add.s32", [target], [target, Constant((begin - distance) & 0xFFFFFFFF)])],
            target,
            distance,
        )

    def _term(self, scope: Scope, target: str, name: str, factor: Operand, *, first: bool) -> list[Statement]:
        if isinstance(factor, Constant):
            k = factor.bits
            factor = Constant(k & 0xFFFFFFFF)
            if first and k > 0 and not k & (k - 1) and self.chance(0.4):
                return [Op("shl.b32", [target], [name, Constant(k.bit_length() - 1)])]
        if first:
            return [Op(self.rng.choice(["mul.lo.s32", "mul.lo.u32"]), [target], [name, factor])]
        (spare,) = self.target(scope.protecting(target), "r")
        if self.chance(0.3):
            return [Op("mul.lo.s32", [spare], [name, factor]), Op("add.s32", [target], [target, spare])]
        return [Op(self.rng.choice(["mad.lo.s32", "mad.lo.u32"]), [target], [name, factor, target])]

    def _loaded(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        """An array's element, reduced to the range."""
        (target,) = self.target(scope, "r")
        load = Access("ld", "global", "u32", [target], scope.inputs, 4 * self.rng.randrange(1024))
        if n & (n - 1):
            return [load, Op("rem.u32", [target], [target, Constant(n)])], target, 0
        return [load, Op("and.b32", [target], [target, Constant(n - 1)])], target, 0

    def _clamped(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        (target,) = self.target(scope, "r")
        source = self.source(scope, "s32")
        if self.chance(0.5):
            return [Op("min.u32", [target], [source, Constant(n - 1)])], target, 0
        clamp: list[Statement] = [
            Op("max.s32", [target], [source, Constant(0)]), Op("min.s32", [target], [target, Constant(n - 1)])
        ]  # fmt: skip
        return clamp, target, 0

    def _chosen(self, scope: Scope, n: int) -> tuple[list[Statement], str, int]:
        """One of two indices, or one kept where a guard fails."""
        first, a, _ = self._masked(scope, n)
        second, b, distance = self._affine(scope.protecting(a), n)
        if distance:
            return first, a, 0
        predicate = self.rng.choice(scope.pools["p"])
        last = Op("selp.b32", [b], [a, b, predicate]) if self.chance(0.5) else Op("mov.b32", [b], [a], predicate)
        return [*first, *second, last], b, 0

    # -- addresses

    def address(self, scope: Scope, base: Operand, index: str, scale: int) -> tuple[list[Statement], str]:
        """Statements that leave base + index * scale in a 64-bit register, in one of the ways that compilers have."""
        (target,) = self.target(scope, "d")
        before: list[Statement] = []
        if isinstance(base, Place):
            (begin,) = self.target(scope.protecting(target), "d")
            before, base = [Op("mov.u64", [begin], [base])], begin
        k = Constant(scale)
        wide = [Op("cvt.s64.s32", [target], [index])]
        ways: list[list[Statement]] = [
            [Op("mad.wide.s32", [target], [index, k, base])],
            [Op("mul.wide.s32", [target], [index, k]), Op("add.s64", [target], [base, target])],
            [*wide, Op("mad.lo.s64", [target], [target, k, base])],
            [*wide, Op("mul.lo.s64", [target], [target, k]), Op("add.s64", [target], [target, base])],
        ]
        if not scale & (scale - 1):
            shift = Constant(scale.bit_length() - 1)
            ways.append([*wide, Op("shl.b64", [target], [target, shift]), Op("add.s64", [target], [target, base])])
        return before + self.rng.choice(ways), target

    def accessed(self, scope: Scope, access: Access, base: Operand, n: int, scale: int) -> Statement:
        """An access of one of n places, `scale` bytes apart; its address does not outlive it."""
        if isinstance(base, Place) and self.chance(0.3):
            return replace(access, base=base.name, offset=access.offset + scale * self.rng.randrange(n))
        if not isinstance(base, Place) and self.chance(0.15):
            return replace(access, base=base, offset=access.offset + scale * self.rng.randrange(n))
        held = scope.protecting(*access.registers, *([access.guard.lstrip("!")] if access.guard else []))
        statements, index, distance = self.index(held, n)
        more, register = self.address(held, base, index, scale)
        statements += more
        statements.append(replace(access, base=register, offset=access.offset + distance * scale))
        if register not in access.registers or access.guard:
            statements.append(Op("cvt.u64.u32", [register], [self.source(scope, "u32")]))
        for spare in {s.results[0] for s in more if isinstance(s, Op)} - {register}:
            statements.append(Op("cvt.s64.s32", [spare], [self.source(scope, "s32")]))
        return Group(statements)
