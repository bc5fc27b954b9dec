"""Random PTX kernels that end, have no races and leave nothing undefined: one right result each, by seed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from flow import Flow
from kernel_tree import Access, Constant, Function, Group, Kernel, Op, Operand, Statement
from meanings import bits_of
from operands import FLOATS, POOLS, Scope
from statements import COLUMNS, INPUT_WORDS, OWN_BYTES, ROW_BYTES, SUMS

_SHAPES = [
    (32, 1),
    (64, 1),
    (48, 1),
    (16, 4),
    (8, 8),
    (20, 1),
    (10, 5),
    (33, 1),
    (16, 2),
    (4, 12),
    (1, 40),
    (96, 1),
    (3, 7),
]


class Generator(Flow):
    """One kernel from one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.seed = seed
        self.block = self.rng.choice(_SHAPES)
        self.threads = self.block[0] * self.block[1]
        self.grid = (self.rng.randrange(1, 4),)
        small = self.rng.randrange(1, 10)
        self.scalars = {
            "n0": ("u32", small), "n1": ("s32", self.rng.randrange(0, 16)),
            "n2": ("u32", self.rng.choice([0, 77, 0x80000001, 0xFFFFFFFF, self.rng.getrandbits(32)])),
            "n3": ("u64", self.rng.choice([3, 1 << 40, self.rng.getrandbits(64)])),
            "n4": ("f32", self.rng.choice(FLOATS["f32"])),
        }  # fmt: skip
        self.fixed = {
            "%tx": (0, self.block[0] - 1), "%ty": (0, self.block[1] - 1), "%bx": (0, self.grid[0] - 1),
            "%lane": (0, 31), "%tid": (0, self.threads - 1), "%n0": (small, small), "%n1": (self.scalars["n1"][1],) * 2,
            "%gid": (0, self.threads * self.grid[0] - 1), "%nx": (self.block[0],) * 2,
        }  # fmt: skip
        self.functions: list[Function] = []
        self.reduction = self.rng.choice(["add.u32", "xor.b32", "or.b32", "and.b32", "max.s32", "min.u32"])
        self.columns = self.chance(0.5)
        types = {"r": "b32", "d": "b64", "f": "f32", "e": "f64", "h": "b16", "g": "f16", "p": "pred"}
        self.outputs = [types[c] for c in POOLS for _ in range(POOLS[c])]
        self.left = self.rng.randrange(8, 45)  #: statements that are still to be made

    def kernel(self) -> Kernel:
        pools = {c: [f"%{c}{i}" for i in range(n)] for c, n in POOLS.items()}
        mask: Operand = "%full" if self.threads % 32 or self.chance(0.5) else Constant(0xFFFFFFFF)
        scope = Scope(pools, self.fixed, "%inp", mask=mask, blockwide=True)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self.functions.append(self.function())
        body = [*self.prologue(scope), *self.statements(scope, self.left)]
        self.left = self.rng.randrange(0, 6)
        body += self.statements(replace(scope, mask=None, blockwide=False, leaves=True), self.left)
        body += self.dump(pools)
        return Kernel(self.seed, self.grid, self.block, body, self.functions, self.scalars, self.outputs, self.columns,
                      max(self.threads * 4, 16), OWN_BYTES)  # fmt: skip

    def prologue(self, scope: Scope) -> list[Statement]:
        """The thread's indices, its rows, and an initial value in every register."""
        threads = self.threads * self.grid[0]
        out = 8 if self.columns else 8 * len(self.outputs)
        where: list[Statement] = [
            *(Op("mov.u32", [a], [b]) for a, b in (("%tx", "%tid.x"), ("%ty", "%tid.y"), ("%bx", "%ctaid.x"))),
            *(Op("mov.u32", [a], [b]) for a, b in (("%nx", "%ntid.x"), ("%lane", "%laneid"))),
            Op("mad.lo.u32", ["%tid"], ["%ty", "%nx", "%tx"]),
            Op("mad.lo.s32", ["%gid"], ["%bx", Constant(self.threads), "%tid"]),
            Op("mad.wide.u32", ["%rows"], ["%gid", Constant(ROW_BYTES), "%rows"]),
            Op("mad.wide.u32", ["%cols"], ["%gid", Constant(4), "%cols"]),
            Op("mad.wide.u32", ["%out"], ["%gid", Constant(out), "%out"]),
        ]
        assert threads * out < 1 << 31
        if self.threads % 32:
            last = (1 << self.threads % 32) - 1
            where += [
                Op("shr.u32", ["%full"], ["%tid", Constant(5)]),
                Op("setp.eq.u32", ["%p0"], ["%full", Constant(self.threads // 32)]),
                Op("selp.b32", ["%full"], [Constant(last), Constant(0xFFFFFFFF), "%p0"]),
            ]
        else:
            where.append(Op("mov.b32", ["%full"], [Constant(0xFFFFFFFF)]))
        return [Group(where), *self.first_values(scope)]

    def first_values(self, scope: Scope) -> list[Statement]:
        made: list[Statement] = []
        for class_, names in scope.pools.items():
            for i, name in enumerate(names):
                made.append(self.first_value(scope, class_, name, i))
        for word in range(OWN_BYTES // 8 if not scope.in_function else 0):
            made.append(Access("st", "local", "b64", [self.rng.choice(scope.pools["d"])], "own", 8 * word))
        return made

    def first_value(self, scope: Scope, class_: str, name: str, i: int) -> Statement:
        word = {"h": "u16", "g": "b16", "d": "u64", "f": "f32", "e": "f64", "r": "u32"}.get(class_)
        place = self.rng.choice(["%tx", "%tid", "%gid", "%lane"]) if not scope.in_function else Constant(i)
        if class_ == "p":
            return Op("setp.lt.u32", [name], [place if i else "%r0", Constant(self.rng.choice([1, 7, 16, 23, 31]))])
        if scope.in_function:
            size = f"b{bits_of(word)}"
            kind = {"f": "from_bits.f32", "e": "from_bits.f64", "g": "from_bits.f16"}.get(class_, f"mov.{size}")
            return Op(kind, [name], ["%r0" if class_ in "rf" else self.constant(size)])
        if class_ == "r" and i < 4:
            return Op(
                "mad.lo.s32", [name], [place, Constant(self.rng.choice([1, 1, 2, 3, 4, 12])), self.constant("s32")]
            )
        if class_ == "d" and i == 1:
            return Op("mov.b64", [name], ["%n3"])
        if class_ == "f" and i == 1:
            return Op("from_bits.f32", [name], ["%n4"])
        load = Access("ld", "global", word, [name], "")
        size = bits_of(word) // 8
        (spare,) = self.rng.sample(scope.pools["d"], 1)
        place = self.rng.choice(["%tx", "%tid", "%gid"])
        return Group([
            Op("mad.wide.u32", [spare], [place, Constant(size), "%inp"]),
            replace(load, base=spare, offset=size * self.rng.randrange(64)),
            *([] if spare == name else [Op("cvt.u64.u32", [spare], ["%tid"])]),
        ])  # fmt: skip

    def dump(self, pools: dict[str, list[str]]) -> list[Statement]:
        """Every register to its column of `out`."""
        made: list[Statement] = []
        names = [name for c in POOLS for name in pools[c]]
        stride = 8 * self.threads * self.grid[0] if self.columns else 8
        for i, (name, type_) in enumerate(zip(names, self.outputs, strict=True)):
            if type_ == "pred":
                made.append(Group([
                    Op("selp.b32", ["%r0"], [Constant(1), Constant(0), name]),
                    Access("st", "global", "b32", ["%r0"], "%out", i * stride),
                ]))  # fmt: skip
            else:
                made.append(Access("st", "global", type_.replace("f16", "b16"), [name], "%out", i * stride))
        return made

    def function(self) -> Function:
        pools = {
            c: [f"%{c}{i}" for i in range(n)]
            for c, n in {"r": 6, "d": 4, "f": 2, "e": 1, "h": 2, "g": 1, "p": 2}.items()
        }
        for class_, least in (("e", 2), ("g", 2)):
            pools[class_] = [f"%{class_}{i}" for i in range(least)]
        scope = Scope(pools, {}, "%d20", in_function=True, leaves=True, depth=1)
        parameters = [("%r0", "b32"), ("%d20", "b64")]
        parameters += self.rng.sample(
            [("%r1", "b32"), ("%d1", "b64"), ("%f1", "f32"), ("%r2", "b32")], self.rng.randrange(0, 4)
        )
        given = {name for name, _ in parameters}
        body = [s for s in self.first_values(scope) if not isinstance(s, Op) or s.results[0] not in given]
        self.left, left = self.rng.randrange(2, 9), self.left
        body += self.statements(scope, self.left)
        self.left = left
        return Function(parameters, self.rng.choice([("%r0", "b32"), ("%r1", "b32"), ("%d0", "b64")]), body)


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    """The launch's arguments: edge values, small numbers, and random ones."""
    rng = np.random.default_rng(kernel.seed)
    threads = kernel.threads * kernel.grid[0]

    def words(count: int) -> np.ndarray:
        found = rng.integers(0, 1 << 32, count, dtype=np.uint32)
        style = rng.integers(0, 4, count)
        found[style == 1] &= np.uint32(31)
        edges = np.array([*FLOATS["f32"], 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFF0, 0x3C003C00, 0x00017BFF], np.uint32)
        found[style == 2] = rng.choice(edges, int(np.count_nonzero(style == 2)))
        return found

    return {
        "inp": words(INPUT_WORDS), "rows": words(threads * ROW_BYTES // 4), "cols": words(threads * COLUMNS),
        "acc": words(SUMS), "out": np.zeros(threads * len(kernel.outputs), np.uint64),
    }  # fmt: skip


def generate(seed: int) -> Kernel:
    return Generator(seed).kernel()
