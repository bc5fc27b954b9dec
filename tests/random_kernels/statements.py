"""Random statements without flow of control: arithmetic, accesses, barriers and warp instructions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from kernel_tree import Access, Barrier, Collective, Constant, Group, If, Op, Operand, Place, Statement
from meanings import CLASSES, MEANINGS, bits_of
from operands import Draw, Scope

#: Words of the array that all read, bytes of a thread's row and of its local memory, words of its column, and sums.
INPUT_WORDS, ROW_BYTES, OWN_BYTES, COLUMNS, SUMS = 1024, 64, 64, 8, 64

_PLAIN = [n for n, m in MEANINGS.items() if not m.carry and not n.startswith(("bits", "from_bits"))]
KINDS: dict[str, list[str]] = {
    "setp": [n for n in _PLAIN if n.startswith(("setp", "testp"))],
    "cvt": [n for n in _PLAIN if n.startswith("cvt")],
    "float": [n for n in _PLAIN if n.endswith(("f32", "f64", "f16")) and not n.startswith(("cvt", "setp", "testp"))],
    "word": [n for n in _PLAIN if n.endswith(("32", "24")) and not n.startswith(("cvt", "setp")) and ".f32" not in n],
    "long": [n for n in _PLAIN if n.endswith("64") and not n.startswith(("cvt", "setp")) and ".f64" not in n],
    "short": [n for n in _PLAIN if n.endswith("16") and not n.startswith(("cvt", "setp")) and ".f16" not in n],
    "pred": [n for n in _PLAIN if n.endswith(".pred")],
    #: instructions of addresses and loops, which determine shapes of registers
    "index": ["add.s32", "add.u32", "sub.s32", "mul.lo.s32", "mul.lo.u32", "mad.lo.s32", "shl.b32", "shr.u32",
              "shr.s32", "and.b32", "or.b32", "mov.b32", "mul.wide.s32", "mul.wide.u32", "mad.wide.s32", "mad.wide.u32",
              "neg.s32", "cvt.s64.s32", "cvt.u64.u32", "cvt.u32.u64", "add.s64", "mul.lo.s64", "mad.lo.s64", "shl.b64",
              "shr.u64", "shr.s64", "and.b64", "or.b64", "mov.b64", "cvt.u16.u32", "cvt.s16.s32", "cvt.u32.u16",
              "cvt.s32.s16", "cvt.u32.u8", "cvt.s32.s8", "rem.u32", "div.u32", "min.s32", "max.s32", "selp.b32"],
    "bits": [n for n in MEANINGS if n.startswith(("bits", "from_bits"))],
}  # fmt: skip
_WEIGHTS = {
    "setp": 12, "cvt": 8, "float": 14, "word": 16, "long": 8, "short": 4, "pred": 4, "index": 30, "bits": 5
}  # fmt: skip
#: Types of accesses, with the class of their registers and the vectors they come in.
_TYPES = [("u32", "r", (1, 2, 4)), ("b32", "r", (1, 2, 4)), ("s32", "r", (1,)), ("u8", "r", (1,)), ("s8", "r", (1,)),
          ("u16", "h", (1, 2)), ("s16", "r", (1,)), ("u64", "d", (1, 2)), ("b64", "d", (1, 2)), ("f32", "f", (1, 2, 4)),
          ("f64", "e", (1, 2)), ("b16", "g", (1, 2)), ("u16", "r", (1,)), ("u32", "d", (1,)),
          ("s32", "d", (1,))]  # fmt: skip


class Statements(Draw, ABC):
    """Statements of one block of threads, in a grid of this many blocks."""

    grid: tuple[int, ...]
    threads: int
    reduction: str  #: with its type: a kernel has one, for two kinds of sums of one word depend on their order

    @abstractmethod
    def statements(self, scope: Scope, count: int) -> list[Statement]:
        """At most so many statements of any kind."""

    def plain(self, scope: Scope) -> Statement:
        name = self.rng.choice(KINDS[self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]])
        made = self.op(scope, name)
        divisor = MEANINGS[name].sources[-1]
        if divisor.startswith("odd.") and self.chance(0.5):  # a register, made odd and positive before
            size = bits_of(divisor[4:])
            (spare,) = self.target(scope, CLASSES[divisor])
            top = Constant((1 << (size - 1)) - 1 >> self.rng.choice([0, 8, size - 8]))
            return Group([
                Op(f"and.b{size}", [spare], [self.rng.choice(scope.pools[CLASSES[divisor]]), top]),
                Op(f"or.b{size}", [spare], [spare, Constant(1)]),
                replace(made, sources=[*made.sources[:-1], spare]),
            ])  # fmt: skip
        return made

    def chain(self, scope: Scope) -> Statement:
        """A sum or difference over several words, or a product, carried from one to the next."""
        t = self.rng.choice(["u32", "u64"])
        middle = self.rng.randrange(2)
        names = self.rng.choice([
            [f"add.cc.{t}", *[f"addc.cc.{t}"] * middle, f"addc.{t}"],
            [f"sub.cc.{t}", *[f"subc.cc.{t}"] * middle, f"subc.{t}"],
            ["mad.lo.cc.u32", "madc.hi.u32"],
        ])  # fmt: skip
        return Group([self.op(scope, name, 0) for name in names])

    def choice(self, scope: Scope) -> Statement:
        """A register with a uniform value in each arm of a branch, or a guarded one after another."""
        (target,) = self.target(scope, "r")
        guard = self.guard(scope, 1)
        first, second = (
            Op("mov.b32", [target], [self.rng.choice(["%n0", "%n1", self.constant("b32")])])
            if scope.fixed else Op("mov.b32", [target], [self.constant("b32")]) for _ in range(2)
        )  # fmt: skip
        if self.chance(0.3):
            return Group([first, replace(second, guard=guard)])
        return If(guard, [first], [second] if self.chance(0.7) else [])

    def access(self, scope: Scope) -> Statement:
        spaces = ["inputs"] if scope.in_function else ["inputs", "inputs", "rows", "rows", "cols", "own"]
        space = self.rng.choice(spaces + ["tile", "tile"] * scope.tile)
        type_, class_, vectors = self.rng.choice([t for t in _TYPES if t[1] in scope.pools])
        room = len(self.free(scope, class_))
        count = self.rng.choice([v for v in vectors if v + 3 <= room and (space != "cols" or v == 1)] or [1])
        size = bits_of(type_) // 8
        if (space == "cols" and size > 4) or (space == "tile" and (self.threads * 4) % (count * size)):
            type_, class_, count, size = "u32", "r", 1, 4
        stores = space in ("rows", "cols", "own") and class_ in "rdh" and self.chance(0.5)
        if stores:
            registers = self.rng.sample(scope.pools[class_], count)
        else:
            registers = self.target(scope, class_, count)
        access = Access("st" if stores else "ld", "global", type_, registers, "", 0, self.guard(scope, 0.2))
        wide = size * count
        if stores and type_[0] == "s" and self.chance(0.5):
            access = replace(access, type_=f"u{8 * size}")
        match space:
            case "inputs":
                access = replace(access, space=self.rng.choice(["global", "global", "global.nc", ""]))
                return self.accessed(scope, access, scope.inputs, 4 * INPUT_WORDS // wide, wide)
            case "rows":
                return self.accessed(scope, access, "%rows", ROW_BYTES // wide, wide)
            case "cols":
                return self.accessed(scope, access, "%cols", COLUMNS, 4 * self.threads * self.grid[0])
            case "own":
                return self.accessed(scope, replace(access, space="local"), Place("own"), OWN_BYTES // wide, wide)
        return self.accessed(scope, replace(access, space="shared"), Place("tile"), self.threads * 4 // wide, wide)

    def reduce(self, scope: Scope) -> Statement:
        order, type_ = self.reduction.split(".")
        access = Access(order, "global", type_, [self.rng.choice(scope.pools["r"])], "", 0, self.guard(scope, 0.3))
        return self.accessed(scope, access, "%acc", SUMS, 4)

    def exchange(self, scope: Scope) -> Statement:
        """Every thread puts a word into shared memory; all read any words until the next barrier."""
        index, held = self.target(scope, "r", 2)
        n = self.threads
        power = not n & (n - 1)
        to = [
            [Op("mov.b32", [index], ["%tid"])],
            [Op("sub.s32", [index], [Constant(n - 1), "%tid"])],
            [Op("xor.b32", [index], ["%tid", Constant(self.rng.randrange(n))])] if power else [],
            [Op("mul.lo.u32", [index], ["%tid", Constant(self.rng.choice([3, 5, 7, 33]))]),
             Op("and.b32", [index], [index, Constant(n - 1)])] if power else [],
        ]  # fmt: skip
        store = Access("st", "shared", "b32", [held], "")
        way, register = self.address(scope.protecting(index, held), Place("tile"), index, 4)
        dead = {s.results[0] for s in way if isinstance(s, Op)}
        inner = Group(self.statements(replace(scope, tile=True), self.rng.randrange(1, 6)), loose=True)
        return Group([
            *[Barrier()] * scope.tile,  # until the earlier values are read
            *self.rng.choice([x for x in to if x]), *way, replace(store, base=register),
            *(Op("cvt.u64.u32", [x], ["%gid"]) for x in sorted(dead)), Barrier(), inner, Barrier(),
        ])  # fmt: skip

    def collective(self, scope: Scope) -> Statement:
        mask = scope.mask
        assert mask is not None
        r, p, source = self.target(scope, "r")[0], self.target(scope, "p")[0], self.rng.choice(scope.pools["r"])
        q = self.rng.choice(scope.pools["p"])
        kind = self.rng.randrange(6)
        if kind == 0:
            return Collective(f"vote.sync.{self.rng.choice(['all', 'any', 'uni'])}.pred", [p], [q], mask)
        if kind == 1:
            return Collective("vote.sync.ballot.b32", [r], [q], mask)
        if kind == 2:
            both = self.chance(0.5)
            return Collective(
                *(("match.all.sync.b32", [r, p]) if both else ("match.any.sync.b32", [r])), [source], mask
            )
        if kind == 3:
            how = self.rng.choice(
                ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "add.s32", "min.u32"]
            )
            return Collective(f"redux.sync.{how}", [r], [source], mask)
        return self.shuffle(scope, r, p, source, mask)

    def shuffle(self, scope: Scope, r: str, p: str, source: str, mask: Operand) -> Statement:
        results = [r, p] if self.chance(0.4) else [r]
        whole = mask == Constant(0xFFFFFFFF) or (mask == "%full" and not self.threads % 32)
        if whole:
            mode = self.rng.choice(["idx", "up", "down", "bfly"])
            b = self.rng.choice([self.source(scope, "u32"), Constant(self.rng.choice([0, 1, 2, 4, 8, 16, 31]))])
            width = self.rng.choice([32, 32, 16, 8, 4])
            clamp = Constant((32 - width) << 8 | (0 if mode == "up" else 31))
            return Collective(f"shfl.sync.{mode}.b32", results, [source, b, clamp], mask)
        if mask == "%full":
            width = self.rng.choice([32, 16, 8])
            return Collective(
                "shfl.sync.up.b32", results, [source, self.source(scope, "u32"), Constant((32 - width) << 8)], mask
            )
        (first,) = self.target(scope, "r")
        source = self.rng.choice([x for x in scope.pools["r"] if x != first])
        return Group([
            Op("brev.b32", [first], [mask]), Op("clz.b32", [first], [first]),
            Collective("shfl.sync.idx.b32", results, [source, first, Constant(31)], mask),
        ])  # fmt: skip
